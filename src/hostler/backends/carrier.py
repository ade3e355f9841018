"""What work needs goes to a node, and what it leaves comes back, over connections of their own beside the agent's."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from hostler.agent.files import ARTIFACTS, BLOBS
from hostler.backends.base import Store
from hostler.backends.courier import Courier, Parcel, Wanted
from hostler.backends.packing import Packed, Packer, library
from hostler.model.commands import AttemptOrder, WorkerOrder
from hostler.model.errors import FilesError
from hostler.model.files import Fetch, FileRef, named_in

OWN = "hostler.workloads"
COURIERS = 3
"""Connections for files at a time: a server gives a connection ten sessions (`MaxSessions`), and others need some."""


class Carrier:
    """The files of one node. `dial` makes a greeted connection; `folder` is the agent's on the node."""

    def __init__(self, dial: Callable[[], Awaitable[Courier]], packer: Packer, store: Store) -> None:
        self._dial = dial
        self._packer = packer
        self._store = store
        self._room = asyncio.Semaphore(COURIERS)
        self._idle: list[Courier] = []

    async def attempt(self, order: AttemptOrder, folder: str) -> AttemptOrder:
        """An order whose folder, program and artifacts are on the node."""
        env = await self._environment(order.argv, order.env, folder)
        await self._send_artifacts(order.inputs)
        return replace(order, env=env, cwd=await self._own_folder(order))

    async def worker(self, order: WorkerOrder, folder: str) -> WorkerOrder:
        """A worker whose folder and program are on the node. Workers of equal files share their folder."""
        env = await self._environment(order.argv, order.env, folder)
        if order.cwd is None:
            return replace(order, env=env)
        return replace(order, env=env, cwd=await self._shared(Path(order.cwd), order.files))

    async def fetch(self, attempt: str, what: Fetch) -> tuple[FileRef, ...]:
        """Everything that was asked for, checked, on this machine. Raises `FilesError`, `LinkLost`, `OSError`."""
        async with self._courier() as courier:
            artifacts = await self._fetch_artifacts(courier, what.artifacts) if what.artifacts else []
            outputs = await self._fetch_outputs(courier, attempt, what.outputs) if what.outputs else []
        return (*artifacts, *outputs)

    async def clear(self, attempt: str) -> None:
        """Delete what was laid out for an attempt."""
        async with self._courier() as courier:
            await courier.clear(attempt)

    async def keep(self, attempts: Sequence[str]) -> None:
        """Delete what was laid out for others."""
        async with self._courier() as courier:
            await courier.keep(attempts)

    def close(self) -> None:
        """Hang up."""
        for courier in self._idle:
            courier.close()
        self._idle.clear()

    async def _environment(self, argv: Sequence[str], env: Mapping[str, str], folder: str) -> dict[str, str]:
        own = {**env, "HOSTLER_ARTIFACTS": f"{folder}/{ARTIFACTS}"}
        if not any(word.startswith(OWN) for word in argv):
            return own
        code = await self._shared(*library())
        return {**own, "PYTHONPATH": ":".join(filter(None, (code, env.get("PYTHONPATH"))))}

    async def _own_folder(self, order: AttemptOrder) -> str | None:
        """A folder that nobody else writes to, with the files of the one it is to run in."""
        if order.cwd is None:
            return None
        packed = await self._pack(Path(order.cwd), order.files)
        async with self._courier() as courier:
            await courier.put([_parcel(each) for each in packed])
            return await courier.lay(order.id, _listed(packed), shared=False)

    async def _shared(self, folder: Path, patterns: Sequence[str] | None) -> str:
        """A folder for everybody who needs just these files."""
        packed = await self._pack(folder, patterns)
        listed = list(_listed(packed))
        name = "shared-" + hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:32]
        async with self._courier() as courier:
            await courier.put([_parcel(each) for each in packed])
            return await courier.lay(name, listed, shared=True)

    async def _pack(self, folder: Path, patterns: Sequence[str] | None) -> list[Packed]:
        return await asyncio.to_thread(self._packer.pack, folder, patterns)

    async def _send_artifacts(self, inputs: object) -> None:
        """Those that an order names and this machine has; what is missing on the node then, its stage tells."""
        names = sorted(named_in(inputs)) if inputs else []
        parcels = await asyncio.to_thread(lambda: list(self._artifacts(names)))
        if parcels:
            async with self._courier() as courier:
                await courier.put(parcels)

    def _artifacts(self, names: Sequence[str]) -> Iterator[Parcel]:
        for name in names:
            for path in sorted((self._store.artifacts / "objects" / name[:2]).glob(f"{name}*")):
                place = f"{ARTIFACTS}/objects/{name[:2]}/{path.name}"
                yield Parcel(source=path, path=place, size=path.stat().st_size, sha256=name)

    async def _fetch_artifacts(self, courier: Courier, names: Sequence[str]) -> list[FileRef]:
        found = await courier.find(names)
        missing = [name for name in names if name not in found]
        if missing:
            raise FilesError(f"its result tells of {missing[0]}, which is not among the artifacts of the node")
        refs = [FileRef(path=_below(path, ARTIFACTS), size=size, sha256=name) for name, (path, size) in found.items()]
        root = self._store.artifacts
        wanted = [
            Wanted(path=f"{ARTIFACTS}/{ref.path}", size=ref.size, target=root / _relative(ref.path), sha256=ref.sha256)
            for ref in refs
        ]
        await courier.get(wanted)
        return refs

    async def _fetch_outputs(self, courier: Courier, attempt: str, patterns: Sequence[str]) -> list[FileRef]:
        folder, found = await courier.outputs(attempt, patterns)
        if not found:
            raise FilesError(f"it left no file that `outputs: {', '.join(patterns)}` means")
        root = self._store.results / attempt
        wanted = [Wanted(path=f"{folder}/{path}", size=size, target=root / _relative(path)) for path, size in found]
        hashes = await courier.get(wanted)
        return [
            FileRef(path=f"{attempt}/{path}", size=size, sha256=digest)
            for (path, size), digest in zip(found, hashes, strict=True)
        ]

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


def _parcel(packed: Packed) -> Parcel:
    place = f"{BLOBS}/{packed.sha256[:2]}/{packed.sha256}"
    return Parcel(source=packed.source, path=place, size=packed.size, sha256=packed.sha256)


def _listed(packed: Sequence[Packed]) -> Iterator[tuple[str, str, bool]]:
    return ((each.path, each.sha256, each.executable) for each in packed)


def _below(path: str, folder: str) -> str:
    return str(PurePosixPath(path).relative_to(folder))


def _relative(path: str) -> PurePosixPath:
    """A path that a node has told of. Raises `FilesError` where it leads out of its folder."""
    found = PurePosixPath(path)
    if found.is_absolute() or not found.parts or ".." in found.parts or "\0" in path:
        raise FilesError(f"the node tells of a file {path!r}, which is no path below a folder")
    return found
