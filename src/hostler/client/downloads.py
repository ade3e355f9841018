"""Files of a job, copied to a folder here: whole, with the right hash, or not under their names.

A file is written beside its place under a temporary name, which a later call takes up where an earlier one was cut.
The paths are the server's word, and are checked before anything is written.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from urllib.parse import quote

from hostler.client.calls import API, RECONNECT_S, Answer, Ask, Rows, Shown, Told, get, listed, part
from hostler.model.errors import (
    Conflict,
    ControllerAbsent,
    FilesChanged,
    FilesError,
    HostlerError,
    LinkLost,
    UsageError,
)

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

PIECE = 4 << 20
"""Bytes of a file in one request."""
PIECE_LEAST = 64 << 10
BLOCK = 1 << 20
PATH_BYTES, NAME_BYTES = 4096, 255
UNFIT = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Kinds of characters that no name here gets: control and format characters, surrogates, ends of lines."""
LISTED = 5
IGNORED = "# Written by `hostler fetch`"
"""How the `.gitignore` of a folder that a fetch has made begins."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
JOB = re.compile(r"j[0-9]{1,18}")
SHA256 = re.compile(r"[0-9a-f]{64}")
RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class FetchedRows(Rows[Any]):
    """Rows of files that are here, and why others of the job are not, if some are not."""

    unfetched: str | None = None


NAME_THEM = "Name those to keep with `hostler submit --output PATTERN` (as `--output 'out/*.pt'`)"


class Left(NamedTuple):
    """A file that a job left, as the server tells of it."""

    path: str
    size: int
    sha256: str


def fetch(
    job: str,
    directory: str | os.PathLike[str] | None,
    *,
    force: bool = False,
    told: Callable[[Mapping[str, Any]], None] | None = None,
) -> Answer[FetchedRows]:
    """Copy the files that a job left; a row for each: `path`, `file` (here), `size`, `sha256`, `copied`.

    `told` is called with each row as soon as its file is there. Nothing is copied if a file is there with other
    content, unless `force` replaces it.
    """
    detail = yield from get(f"/jobs/{part(job)}")
    answer = yield from listed(f"/jobs/{part(job)}/files")
    files = checked(answer)
    if not files:
        raise nothing_left(detail)
    folder = Path(_id(detail) if directory is None else directory)
    same = _same(folder, files, force=force)
    rows = FetchedRows()
    rows.unfetched = detail.get("unfetched")
    for file in files:
        target = folder / file.path
        if file not in same:
            yield from _copy(job, file, target, force=force)
        row = Shown(file._asdict(), file=str(target), copied=file not in same)
        rows.append(row)
        if told is not None:
            told(row)
    return rows


def ignore(folder: Path) -> None:
    """Keep a folder that a fetch has made out of snapshots of the folder around it, and out of git."""
    with suppress(FileExistsError), (folder / ".gitignore").open("x") as opened:
        opened.write(f"{IGNORED}: the next `hostler submit` leaves these files out.\n*\n")


def nothing_left(detail: Any) -> HostlerError:
    """Why there are no files of a job, and what to do."""
    name, state = detail["job"]["id"], detail["job"]["state"]
    if detail["spec"]["payload"]["kind"] != "script":
        return UsageError(
            f"{name} is no script: `hostler artifact list` lists what stages left, `hostler sweep hits` hits"
        )
    if state in ("failed", "cancelled"):
        return Conflict(
            f"{name} is {state}: only a job that is done leaves files; `hostler retry {name}` runs it again"
        )
    if state != "done":
        return Conflict(f"{name} is {state}: files are there once it is done; `hostler wait {name}` waits for that")
    why = detail.get("unfetched")
    return UsageError(
        f"{name} left no files that were kept"
        + (f": {why}" if why else "")
        + ("" if why and "--output" in why else f". {NAME_THEM}")
    )


def _id(detail: Any) -> str:
    """The id of a job, which is to be the name of a folder."""
    found = str(detail["job"]["id"])
    if not JOB.fullmatch(found):
        raise FilesError(f"the controller calls the job {found[:100]!a}, which is no id; name a folder")
    return found


def checked(answer: Any) -> list[Left]:
    """The files of an answer. Raises `FilesError` for a path that leads out of a folder, or contradicts others."""
    try:
        files = [Left(str(row["path"]), int(row["size"]), str(row["sha256"])) for row in answer]
    except (TypeError, KeyError, ValueError) as error:
        raise FilesError(f"the controller's list of files cannot be understood: {error!r}") from error
    for file in files:
        fault = _fault(file)
        if fault is not None:
            raise FilesError(f"the controller names a file {file.path[:200]!a}: {fault}. Nothing was copied")
    paths = {file.path for file in files}
    folders = {str(parent) for path in paths for parent in Path(path).parents}
    twice = (paths & folders) or ({"a path twice"} if len(paths) < len(files) else set())
    if twice:
        raise FilesError(f"the controller's list of files contradicts itself: {min(twice)!a}. Nothing was copied")
    return files


def _fault(file: Left) -> str | None:
    """What keeps a file from being written below a folder here."""
    parts = file.path.split("/")
    if file.size < 0 or not SHA256.fullmatch(file.sha256):
        return "its size or its SHA-256 is none"
    if file.path.startswith("/"):
        return "the path is absolute"
    if any(each in ("", ".", "..") for each in parts):
        return "the path has an empty part, or `.` or `..`"
    if any(unicodedata.category(character) in UNFIT for character in file.path):
        return "the path has control or format characters, or bytes that are not UTF-8"
    try:
        sizes = [len(os.fsencode(each)) for each in parts]
    except UnicodeError:
        return "the path cannot be encoded here"
    if max(sizes) > NAME_BYTES or sum(sizes) + len(sizes) > PATH_BYTES:
        return "the path is too long"
    return None


def _same(folder: Path, files: Sequence[Left], *, force: bool) -> set[Left]:
    """Those that are there with the same content. Raises `UsageError` where something else is in the way."""
    with _told_of(folder):
        found = {file: _standing(folder, file) for file in files}
    blocked = [file.path for file in files if found[file] == "blocked"]
    other = [file.path for file in files if found[file] == "other"]
    if blocked:
        raise UsageError(
            f"in {folder} {_listed(blocked)} cannot be written: a folder is there, or a file in place of its folder. "
            "No file of the job was copied; give another folder"
        )
    if other and not force:
        raise UsageError(
            f"in {folder} there is {_listed(other)} already, with other content. "
            "No file of the job was copied; give another folder, or --force to replace what is there"
        )
    return {file for file in files if found[file] == "same"}


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - LISTED} more" if len(paths) > LISTED else ""
    return ", ".join(paths[:LISTED]) + more


def _standing(folder: Path, file: Left) -> str:
    """What is in the place of a file: `absent`, `same`, `other`, or `blocked` where no file can be."""
    target = folder / file.path
    parents = [folder.joinpath(*Path(file.path).parts[:count]) for count in range(len(Path(file.path).parts))]
    if any(os.path.lexists(parent) and not parent.is_dir() for parent in parents):
        return "blocked"
    try:
        found = target.lstat()
    except FileNotFoundError:
        return "absent"
    if stat.S_ISDIR(found.st_mode):
        return "blocked"
    if not stat.S_ISREG(found.st_mode) or found.st_size != file.size:
        return "other"
    with target.open("rb") as there:
        return "same" if hashlib.file_digest(there, "sha256").hexdigest() == file.sha256 else "other"


def _copy(job: str, file: Left, target: Path, *, force: bool) -> Answer[None]:
    """Bring one file here; it appears whole, or not at all."""
    begun = target.with_name(f".hostler-{file.sha256[:16]}.part")
    with _told_of(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        out = _opened(begun, target)
    with out:
        yield from _filled(job, file, target, begun, out)
        if not force and os.path.lexists(target):
            raise UsageError(f"{target} has appeared meanwhile, and is left as it is; --force replaces it")
        with _told_of(target):
            out.flush()
            os.fsync(out.fileno())
            begun.replace(target)
            _sync(target.parent)


def _opened(begun: Path, target: Path) -> BinaryIO:
    """The temporary file, for this process alone. Raises `UsageError` where another one writes it."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        out = os.fdopen(os.open(begun, flags, 0o666), "r+b")
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if begun.exists() and begun.samefile(f"/dev/fd/{out.fileno()}"):
                return out
        except BlockingIOError:
            out.close()
            raise UsageError(f"{target} is being copied by another process; wait for it") from None
        except BaseException:
            out.close()
            raise
        out.close()  # it got its name, or was deleted, before it was locked


