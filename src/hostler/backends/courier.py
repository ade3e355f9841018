"""Files to and from a node, over a connection of their own to its agent: by hash, many at a time, and resumed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

from hostler.backends.channel import PROTOCOL, encoded
from hostler.model.errors import FilesError, LinkLost, LinkRefused
from hostler.model.files import FileRef
from hostler.model.record import record

PIECE = 1 << 20
SILENCE_S = 60.0
"""A node that hashes gigabytes says nothing meanwhile; for longer than this, something is broken."""
SYNCS = 8
"""Files that are written through side by side: a file system does many for the price of a few."""
IN_FLIGHT = 200
"""Requests that may be on their way at once: their answers wait in pipes."""


@record
class Parcel:
    """A file of this machine that a node is to have at `path`, below its agent's folder."""

    source: Path
    path: str
    size: int
    sha256: str


@record
class Wanted:
    """A file of the node, at `path` below its agent's folder, that is to be here as `target`."""

    path: str
    sha256: str
    size: int
    target: Path

    @property
    def partial(self) -> Path:
        """What has come of it."""
        return self.target.with_name(f".{self.sha256[:16]}-{crc32(os.fsencode(self.target.name)):08x}.partial")


class Courier:
    """One connection for files. Methods must not run side by side; each raises `LinkLost` where it breaks."""

    def __init__(self, where: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._where = where
        self._reader = reader
        self._writer = writer
        self.broken = False

    async def greet(self, epoch: int) -> None:
        """The opening words. Raises `LinkRefused` where the agent obeys a newer controller."""
        await self._send({"type": "files", "protocol": PROTOCOL, "epoch": epoch})
        answer = await self._hear()
        if answer.get("type") != "hello":
            raise LinkRefused(f"the agent on {self._where} refused to take files: {answer.get('reason') or answer}")

    async def put(self, parcels: Sequence[Parcel]) -> None:
        """Send what the node does not have. Raises `FilesError` where it has no room, or a file changes meanwhile."""
        wanted = {parcel.sha256: parcel.path for parcel in parcels}
        if not wanted:
            return
        missing: dict[str, int] = (await self._ask({"op": "missing", "files": wanted}))["missing"]
        chosen = list({each.sha256: each for each in parcels if each.sha256 in missing}.values())
        await self._pipelined(chosen, lambda each: self._send_file(each, min(missing[each.sha256], each.size)))

    async def lay(self, tree: str, files: Iterable[tuple[str, str, bool]], *, shared: bool) -> str:
        """Make a folder of files (path, SHA-256, whether it can be executed) that were put; its path on the node."""
        answer = await self._ask({"op": "lay", "tree": tree, "files": list(files), "shared": shared})
        return str(answer["path"])

    async def outputs(self, attempt: str, patterns: Sequence[str]) -> tuple[str, list[FileRef]]:
        """The folder in which an attempt ran, and the files below it that patterns mean."""
        answer = await self._ask({"op": "outputs", "attempt": attempt, "patterns": list(patterns)})
        return answer["folder"], [_ref(each) for each in answer["files"]]

    async def find(self, names: Sequence[str]) -> dict[str, FileRef]:
        """Artifacts of the node by their hashes, as far as they are there."""
        found: Mapping[str, Any] = (await self._ask({"op": "find", "sha256": list(names)}))["found"]
        return {name: _ref(each) for name, each in found.items()}

    async def get(self, files: Sequence[Wanted]) -> None:
        """Fetch files, from below the agent's folder to paths here: what has come before is not sent again.

        Each is on disk, its hash checked, when this returns. Raises `FilesError` where one is another than was told,
        and `OSError` where it cannot be written here.
        """
        todo = await asyncio.to_thread(_absent, files)
        sending = asyncio.create_task(self._ask_for(todo))
        try:
            for wanted in todo:
                await self._receive(wanted)
            await sending
        except BaseException:
            self.close()  # what is on its way would be taken for what is asked for next
            raise
        finally:
            sending.cancel()
        await asyncio.to_thread(_publish, todo)

    async def clear(self, tree: str) -> None:
        """Delete a folder that was laid out."""
        await self._ask({"op": "clear", "tree": tree})

    async def keep(self, trees: Sequence[str]) -> None:
        """Delete all folders that were laid out but these, and what has not been used for long."""
        await self._ask({"op": "keep", "trees": list(trees)})

    def close(self) -> None:
        """Hang up."""
        self.broken = True
        self._writer.close()

    async def _pipelined(self, parcels: Sequence[Parcel], send: Callable[[Parcel], Any]) -> None:
        """Send one after the other without waiting for answers, of which some hundred may be due."""
        room = asyncio.Semaphore(IN_FLIGHT)

        async def answers() -> None:
            for _ in parcels:
                self._understood(await self._hear())
                room.release()

        hearing = asyncio.create_task(answers())
        try:
            for parcel in parcels:
                await _first(room.acquire(), hearing)
                await _first(send(parcel), hearing)
            await hearing
        except BaseException:
            self.close()  # answers to what is on its way would be taken for those to what comes next
            raise
        finally:
            hearing.cancel()

    async def _send_file(self, parcel: Parcel, offset: int) -> None:
        head = {"op": "put", "path": parcel.path, "sha256": parcel.sha256, "size": parcel.size, "offset": offset}
        await self._send(head)
        left = parcel.size - offset
        async for data in _pieces(parcel.source, offset, left):
            left -= len(data)
            await self._write(data)
        if left:
            raise FilesError(f"{parcel.source} became shorter while it was sent")

    async def _ask_for(self, files: Sequence[Wanted]) -> None:
        for wanted in files:
            await self._send({"op": "get", "path": wanted.path, "offset": _size(wanted.partial)})

    async def _receive(self, wanted: Wanted) -> None:
        answer = await self._hear()
        if "error" in answer:
            raise FilesError(f"{wanted.path} of {self._where} cannot be fetched: {answer['error']}")
        left = answer["size"] - answer["offset"]
        with wanted.partial.open("ab") as output:
            digest = await asyncio.to_thread(_resumed, output, wanted.partial, answer["offset"])
            while left > 0:
                data = await self._read(min(left, PIECE))
                left -= len(data)
                if len(data) < PIECE // 8:
                    _take(output, digest, data)
                else:
                    await asyncio.to_thread(_take, output, digest, data)
        if digest.hexdigest() != wanted.sha256:
            wanted.partial.unlink()
            raise FilesError(f"{wanted.path} of {self._where} is not what was told of it: its hash is another one")

    async def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        await self._send(request)
        return self._understood(await self._hear())

    def _understood(self, answer: dict[str, Any]) -> dict[str, Any]:
        if "error" in answer:
            raise FilesError(f"{self._where}: {answer['error']}")
        return answer

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._write(encoded(message))

    async def _write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            async with asyncio.timeout(SILENCE_S):
                await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise self._lost(str(error)) from error

    async def _read(self, most: int) -> bytes:
        try:
            async with asyncio.timeout(SILENCE_S):
                data = await self._reader.read(most)
        except (OSError, RuntimeError) as error:
            raise self._lost(str(error)) from error
        if not data:
            raise self._lost("it hung up")
        return data

    async def _hear(self) -> dict[str, Any]:
        try:
            async with asyncio.timeout(SILENCE_S):
                line = await self._reader.readline()
        except (OSError, ValueError) as error:
            raise self._lost(str(error)) from error
        if not line.endswith(b"\n"):
            raise self._lost("it hung up")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _lost(self, why: str) -> LinkLost:
        self.close()
        return LinkLost(f"the connection for files to {self._where} broke: {why}")


async def _first(work: Awaitable[Any], hearing: asyncio.Task[None]) -> None:
    """Do something unless what is heard meanwhile is an error, which is raised."""
    doing = asyncio.ensure_future(work)
    await asyncio.wait({doing, hearing}, return_when=asyncio.FIRST_COMPLETED)
    if not doing.done():
        doing.cancel()
        hearing.result()
    await doing


async def _pieces(path: Path, offset: int, left: int) -> AsyncIterator[bytes]:
    with path.open("rb") as source:
        source.seek(offset)
        while left > 0 and (data := await asyncio.to_thread(source.read, min(left, PIECE))):
            left -= len(data)
            yield data


def _absent(files: Sequence[Wanted]) -> list[Wanted]:
    """Those that are not here yet, their folders made."""
    todo = [each for each in files if not _is_here(each)]
    for folder in {each.target.parent for each in todo}:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return todo


def _is_here(wanted: Wanted) -> bool:
    if _size(wanted.target) != wanted.size or not wanted.target.exists():
        return False
    with wanted.target.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest() == wanted.sha256


def _resumed(output: BinaryIO, partial: Path, offset: int) -> hashlib._Hash:
    """The hash of what has come before, of which everything behind the offset is dropped."""
    output.truncate(offset)
    if not offset:
        return hashlib.sha256()
    with partial.open("rb") as source:
        return hashlib.file_digest(source, "sha256")


def _take(output: BinaryIO, digest: hashlib._Hash, data: bytes) -> None:
    output.write(data)
    digest.update(data)


def _publish(files: Sequence[Wanted]) -> None:
    """All that has come, on disk under its name: the bytes first."""
    with ThreadPoolExecutor(SYNCS) as pool:
        list(pool.map(_sync, {each.partial for each in files}))
        for each in files:
            each.partial.replace(each.target)
        list(pool.map(_sync, {each.target.parent for each in files}))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _ref(described: Mapping[str, Any]) -> FileRef:
    return FileRef(path=described["path"], size=described["size"], sha256=described["sha256"])
