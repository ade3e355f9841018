"""A node with a resident agent: everything a backend does, over one channel, however that channel is made."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Required, TypedDict

from hostler.agent.protocol import is_shallow
from hostler.backends import wire
from hostler.backends.base import Facts, Report, Store, may_pass
from hostler.backends.bounds import ENVELOPE_LEVELS, Bounds
from hostler.backends.canaries import PATIENCE_S, Canaries
from hostler.backends.channel import Channel, words
from hostler.backends.facts import (
    WORDS_MAX,
    cores_of,
    described,
    going_of,
    gpu_of,
    inputs_of,
    link_up_of,
    progress_of,
    so_far_of,
    telemetry_of,
    understood,
    work_of,
)
from hostler.backends.output import chunk_of, output_of, unmerged
from hostler.backends.selection import Selected, Selection, selected
from hostler.model.codec import error_words
from hostler.model.commands import AttemptOrder, CanaryOrder, ChunkOrder, WorkerOrder
from hostler.model.errors import FilesError, LinkLost, NotFound
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.inputs import Ended, Input, LinkUp, NodeFound, Trouble, WorkerRefused
from hostler.model.reported import DEVICES_MOST
from hostler.model.views import LogChunk, Output
from hostler.model.work import DeviceKind

READ_MOST = 1 << 19
"""Bytes of output that are asked for at once: in base64 they fit into a line."""


class Options(TypedDict, total=False):
    """What every node with an agent takes besides its name, its interpreter and the way there: see `AgentedNode`."""

    controller: Required[str]
    cpu_slots: int | None
    gpus: bool
    selection: Selection
    env: Mapping[str, str] | None
    log_bytes: int
    result_bytes: int
    build_s: float | None
    job_user: str | None
    bounds: Bounds
    terms: NodeSpec | None
    store: Required[Store]


class AgentedNode(ABC):
    """`Backend` and all that goes with it (see `backends.base`), for a node with an agent.

    A subclass says how to reach the agent. `python` is the interpreter of the node, `cpu_slots` overrides the number of
    its CPU slots, `selection` has its owner's choice among its GPUs, and `terms` has what settings say of it: its
    provider, its price, its limits.
    """

    kind: str

    def __init__(
        self,
        name: str,
        *,
        controller: str,
        python: str,
        store: Store,
        cpu_slots: int | None = None,
        gpus: bool = True,
        selection: Selection | None = None,
        env: Mapping[str, str] | None = None,
        log_bytes: int = 10 << 20,
        result_bytes: int = 1 << 20,
        build_s: float | None = None,
        job_user: str | None = None,
        bounds: Bounds | None = None,
        terms: NodeSpec | None = None,
    ) -> None:
        self.name = name
        self._controller = controller
        self._store = store
        self._python = python
        self._cpu_slots = cpu_slots
        self._gpus = gpus
        self._selection = selection or Selection()
        self.selection_faults: Sequence[str] = ()
        self._env = dict(env or {})
        self._terms = terms or NodeSpec(name=name, backend=self.kind, devices=())
        self._limits = wire.Limits(log_bytes=log_bytes, result_bytes=result_bytes, build_s=build_s, job_user=job_user)
        self._bounds = bounds or Bounds(log_bytes=log_bytes, result_bytes=result_bytes)
        self._channel: Channel | None = None
        self._declared: set[str] = set()
        self._zipapp: tuple[str, str] | None = None
        """Our agent as it lies on the node, and its SHA-256; known once `connect` has looked."""
        self._upgraded: str | None = None
        """Code that was asked to make way for ours."""
        self._canaries = Canaries(name, {})

    @abstractmethod
    async def connect(self, epoch: int) -> Channel:
        """A channel to the agent, which is started if it does not run. Raises `LinkLost`, `LinkRefused`."""

    def describe(self, facts: Facts) -> NodeSpec:
        """The node, from the settings and from what its agent found: its GPUs and CPU slots."""
        cores = cores_of(facts)
        seen = {**facts, "cpus": cores, "devices": self._selected(facts).devices}
        cpus = None if cores is None else float(cores)
        return replace(
            self._terms,
            devices=devices_of(self.name, seen, self._cpu_slots),
            python=self._python,
            env=self._env,
            cpus=cpus if self._terms.cpus is None else self._terms.cpus,
        )

    async def probe(self) -> NodeSpec:
        """What the node is made of. Somebody must be observing it."""
        answer = await self._open_channel().ask({"type": "probe"})
        with understood(self.name, "its machine"):
            return described(self.describe(answer["facts"]))

    async def launch(self, orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
        """Have attempts run, in as many requests as their size asks for."""
        channel = self._open_channel()
        if not channel.hello.get("tells"):  # an agent of before; it goes on as ours soon
            orders = [replace(order, tell_s=None, disk_bytes=None) for order in orders]
        if self._limits.job_user is not None:
            return await self._launch_as(channel, orders)
        early = []
        if not channel.hello.get("sets_up"):
            early = [_too_early(self.name, order) for order in orders if order.setup is not None and order.setup.file]
            orders = [replace(order, setup=None) for order in orders if order.setup is None or not order.setup.file]
        if not channel.hello.get("keeps_secrets"):
            early += [_too_early_for_secrets(self.name, order) for order in orders if order.secret_values]
            orders = [order for order in orders if not order.secret_values]
        limits = self._limits if channel.hello.get("limits_builds") else replace(self._limits, build_s=None)
        requests, refused = wire.launches(orders, limits)
        for request in requests:
            await channel.send(request)
        return [*early, *refused]

    async def _launch_as(self, channel: Channel, orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
        """Have attempts run as the user of the settings; what cannot be done so is not done otherwise."""
        if channel.hello.get("drops") is not True:
            why = f"the agent on {self.name} is of before Hostler 0.2 and cannot run jobs as another user (`job_user`)"
            return [Ended(attempt=order.id, ended_at=0.0, reason="spawn", error=why) for order in orders]
        why = (
            f"{self.name} runs jobs as {self._limits.job_user} (`job_user`) and builds no Python environments, as that "
            "runs code of the job as root; submit it with --python-env none"
        )
        built = [order for order in orders if order.setup is not None and order.setup.file]
        others = [replace(order, setup=None) for order in orders if order not in built]
        requests, refused = wire.launches(others, self._limits)
        for request in requests:
            await channel.send(request)
        return [*(Ended(attempt=each.id, ended_at=0.0, reason="spawn", error=why) for each in built), *refused]

    async def observe(self, epoch: int) -> AsyncGenerator[Report, None]:
        """Connect, then report what the agent tells."""
        channel = await self.connect(epoch)
        channel.limit(self._bounds)
        self._channel, self._declared = channel, set()
        self._canaries = Canaries(self.name, channel.hello)
        try:
            await self._upgrade(channel)
            answer, early = await channel.ask_first({"type": "probe"})
            yield self._first_report(channel.hello, answer)
            for message in early:
                for report in self._heard(message):
                    yield report
            async for message in channel.messages():
                for at, report in enumerate(self._heard(message)):
                    if at:
                        await asyncio.sleep(0)  # other work goes on between the parts of a long message
                    yield report
                if message.get("type") == "telemetry":
                    await channel.send({"type": "here"})  # leases there are counted from the last word
        finally:
            self._channel = None
            channel.close()
            self._unlinked()

    def hang_up(self) -> None:
        """Close the channel; `observe` ends by `LinkLost`."""
        if self._channel is not None:
            self._channel.close()

    async def stop(self, attempts: Sequence[str], reason: str) -> None:
        """Have attempts ended."""
        await self._open_channel().send({"type": "stop", "attempts": list(attempts), "reason": reason})

    async def lend(self, worker: WorkerOrder, chunks: Sequence[ChunkOrder]) -> Sequence[WorkerRefused]:
        """Queue chunks; before its first on this connection, the worker gets its files there and is declared."""
        if worker.id not in self._declared:
            try:
                worker = await self._supplied(worker)
            except Exception as error:  # recorded; a sweep must not wait for what is never done
                if may_pass(error):
                    self.hang_up()  # chunks are lent once for each connection: without its files it must not continue
                    raise
                what = str(error) if isinstance(error, FilesError) else error_words(error)
                return [WorkerRefused(worker=worker.id, error=what)]
        channel = self._open_channel()
        if self._limits.job_user is not None and channel.hello.get("drops") is not True:
            what = f"the agent on {self.name} is of before Hostler 0.2 and cannot run work as another user (`job_user`)"
            return [WorkerRefused(worker=worker.id, error=what)]
        if worker.id not in self._declared:
            self._declared.add(worker.id)
            await channel.send(wire.opening(worker, self._limits))
        await channel.send(wire.queueing(worker, chunks))
        return ()

    async def recall(self, chunks: Sequence[str], reason: str) -> None:
        """Ask for chunks back."""
        await self._open_channel().send({"type": "recall", "chunks": list(chunks), "reason": reason})

    async def trim(self, ends: Mapping[str, int]) -> None:
        """Let chunks end earlier."""
        await self._open_channel().send({"type": "trim", "chunks": [list(end) for end in ends.items()]})

    async def close_worker(self, worker: str) -> None:
        """End a worker that has no more to do."""
        self._declared.discard(worker)
        await self._open_channel().send({"type": "close", "worker": worker})

    async def prove(self, orders: Sequence[CanaryOrder]) -> None:
        """Have canaries run; what their answers must be is known here only."""
        channel = self._open_channel()
        number = channel.number()
        devices = [self._canaries.ask(number, order) for order in orders]
        await channel.send({"type": "prove", "id": number, "patience_s": PATIENCE_S, "devices": devices})

    async def read_devices(self) -> None:
        """Ask the agent to read its devices; the telemetry that follows has them."""
        await self._open_channel().send({"type": "sample"})

    async def list_work(self) -> None:
        """Ask the agent what it has; one of before 0.2 is asked at every link only."""
        channel = self._open_channel()
        if channel.hello.get("lists") is True:
            await channel.send({"type": "list"})

    async def acknowledge(self, receipt: int) -> None:
        """Let the agent forget what is durable here."""
        channel = self._open_channel()
        # The receipt counts for the agent that gave it: another one may have taken its place meanwhile.
        await channel.send({"type": "ack", "seq": receipt, "agent": channel.hello["agent"]})

    async def read_log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        """A piece of an attempt's output."""
        channel = self._open_channel()
        if stream == "setup" and not channel.hello.get("sets_up"):
            raise NotFound(f"the agent on {self.name} is of before Hostler 0.2 and sets nothing up")
        limit = min(limit, READ_MOST)
        request = {"type": "read", "attempt": attempt, "stream": stream, "offset": offset, "limit": limit}
        answer = await channel.ask(request)
        if "error" in answer:
            raise NotFound(f"no output of {attempt} ({stream}) on {self.name}: {words(answer['error'])}")
        return chunk_of(self.name, attempt, stream, limit, answer)

    async def read_output(self, attempt: str, out: int, err: int, limit: int) -> Output:
        """A piece of both streams of an attempt; from an agent of before 0.2, in no order."""
        channel = self._open_channel()
        if not channel.hello.get("merges"):
            return await unmerged(self, attempt, out, err, limit)
        limit = min(limit, READ_MOST)
        request = {"type": "read", "attempt": attempt, "stream": "both", "offset": [out, err], "limit": limit}
        answer = await channel.ask(request)
        if "error" in answer:
            raise NotFound(f"no output of {attempt} on {self.name}: {words(answer['error'])}")
        return output_of(self.name, attempt, limit, answer, ended=answer.get("ended") is True)

    async def discard(self, attempts: Sequence[str]) -> None:
        """Delete the folders of ended attempts."""
        await self._open_channel().send({"type": "discard", "attempts": list(attempts)})

    async def let_go(self) -> None:
        """Tell an agent that is about to end that nothing more is wanted of it."""
        await self._open_channel().send({"type": "bye"})

    async def release(self) -> None:
        """Have the agent exit as soon as it holds nothing."""
        await self._open_channel().send({"type": "shutdown", "when": "idle"})

    async def _supplied(self, worker: WorkerOrder) -> WorkerOrder:
        """The worker, when what it needs is on the node. Raises as `SuppliesFiles.supply`."""
        return worker

    def _unlinked(self) -> None:  # noqa: B027 - most have nothing more to let go of
        """The connection is over, and what hangs on it."""

    def _open_channel(self) -> Channel:
        if self._channel is None:
            raise LinkLost(f"node {self.name} is not connected")
        return self._channel

    async def _upgrade(self, channel: Channel) -> None:
        """Have an agent of other code go on as ours: it hangs up, and comes back with everything it had. Asked once."""
        code, zipapp = channel.hello.get("code"), self._zipapp
        if code is not None and zipapp is not None and code not in (zipapp[1], self._upgraded):
            self._upgraded = code
            await channel.send({"type": "upgrade", "zipapp": zipapp[0], "sha256": zipapp[1]})

    def _first_report(self, hello: Facts, answer: Facts) -> Report:
        """What the agent has, and what its machine is. Raises `LinkLost` where that cannot be understood."""
        with understood(self.name, "its machine and its work"):
            inputs = (*self._found(answer["facts"]), self._link_up(hello), *self._goes(hello))
            return Report(inputs=inputs)

    def _goes(self, told: Facts) -> Iterator[Input]:
        """An agent that its machine, or somebody there, has told to end."""
        if (why := told.get("leaving")) is not None:
            yield going_of(self.name, why)

    def _found(self, facts: Facts) -> Iterator[Input]:
        yield NodeFound(node=described(self.describe({**facts, "devices": facts["devices"] or ()})))
        if facts["devices"] is None:
            what = (
                "its GPUs could not be read, so it is used without them; look at nvidia-smi (or system_profiler) there"
            )
            yield Trouble(where=f"node {self.name}", what=what)
        else:
            self.selection_faults = self._selected(facts).faults
            yield from (Trouble(where=f"node {self.name}", what=fault) for fault in self.selection_faults)

    def _selected(self, facts: Facts) -> Selected:
        """The GPUs that are used of those that the agent found."""
        if not self._gpus:
            return Selected(devices=(), faults=())
        if len(facts["devices"]) > DEVICES_MOST:
            raise ValueError(f"no node has {len(facts['devices'])} GPUs; {DEVICES_MOST} at most")
        return selected(self.name, facts["devices"], self._selection)

    def _link_up(self, hello: Facts) -> LinkUp:
        """What the agent has, by which name the core knows it."""
        return link_up_of(self.name, hello)

    def _heard(self, message: Facts) -> Iterator[Report]:
        """What a message says, in parts. Raises `LinkLost` where that cannot be understood."""
        with understood(self.name, f"{words(message.get('type'), 40)!r}"):
            yield from self._reports(message)

    def _reports(self, message: Facts) -> Iterator[Report]:
        kind = message.get("type")
        if kind == "facts" and message["facts"]:
            yield from self._told(message["facts"])
            return
        if not is_shallow(message, self._bounds.depth + ENVELOPE_LEVELS):
            raise ValueError(f"it is nested deeper than {self._bounds.depth} levels")
        if kind == "progress":
            yield from (Report(inputs=(each,)) for each in progress_of(message))
        elif kind == "work":
            yield Report(inputs=(work_of(self.name, message),))
        elif kind == "leaving":
            yield Report(inputs=tuple(self._goes({"leaving": message.get("why")})))
        elif kind == "so_far" and (told := so_far_of(self.name, message, self._bounds)) is not None:
            yield Report(inputs=(told,))
        elif kind == "telemetry":
            yield Report(inputs=(telemetry_of(self.name, message),))
        elif kind == "proved":
            yield Report(inputs=tuple(self._canaries.judge(message)))
        elif kind == "error" and (refused := tuple(self._canaries.refused(message))):
            yield Report(inputs=refused)
        elif kind == "error":
            yield Report(inputs=(Trouble(where=f"agent on {self.name}", what=words(message.get("error"), WORDS_MAX)),))

    def _told(self, facts: Sequence[Facts]) -> Iterator[Report]:
        """Facts; with the last of them the number that they are acknowledged by."""
        receipt, left = _receipt(facts[-1]), len(facts)
        for inputs in inputs_of(self.name, facts, self._bounds):
            left -= len(inputs)
            yield Report(inputs=inputs, receipt=None if left else receipt)


