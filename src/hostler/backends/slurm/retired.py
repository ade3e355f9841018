"""A partition that was taken out of the fleet file while it had work: what runs there is awaited, nothing else stays.

It is reached through another partition of its cluster. That this is its cluster is proven by the folders of its
batches: of work that is not there, nobody may say that it is lost.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace

from hostler.backends.base import Report
from hostler.backends.slurm.apart import ApartPool
from hostler.backends.slurm.berths import Place
from hostler.backends.slurm.cluster import Look
from hostler.backends.slurm.pool import SlurmPool
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.errors import FilesError, LinkLost, LinkRefused
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Ended, Input, Returned, Trouble, WorkerRefused

NAMED_MOST = 5


def left_there(node: str, jobs: Iterable[tuple[str, str | None]]) -> str:
    """What may be in the queue of a cluster still, by tokens and by what it calls them, and what helps."""
    known = list(jobs)
    named = ", ".join(f"job {job or '?'} (`scancel -n {token}`)" for token, job in known[:NAMED_MOST])
    more = f" and {len(known) - NAMED_MOST} more" if len(known) > NAMED_MOST else ""
    return (
        f"{node} was taken out of the fleet file, and its cluster may have jobs of it still: {named}{more}; put it "
        "back, and they are taken care of, or cancel them there"
    )


class RetiredPool(SlurmPool):
    """`SlurmPool` that is given nothing more. `terms` of its options are what was known of the node."""

    agent: str | None = None
    """The folder of the cluster that its work is in, as far as that is known."""

    _strange: str | None = None
    """What is in another cluster than this; `None`: nothing, as far as is known."""
    _unheard: tuple[Input, ...] = ()
    """What will be said of what is not wanted any more, if nobody can be asked for it."""

    async def probe(self) -> NodeSpec:
        """The node, without any devices. Raises `LinkLost`, and `LinkRefused` where its work is in another cluster."""
        strange = self.agent not in (None, str(self._cluster.desk.hello["root"])) or not await self._is_here()
        left = left_there(self.name, ((token, batch.job) for token, batch in self._holdings.batches.items()))
        before, self._strange = self._strange, left if strange else None
        if self._strange is not None:
            self._unheard += () if before == left else (Trouble(where=f"node {self.name}", what=left),)
            raise LinkRefused(left)
        return replace(self._spec, devices=())

    async def observe(self, epoch: int) -> AsyncGenerator[Report, None]:
        """Find again what was asked for, let what runs end, and take the rest back.

        Of what is in another cluster, that is given up which is not wanted any more: nobody will ever hear how it ends.
        """
        async with aclosing(super().observe(epoch)) as reports:
            try:
                first = await anext(reports)
            except LinkRefused:
                if self._strange is not None and self._unheard:
                    given_up, self._unheard = self._unheard, ()
                    yield Report(inputs=given_up)
                raise
            self._unheard = ()  # the core says anew what is not wanted
            yield first
            for _, berth in self._holdings.berths():
                if berth.is_up:
                    self._say(berth, {"type": "shutdown", "when": "idle"})
            self._take_back()
            async for report in reports:
                yield report

    async def stop(self, attempts: Sequence[str], reason: str) -> None:
        """Have attempts ended; where nobody can be asked for it, they are given up if that stays so."""
        if self._follower is not None:
            await super().stop(attempts, reason)
            return
        now, why = self._cluster.clock.now(), self._why()
        self._unheard += tuple(Ended(attempt=each, ended_at=now, reason="unknown", error=why) for each in attempts)

    async def recall(self, chunks: Sequence[str], reason: str) -> None:
        """Ask for chunks back, in the same way."""
        if self._follower is not None:
            await super().recall(chunks, reason)
            return
        self._unheard += tuple(Returned(chunk=each, reason="recalled", error=reason) for each in chunks)

    async def lend(self, worker: WorkerOrder, chunks: Sequence[ChunkOrder]) -> Sequence[WorkerRefused]:
        """What runs there runs on, and is heard again; the others come back: nothing is begun here.

        Of one that nobody has seen there, the agent itself says whether it has it: it is asked to give it back.
        """
        seen, unseen = dict[str, int](), list[str]()
        for chunk in chunks:
            place = self._place_of(chunk.id, worker.queue)
            if place is None:
                self._outbox.post(Returned(chunk=chunk.id, reason="recalled", error=self._why()))
                continue
            batch, berth = place
            there = berth.found.get(chunk.id)
            if there is not False:  # else it has just come back
                berth.workers[worker.id], berth.chunks[chunk.id] = worker, (worker.id, chunk)
                self._holdings.note(batch, berth, [chunk.id])
            if there is None:
                unseen.append(chunk.id)
            else:
                seen[chunk.id] = chunk.stop
        await self.trim(seen)
        await self.recall(unseen, self._why())
        return ()

    def looked(self, look: Look) -> None:
        """The queue was looked at; what waits there to begin anew is not wanted either."""
        super().looked(look)
        if self._hears and not self._outbox.ended:
            self._take_back()

    async def _is_here(self) -> bool:
        """Whether its work is in this cluster: what has no folder, no job and no place in the queue is nowhere."""
        held = self._holdings.batches
        if not held or await self._is_there(held):
            return True
        if any(batch.job is not None for batch in held.values()):
            return False
        return not held.keys() & (await self._queued()).keys()

    async def _is_there(self, tokens: Iterable[str]) -> bool:
        try:
            for token in tokens:
                if await self._cluster.desk.probe(f"jobs/{token}/intent.json") is not None:
                    return True
        except FilesError as error:
            raise LinkLost(f"it cannot be told whether the work of {self.name} is there: {error}") from error
        return False

    def _place_of(self, chunk: str, slot: str) -> Place | None:
        """The allocation that has a chunk, or may have it."""
        up = [(batch, berth) for batch, berth in self._holdings.berths() if batch.stays and berth.is_up]
        found = [place for place in up if chunk in place[1].found]
        return next(iter(found or [place for place in reversed(up) if place[1].slot == slot]), None)

    def _take_back(self) -> None:
        """What has not begun never will."""
        idle: list[Place] = []
        for batch, berth in list(self._holdings.berths()):
            if berth.waits and berth.unwanted is None:
                idle += [place for attempt in list(berth.orders) for place in self._stop(attempt, self._why())]
                idle += self._following.let_go(batch, berth)
        if idle:
            self._start(self._following.cancel(idle))

    def _place(self, order: AttemptOrder) -> None:
        now = self._cluster.clock.now()
        self._outbox.post(Ended(attempt=order.id, ended_at=now, reason="stopped", error=self._why()))

    def _why(self) -> str:
        return f"{self.name} was taken out of the fleet file"


class RetiredApartPool(RetiredPool, ApartPool):
    """The same elsewhere."""
