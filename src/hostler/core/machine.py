"""The state machine with its one door."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from typing import Any

from hostler.core import (
    accounts,
    decide,
    draining,
    foreign_use,
    intake,
    orders,
    past,
    planning,
    reclaiming,
    requests,
    sweeping,
)
from hostler.core.alerting import decide as alerting
from hostler.core.apply import apply
from hostler.core.care.decide import review
from hostler.core.index import Index
from hostler.core.invariants import Audit, validate
from hostler.core.loop.decide import populate
from hostler.core.rebuilding import rebuilt
from hostler.core.slices import Slices, finished
from hostler.core.state import State
from hostler.core.trust import canary, decide as trust
from hostler.model.codec import legible
from hostler.model.commands import Command, ReadDevices
from hostler.model.errors import CorruptState, EventRefused, HostlerError, IllegalTransition, UsageError
from hostler.model.events import Entry, Event, JobsLeft, JobSubmitted, TroubleRecorded, subject
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import (
    Asked,
    Input,
    Knowing,
    LinkUp,
    PoolSeen,
    Reported,
    RlTelemetry,
    Submit,
    SubmitGroup,
    Telemetry,
    Wish,
)
from hostler.model.past import PastJob
from hostler.model.readback import readback_fault
from hostler.model.record import record
from hostler.model.texts import nul_fault
from hostler.model.usage import HourRow

PASSES_MOST = 5
"""How often devices that came free while others were given away are looked at again, in one step."""
READ_BACK_BEFORE = (JobSubmitted,)
"""Events of which everything from outside was read back before, one job at a time (`submission`)."""
READ_BACK_WHOLE = (LinkUp, Telemetry, RlTelemetry, PoolSeen)
"""Inputs that are read back before anything follows from them: of the first several events, of the others decisions."""
SHOWN = 300
"""Characters of what is wrong with an event, in the record of it."""
STORY_LENGTH = 1000
"""Newest entries kept for the message of an illegal transition."""


@record
class Outcome:
    """What came of some inputs: facts for the journal, what to do once they are in it, and an answer for each input.

    An answer is a `HostlerError` where the input was refused; such an input has left no entry.
    """

    entries: Sequence[Entry]
    commands: Sequence[Command]
    answers: Sequence[Any]
    left: Sequence[PastJob] = ()
    """Jobs that have left the state, to be written with the entries."""
    hours: Sequence[HourRow] = ()
    """How devices were used in hours that are over now, to be written with them, too."""


class Core:
    """Everything Hostler decides, without clock, I/O, randomness or `await`.

    `handle` is the one door for the living world, `replay` the one for the journal. `state` and `index` are for
    reading; their parts hang together, and changing one by hand breaks the others. Whoever gives a state may give the
    `last` entry of it, too.
    """

    def __init__(self, state: State | None = None, last: Entry | None = None) -> None:
        self.state = State() if state is None else state
        self.index: Index = rebuilt(self.state)
        accounts.recount(self.state, self.index)
        self._clock: float | None = None
        self._ahead_s = 0.0
        self._recent: deque[Entry] = deque([] if last is None else [last], maxlen=STORY_LENGTH)
        self._audit = Audit()

    @property
    def last(self) -> Entry | None:
        """The newest entry of the state; `None`: there is none yet, or it was not given with the state."""
        return self._recent[-1] if self._recent else None

    def handle(self, now: float, *inputs: Input) -> Outcome:
        """Take inputs in order at `now` (Unix seconds), then decide once what follows from all of them.

        Time never goes back, and never stands still: where the clock was set back (between two calls, or between two
        lives of the controller), the core's time goes on from the newest event at the clock's pace.
        """
        return finished(self.handled(now, *inputs))

    def handled(self, now: float, *inputs: Input) -> Slices[Outcome]:
        """The same in slices: it pauses within a large submission, and returns the outcome.

        Between two pauses the state is that of a prefix of the entries, and may be read. Until the end nothing else may
        be handled.
        """
        entries: list[Entry] = []
        commands: list[Command] = []
        left: list[PastJob] = []
        self.index.wake(self.state, self._time(now))

        def emit(event: Event) -> None:
            if not isinstance(event, READ_BACK_BEFORE):
                _expect_readable(event, event.kind)
            entry = Entry(seq=self.state.seq + 1, at=self.index.now, event=event)
            if isinstance(event, JobsLeft):
                left.extend(past.dumped(self.state, self.state.jobs[name]) for name in event.jobs)
            self._apply(entry)
            entries.append(entry)
            commands.extend(orders.commands(self.state, self.index, event))

        answers = []
        for given in inputs:
            answers.append((yield from self._take(given, emit)))
        try:
            self._decide(emit)
        except EventRefused as refusal:
            raise CorruptState(f"a decision cannot be written: {refusal}. This is a defect of Hostler") from refusal
        commands.extend(orders.prove(self.state, device) for device in canary.due(self.state, self.index))
        commands.extend(ReadDevices(node=name) for name in foreign_use.due(self.state, self.index))
        question = planning.due(self.state, self.index)
        if question is not None:
            commands.append(question)
        wanted = [each for each in commands if orders.still_wanted(self.state, each)]
        hours, self.index.metered.rows = self.index.metered.rows, []
        return Outcome(entries=entries, commands=wanted, answers=answers, left=left, hours=hours)

    def replay(self, entries: Iterable[Entry]) -> None:
        """Fold journal entries into the state. Nothing is decided anew."""
        for entry in entries:
            self._apply(entry)
            self.index.metered.rows.clear()  # they were written beside the entry
        self.index.failing_groups.clear()  # the jobs of these were cancelled in the same step
        self.index.wake(self.state, self.state.at)

    def wake_at(self) -> float | None:
        """When, by the clock given to `handle`, something is due though nothing happens; it wants a `Tick` then."""
        due = self.index.next_timer()
        return None if due is None else reaching(due, self._ahead_s)

    def validate(self) -> None:
        """Assert every invariant; raises `BrokenInvariant` with what contradicts what."""
        validate(self.state, self.index)

    def audit(self) -> None:
        """The same, for whoever does it after every step: nothing is looked at again that only events could change."""
        self._audit.check(self.state, self.index)

    def _decide(self, emit: decide.Emit) -> None:
        """Queue what the loops need and place what waits; what was placed makes room in the queue for more."""
        requests.stop_failing_groups(self.state, self.index, emit)
        reclaiming.review(self.state, self.index, emit)
        draining.review(self.state, self.index, emit)
        review(self.state, self.index, emit)
        trust.review(self.state, self.index, emit)
        passes = 0
        while passes < PASSES_MOST or self.index.loops_due:
            populate(self.state, self.index, emit)
            decide.place_all(self.state, self.index, emit)
            passes += 1
            if self.index.draining or not (self.index.loops_due or self.index.fresh):
                break
        sweeping.share_tails(self.state, self.index, emit)
        alerting.review(self.state, self.index, emit)
        past.review(self.state, self.index, emit)

    def _time(self, now: float) -> float:
        before = self.index.now if self._clock is None else self._clock
        self._ahead_s += max(before - now, 0.0)
        self._clock = now
        return now + self._ahead_s

    def _take(self, given: Input, emit: decide.Emit) -> Slices[Any]:
        before = self.state.seq
        try:
            _expect_texts(given)
            told = given.given if isinstance(given, Reported) else given
            if isinstance(told, READ_BACK_WHOLE):
                _expect_readable(told, type(told).__name__)
            answer = intake.take(self.state, self.index, given, emit)
            return (yield from answer) if isinstance(answer, Generator) else answer
        except CorruptState:
            raise
        except EventRefused as refusal:
            if self.state.seq != before:  # half of an input would be a state that no input leads to
                raise CorruptState(f"{type(given).__name__} was applied in part: {refusal}") from refusal
            if not isinstance(given, Asked | Knowing | Wish):  # who asked is answered
                emit(legible(TroubleRecorded(where=_sender(given), what=str(refusal))))
            return refusal
        except HostlerError as refusal:
            return refusal

    def _apply(self, entry: Entry) -> None:
        self._recent.append(entry)
        try:
            apply(self.state, self.index, entry)
        except (KeyError, IllegalTransition) as error:
            raise IllegalTransition(f"{error}\n{self._story_of(entry.event)}") from error

    def _story_of(self, event: Event) -> str:
        return "\n".join(str(entry) for entry in story(self._recent, subject(event)))


def reaching(due: float, ahead_s: float) -> float:
    """The clock's time at which the core's is `due`: `due - ahead_s` may be rounded to just before it."""
    at = due - ahead_s
    while at + ahead_s < due:
        at = math.nextafter(at, math.inf)
    return at


def _expect_readable(value: Event | Input, what: str) -> None:
    """Raise `EventRefused` for a record that no journal could give back: it is neither applied nor written."""
    fault = readback_fault(value)
    if fault is not None:
        raise EventRefused(f"{what} was refused, it could not be read back from the journal: {fault[:SHOWN]}")


def _sender(given: Input) -> str:
    """Which node an input is of, for people; of others what kind of input it is."""
    node = getattr(given, "node", None)
    name = node.name if isinstance(node, NodeSpec) else node
    return f"node {name}" if isinstance(name, str) else type(given).__name__


def _expect_texts(given: Input) -> None:
    """Raise `UsageError` where a text of what somebody asks for has a NUL character. Nodes' texts are escaped later."""
    while isinstance(given, Asked | Knowing):
        given = given.given
    # Jobs are looked through one by one where they are admitted.
    fault = nul_fault(given) if isinstance(given, Wish) and not isinstance(given, Submit | SubmitGroup) else None
    if fault is not None:
        raise UsageError(f"the request was refused: {fault}")


def story(entries: Iterable[Entry], job: str | None) -> list[Entry]:
    """The entries that concern one job, in order."""
    return [entry for entry in entries if subject(entry.event) == job]
