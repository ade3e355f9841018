"""The core with a journal in memory, and a shell that can die between any two of its steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from hostler.core import Core
from hostler.core.snapshot import dump_state, load_state
from hostler.model.codec import dump_event, load_event
from hostler.model.commands import Command
from hostler.model.events import Entry
from hostler.model.inputs import Begin, Input, Tick
from hostler.model.past import PastJob
from hostler.model.record import record
from hostler.sim.agenda import Action, Agenda
from hostler.sim.past import PastShelf

COMMIT_S = 0.01
"""How long a step is under way to the journal."""

TICK_S = 0.001
"""The shortest sleep; a timer that rings a rounding error too early must not ring for ever at the same moment."""

ALL_EVERY = 500
"""Steps between two at which invariants are asserted of everything, whether or not it can have changed."""

SNAPSHOT_EVERY = 10_000
"""Entries that a start has to replay before a snapshot is made."""


@record
class Line:
    """A line of the journal: what a disk would hold of an entry."""

    seq: int
    at: float
    event: str


class VirtualController:
    """Takes inputs, writes what followed, and only then acts and answers. `skew_s` is how wrong its clock is.

    A `quick` one writes at once, and the entries themselves instead of their JSON.
    """

    def __init__(
        self,
        agenda: Agenda,
        random: Random,
        crash_at_commit: float,
        validate: bool,
        act: Callable[[Command], None],
        crashed: Action,
        quick: bool = False,
    ) -> None:
        self.core: Core | None = None
        self.journal: list[Line] | list[Entry] = []
        self.past = PastShelf()
        self.skew_s = 0.0
        self.life = 0
        self._agenda = agenda
        self._random = random
        self._crash_at_commit = crash_at_commit
        self._validate = validate
        self._act = act
        self._crashed = crashed
        self._quick = quick
        self._snapshot: bytes | None = None
        self._timer = 0
        self._steps = 0

    def start(self) -> None:
        """A new life: replay the journal, through JSON, and go on."""
        self.life += 1
        self.past.lost()
        self.core = self._recovered()
        self.take(Begin(version="sim", epoch=self.life))

    def die(self) -> None:
        """Everything that is not in the journal is gone, commands not yet executed with it."""
        self.core = None
        self.life += 1

    def take(self, *inputs: Input, done: Callable[[Sequence[Any]], None] | None = None) -> None:
        """Handle inputs, unless dead; `done` hears the answers when what followed is in the journal."""
        if self.core is None:
            return
        given = [self.past.knowing(self.core, each) for each in inputs]
        outcome = self.core.handle(self._agenda.now + self.skew_s, *given)
        self.past.leave(outcome.left)
        if self._validate:
            self._assert_invariants(self.core, changed=bool(outcome.entries))
        life = self.life
        written = outcome.entries if self._quick else [_line(each) for each in outcome.entries]

        def commit() -> None:
            if life == self.life:
                self._commit(written, outcome.left, outcome.commands, (lambda: done(outcome.answers)) if done else None)

        self._set_timer()
        if self._quick:
            commit()
        else:
            self._agenda.later(COMMIT_S, commit)

    def entries(self) -> list[Entry]:
        """Everything that was written, read again."""
        return list(map(_read, self.journal))

    def _recovered(self) -> Core:
        """From the newest snapshot on, as a controller is; of what had much to replay a new one is made."""
        core = Core() if self._snapshot is None else Core(load_state(self._snapshot))
        fresh = self.journal[core.state.seq :]
        core.replay(map(_read, fresh))
        if len(fresh) >= SNAPSHOT_EVERY:
            self._snapshot = dump_state(core.state)
        return core

    def _assert_invariants(self, core: Core, *, changed: bool) -> None:
        """After every step that became history what could have changed; everything now and then, whatever happened."""
        self._steps += 1
        if self._steps % ALL_EVERY == 0:
            core.validate()
        elif changed:
            core.audit()

    def _commit(
        self,
        written: Sequence[Line] | Sequence[Entry],
        left: Sequence[PastJob],
        commands: Sequence[Command],
        done: Action | None,
    ) -> None:
        dies, too_late = self._random.random() < self._crash_at_commit, self._random.random() < 0.5
        if not dies or too_late:
            self.journal.extend(written)  # type: ignore[arg-type]  # it is either all lines or all entries
            self.past.written(left)
        if dies:
            self._crashed()
            return
        for command in commands:
            self._act(command)
        if done is not None:
            done()

    def _set_timer(self) -> None:
        assert self.core is not None
        self._timer += 1
        due, own, life = self.core.wake_at(), self._timer, self.life
        if due is None:
            return
        delay_s = max(due - self._agenda.now - self.skew_s, TICK_S)
        self._agenda.later(delay_s, lambda: self.take(Tick()) if (own, life) == (self._timer, self.life) else None)


def replayed(journal: Sequence[Line] | Sequence[Entry]) -> Core:
    """A core made from the journal alone."""
    core = Core()
    core.replay(map(_read, journal))
    return core


def _line(entry: Entry) -> Line:
    return Line(seq=entry.seq, at=entry.at, event=dump_event(entry.event))


def _read(line: Line | Entry) -> Entry:
    return line if isinstance(line, Entry) else Entry(seq=line.seq, at=line.at, event=load_event(line.event))
