"""Where entries of the journal took place, and for which training config.

Many do not say so themselves: an attempt that ends was given its device by an entry before. What cannot be found out
stays unknown, and is never taken for somewhere else.
"""

from __future__ import annotations

from collections.abc import Sequence

from hostler.model.errors import NotFound
from hostler.model.events import AttemptLeased, ChunkLeased, Entry, Event, subject
from hostler.model.views import JobDetail
from hostler.web.desk import Desk
from hostler.web.pages.causes import device_of


class Places:
    """Places by attempt and chunk, as entries that were seen tell of them; and jobs, as they stand now."""

    def __init__(self, desk: Desk, entries: Sequence[Entry]) -> None:
        self._desk = desk
        self._leased: dict[str, str] = {}
        self._jobs: dict[str, JobDetail | None] = {}
        self.learn(entries)

    def learn(self, entries: Sequence[Entry]) -> None:
        """Take in what these say of places."""
        for event in (entry.event for entry in entries):
            if isinstance(event, AttemptLeased):
                self._leased[event.attempt] = event.device
            elif isinstance(event, ChunkLeased):
                self._leased[event.chunk] = event.device

    async def meet(self, entries: Sequence[Entry]) -> None:
        """Get to know the jobs that these are about: they may be long over."""
        for name in {job for entry in entries if (job := subject(entry.event)) is not None} - self._jobs.keys():
            try:
                self._jobs[name] = (await self._desk.having(name)).job()
            except NotFound:
                self._jobs[name] = None

    def place(self, event: Event) -> str | None:
        """The device or node; `None`: it is not about one, or nobody knows."""
        node = getattr(event, "node", None)
        named = device_of(event) or (node if isinstance(node, str) else getattr(node, "name", None))
        part = _part(event)
        if named is not None or part is None:
            return named
        return self._leased.get(part) or self._last_of(part)

    def is_somewhere(self, event: Event) -> bool:
        """Whether it took place on a device, known or not."""
        return self.place(event) is not None or _part(event) is not None

    def config(self, event: Event) -> str | None:
        """The training config; `None`: it is about none."""
        found = getattr(event, "config", None)
        if isinstance(found, str):
            return found
        job = subject(event)
        detail = None if job is None else self._job(job)
        return None if detail is None else detail.spec.serves

    def key(self, event: Event) -> str | None:
        """The idempotency key of the job; `None`: it has none, or the event is about no job."""
        job = subject(event)
        detail = None if job is None else self._job(job)
        return None if detail is None else detail.job.key

    async def look_up(self, entries: Sequence[Entry]) -> None:
        """Ask the journal for the places of attempts that were given theirs before these entries."""
        unknown = {job_of_attempt(entry.event) for entry in entries if self._is_lost(entry.event)}
        for job in sorted(each for each in unknown if each is not None):
            self.learn(await self._desk.story(job))

    def _is_lost(self, event: Event) -> bool:
        return getattr(event, "attempt", None) is not None and self.place(event) is None

    def _last_of(self, part: str) -> str | None:
        """Where the job of an attempt runs, or ran last, if that was this attempt."""
        job, _, number = part.rpartition(".")
        detail = self._job(job)
        if detail is None or detail.sweep is not None or str(detail.job.attempts) != number:
            return None
        return detail.job.device

    def _job(self, name: str) -> JobDetail | None:
        if name not in self._jobs:
            try:
                self._jobs[name] = self._desk.job(name)
            except NotFound:
                self._jobs[name] = None
        return self._jobs[name]


def job_of_attempt(event: Event) -> str | None:
    """The job of the attempt that an event is about."""
    return None if getattr(event, "attempt", None) is None else subject(event)


def _part(event: Event) -> str | None:
    found = getattr(event, "attempt", None) or getattr(event, "chunk", None)
    return found if isinstance(found, str) else None
