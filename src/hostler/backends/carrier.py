"""What work needs goes to a node, and what it leaves comes back, over connections of their own beside the agent's."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TypeAlias, TypeVar

from hostler.agent.files import ARTIFACTS, BLOBS, ENDINGS, OUTPUTS_MAX
from hostler.backends.arriving import Wanted, come, size_of
from hostler.backends.base import Removed, Stock, Stocked, Store, expect_no_links
from hostler.backends.channel import words
from hostler.backends.courier import Courier, Parcel, bytes_told, understood
from hostler.backends.guests import DialForMuch, Guests
from hostler.backends.packing import LIBRARY, Packed, Packer
from hostler.model.commands import AttemptOrder, WorkerOrder
from hostler.model.errors import FilesChanged, FilesError, NotFound, PartlyFetched
from hostler.model.files import SHA256, Fetch, FileRef, named_in
from hostler.snapshots.reserve import RESERVE

Dial: TypeAlias = Callable[[], Awaitable[Courier]]
Result = TypeVar("Result")
OWN = "hostler.workloads"
GROWTH = 256 << 20
"""Bytes by which files of an attempt may have grown since their sizes were told, all together, which is less than is
spared: what a job has left may be written to still."""
CHANGES_MAX = 3
"""Times that files may be others than they were a moment before."""
SHOWN = 200
"""Letters of what a node says in its own words."""
COURIERS = 3
"""Connections for files at a time: a server gives a connection ten sessions (`MaxSessions`), and others need some."""


class Carrier:
    """The files of one node. `dial` makes a greeted connection, `dial_for_much` one for much, if there is any such.

    `folder` is always the agent's on the node.
    """

    def __init__(
        self, dial: Dial, dial_for_much: DialForMuch, packer: Packer, store: Store, outputs: int = OUTPUTS_MAX
    ) -> None:
        self._outputs = outputs
        self._dial = dial
        self._guests = Guests(dial_for_much)
        self._packer = packer
        self._store = store
        self._room = asyncio.Semaphore(COURIERS)
        self._sending = asyncio.Lock()
        """They share one line there: what two need is sent once."""
        self._finding = asyncio.Lock()
        """It takes a moment, and another connection starts a process there."""
        self._idle: list[Courier] = []

    async def attempt(self, order: AttemptOrder, folder: str) -> AttemptOrder:
        """An order whose folder, program and artifacts are on the node."""
        env = await self._environment(order.argv, order.env, folder)
        await self._send_artifacts(order.inputs)
        return replace(order, env=env, cwd=await self._own_folder(order), snapshot=None)

    async def worker(self, order: WorkerOrder, folder: str) -> WorkerOrder:
        """A worker whose folder and program are on the node.

        Workers of one sweep with a snapshot share their folder, others those of equal files.
        """
        env = await self._environment(order.argv, order.env, folder)
        if order.snapshot is not None and order.sweep is not None:
            packed = await asyncio.to_thread(self._snapshot, order.snapshot)
            cwd: str | None = await self._laid(order.sweep, packed, shared=True)
        elif order.cwd is not None:
            cwd = await self._shared(Path(order.cwd), order.files)
        else:
            cwd = None
        return replace(order, env=env, cwd=cwd, snapshot=None)

    async def fetch(self, attempt: str, what: Fetch) -> tuple[FileRef, ...]:
        """Everything that was asked for, checked, on this machine. Raises `FilesError`, `LinkLost`, `OSError`."""
        incoming = self._store.incoming(attempt)
        artifacts: list[FileRef] = []
        try:
            artifacts = await self._fetch_artifacts(what.artifacts, incoming) if what.artifacts else []
            outputs = await self._fetch_outputs(attempt, what.outputs, incoming) if what.outputs else []
            if what.changed_since is not None:
                outputs = await self._fetch_changed(attempt, what.changed_since, incoming)
        except PartlyFetched as error:
            await _delete(incoming)
            raise PartlyFetched(str(error), (*artifacts, *error.files)) from error
        except FilesError as error:
            if not isinstance(error, FilesChanged):  # nothing more of it comes
                await _delete(incoming)
            raise
        await _delete(incoming)
        return (*artifacts, *outputs)

    async def clear(self, attempt: str) -> None:
        """Delete what was laid out for an attempt or a sweep, and what of it was on its way here."""
        await _delete(self._store.incoming(attempt))
        async with self._courier() as courier:
            await courier.clear(attempt)

    async def keep(self, wanted: Sequence[str]) -> None:
        """Delete what was laid out for other attempts and sweeps."""
        async with self._courier() as courier:
            await courier.keep(wanted)

    async def stock(self, after: str, limit: int) -> Stock:
        """The artifacts that lie there, a page of them."""
        async with self._courier() as courier:
            told = await courier.ask({"op": "stock", "after": after, "limit": limit})
        with understood("its artifacts"):
            total, free = map(bytes_told, told["disk"])
            return Stock(
                files=tuple(map(_stocked, told["files"])), more=bool(told["more"]), total_bytes=total, free_bytes=free
            )

    async def drop(self, names: Sequence[str], unused_s: float) -> Removed:
        """Have these removed, but for those that were used less long ago."""
        async with self._courier() as courier:
            told = await courier.ask({"op": "drop", "names": list(names), "unused_s": unused_s})
        with understood("what it has removed"):
            gone = {_kept(name): bytes_told(size) for name, size in told["gone"]}
            left = {_kept(name): words(why, SHOWN) for name, why in told["left"].items()}
            return Removed(gone=gone, left=left, free_bytes=bytes_told(told["disk"][1]))

    async def drop_environments(self, wanted_bytes: int, unused_s: float) -> Removed:
        """Have Python environments removed that were not used of late, until so much more is free."""
        async with self._courier() as courier:
            told = await courier.ask({"op": "drop_environments", "bytes": wanted_bytes, "unused_s": unused_s})
        with understood("what it has removed"):
            gone = {_key(key): bytes_told(size) for key, size in told["gone"]}
            return Removed(gone=gone, left={}, free_bytes=bytes_told(told["free"]))

    def close(self) -> None:
        """Hang up."""
        for courier in self._idle:
            courier.close()
        self._idle.clear()
        self._guests.close()

    async def _environment(self, argv: Sequence[str], env: Mapping[str, str], folder: str) -> dict[str, str]:
        own = {**env, "HOSTLER_ARTIFACTS": f"{folder}/{ARTIFACTS}"}
        if not any(word.startswith(OWN) for word in argv):
            return own
        code = await self._shared(*LIBRARY)
        return {**own, "PYTHONPATH": ":".join(filter(None, (code, env.get("PYTHONPATH"))))}

    async def _own_folder(self, order: AttemptOrder) -> str | None:
        """A folder that nobody else writes to, with the files of the one it is to run in."""
        if order.snapshot is not None:
            packed = await asyncio.to_thread(self._snapshot, order.snapshot)
        elif order.cwd is not None:
            packed = await self._pack(Path(order.cwd), order.files)
        else:
            return None
        return await self._laid(order.id, packed, shared=False)

    async def _shared(self, folder: Path, patterns: Sequence[str] | None) -> str:
        """A folder for everybody who needs just these files."""
        packed = await self._pack(folder, patterns)
        name = "shared-" + hashlib.sha256(json.dumps(list(_listed(packed))).encode()).hexdigest()[:32]
        return await self._laid(name, packed, shared=True)

    async def _laid(self, name: str, packed: Sequence[Packed], *, shared: bool) -> str:
        """A folder with these files; a shared one stays as it is if there is one."""
        async with self._sending, self._courier() as courier:
            await self._put(courier, [_parcel(each) for each in packed])
            return await courier.lay(name, _listed(packed), shared=shared)

    async def _pack(self, folder: Path, patterns: Sequence[str] | None) -> list[Packed]:
        return await asyncio.to_thread(self._packer.pack, folder, patterns)

    def _snapshot(self, digest: str) -> list[Packed]:
        """The files of a snapshot. Raises `FilesError` where it is not kept any more."""
        snapshots = self._store.snapshots
        try:
            files = snapshots.manifest(digest).files
        except NotFound as error:
            raise FilesError(str(error)) from error
        return [
            Packed(
                path=each.path,
                source=snapshots.content(each.sha256),
                size=each.size,
                sha256=each.sha256,
                executable=each.executable,
            )
            for each in files
        ]

    async def _send_artifacts(self, inputs: object) -> None:
        """Those that an order names and this machine has; what is missing on the node then, its stage tells."""
        names = sorted(named_in(inputs)) if inputs else []
        parcels = await asyncio.to_thread(lambda: list(self._artifacts(names)))
        if parcels:
            async with self._sending, self._courier() as courier:
                await self._put(courier, parcels)

    def _artifacts(self, names: Sequence[str]) -> Iterator[Parcel]:
        for name in names:
            for path in sorted((self._store.artifacts / "objects" / name[:2]).glob(f"{name}*")):
                place = f"{ARTIFACTS}/objects/{name[:2]}/{path.name}"
                yield Parcel(source=path, path=place, size=path.stat().st_size, sha256=name)

    async def _fetch_artifacts(self, names: Sequence[str], incoming: Path) -> list[FileRef]:
        async with self._finding, self._courier() as courier:
            found = await courier.find(names)
        missing = [name for name in names if name not in found]
        if missing:
            raise FilesError(f"its result tells of {missing[0]}, which is not among the artifacts of the node")
        refs = [FileRef(path=_place(name, found[name][0]), size=found[name][1], sha256=name) for name in names]
        root = str(self._store.artifacts)
        wanted = [_wanted(f"{ARTIFACTS}/{ref.path}", ref.size, root, ref.path, incoming, ref.sha256) for ref in refs]
        await self._get(wanted)
        return refs

    async def _fetch_outputs(self, attempt: str, patterns: Sequence[str], incoming: Path) -> list[FileRef]:
        async with self._courier() as courier:
            folder, found, links, links_count = await courier.outputs(attempt, patterns)
        if not found:
            raise FilesError(
                f"it left no file that `outputs: {', '.join(patterns)}` means; links are not taken for files"
            )
        if len(found) > self._outputs:
            raise FilesError(f"it left {len(found)} files, of which {self._outputs} can be fetched; pack them into one")
        files = await self._fetch_found(attempt, folder, found, incoming)
        expect_no_links(links, links_count, tuple(files))
        return files

    async def _fetch_changed(self, attempt: str, snapshot: str, incoming: Path) -> list[FileRef]:
        """New and changed files. Raises `PartlyFetched` where there are too many, or some cannot be read."""
        laid = [each.path for each in await asyncio.to_thread(self._snapshot, snapshot)]
        async with self._courier() as courier:
            folder, found = await courier.changed(attempt, laid)
        found.expect_few(folder)
        files = await self._fetch_found(attempt, folder, found.files, incoming) if found.files else []
        found.expect_all(tuple(files))
        return files

    async def _fetch_found(
        self, attempt: str, folder: str, found: Sequence[tuple[str, int]], incoming: Path
    ) -> list[FileRef]:
        root, growth = str(self._store.results / attempt), GROWTH // len(found)
        wanted = [
            replace(_wanted(f"{folder}/{path}", size, root, _relative(path), incoming), growth=growth)
            for path, size in found
        ]
        hashes = await self._get(wanted)
        return [
            FileRef(path=f"{attempt}/{path}", size=size, sha256=digest)
            for (path, size), digest in zip(found, hashes, strict=True)
        ]

    async def _put(self, courier: Courier, parcels: Sequence[Parcel]) -> None:
        missing = await courier.missing(parcels)
        async with self._guests.for_bytes(sum(each.size for each in missing)) as guest:
            await (guest or courier).send(missing)

    async def _get(self, wanted: Sequence[Wanted]) -> list[str]:
        """Fetch, if there is room for all of it. Raises `OSError` where there is not."""
        for each in wanted:
            if each.size < 0:  # it would make room for the others
                raise FilesError(f"the node tells of {each.path!r:.{SHOWN}} with {each.size} bytes")
        size = await asyncio.to_thread(self._expect_room, wanted)
        async with self._fit_for(size) as courier:
            landed = await courier.land(wanted)
        return await landed.publish()  # others may come meanwhile

    @asynccontextmanager
    async def _fit_for(self, size: int) -> AsyncIterator[Courier]:
        async with self._guests.for_bytes(size) as guest:
            if guest is not None:
                yield guest
                return
            async with self._courier() as courier:
                yield courier

    def _expect_room(self, wanted: Sequence[Wanted]) -> int:
        """Bytes that are to come, at most; what is here already is looked for only where there is no room for all."""
        self._store.results.mkdir(mode=0o700, parents=True, exist_ok=True)
        size, room = sum(each.size for each in wanted), RESERVE.beside(self._store.results)
        if size > room:
            begun = come(wanted)
            size = sum(_to_come(each, begun) for each in wanted)
        RESERVE.expect(self._store.results, size)
        return size

    @asynccontextmanager
    async def _courier(self) -> AsyncIterator[Courier]:
        async with self._room:
            courier = self._idle.pop() if self._idle else await self._dial()
            try:
                yield courier
            except BaseException:
                courier.close()  # nobody knows what is on its way still
                raise
            if courier.broken or self._idle:
                courier.close()
            else:
                self._idle.append(courier)


async def unchanged(work: Callable[[], Awaitable[Result]]) -> Result:
    """Files may change, or be damaged, on their way; what they are then is sent as well."""
    for _ in range(CHANGES_MAX):
        with suppress(FilesChanged):
            return await work()
    return await work()


async def _delete(folder: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _to_come(wanted: Wanted, begun: Mapping[str, int]) -> int:
    """Bytes that there has to be room for; what has come before has its room."""
    here = None if wanted.sha256 is None else size_of(wanted.target)
    return max(0, wanted.size - (begun.get(wanted.partial, 0) if here is None else here))


def _parcel(packed: Packed) -> Parcel:
    place = f"{BLOBS}/{packed.sha256[:2]}/{packed.sha256}"
    return Parcel(source=packed.source, path=place, size=packed.size, sha256=packed.sha256)


def _listed(packed: Sequence[Packed]) -> Iterator[tuple[str, str, bool]]:
    return ((each.path, each.sha256, each.executable) for each in packed)


def _wanted(path: str, size: int, root: str, below: str, incoming: Path, sha256: str | None = None) -> Wanted:
    """Its name while it comes is nobody else's, and the same when it is asked for again."""
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
    return Wanted(path=path, size=size, target=f"{root}/{below}", partial=f"{incoming}/{name}", sha256=sha256)


