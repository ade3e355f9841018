"""A store in a directory of this machine, or of a file system that is mounted here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from hostler.model.errors import FilesError, LinkRefused
from hostler.stores import hashing
from hostler.stores.base import LABEL, LABEL_MAX, QUARANTINE, Damaged, Listed, Missing, ObjectName, Pace


class DirectoryStore:
    """Objects as files below `root`, which has to be there: a file system that is not mounted is no empty store."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: ObjectName, source: Path, pace: Pace) -> None:
        """As `Store.put`; what is read back comes from the disk, where the system lets go of what it remembers."""
        self._be_there()
        if self._holds(name, pace):
            return
        with hashing.opened(source) as file, hashing.appearing(self._path(name)) as out:
            for piece in hashing.own(name, source, file, pace):
                out.write(piece)
            _forget(out)
            _read_back(name, Path(out.name), pace)

    def get(self, name: ObjectName, target: Path, pace: Pace) -> None:
        """As `Store.get`."""
        with self._open(name) as file, hashing.appearing(target) as out:
            for piece in hashing.checked(name, hashing.pieces(file), pace, f"in {self.root}"):
                out.write(piece)

    def check(self, name: ObjectName, pace: Pace) -> int:
        """As `Store.check`."""
        with self._open(name) as file:
            _forget(file)
            return hashing.verified(name, hashing.pieces(file), pace, f"in {self.root}")

    def listed(self) -> Iterator[Listed]:
        """As `Store.listed`; links are passed over."""
        self._be_there()
        for shelf in self._folders():
            with os.scandir(shelf) as entries:
                for entry in entries:
                    name = ObjectName.at(f"objects/{shelf.name}/{entry.name}")
                    if name is not None and entry.is_file(follow_symlinks=False):
                        yield Listed(name, entry.stat(follow_symlinks=False).st_size)

    def delete(self, name: ObjectName) -> None:
        """As `Store.delete`."""
        self._be_there()
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise FilesError(f"{self._path(name)} cannot be deleted: {error.strerror}") from error

    def set_aside(self, name: ObjectName) -> None:
        """As `Store.set_aside`."""
        self._be_there()
        target = self.root / QUARANTINE / self._path(name).name
        try:
            target.parent.mkdir(exist_ok=True)
            self._path(name).replace(target)
        except FileNotFoundError:
            return
        except OSError as error:
            raise FilesError(f"{self._path(name)} cannot be set aside: {error.strerror}") from error

    def free_bytes(self) -> int | None:
        """What is free on its file system for who may not use what is reserved for root."""
        self._be_there()
        return shutil.disk_usage(self.root).free

    def read_label(self) -> str | None:
        """As `Store.read_label`."""
        self._be_there()
        try:
            with hashing.opened(self.root / LABEL) as file:
                return file.read(LABEL_MAX).decode(errors="replace")
        except Missing:
            return None
        except OSError as error:
            raise FilesError(f"{self.root / LABEL} cannot be read: {error.strerror}") from error

    def write_label(self, text: str) -> None:
        """As `Store.write_label`."""
        self._be_there()
        with hashing.appearing(self.root / LABEL) as out:
            out.write(text.encode())

    def _be_there(self) -> None:
        if not self.root.is_dir():
            raise LinkRefused(f"the store {self.root} is not there: make the folder, or mount what it lies on")

    def _path(self, name: ObjectName) -> Path:
        return self.root / name.path

    def _holds(self, name: ObjectName, pace: Pace) -> bool:
        try:
            self.check(name, pace)
        except (Missing, Damaged):
            return False
        return True

    def _open(self, name: ObjectName) -> BinaryIO:
        self._be_there()
        return hashing.plain(self._path(name))

    def _folders(self) -> Iterator[Path]:
        objects = self.root / "objects"
        if objects.is_dir() and not objects.is_symlink():
            yield from sorted(each for each in objects.iterdir() if each.is_dir() and not each.is_symlink())


def _forget(file: BinaryIO) -> None:
    """Have the system read from the disk what is read next, where it can be told so."""
    if file.writable():
        file.flush()
        os.fsync(file.fileno())
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read_back(name: ObjectName, written: Path, pace: Pace) -> None:
    with written.open("rb") as file:
        try:
            hashing.verified(name, hashing.pieces(file), pace, f"({written})")
        except Damaged as error:
            raise FilesError(f"what was written is not what is read: its disk is failing. {error}") from error
