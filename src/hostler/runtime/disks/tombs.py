"""Tombstones: what is deleted is moved here first, and can be brought back until its grace is over.

A tombstone is a folder of the same root, hence of the same file system, with a list of what belongs into it. The list
is on the disk before the first file is moved: whatever happens in between, each file is either where it was or here,
and the list says which. Nothing here decides anything; every step takes files that were decided about.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from pydantic import ValidationError

from hostler.model import codec
from hostler.model.disks import DoomedFile
from hostler.model.errors import FilesError
from hostler.model.record import record
from hostler.runtime.disks import walking
from hostler.runtime.disks.walking import TOMBS, Identity, Moved

LIST = "list.json"
Passing: TypeAlias = Callable[[str], None]
"""Told of each step as it is reached; tests end the process there."""


def pass_by(_: str) -> None:
    """Nothing happens between two steps."""


@record
class Buried:
    """A file of a tombstone, under the name that it has there."""

    name: str
    file: DoomedFile
    """Its path is the one below the state directory."""
    identity: tuple[int, int, int, int]
    """As it was when it was decided about."""


@record
class Tomb:
    """A tombstone's list."""

    id: str
    who: str
    made_at: float
    until: float
    files: tuple[Buried, ...]


@record
class Move:
    """What became of the files of one step: those that were moved, and of the others why not."""

    moved: tuple[Buried, ...]
    left: tuple[tuple[Buried, str], ...]


