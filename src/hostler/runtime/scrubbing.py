"""All stored copies are read again and again, each within the promised time, at a bounded rate: who lies is found.

What is to be read next the catalogue says, which remembers when each copy was read last; how fast, `policy.scrubbing`.
What was found is told in turns: a controller that is killed reads again what it had read since the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from hostler.model.artifacts import HUB, SUFFIXES, ReplicationRules
from hostler.model.errors import FilesError, LinkError, StoreError
from hostler.model.inputs import CopiesTold
from hostler.policy import scrubbing
from hostler.policy.scrubbing import AIM, Age, Pace
from hostler.runtime.clock import Clock
from hostler.runtime.pacing import Bandwidth
from hostler.runtime.places import Places
from hostler.runtime.verdicts import Verdicts
from hostler.store import Journal, catalogue
from hostler.stores.base import ObjectName

MOST = 200
"""Copies that are read in one turn."""
REST_S = 1800.0
"""Longest time between two turns."""
LEAST_S = 1.0
WEIGH_S = 3600.0
"""How often it is asked how much lies in a place, and how old that is."""
AGAIN_S = 3600.0
"""When a copy is tried again that could not be read, of which nothing follows."""
SAMPLE = 32
"""Copies of a place that was away for long, all of which have to be right before any other counts."""
STRANGERS_S = 86_400.0
Found = TypeVar("Found")


class Stored(NamedTuple):
    """A copy whose turn comes."""

    name: ObjectName
    bytes: int


@dataclass
class Reading:
    """How far the reading of one place is."""

    own: Bandwidth
    """The bound, within large files, too."""
    pace: Pace = field(default_factory=lambda: scrubbing.pace("", (), 0.0, 1.0, 1.0))
    budget: float = 0.0
    grown_at: float | None = None
    weigh_at: float = float("-inf")
    sample_at: float = float("-inf")
    skipped: dict[str, float] = field(default_factory=dict)
    """Copies that could not be read, and when they are tried again."""


class Scrubber:
    """Reads all places. `wake` is called when something was found that has to be mended."""

    def __init__(
        self,
        journal: Journal,
        located: Places,
        rules: ReplicationRules,
        clock: Clock,
        verdicts: Verdicts,
        trouble: Callable[[str], None],
        wake: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._located = located
        self._rules = rules
        self._clock = clock
        self._verdicts = verdicts
        self._trouble = trouble
        self._wake = wake
        self._pool = ThreadPoolExecutor(max(len(located), 1), thread_name_prefix="scrub")
        """Its own: who reads slowly must not stand in the way of what others do in threads."""
        self._readings = {
            name: Reading(own=Bandwidth(rules.scrub_bytes_per_s), grown_at=clock.now()) for name in located
        }
        self._said: dict[str, str] = {}
        self.strangers: int | None = None
        """Files in the controller's own store that nobody told of; `None`: they were not counted yet."""

    @property
    def paces(self) -> Mapping[str, Pace]:
        """How fast each place is read, and why."""
        return {name: each.pace for name, each in self._readings.items()}

    def troubles(self) -> list[str]:
        """Which promises cannot be kept."""
        return [each.pace.why for each in self._readings.values() if each.pace.why is not None]

    async def run(self) -> None:
        """Until cancelled; what is under way ends with it."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for name in self._located:
                    tasks.create_task(self._keep_reading(name))
                tasks.create_task(self._keep_counting())
        finally:
            for each in self._readings.values():
                each.own.stop()
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def turn(self, place: str) -> float:
        """Read what there is budget for; the seconds until there will be for more."""
        located, reading, now = self._located[place], self._readings[place], self._clock.now()
        if now < located.away_until:
            reading.grown_at = now
            return min(located.away_until - now, REST_S)
        if located.suspect and now >= reading.sample_at:
            await self._sample(place)
        if now >= reading.weigh_at:
            await self._weigh(place)
        queue = await self._in_thread(lambda: self._queue(place))
        self._grow(reading, queue, suspect=located.suspect)
        taken, reading.budget = scrubbing.turn([each.bytes for each in queue], reading.budget)
        read = await self._read(place, queue[:taken])
        reading.budget += sum(each.bytes for each in queue[read:taken])
        rest = [each.bytes for each in queue[read:]]
        return min(max(scrubbing.wait_s(rest, reading.budget, reading.pace.allowed), LEAST_S), REST_S)

    async def count_strangers(self) -> None:
        """Count what lies in the controller's own store and is no artifact that anybody told of. It is left alone."""
        try:
            self.strangers = await self._in_thread(self._unknown)
        except (LinkError, FilesError, StoreError, OSError) as error:
            self._complain("strangers", f"what lies in the controller's own store cannot be listed: {error}")

    async def _keep_reading(self, place: str) -> None:
        while True:
            rest = REST_S
            try:
                rest = await self.turn(place)
            except Exception as error:  # noqa: BLE001 - recorded once, and the next turn comes all the same
                self._complain(place, f"copies in {place} cannot be read again: {type(error).__name__}: {error}")
            else:
                self._said.pop(place, None)
            await self._clock.sleep(rest)

    async def _keep_counting(self) -> None:
        while True:
            await self.count_strangers()
            await self._clock.sleep(STRANGERS_S)

    async def _read(self, place: str, queue: Sequence[Stored]) -> int:
        """Read these, until the place does not answer; how many were."""
        right, read, wrong = [], 0, False
        for each in queue:
            if self._clock.now() < self._located[place].away_until:
                break
            found = await self._is_right(place, each.name)
            wrong = wrong or found is False
            if found:
                right.append(each.name.sha256)
            read += 1
        if wrong:
            self._wake()
        if right:
            await self._verdicts.say(CopiesTold(place=place, verified=tuple(right)))
        return read

    async def _is_right(self, place: str, name: ObjectName) -> bool | None:
        located, reading = self._located[place], self._readings[place]

        def pace(size: int) -> None:
            reading.own.pace(size)
            located.bandwidth.pace(size)

        right = await self._verdicts.done(place, place, name, lambda: located.store.check(name, pace), self._pool)
        if right is None:  # nothing follows of it, but others wait behind it
            reading.skipped[name.sha256] = self._clock.now() + AGAIN_S
        return right

    async def _sample(self, place: str) -> None:
        """A place that was away for long counts again when a sample is right; else it is asked for another one."""
        located, reading = self._located[place], self._readings[place]
        reading.sample_at = self._clock.now() + REST_S
        reading.weigh_at = float("-inf")
        sample = await self._in_thread(lambda: self._verdicts.known(place, SAMPLE))
        read = [await self._is_right(place, each) for each in sample]
        if all(read):
            located.suspect = False  # also where nothing is left there that could be wrong
        self._wake()

    async def _weigh(self, place: str) -> None:
        """How much lies there, how old that is, and how fast it has to be read therefore."""
        reading, rules = self._readings[place], self._rules
        now, promise_s = self._clock.now(), rules.verified_within_s
        found = await self._in_thread(lambda: self._ages(place, promise_s * AIM / 100))
        reading.pace = scrubbing.pace(place, found, now, promise_s, rules.scrub_bytes_per_s, reading.budget)
        late_s, soon_s = reading.pace.overdue_bytes / rules.scrub_bytes_per_s, min(WEIGH_S, promise_s / 100)
        reading.weigh_at = now + (min(max(late_s, LEAST_S), soon_s) if late_s else soon_s)

    def _grow(self, reading: Reading, queue: Sequence[Stored], *, suspect: bool) -> None:
        """The budget, at the rate of the place; one that is in doubt is read as fast as it may be."""
        now = self._clock.now()
        rate = self._rules.scrub_bytes_per_s if suspect else reading.pace.allowed
        grown = reading.budget + rate * (now - (reading.grown_at if reading.grown_at is not None else now))
        most = max((each.bytes for each in queue), default=0)
        reading.budget, reading.grown_at = min(grown, max(most, rate * REST_S)), now

    def _queue(self, place: str) -> list[Stored]:
        """What was unread longest there, but for what could not be read of late; waits.

        What never was comes first. In the controller's own store that is read as soon as it came, by the replicator: it
        is here only if that led to nothing.
        """
        now, skipped = self._clock.now(), self._readings[place].skipped
        for name in [name for name, until in skipped.items() if until <= now]:
            del skipped[name]
        with self._journal.catalogue() as connection:
            oldest = catalogue.unread_longest(connection, place, MOST + len(skipped))
            names = [name for name, _ in oldest if name not in skipped][:MOST]
            known = catalogue.by_name(connection, names)
        found = [known[name] for name in names if name in known]
        return [Stored(ObjectName(each.sha256, SUFFIXES[each.kind]), each.bytes) for each in found]

    def _ages(self, place: str, step_s: float) -> list[Age]:
        with self._journal.catalogue() as connection:
            found = catalogue.ages(connection, place, step_s)
        return [Age(each.verified_at, each.bytes, each.copies) for each in found]

    def _unknown(self) -> int:
        names = [each.name.sha256 for each in self._located[HUB].store.listed()]
        with self._journal.catalogue() as connection:
            return len(catalogue.unknown_of(connection, names))

    async def _in_thread(self, work: Callable[[], Found]) -> Found:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _complain(self, about: str, words: str) -> None:
        if self._said.get(about) != words:
            self._trouble(words)
        self._said[about] = words
