"""Telling people of alerts: each target reads the journal from where it was told last, at its own pace.

Nothing is lost: what a target has been told up to stands beside the journal, and is written after it was taken. After a
crash the end of it is told once more, by whoever leads then. Nobody waits for a target: entries wait in the journal.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import structlog

from hostler.model.alert_views import AlertView, TargetView
from hostler.model.alerts import AlertMessage
from hostler.model.errors import StoreError, StoreFenced
from hostler.model.events import Entry
from hostler.runtime.clock import Clock
from hostler.runtime.senders import NotTaken, Sender, redacted, sender
from hostler.runtime.telling import concerns, messages, notices
from hostler.settings import Target, Telling

WAITING_MOST = 1000
"""Entries that a target holds in memory; further ones wait in the journal."""
BURST = 10
RESTS_S = (1.0, 2.0, 5.0, 15.0, 60.0, 300.0)
BEHIND_S = 1.0
"""A reader that was let go, because its target was slow, rests so long."""
BROKEN_S = 30.0
LAST_S = 2.0
SAVE_S = 60.0
NEARLY = 1e-9
"""How often it is noted how far the journal was read where nothing was told."""


class Progress(Protocol):
    """Where it is kept how far each target has been told; calls block. `Journal` is one."""

    def told(self) -> dict[str, int]:
        """By target: up to which entry. Raises `StoreError`."""
        ...

    def note_told(self, through: Mapping[str, int]) -> None:
        """Keep that. Raises `StoreError`, `StoreFenced` where another leads by now."""
        ...


class Notifier:
    """All targets. `entries` reads the journal beyond a number, `find` looks an alert up, `trouble` records a fault."""

    def __init__(
        self,
        telling: Telling | None,
        fleet: str,
        kept: Progress,
        newest: int,
        clock: Clock,
        entries: Callable[[int], AsyncIterator[Entry]],
        find: Callable[[str], AlertView | None],
        trouble: Callable[[str, str], None],
        make: Callable[[Target], Sender] = sender,
        before: Mapping[str, int] | None = None,
    ) -> None:
        """`newest` is where a target begins that has never been told anything; `before` is how far they had been told
        by a version that kept that elsewhere. Raises `SettingsError`.
        """
        given = telling or Telling()
        self._kept = kept
        self._before = before or {}
        self._noted: Mapping[str, int] | None = None
        self._goes_on = False
        """Whether it is known how far everybody had been told."""
        self._trouble = trouble
        self._clock = clock
        self._writing = threading.Lock()
        self._outlets = [Outlet(target, make(target), given, fleet, newest, self) for target in given.targets]
        self.entries = entries
        self.find = find

    @property
    def clock(self) -> Clock:
        """The controller's clock."""
        return self._clock

    def targets(self) -> Sequence[TargetView]:
        """How it goes."""
        return [outlet.view() for outlet in self._outlets]

    async def run(self) -> None:
        """Tell until cancelled. A target that breaks is taken up again, and nobody else notices."""
        try:
            await self._go_on()
            # Where a new one begins is kept before anything is told: what fires before a crash is told after it.
            await asyncio.to_thread(self.note, self.progress())
            async with asyncio.TaskGroup() as tasks:
                for outlet in self._outlets:
                    tasks.create_task(self._keep(outlet), name=f"target {outlet.name}")
                tasks.create_task(self._note_now_and_then(), name="notified")
        finally:
            for outlet in self._outlets:
                await outlet.close()
            if self._goes_on:
                await self._note_at_the_end()

    async def _note_at_the_end(self) -> None:
        """A store that does not answer holds up no end: then the newest messages come once more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                await asyncio.to_thread(self.note, self.progress())

    def progress(self) -> dict[str, int]:
        """How far everybody has been told; to be asked in the loop's own thread."""
        return {outlet.name: outlet.through for outlet in self._outlets}

    def note(self, through: Mapping[str, int]) -> None:
        """Write that down. What cannot be written is told once more after a restart."""
        try:
            with self._writing:
                if through != self._noted:
                    self._kept.note_told(through)
                    self._noted = through
        except StoreFenced:
            return  # another leads by now, which the writer finds out and tells
        except StoreError as error:
            self.record("told", str(error))

    def record(self, where: str, what: str) -> None:
        """Put a failure on record."""
        self._trouble(where, what)

    async def _go_on(self) -> None:
        """From where each target was told last; the store is waited for, which is put on record once."""
        recorded = False
        while not self._goes_on:
            try:
                self._noted = told = await asyncio.to_thread(self._kept.told)
            except StoreError as error:
                if not recorded:
                    self.record("told", f"alerts wait: {error}")
                recorded = True
                await self._clock.sleep(BROKEN_S)
                continue
            for outlet in self._outlets:
                outlet.go_on(told.get(outlet.name, self._before.get(outlet.name)))
            self._goes_on = True

    async def _keep(self, outlet: Outlet) -> None:
        while True:
            try:
                await outlet.run()
            except Exception as error:  # noqa: BLE001 - recorded, and the target goes on
                self.record(f"target {outlet.name}", f"it is taken up again after {outlet.redacted(error)}")
            await self._clock.sleep(BROKEN_S)

    async def _note_now_and_then(self) -> None:
        while self._outlets:
            await self._clock.sleep(SAVE_S)
            await asyncio.to_thread(self.note, self.progress())