class Tombs:
    """The tombstones of one root, which is called `name` below the state directory. Every call waits: use threads."""

    def __init__(self, name: str, root: Path, passing: Passing = pass_by) -> None:
        self.name = name
        self.root = root
        self._passing = passing
        self._known: dict[str, tuple[tuple[int, int, int], Tomb]] = {}
        """Lists that were read before: there may be thousands."""

    def draft(
        self, files: Iterable[tuple[DoomedFile, Identity]], who: str, now: float, until: float, tomb: str | None = None
    ) -> Tomb:
        """A list of files of this root; nothing is on the disk yet."""
        rows = tuple(
            Buried(
                name=f"{number}",
                file=file,
                identity=(identity.device, identity.inode, identity.bytes, identity.mtime_ns),
            )
            for number, (file, identity) in enumerate(files)
        )
        return Tomb(id=tomb or secrets.token_hex(8), who=who, made_at=now, until=until, files=rows)

    def open(self, tomb: Tomb) -> None:
        """Have the list on the disk. Raises `FilesError`; then nothing is there."""
        with self._said(f"the tombstone {tomb.id} cannot be made"), walking.opened(self.root) as root:
            with walking.folder_in(root, (TOMBS, tomb.id), make=True) as own:
                try:
                    _publish(own, LIST, codec.adapter(Tomb).dump_json(tomb), self._passing)
                except BaseException:
                    with suppress(OSError):
                        os.unlink(LIST + ".new", dir_fd=own)
                    with suppress(OSError), walking.folder_in(root, (TOMBS,)) as tombs:
                        os.rmdir(tomb.id, dir_fd=tombs)
                    raise
            with walking.folder_in(root, (TOMBS,)) as tombs:
                os.fsync(tombs)
            os.fsync(root)
        self._passing("opened")

    def bury(self, tomb: Tomb) -> Move:
        """Move the files of the list here, each only if it is still the one that was decided about."""
        moved: list[Buried] = []
        left: list[tuple[Buried, str]] = []
        with walking.opened(self.root) as root, walking.folder_in(root, (TOMBS, tomb.id)) as own:
            for each in tomb.files:
                try:
                    self._move_in(root, own, each)
                except (Moved, OSError) as error:
                    left.append((each, _words(error)))
                else:
                    moved.append(each)
                self._passing("moved")
            os.fsync(own)
        return Move(moved=tuple(moved), left=tuple(left))

    def bring_back(self, tomb: Tomb, files: Sequence[Buried], now: float) -> Move:
        """Move files back to where they were; what has come there meanwhile stays, and so does the file in here.

        They count as used just now: whoever brought them back does not want them deleted with the next cleaning.
        """
        moved: list[Buried] = []
        left: list[tuple[Buried, str]] = []
        with walking.opened(self.root) as root, walking.folder_in(root, (TOMBS, tomb.id)) as own:
            for each in files:
                try:
                    self._move_out(root, own, each, now)
                except (Moved, OSError) as error:
                    left.append((each, _words(error)))
                else:
                    moved.append(each)
                self._passing("brought back")
        return Move(moved=tuple(moved), left=tuple(left))

    def delete(self, tomb: Tomb, files: Sequence[Buried]) -> Move:
        """Delete files of the tombstone for good."""
        moved: list[Buried] = []
        left: list[tuple[Buried, str]] = []
        with walking.opened(self.root) as root, walking.folder_in(root, (TOMBS, tomb.id)) as own:
            for each in files:
                try:
                    os.unlink(each.name, dir_fd=own)
                except FileNotFoundError:
                    moved.append(each)
                except OSError as error:
                    left.append((each, _words(error)))
                else:
                    moved.append(each)
                self._passing("deleted")
            os.fsync(own)
        return Move(moved=tuple(moved), left=tuple(left))

    def shorten(self, tomb: Tomb, gone: Iterable[Buried]) -> Tomb | None:
        """Take files off the list that are not here any more; a tombstone with none is closed, and answered by `None`.

        Where the list cannot be written it stays as long as it was, which is found out at the next look.
        """
        names = {each.name for each in gone}
        left = replace(tomb, files=tuple(each for each in tomb.files if each.name not in names))
        with self._said(f"the list of the tombstone {tomb.id} cannot be written"), walking.opened(self.root) as root:
            if left.files:
                with walking.folder_in(root, (TOMBS, tomb.id)) as own:
                    _publish(own, LIST, codec.adapter(Tomb).dump_json(left), self._passing)
                return left
            self._close(root, tomb.id)
        return None

    def all(self) -> Iterator[Tomb]:
        """Every tombstone of the root, the oldest first; what is no list of ours is left alone."""
        names = self._folders()
        found = [tomb for name in names if (tomb := self.newest(name)) is not None]
        for gone in self._known.keys() - set(names):
            self._known.pop(gone, None)
        yield from sorted(found, key=lambda each: (each.made_at, each.id))

    def newest(self, name: str) -> Tomb | None:
        """The tombstone of that name with its list as it is on the disk now; `None` where there is no list of ours."""
        tomb = self._read(name)
        return tomb if tomb is not None and tomb.id == name else None

    def unreadable(self) -> list[Path]:
        """Folders of tombstones that hold files, and no list of ours that says which."""
        return [self.root / TOMBS / name for name in self._folders() if self.newest(name) is None and self._holds(name)]

    def are_here(self, tomb: Tomb) -> Mapping[str, bool]:
        """By name in the tombstone: whether the file has come here."""
        with walking.opened(self.root) as root, walking.folder_in(root, (TOMBS, tomb.id)) as own:
            there = set(os.listdir(own))
        return {each.name: each.name in there for each in tomb.files}

    def is_where_it_was(self, each: Buried) -> bool:
        """Whether the very file that was decided about lies where it was."""
        folders, name = walking.split(self._inside(each))
        try:
            with walking.opened(self.root) as root, walking.folder_in(root, folders) as there:
                return walking.identity_of(there, name) == Identity(*each.identity)
        except (Moved, OSError):
            return False

    def sweep(self) -> None:
        """Remove what is left of tombstones that never came to have a list: they hold nothing."""
        for name in self._folders():
            if self._read(name) is not None:
                continue
            with suppress(OSError), walking.opened(self.root) as root, walking.folder_in(root, (TOMBS, name)) as own:
                if set(os.listdir(own)) <= {LIST + ".new"}:
                    self._close(root, name)

    def _move_in(self, root: int, own: int, each: Buried) -> None:
        folders, name = walking.split(self._inside(each))
        with walking.folder_in(root, folders) as there:
            if walking.identity_of(there, name) != Identity(*each.identity):
                raise Moved("it is another file than the one that was decided about")
            os.rename(name, each.name, src_dir_fd=there, dst_dir_fd=own)
            if walking.identity_of(own, each.name) != Identity(*each.identity):
                _put_back(own, each.name, there, name)  # somebody was faster than we between the look and the move
                raise Moved("another file came into its place as it was moved; that is back")
            os.fsync(there)
        self._drop_empty(root, folders)

    def _move_out(self, root: int, own: int, each: Buried, now: float) -> None:
        folders, name = walking.split(self._inside(each))
        walking.identity_of(own, each.name)
        with walking.folder_in(root, folders, make=True) as there:
            _put_back(own, each.name, there, name)
            os.utime(name, (now, now), dir_fd=there, follow_symlinks=False)
            os.fsync(there)
        os.fsync(own)

    def _drop_empty(self, root: int, folders: tuple[str, ...]) -> None:
        """A folder of logs that holds nothing any more would be taken for logs of somebody who has said nothing."""
        if len(folders) == 1 and self.name == "logs":
            with suppress(OSError):
                os.rmdir(folders[0], dir_fd=root)

    def _inside(self, each: Buried) -> str:
        beginning, _, inside = each.file.path.partition("/")
        if beginning != self.name:
            raise Moved(f"{each.file.path} is not below {self.name}")
        return inside

    def _holds(self, name: str) -> bool:
        try:
            with walking.opened(self.root) as root, walking.folder_in(root, (TOMBS, name)) as own:
                return not set(os.listdir(own)) <= {LIST + ".new"}
        except (OSError, Moved):
            return False

    def _folders(self) -> list[str]:
        try:
            with walking.opened(self.root) as root, walking.folder_in(root, (TOMBS,)) as tombs:
                return sorted(os.listdir(tombs))
        except OSError:
            return []

    def _read(self, name: str) -> Tomb | None:
        try:
            with walking.opened(self.root) as root, walking.folder_in(root, (TOMBS, name)) as own:
                descriptor = os.open(LIST, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=own)
                with os.fdopen(descriptor, "rb") as file:
                    found = os.fstat(file.fileno())
                    mark, known = (found.st_ino, found.st_mtime_ns, found.st_size), self._known.get(name)
                    if known is not None and known[0] == mark:
                        return known[1]
                    made: Tomb = codec.adapter(Tomb).validate_json(file.read())
        except (OSError, ValidationError, Moved):
            return None
        self._known[name] = mark, made
        return made

    def _close(self, root: int, tomb: str) -> None:
        with walking.folder_in(root, (TOMBS, tomb)) as own:
            for name in (LIST, LIST + ".new"):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=own)
        with walking.folder_in(root, (TOMBS,)) as tombs:
            os.rmdir(tomb, dir_fd=tombs)
            os.fsync(tombs)
        self._passing("closed")

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            more = "; its disk is full: make room by hand" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
            raise FilesError(f"{what} in {self.root}: {error.strerror or error}{more}") from error


def _publish(folder: int, name: str, content: bytes, passing: Passing) -> None:
    draft = name + ".new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    passing("listed")
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def _put_back(own: int, buried: str, there: int, name: str) -> None:
    """Without taking anybody's place: a link is only made where nothing is."""
    try:
        os.link(buried, name, src_dir_fd=own, dst_dir_fd=there, follow_symlinks=False)
    except FileExistsError:
        if walking.identity_of(own, buried)[:2] != walking.identity_of(there, name)[:2]:
            raise Moved("there is another file where it was; move that away first") from None
        os.unlink(buried, dir_fd=own)  # whoever linked it was ended before this
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        _rename_back(own, buried, there, name)
    else:
        os.unlink(buried, dir_fd=own)


def _rename_back(own: int, buried: str, there: int, name: str) -> None:
    """On a file system without hard links."""
    try:
        os.stat(name, dir_fd=there, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(buried, name, src_dir_fd=own, dst_dir_fd=there)
    else:
        raise Moved("there is another file where it was; move that away first")


def _words(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
