"""The bytes of artifacts: handed out with their hashes checked, and read again wherever there are copies."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from hostler.model.artifact_views import ArtifactRead, ArtifactView, CopyRead, CopyView
from hostler.model.artifacts import HUB, SUFFIXES
from hostler.model.errors import FilesError, HostlerError, LinkError, LinkLost, NotFound
from hostler.model.inputs import CopiesTold
from hostler.runtime.artifacts import Artifacts
from hostler.runtime.clock import Clock
from hostler.runtime.pacing import Stopped
from hostler.runtime.places import Places
from hostler.runtime.threads import Threads
from hostler.runtime.verdicts import Verdicts
from hostler.snapshots.reserve import GB, RESERVE
from hostler.stores import hashing
from hostler.stores.base import Damaged, ObjectName
from hostler.stores.directory import DirectoryStore
from hostler.web.desk import Content

T = TypeVar("T")
ENDS = "the controller ends, and what it was reading with it"


class Contents:
    """Reads copies. `scratch` is a folder of its own, for what is fetched for somebody and kept nowhere."""

    def __init__(
        self,
        known: Artifacts,
        located: Places,
        scratch: Path,
        clock: Clock,
        verdicts: Verdicts,
    ) -> None:
        self._known = known
        self._located = located
        self._scratch = scratch
        self._clock = clock
        self._verdicts = verdicts
        self._handing_out = Threads("hands out from")
        self._checking = Threads("reads again")
        self._is_closed = False
        self._reading: dict[tuple[str, str], asyncio.Task[CopyRead]] = {}

    def begin(self) -> None:
        """Delete what a controller that was killed had fetched; waits."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def close(self) -> None:
        """Read nothing more."""
        self._is_closed = True
        self._handing_out.close()
        self._checking.close()

    async def content(self, name: str) -> Content:
        """As `Desk.content`."""
        artifact = await self._known.view(name)
        there = sorted((each for each in artifact.copies if not each.damaged), key=_nearest)
        faults: list[HostlerError] = []
        for each in there:
            try:
                return await self._from(artifact, each.place)
            except (FilesError, LinkError) as error:
                faults.append(error)
        raise _nowhere(artifact, there, faults)

    async def verify(self, name: str, place: str | None, since: float) -> ArtifactRead:
        """As `Desk.verify`."""
        artifact = await self._known.view(name)
        asked = [each for each in artifact.copies if place in (None, each.place)]
        if not asked and place is not None:
            raise NotFound(_no_copy(artifact, place))
        found = await asyncio.gather(*(self._joined(artifact, each, since) for each in asked))
        now = await self._known.view(artifact.sha256)
        read_at = {each.place: each.verified_at for each in now.copies}
        return ArtifactRead(
            artifact=now, copies=tuple(replace(each, at=read_at.get(each.place) or each.at) for each in found)
        )

    async def _from(self, artifact: ArtifactView, place: str) -> Content:
        """Its bytes, as they lie in a place; of small ones the hash has been compared when this returns."""
        name = _name(artifact)
        file = await self._in_thread(place, self._opened, artifact, place)
        pieces = hashing.checked(name, hashing.pieces(file), self._pace(place), f"in {place}")
        try:
            first = await self._next(place, pieces)
            second = await self._next(place, pieces)
        except BaseException:
            file.close()
            raise
        size = os.fstat(file.fileno()).st_size
        rest = self._rest(place, file, pieces, first, second)
        return Content(artifact.sha256, name.sha256 + name.suffix, size, rest)

    async def _rest(
        self, place: str, file: BinaryIO, pieces: Iterator[bytes], first: bytes | None, second: bytes | None
    ) -> AsyncIterator[bytes]:
        """The pieces; the last one only when the hash of all of them is right."""
        held, ahead = first, second
        with file:
            while held is not None:
                yield held
                held, ahead = ahead, None if ahead is None else await self._next(place, pieces)

    async def _next(self, place: str, pieces: Iterator[bytes]) -> bytes | None:
        return await self._in_thread(place, next, pieces, None)

    def _opened(self, artifact: ArtifactView, place: str) -> BinaryIO:
        """The file of a copy; one that is elsewhere is fetched, and is gone as soon as it is closed."""
        name, located = _name(artifact), self._located.get(place)
        if located is None:
            raise LinkLost("it is no part of this fleet now")
        if isinstance(located.store, DirectoryStore):
            with hashing.opened(located.store.root / name.path) as file:
                return os.fdopen(os.dup(file.fileno()), "rb")
        return self._fetched(name, place, artifact.bytes)

    def _fetched(self, name: ObjectName, place: str, size: int) -> BinaryIO:
        self._scratch.mkdir(exist_ok=True)
        if size > RESERVE.beside(self._scratch):
            raise FilesError(
                f"the controller's disk has no room to fetch its {size} bytes: {RESERVE.bytes / GB:g} GiB stay free "
                "(limits.reserve_gb)"
            )
        target = self._scratch / f"{os.urandom(8).hex()}{name.suffix}"
        self._located[place].store.get(name, target, self._pace(place))
        file = target.open("rb")
        target.unlink()
        return file

    async def _joined(self, artifact: ArtifactView, copy: CopyView, since: float) -> CopyRead:
        """A copy that is being read already is not read twice: what the first does about it, the second would undo."""
        if copy.damaged:
            why = "it was set aside before, and is replaced as soon as another copy can be read"
            return CopyRead(place=copy.place, found="damaged", why=why, at=self._clock.now())
        if copy.verified_at is not None and copy.verified_at >= since:
            return CopyRead(place=copy.place, found="right", why=None, at=copy.verified_at)
        key = artifact.sha256, copy.place
        task = self._reading.get(key)
        if task is None:
            task = self._reading[key] = asyncio.create_task(self._read(_name(artifact), copy.place))
            task.add_done_callback(lambda _: self._reading.pop(key))
        return await asyncio.shield(task)

    async def _read(self, name: ObjectName, place: str) -> CopyRead:
        located, faults = self._located.get(place), list[Exception]()
        if located is None:
            return self._found(place, "unread", "the place is no part of this fleet now")
        store, pace = located.store, self._pace(place)

        def check() -> None:
            try:
                store.check(name, pace)
            except Exception as error:
                faults.append(error)
                raise

        right = await self._verdicts.done(place, place, name, check, self._checking.of(place))
        if right:
            await self._verdicts.say(CopiesTold(place=place, verified=(name.sha256,)))
            return self._found(place, "right", None)
        if right is None:
            return self._found(place, "unread", located.trouble or ENDS)
        return self._found(place, "damaged" if isinstance(faults[0], Damaged) else "gone", str(faults[0]))

    def _found(self, place: str, found: Any, why: str | None) -> CopyRead:
        return CopyRead(place=place, found=found, why=why, at=self._clock.now())

    def _pace(self, place: str) -> Callable[[int], None]:
        return self._located[place].bandwidth.pace

    async def _in_thread(self, place: str, work: Callable[..., T], *args: Any) -> T:
        """Raises `LinkLost` where the controller ends meanwhile, and `FilesError` for what the system says."""
        if self._is_closed:
            raise LinkLost(ENDS)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._handing_out.of(place), work, *args)
        except Stopped as error:
            raise LinkLost(ENDS) from error
        except OSError as error:
            raise FilesError(f"it cannot be read: {error}") from error


def _nearest(copy: CopyView) -> tuple[bool, bool, str]:
    return copy.place != HUB, not copy.counts, copy.place


def _name(artifact: ArtifactView) -> ObjectName:
    return ObjectName(artifact.sha256, SUFFIXES[artifact.kind])


def _nowhere(artifact: ArtifactView, there: Sequence[CopyView], faults: Sequence[HostlerError]) -> HostlerError:
    what = f"{artifact.kind} {artifact.sha256}"
    if not there:
        return FilesError(f"no place holds {what} any more; what was made from it is there: `hostler artifact lineage`")
    said = "; ".join(f"{each.place}: {fault}" for each, fault in zip(there, faults, strict=True))
    shape = LinkLost if all(isinstance(each, LinkError) for each in faults) else FilesError
    return shape(f"{what} can be read nowhere now ({said}); `hostler artifact verify` reads all copies again")


def _no_copy(artifact: ArtifactView, place: str) -> str:
    there = ", ".join(each.place for each in artifact.copies) or "nowhere"
    return f"no copy of {artifact.sha256[:16]} is noted for {place[:100]!r}; there is one in: {there}"
