"""Files that jobs left, read from the folder of results: only those that the state names, and no links."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from hostler.model.errors import FilesError, NotFound
from hostler.model.files import FileRef, OutputFile
from hostler.model.views import JobDetail
from hostler.model.work import JobState, ScriptPayload
from hostler.web.desk import FileContent

PIECE = 1 << 20


def files_of(detail: JobDetail) -> Sequence[OutputFile]:
    """The files that the accepted attempt of a script left; none of a job that is not done.

    Files of stages are artifacts, which have names of their own.
    """
    return [OutputFile(path=_inner(ref), size=ref.size, sha256=ref.sha256) for ref in _refs(detail)]


async def content_of(results: Path, detail: JobDetail, path: str) -> FileContent:
    """One of these files. Raises `NotFound` where it is none of them, `FilesError` where it is not as it was."""
    ref = next((each for each in _refs(detail) if _inner(each) == path), None)
    if ref is None:
        job = detail.job.id
        raise NotFound(f"{job} left no file {path[:200]!r}; `hostler fetch {job} --list` lists what it left")
    file = await asyncio.to_thread(_opened, results, ref)
    await asyncio.to_thread(file.close)
    return FileContent(OutputFile(path=path, size=ref.size, sha256=ref.sha256), partial(_pieces, results, ref))


async def _pieces(results: Path, ref: FileRef, begin: int, end: int) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(_opened, results, ref)
    with file:
        await asyncio.to_thread(file.seek, begin)
        while begin < end:
            piece = await asyncio.to_thread(file.read, min(PIECE, end - begin))
            if not piece:
                raise FilesError(f"{ref.path} became shorter while it was read")
            begin += len(piece)
            yield piece


def _refs(detail: JobDetail) -> Sequence[FileRef]:
    is_kept = detail.job.state is JobState.DONE and isinstance(detail.spec.payload, ScriptPayload)
    return detail.files if is_kept else ()


def _inner(ref: FileRef) -> str:
    """The path below the folder of the attempt."""
    return ref.path.partition("/")[2]


def _opened(results: Path, ref: FileRef) -> BinaryIO:
    """The file of a reference, reached without a link. Raises `FilesError`."""
    parts = ref.path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise FilesError(f"{ref.path!r} is no path below the folder of results")
    try:
        file = _reached(results, parts)
    except OSError as error:
        raise FilesError(f"{ref.path} cannot be read in {results}: {error.strerror}") from error
    found = os.fstat(file.fileno())
    if stat.S_ISREG(found.st_mode) and found.st_size == ref.size:
        return file
    file.close()
    raise FilesError(
        f"{ref.path} in {results} is not what the job left: {found.st_size} bytes where {ref.size} were kept. "
        "Restore it from a backup, or run the job again"
    )


def _reached(results: Path, parts: Sequence[str]) -> BinaryIO:
    folder = os.open(results, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO would be waited for
        return os.fdopen(os.open(parts[-1], flags, dir_fd=folder), "rb")
    finally:
        os.close(folder)
