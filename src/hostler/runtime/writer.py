"""The thread that makes facts durable: everything that has come together meanwhile goes into one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeAlias

from hostler.model.errors import StoreError, StoreFenced
from hostler.store import Batch, Journal

Durable: TypeAlias = Callable[[], None]
Task: TypeAlias = tuple[Batch, Durable]

RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Rests between tries while the store cannot be written; the last one for as long as it takes."""


class Writer:
    """Group commit, in order. `durable` of each batch is called in the writer's thread, after its commit.

    While the store cannot be written (a full disk, say) nothing is dropped: the batch is tried again and again, and
    `on_trouble` hears of every change: the error, or `None` when writing works again. Any other error is one of the
    program itself: the thread ends, and `on_death` hears of it.
    """

    def __init__(
        self,
        journal: Journal,
        on_trouble: Callable[[StoreError | None], None],
        on_death: Callable[[Exception], None],
    ) -> None:
        self._journal = journal
        self._on_trouble = on_trouble
        self._on_death = on_death
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._giving_up = threading.Event()
        self._unwritten = False
        self._thread = threading.Thread(target=self._run, name="hostler-journal", daemon=True)
        self._thread.start()

    def write(self, batch: Batch, durable: Durable) -> None:
        """Have a batch written after all batches given before."""
        self._tasks.put((batch, durable))

    def close(self, patience_s: float) -> bool:
        """Write what was given, then end; give up a store that cannot be written after `patience_s`.

        Returns whether everything was written.
        """
        self._tasks.put(None)
        self._thread.join(patience_s)
        self._giving_up.set()
        self._thread.join()
        return not self._unwritten

    def _run(self) -> None:
        try:
            self._write_all()
        except Exception as error:  # noqa: BLE001 - told to whoever ends the controller for it
            self._unwritten = True
            self._on_death(error)

    def _write_all(self) -> None:
        while (task := self._tasks.get()) is not None:
            tasks = [task, *self._waiting()]
            if not self._commit([batch for batch, _ in tasks if batch.entries]):
                self._unwritten = True
                return
            for _, durable in tasks:
                durable()

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
            try:
                self._journal.append(batches)
                break
            except StoreFenced:
                raise  # no waiting helps: another controller leads
            except StoreError as error:
                self._on_trouble(error)
            if self._giving_up.wait(RETRY_S[min(tries, len(RETRY_S) - 1)]):
                return False
            tries += 1
        if tries:
            self._on_trouble(None)
        return True
