"""Copies that let a file go: made where games that were exported lie here with as many copies as are wanted, not more.

As many copies are made of games as are wanted, this one included; so none of them could ever go. Where room is needed
one more is made elsewhere, and the one here is spare then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from hostler.model.artifacts import HUB, Place
from hostler.model.inputs import CopiesTold
from hostler.policy.retention import Found
from hostler.runtime import places
from hostler.runtime.clock import Clock
from hostler.runtime.disks.surveying import artifact_of
from hostler.runtime.places import Places
from hostler.runtime.threads import Threads
from hostler.runtime.verdicts import Verdicts


def target(found: Found, seen: Mapping[str, Place]) -> str | None:
    """Where one more copy goes: to a place that has none, of a domain that has none where there is such a one."""
    holding = {copy.place for copy in found.copies if not copy.damaged} | {found.place}
    domains = {seen[name].domain for name in holding - {found.place} if name in seen}
    able = [each for name, each in seen.items() if name not in holding and _takes(each, found.bytes)]
    best = min(able, key=lambda each: (each.domain in domains, _even(found, each.name)), default=None)
    return None if best is None else best.name


class Spreader:
    """Makes such copies, one after the other."""

    def __init__(
        self, located: Places, roots: Mapping[str, Path], clock: Clock, verdicts: Verdicts, threads: Threads
    ) -> None:
        self._located = located
        self._roots = roots
        self._clock = clock
        self._verdicts = verdicts
        self._threads = threads

    async def spread(self, files: Iterable[Found], need_bytes: int) -> int:
        """Copy until so many bytes here have one more copy elsewhere; answers how many there are."""
        done = 0
        for each in files:
            if done >= need_bytes:
                break
            if await self._copied(each):
                done += each.bytes
        return done

    async def _copied(self, found: Found) -> bool:
        name, place = artifact_of(found), target(found, places.seen(self._located, self._clock.now()))
        if name is None or place is None:
            return False
        located, (root, _, inside) = self._located[place], found.path.partition("/")
        put = partial(located.store.put, name, self._roots[root] / inside, located.bandwidth.pace)
        if not await self._verdicts.done(HUB, place, name, put, self._threads.of(place)):
            return False
        await self._verdicts.say(CopiesTold(place=place, verified=(name.sha256,)))
        return True


def _takes(place: Place, size: int) -> bool:
    return place.keeps and place.takes and place.reachable and (place.free_bytes is None or place.free_bytes >= size)


def _even(found: Found, place: str) -> str:
    return hashlib.blake2b(f"{found.path} {place}".encode(), digest_size=8).hexdigest()
