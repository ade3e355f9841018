"""A partition of a Slurm cluster as a node: its devices are slots, behind which are allocations that agents run in."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Unpack

import structlog

from hostler.agent.files import TREES
from hostler.backends import wire
from hostler.backends.agented import Options
from hostler.backends.base import Facts, Report, may_pass
from hostler.backends.bounds import Bounds
from hostler.backends.local.workspaces import Workspaces
from hostler.backends.outbox import Outbox
from hostler.backends.slurm.attending import Attendant
from hostler.backends.slurm.berths import Batch, Berth, Holdings, Place, Stop, from_journal
from hostler.backends.slurm.cancelling import bar
from hostler.backends.slurm.cluster import ANEW_S, Cluster, Key, Look
from hostler.backends.slurm.desk import News
from hostler.backends.slurm.errors import SlurmDown, SlurmRefused
from hostler.backends.slurm.following import Follower
from hostler.backends.slurm.overdue import UNKNOWN_GRACE_S
from hostler.backends.slurm.parsing import NodeRow, PartitionRecord
from hostler.backends.slurm.submitting import Submitter, Wish
from hostler.backends.slurm.supply import closed_of, devices_of, missing_type, pool_of, supply_of
from hostler.backends.slurm.terms import Terms
from hostler.backends.slurm.verdicts import Verdicts
from hostler.model import pools
from hostler.model.batch import Ask
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.errors import FilesError, LinkError, LinkLost, LinkRefused
from hostler.model.files import Fetch, FileRef
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import (
    Closed,
    Ended,
    LinkUp,
    NodeFound,
    PoolSeen,
    Returned,
    Trouble,
    WorkerRefused,
)
from hostler.model.views import LogChunk, Output

LEAST_S = 60.0
"""What must be left of an allocation for work whose duration nobody knows."""
SHOW_EVERY_S = 1.0
ANSWERS_S = 15.0
"""How long a controller that leaves waits for answers of submissions that nobody wants any more."""
READ_RESTS_S = (0.2, 1.0, 5.0)
NOTHING: Facts = {"facts": [], "attempts": [], "chunks": []}
UNCLAIMED_S = 60.0
"""How long what an earlier controller has asked for may wait in the queue before it is given anything to do."""


class SlurmPool:
    """`Backend` and what goes with it (see `backends.base`) for one partition."""

    kind = "slurm"
    apart = False

    def __init__(
        self, name: str, cluster: Cluster, use: Terms, *, python: str = "python3", **options: Unpack[Options]
    ) -> None:
        self.name = name
        self._cluster = cluster
        self._terms = use
        self._python = python
        self._controller = options["controller"]
        self._store = options["store"]
        self._workspaces = Workspaces(self._store, lambda: Path(str(cluster.desk.hello["root"])) / TREES / name)
        self._cpu_slots = options.get("cpu_slots")
        self._spec = options.get("terms") or NodeSpec(name=name, backend=self.kind, devices=())
        self._env = dict(options.get("env") or {})
        self._limits = wire.Limits(
            log_bytes=options.get("log_bytes", 10 << 20), result_bytes=options.get("result_bytes", 1 << 20)
        )
        self._bounds = options.get("bounds") or Bounds(
            log_bytes=self._limits.log_bytes, result_bytes=self._limits.result_bytes
        )
        self._holdings = Holdings()
        self._receipts = count(1)
        self._outbox = Outbox(self._receipts)
        self._tasks: set[asyncio.Task[object]] = set()
        self._submitter: Submitter | None = None
        self._follower: Follower | None = None
        self._shown: Mapping[str, pools.SlotSeen] = {}
        """The slots as they were told last."""
        self._found: NodeSpec | None = None
        """The node as it was told last."""
        self._hears = False
        """Whether what the cluster tells is of this link: what was told on an earlier one is told again."""
        self._log = structlog.get_logger().bind(node=name)

    # --- the seam -------------------------------------------------------------------------------------------------

    def remember(self, batches: Sequence[pools.Batch]) -> None:
        """What an earlier controller had asked for."""
        for each in batches:
            self._holdings.add(from_journal(each))

    async def probe(self) -> NodeSpec:
        """The partition, as the cluster describes it now; where it has none, not as it did a while ago."""
        try:
            hosts, partitions = await self._cluster.hosts(), await self._cluster.partitions()
            if self._mine(hosts, partitions) is None:
                hosts, partitions = await self._cluster.hosts(ANEW_S), await self._cluster.partitions(ANEW_S)
        except SlurmDown as error:
            raise LinkLost(f"cluster {self._cluster.name} cannot be asked: {error}") from error
        except SlurmRefused as error:
            raise LinkRefused(str(error)) from error
        mine = self._mine(hosts, partitions)
        if mine is None:
            named = ", ".join(sorted(each.name for each in partitions)) or "none"
            raise LinkRefused(
                f"cluster {self._cluster.name} has no partition {self._terms.partition!r} with nodes; it has {named}"
            )
        missing = missing_type(mine[0], self._terms)
        if missing is not None:
            raise LinkRefused(f"{missing}; change `slurm.gpu_type`")
        self._found = self._described(*mine)
        return self._found

    async def observe(self, epoch: int) -> AsyncGenerator[Report, None]:
        """Join the cluster, find again what was asked of it, then tell what happens there."""
        outbox = self._outbox = Outbox(self._receipts)
        try:
            await self._cluster.join(self.name, self)
            spec = await self.probe()
            self._begin(epoch)
            held = await self._recover()
            yield Report(inputs=(NodeFound(node=spec), self._link_up(held), self._seen()))
            self._start(self._show())
            self._start(self._let_unclaimed_go())
            while True:
                yield await outbox.next()
        finally:
            await self._end()

    async def launch(self, orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
        """Put attempts where an allocation takes them, or ask for allocations."""
        submitting, ends = self._submitting, list[Ended]()
        for order in orders:
            _, refused = wire.launches([order], self._limits)
            ends += refused
            if not refused and self._holdings.of(order.id) is None and not submitting.knows(order.id):
                self._place(order)
        return ends

    async def stop(self, attempts: Sequence[str], reason: str) -> None:
        """Have attempts ended: by their agents, or by the cluster where it has not begun them.

        Nobody waits for the cluster: what else is to be done goes on while it thinks.
        """
        self._cancel([place for attempt in attempts for place in self._stop(attempt, reason)])

    async def lend(self, worker: WorkerOrder, chunks: Sequence[ChunkOrder]) -> Sequence[WorkerRefused]:
        """Queue chunks on a worker, in the allocation behind its slot, once its snapshot is laid out."""
        if worker.snapshot is not None:
            try:
                worker = await asyncio.to_thread(self._workspaces.shared, worker)
            except (FilesError, OSError) as error:
                if may_pass(error):
                    raise
                return [WorkerRefused(worker=worker.id, error=str(error))]
        ask, knows = _asked(worker), self._submitting.knows
        fresh = [chunk for chunk in chunks if self._holdings.of(chunk.id) is None and not knows(chunk.id)]
        found = self._holdings.behind(worker.queue, LEAST_S, self._cluster.clock.now())
        wished = self._submitting.wished_for(worker.queue)
        if found is not None:
            self._lend_to(*found, worker, fresh)
        elif wished is not None and wished.worker is not None and wished.worker.id == worker.id:
            wished.chunks += tuple(fresh)
        elif fresh:
            mode = self._terms.mode(ask.work)
            wish = Wish(slot=worker.queue, mode="pilot" if mode == "job" else mode, ask=ask, worker=worker)
            wish.chunks = tuple(fresh)
            self._submitting.ask_for(wish)
        return ()

    async def recall(self, chunks: Sequence[str], reason: str) -> None:
        """Ask for chunks back."""
        idle: list[Place] = []
        for name in chunks:
            found = self._holdings.of(name)
            self._submitting.drop((), [name])
            back = Returned(chunk=name, reason="recalled", error=reason)
            if found is None:
                self._outbox.post(back)
                continue
            stop = Stop(why=reason, by=self._cluster.clock.now() + wire.WORKER_GRACE_S)
            found[1].stops.setdefault(name, stop)
            self._say(found[1], {"type": "recall", "chunks": [name], "reason": reason})
            if found[1].run is None:  # where its run is over, it comes back by itself
                idle += self._withdraw(*found, back)
        self._cancel(idle)

    async def trim(self, ends: Mapping[str, int]) -> None:
        """Let chunks end earlier."""
        for name, stop in ends.items():
            self._submitting.trim(name, stop)
            found = self._holdings.of(name)
            if found is not None:
                self._say(found[1], {"type": "trim", "chunks": [[name, stop]]})

    async def close_worker(self, worker: str) -> None:
        """End a worker that has no more to do."""
        for _, berth in self._holdings.berths():
            if berth.workers.pop(worker, None) is not None:
                berth.declared.discard(worker)
                self._say(berth, {"type": "close", "worker": worker})

    async def acknowledge(self, receipt: int) -> None:
        """What was told up to here is durable."""
        self._outbox.acknowledge(receipt)

    async def read_log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        """A piece of an attempt's output, straight from the shared file system."""
        piece = await self._cluster.desk.read_log(attempt, stream, offset, limit)
        return replace(piece, ended=self._holdings.of(attempt) is None)

    async def read_output(self, attempt: str, out: int, err: int, limit: int) -> Output:
        """A piece of both streams of an attempt, straight from the shared file system."""
        ended = self._holdings.of(attempt) is None
        return await self._cluster.desk.read_output(attempt, out, err, limit, ended=ended)

    async def discard(self, attempts: Sequence[str]) -> None:
        """Delete what ended attempts have left."""
        try:
            await self._cluster.desk.discard(attempts)
        except FilesError as error:
            what = f"what {len(attempts)} attempts have left cannot be deleted: {error}"
            self._outbox.post(Trouble(where=f"node {self.name}", what=what))

    async def release(self) -> None:
        """The controller leaves: allocations that idle cost, and those that were asked for in vain will.

        Whatever becomes of their cancellation, their tasks are barred first. What is still being submitted has no name
        to be cancelled by: its answer is waited for, for a moment. Raises `LinkLost`.
        """
        for batch, berth in list(self._holdings.berths()):
            if berth.is_up:
                self._say(berth, {"type": "shutdown", "when": "idle"})
            else:
                self._following.let_go(batch, berth)
        await bar(self._cluster.desk, self._unwanted())
        await self._submitting.settle(ANSWERS_S)
        await self._following.cancel(self._unwanted(), again=True)

    def hang_up(self) -> None:
        """Break the link on purpose."""
        self._outbox.end("it was hung up on")

    async def fetch(self, attempt: str, what: Fetch, cwd: str | None) -> tuple[FileRef, ...]:
        """Copy what an attempt has left from the shared file system."""
        folder = Path(str(self._cluster.desk.hello["root"])) / "attempts" / attempt if cwd is None else Path(cwd)
        return await asyncio.to_thread(self._workspaces.copied, attempt, what, folder)

    async def supply(self, order: AttemptOrder) -> AttemptOrder:
        """Lay out the files of an order's snapshot on the shared file system."""
        return await asyncio.to_thread(self._workspaces.supplied, order)

    async def clear(self, attempt: str) -> None:
        """Delete what was laid out for an attempt, or for the workers of a sweep."""
        await asyncio.to_thread(self._workspaces.clear, attempt)

    async def keep(self, attempts: Sequence[str], sweeps: Sequence[str]) -> None:
        """Delete what was laid out for all others."""
        await asyncio.to_thread(self._workspaces.keep, (*attempts, *sweeps))

    # --- what the cluster tells (`cluster.Member`) ----------------------------------------------------------------

    def is_mine(self, token: str) -> bool:
        """Whether a batch is one of this pool."""
        return token in self._holdings.batches

    def awaited(self) -> Mapping[str, str | None]:
        """Batches that are not over."""
        return {token: batch.job for token, batch in self._holdings.batches.items()}

    def heard(self, news: News) -> None:
        """A run has begun or ended."""
        if self._hears and not self._outbox.ended:
            self._following.heard(news)

    def looked(self, look: Look) -> None:
        """The queue was looked at."""
        if self._hears and not self._outbox.ended:
            self._following.looked(look)
            self._renew()
            self._outbox.post(self._seen())

    def missing(self, known: Set[Key]) -> Mapping[str, float]:
        """Jobs of which nothing is known, though somebody wants to know."""
        return self._following.missing(known) if self._hears else {}

    def lost(self, why: str) -> None:
        """The desk is gone."""
        self._outbox.end(why)

    # --- the link -------------------------------------------------------------------------------------------------

    def _mine(
        self, hosts: Sequence[NodeRow], partitions: Sequence[PartitionRecord]
    ) -> tuple[Sequence[NodeRow], PartitionRecord] | None:
        """The hosts and the rules of the partition; `None`: there is no such one."""
        mine = [host for host in hosts if host.partition == self._terms.partition]
        limits = next((each for each in partitions if each.name == self._terms.partition), None)
        return None if limits is None or not mine else (mine, limits)

    def _described(self, hosts: Sequence[NodeRow], limits: PartitionRecord) -> NodeSpec:
        self._terms = self._terms.within(limits, hosts)
        devices, price = devices_of(self.name, hosts, self._terms, self._cpu_slots), self._spec.price_per_h
        return replace(
            self._spec,
            devices=devices,
            price_per_h=None if price is None else price * len(devices),
            python=self._python,
            env=self._env,
            pool=pool_of(hosts, limits, self._terms),
        )

    def _renew(self) -> None:
        """Go by the rules that the partition has now; what was asked for by others is not changed by that."""
        mine = self._mine(self._cluster.known_hosts() or (), self._cluster.known_partitions())
        if self._found is None or mine is None or missing_type(mine[0], self._terms) is not None:
            return
        spec = self._described(*mine)
        self._submitting.renew(self._terms)
        if spec != self._found:
            self._found = spec
            self._outbox.post(NodeFound(node=spec))

    def _begin(self, epoch: int) -> None:
        name, cluster, outbox, holdings = self.name, self._cluster, self._outbox, self._holdings
        shared = name, self._controller, epoch, cluster, outbox
        submitter = Submitter(*shared, holdings, self._terms, self._limits, self._start)
        verdicts = Verdicts(cluster)
        attendant = Attendant(*shared, verdicts, self._place_all, self._bounds)
        self._submitter = submitter
        self._follower = Follower(name, cluster, outbox, holdings, attendant, verdicts, submitter.taken, self._start)

    async def _recover(self) -> list[str]:
        """Find again what was asked of the cluster, by the tokens; the attempts that are held there."""
        holdings, desk = self._holdings, self._cluster.desk
        holdings.sweep()
        for batch in [each for each in holdings.batches.values() if each.over]:
            await self._following.close(batch)
        for batch, berth in holdings.berths():
            # Of what has begun, the first words and their answer are another link's.
            batch.own = batch.own and berth.run is None
            berth.forget_run()
        # From here on ends are told, and what has ended is held until that was heard.
        known = [(berth.token, name) for _, berth in holdings.berths() for name in berth.orders]
        self._hears = True
        await desk.watch(list(holdings.batches))
        missing = await self._find([batch for batch in holdings.batches.values() if batch.job is None])
        known = [(token, name) for token, name in known if token not in missing]
        held = [name for _, name in known]
        for batch, berth in list(holdings.berths()):
            for run in sorted(berth.seen, reverse=True):
                held += await self._held_by(batch, berth, run, held)
        self._cluster.hurry()
        return list(dict.fromkeys(held))

    async def _let_unclaimed_go(self) -> None:
        """Nobody knows any more whether what an earlier controller has asked for was still wanted: it shows soon."""
        await self._cluster.clock.sleep(UNCLAIMED_S)
        left = [(batch, berth) for batch, berth in self._holdings.berths() if batch.ask is None and berth.waits]
        await self._following.cancel([place for each in left for place in self._following.let_go(*each)])

    async def _find(self, batches: Sequence[Batch]) -> set[str]:
        """Which of these were never submitted, as nobody knows of any of them; one look tells of all.

        What has begun has told so, also if it is over long since; of what has not, only the queue need know.
        """
        if not batches:
            return set()
        found = await self._queued()
        for batch in batches:
            if batch.token in found:
                self._submitting.taken(batch, found[batch.token])
        missing = [batch for batch in batches if batch.job is None]
        if missing:
            # If one is submitted after all, by a command that hangs somewhere, it finds nothing to do.
            tokens = [batch.token for batch in missing]
            await self._cluster.desk.unwatch(tokens)
            await self._cluster.desk.forget(tokens)
        for batch in missing:
            self._holdings.remove(batch)
            self._outbox.post(Closed(node=self.name, token=batch.token, why="it was never submitted"))
        return {batch.token for batch in missing}

    async def _queued(self) -> Mapping[str, str]:
        """What the cluster has in its queue, and what it calls that, by token. Raises `LinkLost` where nobody says."""
        try:
            listed = await self._cluster.slurm.queue()
        except SlurmDown as error:
            raise LinkLost(f"it cannot be asked what was submitted: {error}") from error
        if not listed.whole:
            raise LinkLost(f"it cannot be told what was submitted: squeue says {listed.unread[0]!r}")
        return {row.name: row.array or row.job for row in listed.rows if row.name is not None}

    async def _held_by(self, batch: Batch, berth: Berth, run: int, known: Sequence[str]) -> list[str]:
        """What the agent of a run has on its disk; what nobody here knows of is put down."""
        told = await self._read(berth, run)
        running = {str(each["id"]) for each in told["attempts"]}
        facts = [str(fact["chunk"]) for fact in told["facts"] if "chunk" in fact]
        if run == max(berth.seen):
            berth.found = dict.fromkeys([*(str(each[0]) for each in told["chunks"]), *facts], True)
        # Where an allocation began anew, the newest run that has an attempt is the one that counts.
        news = running if run > min(berth.seen) else running.difference(known)
        kept = [name for name in news if berth.adopt(name, run)]
        self._holdings.note(batch, berth, kept)
        return [*kept, *(str(fact["attempt"]) for fact in told["facts"] if fact["fact"] == "ended")]

    async def _read(self, berth: Berth, run: int) -> Facts:
        """A journal that cannot be read now may be a moment later; who gives it up may begin anew what runs."""
        for rest_s in READ_RESTS_S:
            with suppress(FilesError):
                return await self._cluster.desk.facts(berth.token, berth.task, run)
            await self._cluster.clock.sleep(rest_s)
        return NOTHING

    def _link_up(self, held: Sequence[str]) -> LinkUp:
        agent = str(self._cluster.desk.hello["root"])
        return LinkUp(node=self.name, agent=agent, incarnation=1, boot=None, attempts=tuple(held), chunks=())

    async def _end(self) -> None:
        self._hears, self._submitter, self._follower = False, None, None
        self._outbox.end("it was left")
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._cluster.leave(self.name)

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, LinkError) and not self._outbox.ended:
            self._outbox.post(Trouble(where=f"node {self.name}", what=f"{type(error).__name__}: {error}"))
        # What was going on there is found again on the next link.
        self._outbox.end(str(error))

    async def _show(self) -> None:
        """Tell how the slots are, when that has changed."""
        while True:
            if self._holdings.slots() != self._shown:
                self._outbox.post(self._seen())
            await self._cluster.clock.sleep(SHOW_EVERY_S)

    def _seen(self) -> PoolSeen:
        hosts = self._cluster.known_hosts()
        mine = [host for host in hosts or () if host.partition == self._terms.partition]
        self._shown = self._holdings.slots()
        seen = pools.Seen(
            at=self._cluster.clock.now(),
            slots=self._shown,
            supply=supply_of(mine) if hosts is not None else None,
            closed=closed_of(mine),
            trouble=self._cluster.trouble,
        )
        return PoolSeen(node=self.name, seen=seen)

    # --- what is put where ----------------------------------------------------------------------------------------

    @property
    def _submitting(self) -> Submitter:
        if self._submitter is None:
            raise LinkLost(f"node {self.name} is not connected")
        return self._submitter

    @property
    def _following(self) -> Follower:
        if self._follower is None:
            raise LinkLost(f"node {self.name} is not connected")
        return self._follower

    def _place_all(self, orders: Sequence[AttemptOrder]) -> None:
        for order in orders:
            self._place(order)

    def _place(self, order: AttemptOrder) -> None:
        ask, slot = _asked(order), order.queue.partition(".")[0]
        mode = self._terms.mode(ask.work)
        found = self._holdings.behind(slot, _needed_s(ask), self._cluster.clock.now())
        if found is not None and mode == "pilot" and ask.devices == 1:
            batch, berth = found
            berth.orders[order.id] = order
            self._holdings.note(batch, berth, [order.id])
            requests, refused = wire.launches([order], self._limits)
            for request in requests:
                self._say(berth, request)
            self._outbox.post(*refused)
            return
        if mode == "pilot" and ask.devices > 1:
            mode = "job"
        self._submitting.ask_for(Wish(slot=slot, mode=mode, ask=ask, attempt=order))

    def _lend_to(self, batch: Batch, berth: Berth, worker: WorkerOrder, chunks: Sequence[ChunkOrder]) -> None:
        if worker.id not in berth.workers or worker.id not in berth.declared:
            berth.workers[worker.id] = worker
            berth.declared.add(worker.id)
            self._say(berth, wire.opening(worker, self._limits))
        berth.chunks.update({chunk.id: (worker.id, chunk) for chunk in chunks})
        self._holdings.note(batch, berth, [chunk.id for chunk in chunks])
        if chunks:
            self._say(berth, wire.queueing(worker, chunks))

    def _say(self, berth: Berth, request: Facts) -> None:
        """Now, or when its agent can be reached."""
        if berth.channel is None:
            berth.unsaid.append(request)
            return
        try:
            berth.channel.say(request)
        except LinkLost:
            berth.unsaid.append(request)

    def _cancel(self, places: Sequence[Place]) -> None:
        if places:
            self._start(self._following.cancel(places))

    def _unwanted(self) -> list[Place]:
        return [place for place in self._holdings.berths() if place[1].unwanted is not None]

    def _withdraw(self, batch: Batch, berth: Berth, end: Ended | Returned) -> list[Place]:
        """Of something that has not begun: what is to be cancelled for it, whereupon it has ended; or it has now."""
        places = self._following.let_go(batch, berth)
        if not places:
            berth.forget(end)
            self._outbox.post(end)
        return places

    def _stop(self, attempt: str, reason: str) -> list[Place]:
        """What is to be cancelled for it."""
        dropped = self._submitting.drop([attempt], ())
        found = self._holdings.of(attempt)
        if found is None or dropped:
            why = "stopped" if dropped else "unknown"
            now = self._cluster.clock.now()
            self._outbox.post(Ended(attempt=attempt, ended_at=now, reason=why, error=reason))
            return []
        batch, berth = found
        order, now = berth.orders.get(attempt), self._cluster.clock.now()
        grace_s = UNKNOWN_GRACE_S if order is None else order.grace_s
        berth.stops.setdefault(attempt, Stop(why=reason, by=now + grace_s))
        self._say(berth, {"type": "stop", "attempts": [attempt], "reason": reason})
        if berth.run is not None or berth.following:  # where that is over, it is being found out how it ended
            return []
        return self._withdraw(batch, berth, Ended(attempt=attempt, ended_at=now, reason="stopped", error=reason))


def _asked(order: AttemptOrder | WorkerOrder) -> Ask:
    if order.ask is None:
        raise LinkRefused(f"the order {order.id} does not say what is to be asked of the cluster for it")
    return order.ask


def _needed_s(ask: Ask) -> float:
    """What must be left of an allocation that it is put into; what one was too short for gets a new one, if need be."""
    if ask.expected_s is None:
        return LEAST_S if ask.longer == 1 else math.inf
    return ask.expected_s * ask.longer