def _too_early_for_secrets(node: str, order: AttemptOrder) -> Ended:
    why = f"the agent on {node} is of an earlier version and would write secrets into its journal; it is being upgraded"
    return Ended(attempt=order.id, ended_at=0.0, reason="spawn", error=why)


def _too_early(node: str, order: AttemptOrder) -> Ended:
    why = f"the agent on {node} is of before Hostler 0.2 and builds no Python environments; it is being upgraded"
    return Ended(attempt=order.id, ended_at=0.0, reason="spawn", error=why)


def devices_of(node: str, facts: Facts, cpu_slots: int | None) -> tuple[DeviceSpec, ...]:
    """The devices an agent found: its GPUs, and CPU slots (as many as it has cores, unless settings say otherwise)."""
    slots = (facts["cpus"] if cpu_slots is None else cpu_slots) or 0
    if slots > DEVICES_MOST or len(facts["devices"]) > DEVICES_MOST:
        raise ValueError(f"no node has {slots} CPUs and {len(facts['devices'])} GPUs; {DEVICES_MOST} of each at most")
    cpus = [DeviceSpec(id=f"{node}/cpu{at}", node=node, kind=DeviceKind.CPU, index=at) for at in range(slots)]
    gpus = [_gpu(node, found) for found in facts["devices"]]
    if len({each.id for each in gpus}) < len(gpus):
        raise ValueError("two of its GPUs have the same number")
    return (*gpus, *cpus)


def _receipt(fact: Facts) -> int:
    """The number that the last of some facts has."""
    if type(fact["seq"]) is not int:
        raise ValueError(f"its number is {fact['seq']!r:.40}")
    return fact["seq"]


def _gpu(node: str, found: Facts) -> DeviceSpec:
    gpu = gpu_of(found)
    name = f"{node}/{gpu.kind}{gpu.index}"
    return DeviceSpec(id=name, node=node, kind=gpu.kind, index=gpu.index, model=gpu.model, vram_gb=gpu.vram_gb)
