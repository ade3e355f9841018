"""Files to and from a node, over a connection of their own to its agent: by hash, many at a time, and resumed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from hostler.agent.files import CHANGED_MAX, LEFT_SHOWN
from hostler.backends.arriving import PIECE, Disk, Sink, Wanted, folders, looked, opened, resumed, verified, written
from hostler.backends.base import GONE, Changed
from hostler.backends.bounds import FILES_LINE
from hostler.backends.channel import PROTOCOL, encoded, words
from hostler.backends.receiver import counted, hash_told, misfit
from hostler.model.errors import FilesChanged, FilesError, LinkLost, LinkRefused, PartlyFetched
from hostler.model.record import record

Pace: TypeAlias = Callable[[int], None]
SILENCE_S = 600.0
"""A node that hashes tens of gigabytes says nothing meanwhile. That a line is dead, others notice sooner."""
SHOWN = 80
BATCH = 1000
"""Files that are asked for in one request."""
PATH_MOST = 4096
"""Characters of a path."""
IN_FLIGHT = 200
"""Requests that may be on their way at once: their answers wait in pipes."""


class Reader(Protocol):
    """What of a stream's reader is needed."""

    async def readline(self) -> bytes:
        """A line with its end, or what there was before the end."""

    async def read(self, n: int) -> bytes:
        """Some bytes, at most so many; nothing at the end."""


@runtime_checkable
class Lands(Protocol):
    """A reader that has a thread of its own."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come."""

    async def land(self, files: Sequence[Wanted], disk: Disk, moved: Callable[[], None], where: str) -> list[str]:
        """Take files that were asked for, in that thread; their hashes.

        Raises as `Courier.get`, and `ConnectionError`. Nothing is written any more when it returns, however it does.
        """


@record
class Parcel:
    """A file of this machine that a node is to have at `path`, below its agent's folder."""

    source: Path
    path: str
    size: int
    sha256: str


@record
class Missing:
    """A file that a node does not have, or not all of."""

    parcel: Parcel
    offset: int
    """How much of it has come before."""

    @property
    def size(self) -> int:
        """What is to be sent of it."""
        return self.parcel.size - self.offset


class Paced(NamedTuple):
    """Who is told of each piece that is sent, and may wait, in which thread."""

    told: Pace
    thread: Executor


class Outputs(NamedTuple):
    """The files that patterns mean where an attempt ran."""

    folder: str
    files: list[tuple[str, int]]
    """Paths and sizes."""
    links: tuple[str, ...]
    """Some of the symbolic links that they mean, which are not fetched."""
    links_count: int


class Landed:
    """Files that have come, with their hashes, and are on their way to the disk."""

    def __init__(self, hashes: list[str], files: Sequence[Wanted], disk: Disk) -> None:
        self._hashes = hashes
        self._files = files
        self._disk = disk

    async def publish(self) -> list[str]:
        """Give them their names once they are on the disk; the hashes. Raises `OSError`."""
        try:
            await asyncio.to_thread(self._disk.publish, self._files)
        finally:
            self._disk.close()
        return self._hashes


