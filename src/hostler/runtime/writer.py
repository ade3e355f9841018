"""The thread that makes facts durable: everything that has come together meanwhile goes into one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeAlias

from hostler.model.errors import StoreError, StoreFenced, StoreRefused
from hostler.policy.leadership import RENEW_S, Tenure
from hostler.runtime.clock import monotonic
from hostler.runtime.hint import give_hint
from hostler.store import Batch, Journal

Durable: TypeAlias = Callable[[], None]
Task: TypeAlias = tuple[Batch, Durable]

GIVING_UP_S = 1.0
"""How long a write that is under way is waited for when it is given up."""
RETRY_S = (0.2, 0.5, 1.0, 2.0)
"""Rests between tries while the store cannot be written; the last one for as long as it takes."""


class Writer:
    """Group commit, in order. `durable` of each batch is called in the writer's thread, after its commit.

    With a `tenure` it renews that whenever it is due, be there something to write or not.

    While the store cannot be written (a full disk, say) nothing is dropped: the batch is tried again and again, and
    `on_trouble` hears of every change: the error, or `None` when writing works again. An error about the data
    (`StoreRefused`) and any other is one of the program itself: the thread ends, and `on_death` hears of it.
    """

    def __init__(
        self,
        journal: Journal,
        on_trouble: Callable[[StoreError | None], None],
        on_death: Callable[[Exception], None],
        tenure: Tenure | None = None,
    ) -> None:
        self._journal = journal
        self._tenure = tenure
        self._on_trouble = on_trouble
        self._on_death = on_death
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._giving_up = threading.Event()
        self._unwritten = False
        self._trouble: StoreError | None = None
        self._thread = threading.Thread(target=self._run, name="hostler-journal", daemon=True)
        self._thread.start()

    def write(self, batch: Batch, durable: Durable) -> None:
        """Have a batch written after all batches given before."""
        self._tasks.put((batch, durable))

    def close(self, patience_s: float) -> bool:
        """Write what was given, then end; give up a store that cannot be written after `patience_s`.

        Returns whether everything was written. A call of the database that does not return is left to its thread,
        which ends with the program.
        """
        self._tasks.put(None)
        self._thread.join(patience_s)
        self._giving_up.set()
        self._thread.join(GIVING_UP_S)
        return not (self._unwritten or self._thread.is_alive())

    @property
    def trouble(self) -> StoreError | None:
        """Why the store could not be written the last time it was tried; `None`: it could."""
        return self._trouble

    def _run(self) -> None:
        try:
            self._write_all()
        except Exception as error:  # noqa: BLE001 - told to whoever ends the controller for it
            self._unwritten = True
            self._on_death(error)

    def _write_all(self) -> None:
        while (task := self._next()) is not None:
            tasks = [task, *self._waiting()]
            if not self._commit([batch for batch, _ in tasks if batch.entries]):
                self._unwritten = True
                return
            if self._tenure is not None and self._tenure.due(monotonic()):
                self._renew(self._tenure)  # what came had nothing to write, and came too often for a pause
            for _, durable in tasks:
                durable()

    def _next(self) -> Task | None:
        """What is to be written next; while there is nothing, the tenure is renewed."""
        if self._tenure is None:
            return self._tasks.get()
        while True:
            try:
                return self._tasks.get(timeout=RENEW_S)
            except Empty:
                self._renew(self._tenure)

    def _renew(self, tenure: Tenure) -> None:
        """Once; where that does not work it is soon tried again, and everything waits as for any other write."""
        asked_at = monotonic()
        try:
            self._journal.renew()
        except (StoreFenced, StoreRefused):
            raise
        except StoreError as error:
            self._trouble = error
            self._on_trouble(error)
            return
        tenure.renewed(asked_at)
        self._well()

    def _waiting(self) -> Sequence[Task]:
        tasks: list[Task] = []
        while True:
            try:
                task = self._tasks.get_nowait()
            except Empty:
                return tasks
            if task is None:
                self._tasks.put(None)
                return tasks
            tasks.append(task)

    def _commit(self, batches: Sequence[Batch]) -> bool:
        tries = 0
        while batches:
            asked_at = monotonic()
            try:
                self._journal.append(batches)
            except (StoreFenced, StoreRefused):
                raise  # no waiting helps: another controller leads, or no database would take these data
            except StoreError as error:
                self._trouble = error
                self._on_trouble(error)
            else:
                if self._tenure is not None:
                    self._tenure.renewed(asked_at)
                self._well()
                break
            if self._giving_up.wait(RETRY_S[min(tries, len(RETRY_S) - 1)]):
                return False
            tries += 1
        return True

    def _well(self) -> None:
        if self._trouble is not None:
            self._trouble = None
            if self._tenure is not None:
                give_hint(self._journal)  # the database may have been started anew, and know of none
            self._on_trouble(None)
