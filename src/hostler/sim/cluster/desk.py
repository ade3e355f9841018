"""What one controller sees of the shared store: it may be out of reach, and answers may be lost or very late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from hostler.model.errors import CorruptState, StoreError, StoreFenced, StoreLost
from hostler.model.record import entity
from hostler.sim.agenda import Agenda
from hostler.sim.cluster.process import Process
from hostler.sim.cluster.store import Line, VirtualStore

T = TypeVar("T")
PATIENCE_S = 3.0
"""Who hears nothing for so long takes the connection for lost."""


@entity
class Way:
    """The way of one controller to the store. `slow` is how many times as long as usual everything takes."""

    cut: bool = False
    loses: float = 0.0
    """Share of questions that are lost, or whose answers are."""
    slow: float = 1.0


class Desk:
    """Asks the store for a process: one question, one answer; an error where it is not known what came of it."""

    def __init__(self, agenda: Agenda, random: Random, store: VirtualStore, process: Process, way: Way) -> None:
        self._agenda = agenda
        self._random = random
        self._store = store
        self._process = process
        self._way = way

    def ask(
        self, work: Callable[[VirtualStore], T], done: Callable[[T], None], failed: Callable[[StoreError], None]
    ) -> None:
        """Have the store do some work; hear what came of it, or that it is unknown, as a step of the process."""
        life, heard = self._process.life, False

        def hear(step: Callable[[], None]) -> None:
            nonlocal heard
            if not heard and life == self._process.life:
                heard = True
                step()

        def give_up() -> None:
            hear(lambda: failed(StoreLost("the database does not answer")))

        def reach() -> None:
            if self._is_lost():
                return
            try:
                found = work(self._store)
            except StoreError as error:
                told = error
                self._answer(lambda: hear(lambda: failed(told)))
            else:
                self._answer(lambda: hear(lambda: done(found)))

        self._agenda.later(self._delay_s(), reach)
        self._process.do(PATIENCE_S, give_up)

    def _answer(self, step: Callable[[], None]) -> None:
        if not self._is_lost():
            self._process.do(self._delay_s(), step)

    def _is_lost(self) -> bool:
        return self._way.cut or self._random.random() < self._way.loses

    def _delay_s(self) -> float:
        """Most of the time a few milliseconds; now and then longer than anybody waits."""
        late = self._random.random() < self._way.loses
        return self._random.expovariate(1 / (PATIENCE_S if late else 0.005 * self._way.slow))


class Journal:
    """The journal as one leader writes it: in order, fenced, and each line once although answers are lost."""

    def __init__(self, desk: Desk, who: str, epoch: int) -> None:
        self.epoch = epoch
        self._desk = desk
        self._who = who
        self._in_doubt = False

    def append(self, lines: Sequence[Line], done: Callable[[], None], failed: Callable[[StoreError], None]) -> None:
        """Make lines durable; after a lost answer the same lines, given again, are written once."""
        was_in_doubt, self._in_doubt = self._in_doubt, True

        def work(store: VirtualStore) -> None:
            is_there = was_in_doubt and bool(lines) and self._are_there(store, lines)
            store.append(self._who, self.epoch, [] if is_there else lines)
            store.compact(self._who, self.epoch)

        def written(_: None) -> None:
            self._in_doubt = False
            done()

        self._desk.ask(work, written, failed)

    def _are_there(self, store: VirtualStore, lines: Sequence[Line]) -> bool:
        last = lines[-1]
        found = next(iter(store.read(last.seq - 1)), None)
        if found is None:
            return False
        if found.epoch != self.epoch:
            raise StoreFenced(f"entry {last.seq} is of controller {found.epoch} and not of {self.epoch}")
        if found != last:
            raise CorruptState(f"entry {last.seq} is in the journal, and is another one")
        return True
