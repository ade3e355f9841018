"""A share of a Ray cluster as a node: a job of the cluster, the pilot, runs our agent, which calls the controller.

While there is no work, there is no pilot: nothing of the cluster is held. The id that Ray is to know a pilot by is in
the journal before the first request is made, and a pilot is looked up before it is submitted, so that there is one job
of an id at most, whatever is killed. To the core the id is also the agent: another pilot is another one, and what the
one before it had is lost, on the word of Ray that it is over. That nobody can reach it is no such word.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import shlex
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Unpack
from uuid import uuid4

import structlog

from hostler.backends.agented import Options
from hostler.backends.base import Facts, Report
from hostler.backends.channel import Channel
from hostler.backends.courier import Parcel
from hostler.backends.dialin import DialinNode, NotYet, Switchboard
from hostler.backends.outbox import Outbox
from hostler.backends.packing import Packer
from hostler.backends.ray.cluster import RayCluster
from hostler.backends.ray.errors import RayDown, RayRefused
from hostler.backends.ray.rest import HIDDEN, Job
from hostler.backends.ray.share import devices_of, shown
from hostler.backends.ray.terms import Terms
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.errors import LinkLost, LinkRefused
from hostler.model.files import Fetch, FileRef
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import (
    Closed,
    Ended,
    Input,
    LinkUp,
    NodeFound,
    Requested,
    Returned,
    Searched,
    Submitted,
    Trouble,
    WorkerRefused,
)
from hostler.model.pools import Batch, Span
from hostler.model.record import entity, record

TICKET = "HOSTLER_CALL_TICKET"
"""The variable in which a pilot finds a ticket, which Ray shows with the job; the token, which counts, is not in it."""
ASLEEP_LOOK_S = 30.0
"""How often a cluster is looked at that nothing is wanted of."""
FOREVER = Span(seconds=365 * 86400.0, longest=True, saves=False)
"""Ray ends no job by its time."""
FAILED_REST_S = (5.0, 30.0, 120.0)
"""After a pilot that failed before it called, the next is not submitted for so long."""
ABSENT_S = 30.0
"""A pilot that has called, that Ray does not know any more and that nobody can reach, is given up after that."""
LAST_WORDS = 300
NOTHING: Facts = {"devices": (), "cpus": None}


@record
class Calling:
    """What a pilot must know to call the controller."""

    to: str
    fingerprint: str


@entity
class Pilot:
    """A job of the cluster that runs our agent, or is to."""

    id: str
    submitted: bool = False
    called: bool = False
    """Whether it has, as far as is known: it may also have called a controller before this one."""
    remembered: bool = False
    """Whether a controller before this one had seen it at Ray: it may have redeemed its ticket."""
    ticket: bool | None = None
    """Whether its ticket may be redeemed; `None`: that is not known yet."""
    by: str | None = None
    """Who redeemed it."""
    leaving: str | None = None
    """Why it was told to end."""
    absent_since: float | None = None
    status: str = "is being submitted"


class RayNode(DialinNode):
    """`DialinNode` whose caller is a job of a Ray cluster. `secret` is what the tokens of pilots are made from."""

    kind = "ray"

    def __init__(
        self,
        name: str,
        cluster: RayCluster,
        use: Terms,
        calling: Callable[[], Calling],
        secret: bytes,
        switchboard: Switchboard,
        program: Parcel,
        *,
        packer: Packer,
        **others: Unpack[Options],
    ) -> None:
        others["cpu_slots"], others["gpus"] = use.cpu_slots, False
        super().__init__(name, switchboard, program, packer=packer, python=use.python, **others)
        self._cluster = cluster
        self._use = use
        self._calling = calling
        self._secret = secret
        self._pilot: Pilot | None = None
        self._older: list[str] = []
        self._next = _new_id(name)
        self._receipts = count(1)
        self._outbox = Outbox(self._receipts)
        self._wanted = asyncio.Event()
        self._waiting: set[str] = set()
        """Attempts that no pilot has been told of."""
        self._held: set[str] = set()
        """Attempts and chunks that a pilot has, or has something of that is wanted."""
        self._is_heard = False
        """Whether the pilot is linked and has told what it has."""
        self._used_at = 0.0
        self._durable = 0
        self._visible: str | None = None
        """The GPUs that Ray gave to the pilot, in the words of `CUDA_VISIBLE_DEVICES`."""
        self._failed = 0
        self._not_before = 0.0
        self._why_not = ""
        self._troubled = ""
        self._log = structlog.get_logger().bind(node=name)
        cluster.join(name, use.wants)

    # --- the seam -------------------------------------------------------------------------------------------------

    def remember(self, batches: Sequence[Batch]) -> None:
        """Pilots of controllers before this one that are not known to be over; the newest is gone on with."""
        known = sorted(batches, key=lambda batch: batch.requested_at)
        self._older = [batch.token for batch in known[:-1]]
        if known:
            is_known = known[-1].job is not None
            self._pilot = Pilot(id=known[-1].token, submitted=is_known, called=True, remembered=is_known)
            self._admit(known[-1].token)

    async def probe(self) -> NodeSpec:
        """The share, as its agent sees it where there is one. Raises `LinkRefused` where there can be none."""
        if self._channel is not None:
            return await super().probe()
        await self._examine()
        return self.describe(NOTHING)

    def describe(self, facts: Facts) -> NodeSpec:
        """The share that is asked for, with what the agent knows of its GPUs."""
        self._visible = facts.get("visible", self._visible)
        spec = super().describe({**facts, "devices": ()})
        limits, wants = spec.limits, self._use.wants
        return replace(
            spec,
            devices=devices_of(self.name, self._use, facts.get("devices") or (), self._visible),
            cpus=self._terms.cpus or wants.cpus or None,
            limits=replace(limits, memory_gb=wants.memory_gb) if limits.memory_gb is None else limits,
        )

    async def observe(self, epoch: int) -> AsyncGenerator[Report, None]:
        """Wait for work, have a pilot run, and report what its agent tells."""
        outbox = self._outbox = Outbox(self._receipts)
        life = asyncio.create_task(self._live(epoch))
        life.add_done_callback(lambda _: outbox.end("it was left"))
        try:
            while True:
                yield await outbox.next()
        except LinkLost:
            if life.done():
                life.result()  # raises what ended it
            raise
        finally:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)

    async def launch(self, orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
        """Have attempts run; where there is no pilot yet, one is asked for, and they come again when it is up."""
        self._want([order.id for order in orders])
        self._held |= {order.id for order in orders}
        return await super().launch([replace(order, env=shown(order.env, self._visible)) for order in orders])

    async def supply(self, order: AttemptOrder) -> AttemptOrder:
        """Bring what an order needs."""
        self._want([order.id])
        return await super().supply(order)

    async def stop(self, attempts: Sequence[str], reason: str) -> None:
        """Have attempts ended; what no pilot was told of is over at once, and a pilot for nothing else unwanted."""
        mine = [name for name in attempts if name in self._waiting]
        now = self._cluster.clock.now()
        self._waiting.difference_update(mine)
        if mine:
            self._outbox.post(*(Ended(attempt=each, ended_at=now, reason="stopped", error=reason) for each in mine))
            if not self._waiting and self._pilot is not None and not self._pilot.called:
                self._pilot.leaving = "nothing is wanted of it any more"
        others = [name for name in attempts if name not in mine]
        if others:
            await super().stop(others, reason)

    async def lend(self, worker: WorkerOrder, chunks: Sequence[ChunkOrder]) -> Sequence[WorkerRefused]:
        """Queue chunks; where there is no pilot yet, one is asked for, and they come again when it is up."""
        self._want(())
        if self._channel is None:
            raise LinkLost(f"{self.name} has no pilot that answers yet")
        self._held |= {chunk.id for chunk in chunks}
        return await super().lend(replace(worker, env=shown(worker.env, self._visible)), chunks)

    async def fetch(self, attempt: str, what: Fetch, cwd: str | None) -> tuple[FileRef, ...]:
        """Bring what an attempt has left here; a pilot that is fetched from does not idle."""
        key = f"fetch {attempt}"
        self._held.add(key)
        try:
            return await super().fetch(attempt, what, cwd)
        finally:
            self._let_go_of(key)

    async def clear(self, attempt: str) -> None:
        """All that an attempt has left is here."""
        await super().clear(attempt)
        self._let_go_of(attempt)

    async def keep(self, attempts: Sequence[str], sweeps: Sequence[str]) -> None:
        """Only these attempts and sweeps are needed still, as a new link tells; the pilot waits for attempts alone."""
        self._held |= set(attempts)
        await super().keep(attempts, sweeps)

    async def discard(self, attempts: Sequence[str]) -> None:
        """Nothing more is wanted of these attempts."""
        self._let_go_of(*attempts)
        await super().discard(attempts)

    async def acknowledge(self, receipt: int) -> None:
        """Everything up to this receipt is durable here."""
        self._durable = 0
        self._outbox.acknowledge(receipt)
        if self._durable:
            await super().acknowledge(self._durable)

    async def release(self) -> None:
        """The controller leaves: a pilot ends when nothing runs there, one that has not called at once."""
        pilot = self._pilot
        if pilot is None:
            return
        if self._channel is not None:
            pilot.leaving = "the controller leaves"
            await super().release()
        elif not pilot.called:
            await self._stop(pilot, "the controller leaves")

    def hang_up(self) -> None:
        """Break the link on purpose."""
        super().hang_up()
        self._outbox.end("it was hung up on")

    # --- the life of a link ---------------------------------------------------------------------------------------

    async def _live(self, epoch: int) -> None:
        if self._pilot is None:
            await self._examine()
            await self._sleep()
            await self._record()
            raise LinkLost("its pilot is being submitted")  # until that calls, it can be given nothing
        pilot = self._pilot
        assert pilot is not None
        self._admit(pilot.id)
        await _first(self._talk(epoch, pilot), self._watch(pilot))

    async def _examine(self) -> None:
        """Raises `LinkLost` where the cluster cannot be asked, `LinkRefused` where a pilot can never run there."""
        try:
            why = await self._cluster.refusal(self._use.wants)
        except RayDown as error:
            raise LinkLost(f"the Ray cluster cannot be asked: {error}") from error
        except RayRefused as error:
            raise LinkRefused(str(error)) from error
        if why is not None:
            raise LinkRefused(f"{why}; change `ray:` of {self.name} in the fleet file, or the cluster")
        if self._cluster.clock.now() < self._not_before:
            raise LinkRefused(self._why_not)

    async def _sleep(self) -> None:
        """Be there for work, without a pilot, until there is some."""
        self._switchboard.admit(self.name, None)
        self._wanted.clear()
        self._waiting.clear()
        self._held.clear()
        self._outbox.post(NodeFound(node=self.describe(NOTHING)), self._up(self._next, (), ()))
        while not self._wanted.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(ASLEEP_LOOK_S):
                    await self._wanted.wait()
            await self._examine()

    async def _record(self) -> None:
        """The id of the pilot is in the journal before anything is asked for under it."""
        noted = asyncio.Event()
        asked = Requested(
            node=self.name, token=self._next, mode="pilot", tasks=(), wants=self._use.wants.in_words(), time=FOREVER
        )
        self._outbox.post(asked, then=noted.set)
        await noted.wait()
        self._pilot, self._next = Pilot(id=self._next), _new_id(self.name)

    async def _talk(self, epoch: int, pilot: Pilot) -> None:
        async with aclosing(super().observe(epoch)) as reports:
            async for report in reports:
                self._note(pilot, report.inputs)
                self._outbox.post(*report.inputs, then=self._when_durable(report.receipt))

    def _when_durable(self, receipt: int | None) -> Callable[[], None] | None:
        def note() -> None:
            self._durable = receipt or 0

        return None if receipt is None else note

    def _note(self, pilot: Pilot, told: Sequence[Input]) -> None:
        for each in told:
            if isinstance(each, LinkUp):
                self._held = {*each.attempts, *each.chunks}
                self._waiting.clear()
                self._failed = 0
                self._is_heard, self._used_at = True, self._cluster.clock.now()
            elif isinstance(each, Returned | Searched):
                self._let_go_of(each.chunk)

    async def connect(self, epoch: int) -> Channel:
        """A channel to the agent of the pilot, once it calls. Raises `LinkLost` with what Ray says of it."""
        pilot = self._pilot
        assert pilot is not None
        try:
            channel = await super().connect(epoch)
        except LinkLost as error:
            raise LinkLost(f"its pilot {pilot.id} {pilot.status}") from error
        pilot.called, pilot.ticket = True, False
        return channel

    async def _bring_agent(self, channel: Channel) -> None:
        """The agent of a job stays what it is; the next pilot is of our code."""

    def _unlinked(self) -> None:
        """Who called is gone: nobody waits for more calls of it."""
        super()._unlinked()
        self._call, self._is_heard = None, False

    def _link_up(self, hello: Facts) -> LinkUp:
        assert self._pilot is not None
        return self._up(self._pilot.id, hello["attempts"], hello["chunks"])

    def _up(self, agent: str, attempts: Sequence[str], chunks: Sequence[str]) -> LinkUp:
        return LinkUp(
            node=self.name, agent=agent, incarnation=1, boot=None, attempts=tuple(attempts), chunks=tuple(chunks)
        )

    # --- the pilot ------------------------------------------------------------------------------------------------

    async def _watch(self, pilot: Pilot) -> None:
        """Have it run, and see whether it is over; a cluster that does not answer says nothing of either."""
        while True:
            try:
                await self._close_older()
                await self._look(pilot)
                self._troubled = ""
            except (RayDown, RayRefused) as error:
                pilot.status = f"cannot be asked for: {error}"
                self._tell(f"the Ray cluster cannot be asked: {error}; what runs there runs on")
            await self._cluster.clock.sleep(self._use.poll_s if pilot.called else min(1.0, self._use.poll_s))

    async def _look(self, pilot: Pilot) -> None:
        job = await self._cluster.rest.job(pilot.id)
        if job is None:
            await self._absent(pilot)
            return
        pilot.absent_since = None
        self._note_ticket(pilot, job)
        if job.over:
            await self._over(pilot, job)
        if pilot.leaving is not None and not pilot.called:
            await self._cluster.rest.stop(pilot.id)
        pilot.status = await self._in_words(job)
        await self._end_if_idle(pilot)

    def _note_ticket(self, pilot: Pilot, job: Job) -> None:
        """A ticket counts once, over restarts of the controller too: only after it is on record that Ray has the pilot.

        So one that is not on record has not redeemed it. Of one that is, a later controller knows that where Ray has
        not begun it; where Ray has, its ticket counts no more.
        """
        if not pilot.submitted or (pilot.ticket is None and not pilot.remembered):  # the link may have broken meanwhile
            pilot.submitted = True
            then = partial(_open_ticket, pilot)
            self._outbox.post(Submitted(node=self.name, token=pilot.id, job=pilot.id), then=then)
        elif pilot.remembered and pilot.ticket is None:
            pilot.ticket = job.status == "PENDING"

    def _redeem(self, shown: str, by: str) -> str | None:
        """The token of the pilot for its ticket. Raises `NotYet`."""
        pilot = self._pilot
        if pilot is None or not hmac.compare_digest(shown.encode(), self._made("ticket", pilot.id).encode()):
            return None
        if pilot.ticket is None:
            raise NotYet
        if pilot.by not in (None, by) or not (pilot.ticket or pilot.by):
            return None
        pilot.by = by
        return self._token(pilot.id)

    async def _absent(self, pilot: Pilot) -> None:
        """Ray does not know it: it was never submitted, or a head that forgets everything was started anew."""
        if not pilot.submitted:
            if pilot.leaving is not None:
                self._end(pilot, pilot.leaving, well=True)
            await self._submit(pilot)
            return
        now = self._cluster.clock.now()
        pilot.absent_since = pilot.absent_since or now
        pilot.status = "is not known to the Ray cluster any more, whose head was started anew, it seems"
        self._tell(f"{pilot.id} {pilot.status}")
        if self._channel is None and now - pilot.absent_since > ABSENT_S:
            self._end(pilot, f"{pilot.id} {pilot.status}, and nobody can reach it", well=False)

    async def _submit(self, pilot: Pilot) -> None:
        runtime = {"working_dir": await self._cluster.agent(), "env_vars": {TICKET: self._made("ticket", pilot.id)}}
        await self._cluster.rest.submit(pilot.id, self._entrypoint(pilot), self._use.wants, runtime)
        self._log.info("pilot submitted", pilot=pilot.id, wants=self._use.wants.in_words())

    def _entrypoint(self, pilot: Pilot) -> str:
        calling, journal = self._calling(), self._switchboard.journal
        lease_s = self._terms.lease_s or 12 * 3600.0
        words = ["pilot", "--dir", f"{self._use.folder}/{pilot.id}", "--journal", journal, "--node", self.name]
        words += ["--to", calling.to, "--fingerprint", calling.fingerprint, "--alone-s", f"{lease_s:g}"]
        return "exec " + shlex.join([self._use.python, "agent.pyz", *words])

    async def _over(self, pilot: Pilot, job: Job) -> None:
        """Raises `LinkLost`, always."""
        if pilot.leaving is not None or (job.status == "SUCCEEDED" and pilot.called):
            self._end(pilot, pilot.leaving or "its agent had nothing to do", well=True)
        # Where Ray cannot make the environment of a job, it repeats that, our ticket with it.
        message = " ".join(job.message.replace(self._made("ticket", pilot.id), HIDDEN).split())
        why = f"{job.status}, {job.error or 'no error'}: {message[-LAST_WORDS:]}"
        machine = await self._cluster.machine(job.machine)
        if machine is not None and not machine.alive:
            why = f"node {machine.ip} ({machine.id[:12]}) of the Ray cluster is dead: {machine.says or why}"
        self._end(pilot, f"its pilot {pilot.id} is over: {why}", well=False)

    def _end(self, pilot: Pilot, why: str, *, well: bool) -> None:
        """Nothing more comes of it. Raises `LinkLost`."""
        self._pilot = None
        self._switchboard.admit(self.name, None)
        if not well:
            self._outbox.post(Trouble(where=f"node {self.name}", what=why))
        if not well and not pilot.called:
            rest_s = FAILED_REST_S[min(self._failed, len(FAILED_REST_S) - 1)]
            self._failed += 1
            self._not_before, self._why_not = self._cluster.clock.now() + rest_s, why
        self._outbox.post(Closed(node=self.name, token=pilot.id, why=why))
        raise LinkLost(why)

    async def _in_words(self, job: Job) -> str:
        wants = self._use.wants.in_words()
        if job.status == "PENDING":
            free = await self._cluster.rest.free()
            told = ", ".join(f"{free.get(name, 0):g} {name}" for name in self._use.wants.amounts() if name in free)
            return f"waits in the Ray cluster for {wants}" + (f"; free in all of it: {told}" if told else "")
        return f"runs in the Ray cluster, and has not called {self._calling().to} yet, or not again"

    async def _end_if_idle(self, pilot: Pilot) -> None:
        idle_s = self._cluster.clock.now() - self._used_at
        if self._is_heard and not self._held and idle_s > self._use.idle_s and pilot.leaving is None:
            pilot.leaving = f"it had nothing to do for {self._use.idle_s:g} s"
            await super().release()

    async def _close_older(self) -> None:
        """A controller that was killed between two pilots may have left one that nobody wants."""
        while self._older:
            name = self._older[0]
            await self._cluster.rest.stop(name)
            self._outbox.post(Closed(node=self.name, token=name, why="another pilot has taken its place"))
            self._older.pop(0)

    async def _stop(self, pilot: Pilot, why: str) -> None:
        pilot.leaving = why
        try:
            await self._cluster.rest.stop(pilot.id)
        except (RayDown, RayRefused) as error:
            raise LinkLost(f"{pilot.id} cannot be stopped: {error}") from error

    # --- small things ---------------------------------------------------------------------------------------------

    def _want(self, attempts: Sequence[str]) -> None:
        self._used_at = self._cluster.clock.now()
        if self._channel is None:
            self._waiting.update(attempts)
        self._wanted.set()

    def _let_go_of(self, *names: str) -> None:
        self._held.difference_update(names)
        self._used_at = self._cluster.clock.now()

    def _tell(self, what: str) -> None:
        if what != self._troubled:
            self._troubled = what
            self._outbox.post(Trouble(where=f"node {self.name}", what=what))

    def _admit(self, pilot: str) -> None:
        self._switchboard.admit(self.name, self._token(pilot), self._redeem)

    def _token(self, pilot: str) -> str:
        """What a pilot proves by that it is that one: worth nothing for another one, nor after its end."""
        return self._made("pilot", pilot)

    def _made(self, what: str, pilot: str) -> str:
        return hmac.new(self._secret, f"{what} {pilot}".encode(), hashlib.sha256).hexdigest()


def _open_ticket(pilot: Pilot) -> None:
    if pilot.ticket is None:
        pilot.ticket = True


async def _first(*works: Coroutine[Any, Any, None]) -> None:
    """Until one of them ends, as that does."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _new_id(node: str) -> str:
    return f"hostler-{node}-{uuid4().hex[:12]}"
