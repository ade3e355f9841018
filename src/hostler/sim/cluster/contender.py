"""One of several controllers: it follows the journal, takes over when its watch says so, leads, and is fenced."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from hostler.core import Core, Outcome
from hostler.core.snapshot import dump_state, load_state
from hostler.model.codec import dump_event
from hostler.model.commands import Command
from hostler.model.errors import StoreError, StoreFenced
from hostler.model.events import Entry
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Begin, Input, NodeFound, Tick
from hostler.model.record import record
from hostler.policy.leadership import LOOK_S, Tenure, Watch
from hostler.sim.agenda import Action, Agenda
from hostler.sim.cluster.desk import Desk, Journal, Way
from hostler.sim.cluster.process import Clocks, Hazard, Process
from hostler.sim.cluster.proof import entry_of
from hostler.sim.cluster.store import Line, Row, Saved, VirtualStore

ACT_S = 0.002
"""From one command to the next."""
KEEP_S = 0.3
"""How often a leader looks after its tenure."""
HERE_S = 3.0
"""How often nodes hear that their controller lives."""
RETRY_S = (0.2, 0.5, 1.0, 2.0)
SNAPSHOT_EVERY = 100
TICK_S = 0.001
ALL_EVERY = 500
"""Steps between two at which invariants are asserted of everything."""
AUDIT_EVERY = 4
"""Steps between two at which they are asserted of what has changed; worlds with one controller do it at each."""

DOWN, STANDBY, RISING, LEADER, LEAVING = "down", "standby", "rising", "leader", "leaving"


class Town(Protocol):
    """What a controller can do to the world around it."""

    def leads(self, contender: Contender) -> None:
        """It leads: nodes are to be reached."""

    def act(self, contender: Contender, command: Command) -> None:
        """Carry a command out."""

    def here(self, contender: Contender) -> None:
        """Let nodes hear that it lives."""

    def promised(self, contender: Contender, lines: Sequence[Line]) -> None:
        """It has heard that these lines are written."""

    def followed(self, contender: Contender) -> None:
        """It has replayed what was new."""

    def gone(self, contender: Contender) -> None:
        """Its process has ended; it is started again some time."""


@record
class Batch:
    """What one step of the core wants written, and what is to be done then."""

    lines: Sequence[Line]
    outcome: Outcome
    done: Callable[[Sequence[Any]], None] | None


class Contender:
    """A controller. Everything it does is a step of its `process`."""

    def __init__(
        self,
        name: str,
        agenda: Agenda,
        random: Random,
        clocks: Clocks,
        hazard: Callable[[], Hazard],
        store: VirtualStore,
        nodes: Sequence[NodeSpec],
        town: Town,
    ) -> None:
        self.name = name
        self.clocks = clocks
        self.way = Way()
        self.role = DOWN
        self.core: Core | None = None
        self.epoch = 0
        self.process = Process(agenda, random, hazard, self.die)
        self.tenure: Tenure | None = None
        self._desk = Desk(agenda, random, store, self.process, self.way)
        self._nodes = nodes
        self._town = town
        self._watch = Watch()
        self._saved_at = 0
        self._journal: Journal | None = None
        self._unwritten: list[Batch] = []
        self._pending: list[Batch] = []
        self._outbox: deque[Action] = deque()
        self._writing = self._putting = False
        self._here_at = -HERE_S
        self._timer = self._steps = 0

    @property
    def leads(self) -> bool:
        """Whether it takes inputs."""
        return self.role == LEADER

    @property
    def may_act(self) -> bool:
        """Whether nobody can have taken over yet."""
        return self.tenure is not None and self.tenure.holds(self.clocks.steady())

    @property
    def is_written(self) -> bool:
        """Whether nothing of it is under way to the journal, and nothing waits to be done."""
        return not (self._unwritten or self._pending or self._outbox)

    def start(self) -> None:
        """A new life: it reads the newest snapshot, and follows."""
        self.process.begin()
        self.role, self._watch = STANDBY, Watch()
        self._load()

    def die(self) -> None:
        """Everything that is not in the journal is gone, commands not yet executed with it."""
        if self.role == DOWN:
            return
        self.process.end()
        self.role, self.core, self.tenure = DOWN, None, None
        self._clear()
        self._town.gone(self)

    def leave(self) -> None:
        """Write what there is, do what is to be done, and let others take over at once."""
        if self.role == LEADER:
            self.role = LEAVING

    def take(self, *given: Input, done: Callable[[Sequence[Any]], None] | None = None) -> None:
        """Handle inputs if it leads; `done` hears the answers when what followed is in the journal."""
        if self.role != LEADER:
            return
        assert self.core is not None
        outcome = self.core.handle(self.clocks.wall(), *given)
        self._assert_invariants(self.core, changed=bool(outcome.entries))
        lines = [_line(each, self.epoch) for each in outcome.entries]
        self._unwritten.append(Batch(lines=lines, outcome=outcome, done=done))
        self._set_timer(self.core)
        self._write()

    # Following.

    def _load(self) -> None:
        def loaded(saved: Saved | None) -> None:
            self.core = Core() if saved is None else Core(load_state(saved.data))
            self._saved_at = self.core.state.seq
            self._look()

        self._desk.ask(VirtualStore.newest, loaded, lambda _: self.process.do(LOOK_S, self._load))

    def _look(self) -> None:
        assert self.core is not None
        after = self.core.state.seq

        def failed(_: StoreError) -> None:
            self._watch.blind()
            self.process.do(LOOK_S, self._look)

        self._desk.ask(lambda store: (store.look(), store.read(after)), self._seen, failed)

    def _seen(self, found: tuple[Row, Sequence[Line]]) -> None:
        row, lines = found
        self._follow(lines)
        now, given_up = self.clocks.steady(), row.given_up or row.epoch == 0
        if self._watch.look(row.epoch, row.beat, now, given_up=given_up):
            self._seize(row, now)
        else:
            self.process.do(LOOK_S, self._look)

    def _follow(self, lines: Sequence[Line]) -> None:
        assert self.core is not None
        self.core.replay(map(entry_of, lines))
        if lines:
            self._town.followed(self)
        if self.core.state.seq >= self._saved_at + SNAPSHOT_EVERY:
            self._save()

    def _save(self) -> None:
        assert self.core is not None
        saved = Saved(seq=self.core.state.seq, data=dump_state(self.core.state))
        self._saved_at = saved.seq
        self._desk.ask(lambda store: store.save(saved), lambda _: None, lambda _: None)

    # Taking over.

    def _seize(self, seen: Row, now: float) -> None:
        def failed(_: StoreError) -> None:
            self._watch.blind()
            self.process.do(LOOK_S, self._look)

        def answered(epoch: int | None) -> None:
            if epoch is None:
                self._look()
            else:
                self._rise(epoch, now)

        self._desk.ask(lambda store: store.seize(self.name, seen), answered, failed)

    def _rise(self, epoch: int, asked_at: float) -> None:
        self.role, self.epoch = RISING, epoch
        self.tenure = Tenure(asked_at)
        self._journal = Journal(self._desk, self.name, epoch)
        self._keep()
        self._catch_up()

    def _catch_up(self) -> None:
        """Nobody else can write any more: what is there now is all there is."""
        assert self.core is not None
        after = self.core.state.seq

        def read(lines: Sequence[Line]) -> None:
            self._follow(lines)
            self._lead()

        self._desk.ask(lambda store: store.read(after), read, lambda _: self.process.do(LOOK_S, self._catch_up))

    def _lead(self) -> None:
        self.role = LEADER
        self.take(Begin(version="sim", epoch=self.epoch))
        self.take(*(NodeFound(node=node) for node in self._nodes))
        self._town.leads(self)

    # Leading.

    def _keep(self) -> None:
        """Show that it lives; leave when it is time to."""
        assert self.tenure is not None
        now = self.clocks.steady()
        if self.role == LEAVING and self.is_written and not self._writing:
            self._resign()
            return
        if self.tenure.due(now) and not self._writing:
            self._append([])
        if self.may_act and now - self._here_at >= HERE_S:
            self._here_at = now
            self._town.here(self)
        self.process.do(KEEP_S, self._keep)

    def _resign(self) -> None:
        epoch = self.epoch
        self._desk.ask(lambda store: store.resign(epoch), lambda _: self.die(), lambda _: self.die())

    def _write(self) -> None:
        """Everything that has come together meanwhile goes into one transaction."""
        if self._writing or self._pending or not self._unwritten:
            return
        self._pending, self._unwritten = self._unwritten, []
        lines = [line for batch in self._pending for line in batch.lines]
        if lines:
            self._append(lines)
        else:
            self._written()

    def _append(self, lines: Sequence[Line], tries: int = 0) -> None:
        assert self._journal is not None
        self._writing = True
        asked_at = self.clocks.steady()

        def done() -> None:
            self._writing = False
            self._town.promised(self, lines)
            self._renewed(asked_at)
            if lines:
                self._written()
            else:
                self._write()

        def failed(error: StoreError) -> None:
            if isinstance(error, StoreFenced):
                self._fenced()
            elif lines:
                rest_s = RETRY_S[min(tries, len(RETRY_S) - 1)]
                self.process.do(rest_s, lambda: self._append(lines, tries + 1))
            else:
                self._writing = False
                self._write()

        self._journal.append(lines, done, failed)

    def _renewed(self, asked_at: float) -> None:
        assert self.tenure is not None
        self.tenure.renewed(asked_at)
        self._put_out()

    def _fenced(self) -> None:
        """Another leads: what was not written is not done, and this life is over."""
        self.die()

    def _written(self) -> None:
        batches, self._pending = self._pending, []
        for batch in batches:
            self._do(batch)
        self._write()
        self._put_out()

    def _do(self, batch: Batch) -> None:
        """Have what follows of a batch done, in order, now that it is written."""
        for command in batch.outcome.commands:
            self._outbox.append(lambda command=command: self._town.act(self, command))  # type: ignore[misc]
        if batch.done is not None:
            done, answers = batch.done, batch.outcome.answers
            self._outbox.append(lambda: done(answers))

    def _put_out(self) -> None:
        if self._outbox and not self._putting:
            self._putting = True
            self.process.do(ACT_S, self._put_one_out)

    def _put_one_out(self) -> None:
        """Only while nobody can have taken over; else all of it waits until this has renewed, or is fenced."""
        self._putting = False
        if self.may_act and self._outbox:
            self._outbox.popleft()()
            self._put_out()

    def _set_timer(self, core: Core) -> None:
        self._timer += 1
        due, own = core.wake_at(), self._timer
        if due is not None:
            delay_s = max(due - self.clocks.wall(), TICK_S)
            self.process.do(delay_s, lambda: self.take(Tick()) if own == self._timer else None)

    def _assert_invariants(self, core: Core, *, changed: bool) -> None:
        self._steps += 1
        if self._steps % ALL_EVERY == 0:
            core.validate()
        elif changed and self._steps % AUDIT_EVERY == 0:
            core.audit()

    def _clear(self) -> None:
        self._journal = None
        self._unwritten, self._pending = [], []
        self._outbox.clear()
        self._writing = self._putting = False
        self._here_at = -HERE_S


def _line(entry: Entry, epoch: int) -> Line:
    return Line(seq=entry.seq, at=entry.at, event=dump_event(entry.event), epoch=epoch)
