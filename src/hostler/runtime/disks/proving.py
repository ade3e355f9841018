"""The last look before something is moved or deleted: the catalogue is asked anew, and its copies are read back.

What the catalogue says of a copy is what was read once. Just before a file leaves its place, and again before it is
deleted for good, as many copies elsewhere as its rule asks for are read from where they lie, each to its last byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from hostler.model.artifacts import Copy, Place
from hostler.model.inputs import CopiesTold
from hostler.policy.retention import Deletion, FileKind, Found, Obstacle, RetentionRules, judged
from hostler.runtime import places
from hostler.runtime.clock import Clock
from hostler.runtime.disks.needs import Needs
from hostler.runtime.disks.surveying import Survey, artifact_of
from hostler.runtime.places import Places
from hostler.runtime.threads import Threads
from hostler.runtime.verdicts import Verdicts
from hostler.stores.base import ObjectName


class Prover:
    """Judges a file once more, and reads what proves it."""

    def __init__(
        self,
        survey: Survey,
        located: Places,
        rules: RetentionRules,
        clock: Clock,
        now: Callable[[], float],
        needs: Callable[[], Needs],
        verdicts: Verdicts,
        threads: Threads,
    ) -> None:
        self._survey = survey
        self._located = located
        self._rules = rules
        self._clock = clock
        self._now = now
        self._needs = needs
        self._verdicts = verdicts
        self._threads = threads

    def places(self) -> Mapping[str, Place]:
        """The places, as decisions are made about them."""
        return places.seen(self._located, self._clock.now())

    async def proved(self, found: Found) -> Deletion | str:
        """Why the file may go now; or, in words, why it stays."""
        verdict = await self._judged(found)
        if isinstance(verdict, Obstacle):
            return str(verdict)
        name = artifact_of(verdict.found)
        if name is None or not verdict.proof:
            return verdict
        read = [copy for copy in verdict.proof if await self._reads_well(name, copy)]
        return await self._upheld(verdict.found, read)

    async def _upheld(self, found: Found, read: list[Copy]) -> Deletion | str:
        """Only what was read just now counts; and only if nothing became known of it meanwhile."""
        now = await self._judged(found)
        if isinstance(now, Obstacle):
            return str(now)
        names = {copy.place for copy in read}
        known = {copy.place: copy for copy in now.found.copies if copy.place in names}
        seen = now.found.copies
        only = replace(now.found, copies=tuple(copy for copy in seen if copy.place in known))
        verdict = judged(only, self.places(), self._rules, self._now())
        return str(verdict) if isinstance(verdict, Obstacle) else verdict

    async def _judged(self, found: Found) -> Deletion | Obstacle:
        needs, seen, now = self._needs(), self.places(), self._now()
        again = await asyncio.to_thread(self._survey.again, found, needs, seen, self._rules, now)
        newest = found.kind is FileKind.CHECKPOINT and found.path in await asyncio.to_thread(
            self._survey.newest, found.series, self._rules
        )
        return judged(again, seen, self._rules, now, is_newest=newest)

    async def _reads_well(self, name: ObjectName, copy: Copy) -> bool:
        """Read one copy to its end; what is found out about it is told."""
        located = self._located[copy.place]
        read = partial(located.store.check, name, located.bandwidth.pace)
        if not await self._verdicts.done(copy.place, copy.place, name, read, self._threads.of(copy.place)):
            return False
        await self._verdicts.say(CopiesTold(place=copy.place, verified=(name.sha256,)))
        return True