class Courier:
    """One connection for files. Methods must not run side by side; each raises `LinkLost` where it breaks."""

    def __init__(self, where: str, reader: Reader, writer: asyncio.StreamWriter) -> None:
        self._where = where
        self._reader = reader
        self._lands = reader if isinstance(reader, Lands) else None
        self._writer = writer
        self._is_closed = False
        self._signs = 0
        """How often something has moved."""

    @property
    def broken(self) -> bool:
        """Whether it is of no use any more, as far as this side can tell."""
        return self._is_closed or self._writer.is_closing() or (self._lands is not None and self._lands.is_over)

    async def greet(self, epoch: int, *, guest: bool = False) -> None:
        """The opening words; to a guest of the agent, if its files are not served by itself.

        Raises `LinkRefused` where the agent obeys a newer controller.
        """
        await self._send({"type": "files", "protocol": PROTOCOL, "epoch": epoch, "guest": guest})
        answer = await self._hear()
        if answer.get("type") != "hello":
            raise LinkRefused(
                f"the agent on {self._where} refused to take files: {words(answer.get('reason') or answer)}"
            )

    async def put(self, parcels: Sequence[Parcel]) -> None:
        """Send what the node does not have. Raises `FilesError` where it has no room, or a file changes meanwhile."""
        await self.send(await self.missing(parcels))

    async def missing(self, parcels: Sequence[Parcel]) -> list[Missing]:
        """What the node does not have."""
        paths = {each.sha256: each.path for each in parcels}
        if not paths:
            return []
        answer = await self.ask({"op": "missing", "files": paths})
        with understood("what it does not have"):
            come: Mapping[str, int] = answer["missing"]
            chosen = {each.sha256: each for each in parcels if each.sha256 in come}
            return [Missing(parcel=each, offset=_begun(come[each.sha256], each)) for each in chosen.values()]

    async def send(self, missing: Sequence[Missing], pace: Paced | None = None) -> None:
        """Send this. Raises as `put`."""
        async with self._watched():
            await self._pipelined(missing, pace)

    async def bring(self, source: Path, path: str, size: int, sha256: str, pace: Pace) -> None:
        """Have one file there, unless there is one.

        It is read in a thread of its own: all others may be waiting for just this.
        """
        missing = await self.missing([Parcel(source=source, path=path, size=size, sha256=sha256)])
        thread = ThreadPoolExecutor(1, "shelf")
        try:
            await self.send(missing, Paced(pace, thread))
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    async def lay(self, tree: str, files: Iterable[tuple[str, str, bool]], *, shared: bool) -> str:
        """Make a folder of files (path, SHA-256, whether it can be executed) that were put; its path on the node."""
        answer = await self.ask({"op": "lay", "tree": tree, "files": list(files), "shared": shared})
        with understood("a folder"):
            return path_told(answer["path"])

    async def outputs(self, attempt: str, patterns: Sequence[str]) -> Outputs:
        """The folder in which an attempt ran, and the files below it that patterns mean, with their sizes."""
        answer = await self.ask({"op": "outputs", "attempt": attempt, "patterns": list(patterns)})
        with understood(f"the files of {attempt}"):
            files = [(path_told(path), bytes_told(size)) for path, size in answer["files"]]
            return Outputs(path_told(answer["folder"]), files, *_links(answer))

    async def changed(self, attempt: str, laid: Sequence[str]) -> tuple[str, Changed]:
        """The folder in which an attempt ran, and the files below it that are new or changed.

        `laid` are the paths that were laid out for it. Raises `PartlyFetched` where the folder is gone.
        """
        answer = await self.ask({"op": "outputs", "attempt": attempt, "patterns": ["**"], "laid": list(laid)})
        with understood(f"the files of {attempt}"):
            if answer.get("gone"):
                raise PartlyFetched(GONE)
            files = tuple((path_told(path), bytes_told(size)) for path, size in answer["files"])
            if len(files) > 2 * CHANGED_MAX or sum(size for _, size in files) > bytes_told(answer["bytes"]):
                raise ValueError(f"it lists {len(files)} files, and their number and size are not those that it states")
            left = tuple(words(path, PATH_MOST) for path in answer["left"][: 2 * LEFT_SHOWN])
            counts = [bytes_told(answer[name]) for name in ("count", "bytes", "left_count")]
            return path_told(answer["folder"]), Changed(files, counts[0], counts[1], left, counts[2], *_links(answer))

    async def find(self, names: Sequence[str]) -> dict[str, tuple[str, int]]:
        """Paths and sizes of artifacts of the node by their hashes, as far as they are there."""
        answer = await self.ask({"op": "find", "sha256": list(names)})
        with understood("its artifacts"):
            return {name: (path_told(path), bytes_told(size)) for name, (path, size) in answer["found"].items()}

    async def get(self, files: Sequence[Wanted]) -> list[str]:
        """Fetch files, from below the agent's folder to paths here; their hashes. What has come does not come again.

        All are on disk, with the hash that the node took while it read them, when this returns. Raises `FilesError`
        where one is not there, or another than is wanted, and `OSError` where it cannot be written here.
        """
        return await (await self.land(files)).publish()

    async def land(self, files: Sequence[Wanted]) -> Landed:
        """The first part of `get`: all have come, and are to be published. Raises as that."""
        here, todo, begun = await asyncio.to_thread(looked, files)
        disk = Disk(folders(each.partial for each in todo))
        sending = asyncio.create_task(self._ask_for(todo, begun))
        try:
            async with self._watched():
                came = await self._landed(todo, disk)
                await sending
        except BaseException:
            self.close()  # what is on its way would be taken for what is asked for next
            disk.close()
            raise
        finally:
            sending.cancel()
        fresh = iter(came)
        return Landed([next(fresh) if digest is None else digest for digest in here], todo, disk)

    async def clear(self, tree: str) -> None:
        """Delete a folder that was laid out."""
        await self.ask({"op": "clear", "tree": tree})

    async def keep(self, trees: Sequence[str]) -> None:
        """Delete all folders that were laid out but these, and what has not been used for long."""
        await self.ask({"op": "keep", "trees": list(trees)})

    def close(self) -> None:
        """Hang up."""
        self._is_closed = True
        self._writer.close()

    async def _pipelined(self, missing: Sequence[Missing], pace: Paced | None) -> None:
        """Send one after the other without waiting for answers, of which some hundred may be due."""
        room = asyncio.Semaphore(IN_FLIGHT)

        async def answers() -> None:
            for _ in missing:
                self._understood(await self._hear())
                room.release()

        hearing = asyncio.create_task(answers())
        try:
            for each in missing:
                await _first(room.acquire(), hearing)
                await _first(self._send_file(each, pace), hearing)
            await hearing
        except BaseException:
            self._cut()  # answers to what is on its way would be taken for those to what comes next
            raise
        finally:
            hearing.cancel()

    async def _send_file(self, missing: Missing, pace: Paced | None = None) -> None:
        parcel, left = missing.parcel, missing.size
        head = {"path": parcel.path, "sha256": parcel.sha256, "size": parcel.size, "offset": missing.offset}
        await self._send({"op": "put", **head})
        try:
            async for data in _pieces(parcel.source, missing.offset, left, pace):
                left -= len(data)
                await self._write(data)
        except FileNotFoundError as error:
            raise FilesChanged(f"{parcel.source} was there, and is not any more") from error
        if left:
            raise FilesChanged(f"{parcel.source} became shorter while it was sent")

    async def _ask_for(self, files: Sequence[Wanted], begun: Mapping[str, int]) -> None:
        for at in range(0, len(files), BATCH):
            asked = [(wanted.path, begun.get(wanted.partial, 0)) for wanted in files[at : at + BATCH]]
            await self._send({"op": "get", "files": asked})

    async def _landed(self, files: Sequence[Wanted], disk: Disk) -> list[str]:
        if self._lands is None:
            return [await self._receive(wanted, disk) for wanted in files]
        try:
            return await self._lands.land(files, disk, self._move, self._where)
        except ConnectionError as error:
            raise self._lost(str(error)) from error

    async def _receive(self, wanted: Wanted, disk: Disk) -> str:
        answer = await self._hear()
        if "error" in answer:
            raise FilesError(f"{wanted.path} of {self._where} cannot be fetched: {words(answer['error'])}")
        try:
            size, offset = counted(answer, "size"), counted(answer, "offset")
        except ConnectionError as error:
            raise self._lost(str(error)) from error
        if (fault := misfit(size, offset, wanted.most)) is not None:
            raise FilesError(f"{wanted.path} of {self._where} cannot be fetched: {fault}")
        partial, digest = wanted.partial, hashlib.sha256()
        with written(wanted.target), opened(partial, "ab" if offset else "wb") as output:
            if offset:
                digest = await asyncio.to_thread(resumed, output, partial, offset, self._move)
            await self._take(Sink(output, digest, lambda: disk.begin(partial), self._move), size - offset)
        disk.sync(partial)
        told = answer.get("sha256") or await self._late_hash()
        return verified(wanted, digest.hexdigest(), told, self._where)

    async def _late_hash(self) -> str:
        try:
            return hash_told(await self._hear())
        except ConnectionError as error:
            raise self._lost(str(error)) from error

    def _move(self) -> None:
        self._signs += 1

    async def _take(self, sink: Sink, left: int) -> None:
        """Fill a sink with so many bytes: large ones in a thread, while the next are on their way."""
        taking: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        taking.set_result(None)
        try:
            while left > 0:
                pieces, size = list[bytes](), 0
                while size < min(left, PIECE):
                    pieces.append(await self._read(left - size))
                    size += len(pieces[-1])
                left -= size
                await taking
                if size < PIECE:
                    sink.write(b"".join(pieces))
                else:
                    taking = asyncio.ensure_future(asyncio.to_thread(sink.write_all, pieces))
        finally:
            await taking

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """One request, one answer. Raises `FilesError` where that tells of one."""
        async with self._watched():
            await self._send(request)
            return self._understood(await self._hear())

    async def piece(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        """One request, its answer, and as many bytes behind it as it says (`count`)."""
        async with self._watched():
            await self._send(request)
            answer = self._understood(await self._hear())
            with understood("a piece of a file"):
                pieces, left, most = list[bytes](), int(answer.get("count", 0)), int(request.get("limit", PIECE))
                if not 0 <= left <= most:
                    raise ValueError(f"{left} bytes are to follow, {most} were asked for")
            while left > 0:
                pieces.append(await self._read(left))
                left -= len(pieces[-1])
            return answer, b"".join(pieces)

    def _understood(self, answer: dict[str, Any]) -> dict[str, Any]:
        if "error" in answer:
            raise (FilesChanged if answer.get("damaged") else FilesError)(f"{self._where}: {words(answer['error'])}")
        return answer

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._write(encoded(message))

    async def _write(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise self._lost("it is closed")
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise self._lost(str(error)) from error
        self._signs += 1

    async def _read(self, most: int) -> bytes:
        try:
            data = await self._reader.read(most)
        except (OSError, RuntimeError) as error:
            raise self._lost(str(error)) from error
        if not data:
            raise self._lost("it hung up")
        self._signs += 1
        return data

    async def _hear(self) -> dict[str, Any]:
        try:
            line = await self._reader.readline()
        except ValueError as error:  # to ask for the same again would bring the same
            self.close()
            raise FilesError(f"{self._where} answers with a line longer than {FILES_LINE} bytes: {error}") from error
        except OSError as error:
            raise self._lost(str(error)) from error
        if not line.endswith(b"\n"):
            raise self._lost("it hung up")
        self._signs += 1
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._lost(f"it answers with no JSON: {line[:SHOWN]!r}") from error
        if not isinstance(answer, dict):
            raise self._lost(f"it answers with no JSON object: {line[:SHOWN]!r}")
        return answer

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        """Cut the connection when nothing moves on it for too long. A time limit of each read would cost far more."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        signs = -1
        while signs != self._signs:
            signs = self._signs
            await asyncio.sleep(SILENCE_S)
        self._cut()

    def _cut(self) -> None:
        """Hang up, and send nothing more of what waits for that."""
        self._is_closed = True
        self._writer.transport.abort()

    def _lost(self, why: str) -> LinkLost:
        self.close()
        return LinkLost(f"the connection for files to {self._where} broke: {why}")


def _links(answer: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
    """Some symbolic links and how many there are; an earlier agent says nothing of them."""
    shown = tuple(words(path, PATH_MOST) for path in answer.get("links", ())[:LEFT_SHOWN])
    return shown, bytes_told(answer.get("links_count", 0))


def path_told(told: object) -> str:
    """The path of a file of a node. Raises `ValueError` where no file here can be called so."""
    if not isinstance(told, str) or "\0" in told or len(told) > PATH_MOST:
        raise ValueError(f"{told!r:.{SHOWN}} is not the path of a file")
    os.fsencode(told)  # half of a surrogate pair is no byte of a name: a `UnicodeEncodeError`, which is a `ValueError`
    return told


def bytes_told(told: object) -> int:
    """A number of bytes, or of files, that a node reports; journals take no other. Raises `ValueError`."""
    if type(told) is not int or not 0 <= told < 1 << 63:
        raise ValueError(f"{told!r:.{SHOWN}} is no number of bytes")
    return told


@contextmanager
def understood(what: str) -> Iterator[None]:
    """Whatever a node answers is a `FilesError` where it is not what was asked for."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FilesError(f"what the node tells of {what} cannot be understood: {error}") from error


def _begun(told: int, parcel: Parcel) -> int:
    """How much of a file has come before, as the node tells. Raises `ValueError` where it cannot be so."""
    if type(told) is not int or told < 0:
        raise ValueError(f"{told!r:.{SHOWN}} is no number of bytes")
    return min(told, parcel.size)


async def _first(work: Awaitable[Any], hearing: asyncio.Task[None]) -> None:
    """Do something unless what is heard meanwhile is an error, which is raised."""
    doing = asyncio.ensure_future(work)
    try:
        await asyncio.wait({doing, hearing}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            hearing.result()
        await doing
    finally:
        doing.cancel()


async def _pieces(path: Path, offset: int, left: int, pace: Paced | None) -> AsyncIterator[bytes]:
    loop, thread = asyncio.get_running_loop(), None if pace is None else pace.thread
    with path.open("rb") as source:
        source.seek(offset)
        while left > 0 and (data := await loop.run_in_executor(thread, source.read, min(left, PIECE))):
            left -= len(data)
            if pace is not None:
                await loop.run_in_executor(thread, pace.told, len(data))
            yield data
