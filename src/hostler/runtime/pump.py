"""The heart: inputs in, through the core, into the journal, and only then commands out and answers back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hostler.core import Core, Outcome
from hostler.core.slices import SLICE, Slices
from hostler.core.views import job_view
from hostler.model.commands import Command
from hostler.model.errors import HostlerError, StoreFull
from hostler.model.events import (
    AttemptEnded,
    AttemptLaunching,
    AttemptLeased,
    ChunkDone,
    ChunkLeased,
    ChunkReturned,
    ChunkShortened,
    ChunkTaken,
    Entry,
    Event,
    subject,
)
from hostler.model.inputs import Asked, Input, Knowing, Submit, SubmitGroup, Tick
from hostler.model.record import record
from hostler.model.views import JobView
from hostler.runtime.clock import Clock
from hostler.runtime.slicing import in_slices
from hostler.runtime.writer import Writer
from hostler.store import Batch

MOST_AT_ONCE = 500
"""Once a step has so many inputs, of which new jobs count one by one, the rest waits for the next: more would let a GET
wait for too long, and the journal, which writes the step before meanwhile. What was given together stays together."""
MOST_UNWRITTEN = 2
"""Batches that may be on their way to the journal while the core goes on; while it waits, the next one grows."""
PATIENCE_S = 10.0
"""How long somebody who asked for something waits for it to be durable."""
JOBS_PER_S = 500
"""A submission is waited for so much longer: its jobs are taken in slices, between which others have their turn."""

UNPROJECTED: frozenset[type] = frozenset(
    {AttemptLeased, AttemptLaunching, AttemptEnded, ChunkLeased, ChunkDone, ChunkShortened, ChunkTaken, ChunkReturned}
)
"""Events that pass too quickly to be worth a row of the `jobs` table each; the next one brings it up to date."""


@record
class Delivery:
    """Inputs, and who wants to hear that what followed from them is durable (or why it never will be)."""

    inputs: Sequence[Input]
    done: Callable[[Sequence[Any]], None] | None


class Pump:
    """Serialises the world. `execute` gets the commands and `publish` the entries of each step, once durable."""

    def __init__(
        self,
        core: Core,
        writer: Writer,
        clock: Clock,
        execute: Callable[[Sequence[Command]], None],
        publish: Callable[[Sequence[Entry]], None],
    ) -> None:
        self._core = core
        self._writer = writer
        self._clock = clock
        self._execute = execute
        self._publish = publish
        self._inbox: list[Delivery] = []
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(MOST_UNWRITTEN)
        self._timer: asyncio.TimerHandle | None = None
        self._unwritten: deque[list[asyncio.Future[None]]] = deque()
        """For each step that the journal does not have yet, the waits for it."""

    def post(self, *inputs: Input, done: Callable[[Sequence[Any]], None] | None = None) -> None:
        """Give inputs; `done` is called with their answers when what followed is durable."""
        self._inbox.append(Delivery(inputs=inputs, done=done))
        self._wake.set()

    async def tell(self, *inputs: Input, patient: bool = False) -> Sequence[Any]:
        """Give inputs and wait until what followed is durable; returns their answers.

        Raises `StoreFull` if the journal cannot be written in time: the inputs are taken, and will be written as soon
        as it can be. `patient`: it is waited for however long that takes.
        """
        answers: asyncio.Future[Sequence[Any]] = asyncio.get_running_loop().create_future()
        self.post(*inputs, done=lambda given: None if answers.done() else answers.set_result(given))
        patience_s = PATIENCE_S + sum(map(_weight, inputs)) // JOBS_PER_S
        try:
            async with asyncio.timeout(None if patient else patience_s):
                return await answers
        except TimeoutError as error:
            raise StoreFull(
                f"the journal could not be written within {patience_s:g} s{self._why()}; the request is kept and will "
                "take effect once it can be. Asking again under the same key is harmless"
            ) from error

    async def written(self) -> None:
        """Wait until the journal has all that the state shows now.

        Raises `StoreFull` if it cannot be written in time.
        """
        if not self._unwritten:
            return
        wait = asyncio.get_running_loop().create_future()
        self._unwritten[-1].append(wait)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await wait
        except TimeoutError as error:
            raise StoreFull(
                f"the journal could not be written within {PATIENCE_S:g} s{self._why()}, so it lacks the newest "
                "events. Ask again once it can be"
            ) from error

    def _why(self) -> str:
        """What keeps the journal from being written, as its writer knows it."""
        trouble = self._writer.trouble
        return f" ({trouble})" if trouble is not None else "; its database or disk does not answer"

    async def run(self) -> None:
        """Pump until cancelled. An error of the core ends it: a state that contradicts itself must not go on."""
        while True:
            await self._wake.wait()
            await self._slots.acquire()
            deliveries = self._collect()
            inputs = [each for delivery in deliveries for each in delivery.inputs]
            self._unwritten.append([])
            outcome = await in_slices(self._core.handled(self._clock.now(), *inputs))
            jobs = await in_slices(self._projected(outcome.entries))
            self._write(outcome, jobs, deliveries)
            self._set_timer()

    def _collect(self) -> Sequence[Delivery]:
        count = taken = 0
        while count < len(self._inbox) and taken < MOST_AT_ONCE:
            taken += sum(map(_weight, self._inbox[count].inputs))
            count += 1
        deliveries, self._inbox = self._inbox[:count], self._inbox[count:]
        if not self._inbox:
            self._wake.clear()
        return deliveries

    def _write(self, outcome: Outcome, jobs: Sequence[JobView], deliveries: Sequence[Delivery]) -> None:
        loop = asyncio.get_running_loop()
        batch = Batch(entries=outcome.entries, jobs=jobs, left=outcome.left, hours=outcome.hours)

        def durable() -> None:
            loop.call_soon_threadsafe(self._durable, outcome, deliveries)

        self._writer.write(batch, durable)

    def _durable(self, outcome: Outcome, deliveries: Sequence[Delivery]) -> None:
        self._slots.release()
        for wait in self._unwritten.popleft():
            if not wait.done():
                wait.set_result(None)
        if outcome.entries:
            self._publish(outcome.entries)
        if outcome.commands:
            self._execute(outcome.commands)
        answers = iter(outcome.answers)
        for delivery in deliveries:
            own = [next(answers) for _ in delivery.inputs]
            if delivery.done is not None:
                delivery.done(own)

    def _projected(self, entries: Iterable[Entry]) -> Slices[Sequence[JobView]]:
        state = self._core.state
        views: dict[str, JobView] = {}
        for at, entry in enumerate(entries, 1):
            if at % SLICE == 0:
                yield
            name = subject(entry.event) if _projects(entry.event) else None
            if name is not None and name in state.jobs and name not in views:
                views[name] = job_view(state, state.jobs[name])
        return list(views.values())

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._core.wake_at()
        if due is not None:
            delay = max(due - self._clock.now(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self.post, Tick())


def refused(answers: Sequence[Any]) -> HostlerError | None:
    """The first refusal among answers."""
    return next((answer for answer in answers if isinstance(answer, HostlerError)), None)


def _weight(given: Input) -> int:
    if isinstance(given, Asked | Knowing):
        return _weight(given.given)
    if isinstance(given, SubmitGroup):
        return len(given.jobs)
    return len(given.specs) if isinstance(given, Submit) else 1


def _projects(event: Event) -> bool:
    return type(event) not in UNPROJECTED