def _place(digest: str, path: str) -> str:
    """Where an artifact lies in an artifact folder, as a node tells it. Raises `FilesError` where it cannot be so."""
    start = f"{ARTIFACTS}/objects/{digest[:2]}/{digest}"
    if path.removeprefix(start) not in ENDINGS:
        raise FilesError(
            f"the node tells of the artifact {digest} as {path!r}, which is no place for it; "
            f"it is looked for as {start} with the ending of its kind, {' or '.join(sorted(ENDINGS))}"
        )
    return path.removeprefix(f"{ARTIFACTS}/")


def _kept(name: object) -> str:
    """What a node calls an artifact. Raises `FilesError` where none is called so."""
    if not isinstance(name, str) or not SHA256.fullmatch(name[:64]) or name[64:] not in ENDINGS:
        raise FilesError(f"the node tells of an artifact {name!r:.{SHOWN}}, and none is called so")
    return name


def _key(name: object) -> str:
    """The key of a Python environment. Raises `FilesError` where none is called so."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", name):
        raise FilesError(f"the node reports a Python environment {name!r:.{SHOWN}}, which is no key of one")
    return name


def _stocked(row: Sequence[object]) -> Stocked:
    """An artifact with its bytes, and the seconds since its last use. Raises as `bytes_told`."""
    name, size, unused_s = row
    if type(unused_s) not in (int, float) or not 0 <= unused_s < math.inf:  # type: ignore[operator]
        raise ValueError(f"{unused_s!r:.{SHOWN}} is no time")
    return Stocked(name=_kept(name), bytes=bytes_told(size), unused_s=float(unused_s))  # type: ignore[arg-type]


def _relative(path: str) -> str:
    """A path that a node has told of. Raises `FilesError` where it leads out of its folder."""
    found = PurePosixPath(path)
    if found.is_absolute() or not found.parts or ".." in found.parts or "\0" in path:
        raise FilesError(f"the node tells of a file {path!r}, which is no path below a folder")
    return str(found)