class Outlet:
    """One target: a reader that takes what concerns it out of the journal, and a teller that has it taken."""

    def __init__(
        self, target: Target, way: Sender, telling: Telling, fleet: str, through: int, notifier: Notifier
    ) -> None:
        self._target = target
        self._way = way
        self._telling = telling
        self._fleet = fleet
        self._notifier = notifier
        self._read = through
        self._told = through
        self._waiting: asyncio.Queue[Entry] = asyncio.Queue(WAITING_MOST)
        self._batch: list[Entry] = []
        self._rate = Bucket(telling.per_hour, BURST, notifier.clock)
        self._sent = self._given_up = 0
        self._sent_at: float | None = None
        self._failing_since: float | None = None
        self._trouble: str | None = None
        self._log = structlog.get_logger()

    @property
    def name(self) -> str:
        """What people call it."""
        return self._target.name

    @property
    def through(self) -> int:
        """Up to which entry nothing is left to tell; while nothing waits, all that was read."""
        return self._told if self._batch or not self._waiting.empty() else max(self._told, self._read)

    def go_on(self, through: int | None) -> None:
        """Begin where it was told last; `None`: it is a new one."""
        if through is not None:
            self._told = min(through, self._told)

    def view(self) -> TargetView:
        """How it goes."""
        return TargetView(
            name=self.name,
            kind=self._target.kind,
            least=self._target.least,
            through=self.through,
            waiting=self._waiting.qsize() + len(self._batch),
            sent=self._sent,
            given_up=self._given_up,
            sent_at=self._sent_at,
            failing_since=self._failing_since,
            trouble=self._trouble,
        )

    def redacted(self, error: Exception) -> str:
        """What went wrong, without what is secret in it."""
        if isinstance(error, ExceptionGroup):
            return "; ".join(self.redacted(each) for each in error.exceptions)
        return redacted(f"{type(error).__name__}: {error}", self._target.url)

    async def run(self) -> None:
        """Read and tell until cancelled; what was read and not told is read again."""
        self._read, self._waiting, self._batch = self._told, asyncio.Queue(WAITING_MOST), []
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read_on(), name=f"reader of {self.name}")
            tasks.create_task(self._tell_on(), name=f"teller of {self.name}")

    async def close(self) -> None:
        """Let go of connections."""
        await self._way.close()

    async def _read_on(self) -> None:
        while True:
            async for entry in self._notifier.entries(self._read):
                if concerns(entry.event):
                    await self._waiting.put(entry)
                self._read = entry.seq
            await self._notifier.clock.sleep(BEHIND_S)

    async def _tell_on(self) -> None:
        while True:
            self._batch = [await self._waiting.get()]
            if self._telling.group_s:
                await self._notifier.clock.sleep(self._telling.group_s)
            self._batch.extend(self._at_hand())
            told = [each for entry in self._batch for each in notices(entry, self._notifier.find, self._target.least)]
            for message in messages(self._fleet, told):
                await self._deliver(message)
            self._told, self._batch = self._batch[-1].seq, []
            await asyncio.to_thread(self._notifier.note, self._notifier.progress())

    def _at_hand(self) -> Iterator[Entry]:
        while not self._waiting.empty():
            yield self._waiting.get_nowait()

    async def _deliver(self, message: AlertMessage) -> None:
        """Until it is taken, or given up."""
        clock, tries = self._notifier.clock, 0
        begun = clock.now()
        while True:
            await self._rate.take()
            try:
                await self._way.send(message)
            except NotTaken as refusal:
                if self._is_given_up(refusal, message, begun):
                    return
                rest_s = RESTS_S[min(tries, len(RESTS_S) - 1)] if refusal.after_s is None else refusal.after_s
                await clock.sleep(rest_s)
                tries += 1
                continue
            self._sent, self._sent_at = self._sent + 1, clock.now()
            self._failing_since = self._trouble = None
            return

    def _is_given_up(self, refusal: NotTaken, message: AlertMessage, begun: float) -> bool:
        """Note why it was not taken: the first time, and when it is given up, for all to see."""
        now, why = self._notifier.clock.now(), str(refusal)
        over = refusal.final or now - begun >= self._telling.give_up_s
        where = f"target {self.name}"
        if over:
            self._given_up += 1
            lost = f"{len(message.alerts) + message.left_out} alerts of {message.group}"
            self._notifier.record(
                where, f"{lost} were not taken and are given up: {why}; `hostler alert list` has them"
            )
        elif self._failing_since is None:
            self._notifier.record(where, f"alerts are not taken: {why}; it is tried again")
        else:
            self._log.info("alerts are not taken", target=self.name, why=why)
        self._failing_since, self._trouble = self._failing_since or now, why
        return over


class Bucket:
    """So many messages an hour, of which a few may come at once."""

    def __init__(self, per_hour: int, burst: int, clock: Clock) -> None:
        self._per_s = per_hour / 3600.0
        self._most = float(min(burst, per_hour))
        self._left = self._most
        self._clock = clock
        self._at = clock.now()

    async def take(self) -> None:
        """Wait for the next one's turn."""
        self._fill()
        while self._left < 1.0 - NEARLY:
            await self._clock.sleep((1.0 - self._left) / self._per_s)
            self._fill()
        self._left -= 1.0

    def _fill(self) -> None:
        now = self._clock.now()
        self._left, self._at = min(self._most, self._left + (now - self._at) * self._per_s), now