def _filled(job: str, file: Left, target: Path, begun: Path, out: BinaryIO) -> Answer[None]:
    """Write all of a file, from where an earlier call was cut; once more from its beginning where that does not fit."""
    with _told_of(target):
        at, digest = _taken_up(out, file)
    for start in (at, 0):
        if start == 0:
            with _told_of(target):
                out.seek(0)
                out.truncate()
            digest = hashlib.sha256()
        yield from _received(job, file, target, out, start, digest)
        if digest.hexdigest() == file.sha256:
            return
        if start == 0:
            break
    begun.unlink(missing_ok=True)
    raise FilesError(
        f"{file.path} came with the SHA-256 {digest.hexdigest()}, and {file.sha256} was listed: nothing was written "
        "under its name. Fetch it again; if it stays so, the file in the controller's results is damaged"
    )


def _taken_up(out: BinaryIO, file: Left) -> tuple[int, Hash]:
    """How many bytes are there already, and their hash; none where there are more than the file has."""
    digest = hashlib.sha256()
    if os.fstat(out.fileno()).st_size > file.size:
        return 0, digest
    while block := out.read(BLOCK):
        digest.update(block)
    return out.tell(), digest


def _received(job: str, file: Left, target: Path, out: BinaryIO, at: int, digest: Hash) -> Answer[None]:
    """Ask for the bytes from an offset on, piece by piece; a piece whose connection is cut is asked for again.

    Pieces become smaller with each cut, so that bytes keep coming over a link that is cut again and again.
    """
    failures, size = 0, PIECE
    path = f"{API}/jobs/{part(job)}/files/{quote(file.path)}"
    while at < file.size:
        end = min(at + size, file.size)
        try:
            told = yield Ask("GET", path, None, {"Range": f"bytes={at}-{end - 1}", "Accept-Encoding": "identity"})
        except (LinkLost, ControllerAbsent):
            if failures == len(RECONNECT_S):
                raise
            yield RECONNECT_S[failures]
            failures, size = failures + 1, max(size // 2, min(size, PIECE_LEAST))
            continue
        piece = _piece(told, file, at, end)
        with _told_of(target):
            out.write(piece)
        digest.update(piece)
        at, failures = at + len(piece), 0


def _piece(told: Told, file: Left, at: int, end: int) -> bytes:
    """The bytes that were asked for. Raises `FilesChanged` where they are of another file."""
    if told.headers.get("etag") != f'"{file.sha256}"':
        raise FilesChanged(f"{file.path} became another file while it was copied; fetch it again")
    found = RANGE.fullmatch(told.headers.get("content-range", ""))
    if found is None and len(told.body) == file.size:  # something on the way takes no notice of ranges
        return told.body[at:end]
    if found is None or [int(each) for each in found.groups()] != [at, end - 1, file.size]:
        raise FilesError(f"{file.path}: bytes {at} to {end} were asked for, and others came")
    if len(told.body) != end - at:
        raise FilesError(f"{file.path}: {end - at} bytes were asked for, and {len(told.body)} came")
    return told.body


def _sync(folder: Path) -> None:
    """Bring a new name in a folder to the disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def _told_of(target: Path) -> Iterator[None]:
    """What the system says of a place here. Raises `FilesError`."""
    try:
        yield
    except OSError as error:
        full = "; free some space, and fetch again: what came is kept" if error.errno in NO_ROOM else ""
        raise FilesError(f"{target} cannot be written: {error.strerror or error}{full}") from error
