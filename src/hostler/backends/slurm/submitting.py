"""From orders to batches: what comes together and asks for the same is asked of the cluster at once.

A batch is in the journal, under a token that it can be found by again, before anything is submitted. Where the answer
of a submission does not come, the job is looked for by that token before it is tried again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from hostler.backends import wire
from hostler.backends.base import Facts
from hostler.backends.channel import encoded, greeting
from hostler.backends.outbox import Outbox
from hostler.backends.slurm.attending import FIRST
from hostler.backends.slurm.berths import Batch, Berth, Holdings
from hostler.backends.slurm.cancelling import bar
from hostler.backends.slurm.cluster import Cluster
from hostler.backends.slurm.errors import SlurmDown, SlurmRefused
from hostler.backends.slurm.terms import Terms
from hostler.model.batch import Ask
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.errors import FilesError, LinkError, SpecError
from hostler.model.inputs import Closed, Ended, Input, Requested, Returned, Submitted, Trouble, WorkerRefused
from hostler.model.pools import Mode
from hostler.model.record import entity

GATHER_S = 0.25
"""How long orders are waited for that may go with the first: what is decided together comes within that."""
PATIENCE_S, GLANCE_S = 15.0, 0.5
"""How long tasks of arrays are gathered while earlier ones wait in the cluster's queue, and how often that is seen to:
those begin first in any case, and every submission is a burden to the cluster."""
RESTS_S = (1.0, 5.0, 15.0, 60.0)
UNWANTED = "nothing of it was wanted any more"


@entity
class Wish:
    """What is to be begun behind one slot, in an allocation of its own."""

    slot: str
    mode: Mode
    ask: Ask
    attempt: AttemptOrder | None = None
    worker: WorkerOrder | None = None
    chunks: tuple[ChunkOrder, ...] = ()


Start = Callable[[Coroutine[Any, Any, None]], None]
"""Have something go on in the background, for as long as the link lasts."""


class Submitter:
    """Gathers the wishes of one pool and submits them."""

    def __init__(
        self,
        name: str,
        controller: str,
        epoch: int,
        cluster: Cluster,
        outbox: Outbox,
        holdings: Holdings,
        terms: Terms,
        limits: wire.Limits,
        start: Start,
    ) -> None:
        self._name = name
        self._greeting = greeting(controller, epoch)
        self._cluster = cluster
        self._outbox = outbox
        self._holdings = holdings
        self._terms = terms
        self._limits = limits
        self._start = start
        self._wishes: list[Wish] = []
        self._gathering: set[Mode] = set()

    def ask_for(self, wish: Wish) -> None:
        """Have an allocation asked for, together with others that come now."""
        self._wishes.append(wish)
        if wish.mode not in self._gathering:
            self._gathering.add(wish.mode)
            self._start(self._gather(wish.mode))

    def renew(self, terms: Terms) -> None:
        """What is asked for from now on is asked for on these."""
        self._terms = terms

    def wished_for(self, slot: str) -> Wish | None:
        """What has been gathered for a slot and may still be added to."""
        return next((wish for wish in self._wishes if wish.slot == slot and wish.worker is not None), None)

    def knows(self, name: str) -> bool:
        """Whether an attempt or a chunk is among what has been gathered."""
        return any(
            (wish.attempt is not None and wish.attempt.id == name) or any(chunk.id == name for chunk in wish.chunks)
            for wish in self._wishes
        )

    def trim(self, chunk: str, stop: int) -> None:
        """Let a chunk that has been gathered end there."""
        for wish in self._wishes:
            wish.chunks = tuple(
                replace(each, stop=min(each.stop, stop)) if each.id == chunk else each for each in wish.chunks
            )

    def drop(self, attempts: Iterable[str], chunks: Iterable[str]) -> set[str]:
        """Forget wishes that are not wanted any more; those of these that were there."""
        gone = {*attempts, *chunks}
        dropped: set[str] = set()
        for wish in self._wishes:
            if wish.attempt is not None and wish.attempt.id in gone:
                dropped.add(wish.attempt.id)
            dropped |= {chunk.id for chunk in wish.chunks if chunk.id in gone}
            wish.chunks = tuple(chunk for chunk in wish.chunks if chunk.id not in gone)
        self._wishes = [
            wish for wish in self._wishes if wish.chunks or (wish.attempt is not None and wish.attempt.id not in gone)
        ]
        return dropped

    async def _gather(self, mode: Mode) -> None:
        clock = self._cluster.clock
        await clock.sleep(GATHER_S)
        until = clock.now() + PATIENCE_S
        while mode == "array" and self._holdings.waits() and clock.now() < until:
            await clock.sleep(GLANCE_S)
        most = 1 if mode == "job" else await self._cluster.array_max()
        self._gathering.remove(mode)
        wishes = [wish for wish in self._wishes if wish.mode == mode]
        self._wishes = [wish for wish in self._wishes if wish.mode != mode]
        for alike in _alike(wishes, most):
            self._request(alike)

    def _request(self, wishes: Sequence[Wish]) -> None:
        """Have the batch noted in the journal, then submit it."""
        first, ask = wishes[0], _together([wish.ask for wish in wishes])
        token = self._token()
        berths = [_berth(token, number, wish) for number, wish in enumerate(wishes)]
        try:
            wants, time = self._terms.in_words(ask, first.mode), self._terms.time(ask, first.mode)
        except SpecError as error:
            self._outbox.post(*_refusals(berths, str(error), self._cluster.clock.now()))
            return
        batch = Batch(
            token=token,
            mode=first.mode,
            ask=ask,
            wants=wants,
            berths=berths,
            time=time,
            requested_at=self._cluster.clock.now(),
            stays=first.mode == "pilot" or first.worker is not None,
        )
        self._holdings.add(batch)
        self._outbox.post(self._asked(batch), then=lambda: self._start(self._submit(batch, wishes)))

    def _token(self) -> str:
        return f"hostler-{self._name}-{uuid4().hex[:12]}"

    def _asked(self, batch: Batch) -> Requested:
        return Requested(
            node=self._name,
            token=batch.token,
            mode=batch.mode,
            tasks=batch.tasks(),
            wants=batch.wants,
            time=batch.time,
        )

    async def _submit(self, batch: Batch, wishes: Sequence[Wish]) -> None:
        """Until the cluster has taken or refused it; a lost link ends this, and what is done then is another's.

        What is too much at a time is submitted in parts: while the first has to wait, the others are not tried.
        """
        left, tries, said = [(batch, wishes)], 0, ""
        while left:
            batch, wishes = left[0]
            try:
                await self._try(batch, wishes)
            except SlurmRefused as error:
                if error.fewer and len(batch.berths) > 1 and not batch.doubtful:
                    left[:1] = await self._halves(batch, wishes, str(error))
                    continue
                if error.later:
                    said = self._tell(batch, error, said, stuck=True)
                else:
                    self._refused(batch, str(error))
            except (SlurmDown, FilesError) as error:
                # A full shared folder is no fault of the work: it waits until there is room.
                batch.doubtful = batch.doubtful or (isinstance(error, SlurmDown) and error.unknown)
                said = self._tell(batch, error, said, stuck=False)
            except LinkError:
                return
            if batch.job is None and batch.token in self._holdings.batches:
                await self._rest(RESTS_S[min(tries, len(RESTS_S) - 1)], [each for each, _ in left])
                tries += 1
            else:
                left, tries = left[1:], 0
            left = [each for each in left if self._is_wanted(each[0])]

    async def _rest(self, seconds: float, left: Sequence[Batch]) -> None:
        """Wait, unless the first of these has begun, or one is not wanted any more."""
        clock = self._cluster.clock
        until = clock.now() + seconds
        while (rest := until - clock.now()) > 0 and left[0].job is None and not any(map(_is_idle, left)):
            await clock.sleep(min(rest, GLANCE_S))

    async def _try(self, batch: Batch, wishes: Sequence[Wish]) -> None:
        """Once. It may have begun since the last time, and said so."""
        job = batch.job or await self._submitted(batch, wishes)
        if job is None:
            self._drop(batch, UNWANTED)
        else:
            self.taken(batch, job)

    def _is_wanted(self, batch: Batch) -> bool:
        """Whether anything of it is; what is not, and is not there, is over."""
        if _is_idle(batch):
            self._drop(batch, UNWANTED)
            return False
        return True

    def _tell(self, batch: Batch, error: Exception, before: str, *, stuck: bool) -> str:
        """Say why it is not submitted yet: with its slots, and once in the journal."""
        said = str(error)
        _note(batch, said, stuck=stuck)
        if said != before:
            words = f"{batch.token} cannot be submitted: {said}; it is tried again"
            self._outbox.post(Trouble(where=f"node {self._name}", what=words))
        return said

    async def _halves(self, batch: Batch, wishes: Sequence[Wish], why: str) -> list[tuple[Batch, Sequence[Wish]]]:
        """Have two batches take the place of one in the journal. That one was refused, so nothing of it is there."""
        _note(batch, why, stuck=True)
        kept = [each for each in zip(batch.berths, wishes, strict=True) if not each[0].over and not each[0].unwanted]
        middle = (len(kept) + 1) // 2
        halves = [some for some in (kept[:middle], kept[middle:]) if some]
        if not halves:
            self._drop(batch, UNWANTED)
            return []
        parts = [_part_of(self._token(), batch, [berth for berth, _ in some]) for some in halves]
        for berth in batch.berths:
            berth.over = berth.over or berth.unwanted is not None
        self._holdings.remove(batch)
        for part in parts:
            self._holdings.add(part)
        noted = asyncio.Event()
        closed = Closed(node=self._name, token=batch.token, why=f"it is submitted in parts: {why}")
        self._outbox.post(closed, *map(self._asked, parts), then=noted.set)
        self._start(self._unwatch(batch.token))
        await noted.wait()
        return [(part, [wish for _, wish in some]) for part, some in zip(parts, halves, strict=True)]

    async def settle(self, within_s: float) -> None:
        """Wait, for so long at most, until the cluster has told what it calls everything that is not wanted."""
        clock = self._cluster.clock
        until = clock.now() + within_s
        while clock.now() < until and any(
            batch.job is None and berth.unwanted is not None for batch, berth in self._holdings.berths()
        ):
            await clock.sleep(GLANCE_S)

    def taken(self, batch: Batch, job: str) -> None:
        """The cluster has it; that may be heard in more than one way."""
        if batch.job is not None:
            return
        batch.job, batch.taken_at = job, self._cluster.clock.now()
        for berth in batch.berths:
            if berth.run is None:
                berth.says, berth.stuck = "it has been submitted", False
        # Nobody hurries: that it begins, and how it ends, it tells by itself.
        self._outbox.post(Submitted(node=self._name, token=batch.token, job=job))

    async def _submitted(self, batch: Batch, wishes: Sequence[Wish]) -> str | None:
        """What the cluster calls it; `None`: it was not submitted, for nobody wants it any more."""
        desk, slurm = self._cluster.desk, self._cluster.slurm
        if batch.doubtful:
            if found := await slurm.find(batch.token, batch.requested_at):
                return found[0]
            batch.doubtful = False
        if batch.job is not None:
            return batch.job  # it has begun meanwhile, and said so
        if batch.unwanted:
            return None
        if not batch.prepared:
            await desk.prepare(batch.token, self._files(batch, wishes))
            await desk.watch([batch.token])
            batch.prepared = True
            if batch.unwanted:
                return None
        # Tasks of an array that were stopped since its folder was written.
        await bar(desk, [(batch, berth) for berth in batch.berths if berth.unwanted is not None])
        script = f"{desk.hello['root']}/jobs/{batch.token}/script.sh"
        assert batch.ask is not None
        options = self._terms.options(batch.ask, batch.mode, batch.token, len(batch.berths), desk.hello["root"])
        return await slurm.submit(options, script)

    def _files(self, batch: Batch, wishes: Sequence[Wish]) -> dict[str, str]:
        root = str(self._cluster.desk.hello["root"])
        intent = {"token": batch.token, "node": self._name, "mode": batch.mode, "wants": batch.wants}
        tasks = [{"slot": each.slot, "attempts": list(each.orders)} for each in batch.berths]
        told = enumerate(zip(batch.berths, wishes, strict=True))
        first = {f"{number}/{FIRST}.in": self._first_words(berth, wish) for number, (berth, wish) in told}
        return {
            "script.sh": self._terms.script(root, batch.token, batch.mode, stays=batch.stays),
            "intent.json": json.dumps({**intent, "tasks": tasks}, indent=1) + "\n",
            **first,
        }

    def _first_words(self, berth: Berth, wish: Wish) -> str:
        """What an agent is told before anybody can talk with it; of what is wanted still."""
        requests: list[Facts] = [self._greeting]
        if wish.attempt is not None and wish.attempt.id in berth.orders and wish.attempt.id not in berth.stops:
            launches, refused = wire.launches([wish.attempt], self._limits)
            requests += launches
            self._outbox.post(*refused)
        if wish.worker is not None:
            chunks = [chunk for chunk in wish.chunks if chunk.id in berth.chunks and chunk.id not in berth.stops]
            requests += [wire.opening(wish.worker, self._limits), wire.queueing(wish.worker, chunks)]
        return b"".join(map(encoded, requests)).decode()

    def _refused(self, batch: Batch, why: str) -> None:
        """It can never be submitted so."""
        self._outbox.post(*_refusals(batch.berths, why, self._cluster.clock.now()))
        self._drop(batch, why)

    def _drop(self, batch: Batch, why: str) -> None:
        """It is not submitted."""
        for berth in batch.berths:
            berth.over = True
        self._holdings.remove(batch)
        self._outbox.post(Closed(node=self._name, token=batch.token, why=why))
        self._start(self._unwatch(batch.token))

    async def _unwatch(self, token: str) -> None:
        with suppress(LinkError, FilesError):  # who has gone watches nothing
            await self._cluster.desk.unwatch([token])


def _refusals(berths: Sequence[Berth], why: str, now: float) -> list[Input]:
    """What becomes of what no allocation can be had for, also of what was put there since it was asked for."""
    attempts = [name for berth in berths for name in berth.orders]
    workers = {name for berth in berths for name in berth.workers if berth.chunks}
    return [
        *(Ended(attempt=name, ended_at=now, reason="spawn", error=why) for name in attempts),
        *(WorkerRefused(worker=name, error=f"no allocation can be had for it: {why}") for name in sorted(workers)),
        *(Returned(chunk=name, reason="worker_start", error=why) for berth in berths for name in berth.chunks),
    ]


def _alike(wishes: Sequence[Wish], most: int) -> Iterator[Sequence[Wish]]:
    """Wishes that go together, at most so many."""
    groups: dict[tuple[Any, ...], list[Wish]] = {}
    for wish in wishes:
        # How long they take differs; the array is given the longest.
        key = wish.mode, replace(wish.ask, expected_s=None), wish.worker is None
        groups.setdefault(key, []).append(wish)
    for group in groups.values():
        for start in range(0, len(group), most):
            yield group[start : start + most]


def _together(asks: Sequence[Ask]) -> Ask:
    """What does for each of them; where nobody knows of one how long it takes, nobody knows of all."""
    known = [ask.expected_s for ask in asks if ask.expected_s is not None]
    return replace(asks[0], expected_s=max(known) if len(known) == len(asks) else None)


def _is_idle(batch: Batch) -> bool:
    """Whether nobody wants anything of it, and it is certain that it was not submitted."""
    return batch.job is None and batch.unwanted and not batch.doubtful


def _note(batch: Batch, why: str, *, stuck: bool) -> None:
    """Have it shown with its slots why it is not submitted yet."""
    for berth in batch.berths:
        if berth.run is None:
            berth.says, berth.stuck = f"it is not submitted yet: {why}", stuck


def _part_of(token: str, batch: Batch, berths: Sequence[Berth]) -> Batch:
    """Some tasks of a batch that was not submitted, with all that was put there since, as a batch of their own."""
    for number, berth in enumerate(berths):
        berth.token, berth.task, berth.barred = token, number, False
    return replace(batch, token=token, berths=list(berths), prepared=False, names=set())


def _berth(token: str, number: int, wish: Wish) -> Berth:
    berth = Berth(token=token, task=number, slot=wish.slot)
    if wish.attempt is not None:
        berth.orders[wish.attempt.id] = wish.attempt
    if wish.worker is not None:
        berth.workers[wish.worker.id] = wish.worker
        berth.chunks.update({chunk.id: (wish.worker.id, chunk) for chunk in wish.chunks})
    return berth
