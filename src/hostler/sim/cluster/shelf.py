"""Files that attempts leave: how they come from a node, and where they are kept, named by their hashes."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Sequence
from random import Random

from hostler.model.files import FileRef
from hostler.model.record import record

AGAIN_S = 1.0


def content_of(attempt: str, path: str) -> str:
    """What an attempt leaves as a file."""
    return f"{path} of {attempt}"


def sha256(content: str) -> str:
    """The hash of a content."""
    return hashlib.sha256(content.encode()).hexdigest()


@record
class Sent:
    """A file as its node tells of it, and what has come of it."""

    path: str
    sha256: str
    content: str

    @property
    def is_right(self) -> bool:
        """Whether what came is what was told of."""
        return sha256(self.content) == self.sha256

    @property
    def ref(self) -> FileRef:
        """What the journal says of it."""
        return FileRef(path=self.path, size=len(self.content), sha256=self.sha256)


class Shelf:
    """The place of results: a file is there under its name once it is whole and on the disk."""

    def __init__(self) -> None:
        self.full = False
        self.files: dict[str, str] = {}
        self._unsynced: set[str] = set()

    def publish(self, name: str, content: str) -> None:
        """Write, sync, rename. Raises `OSError` where there is no room."""
        if self.full:
            raise OSError(errno.ENOSPC, "no space left")
        self._unsynced.add(name)
        self._sync(name)
        self.files[name] = content

    def has(self, name: str) -> bool:
        """Whether a file is there with its right content."""
        content = self.files.get(name)
        return content is not None and sha256(content) == name

    def lose_power(self) -> None:
        """What was not synced is an empty file now."""
        self.files.update({name: "" for name in self._unsynced if name in self.files})
        self._unsynced.clear()

    def _sync(self, name: str) -> None:
        self._unsynced.discard(name)


class Errand:
    """Fetches what an attempt left: asked for, hashed, published, and only then told of; again until that is done."""

    def __init__(
        self,
        shelf: Shelf,
        ask: Callable[[Callable[[Sequence[Sent]], None]], None],
        again: Callable[[float, Callable[[], None]], None],
        tell: Callable[[Sequence[FileRef]], None],
    ) -> None:
        self._shelf = shelf
        self._ask = ask
        self._again = again
        self._tell = tell

    def go(self) -> None:
        """Ask for the files."""
        self._ask(self.came)

    def came(self, files: Sequence[Sent]) -> None:
        """They are here."""
        if not self._are_right(files) or not self._are_kept(files):
            self._again(AGAIN_S, self.go)
            return
        self._tell([each.ref for each in files])

    def _are_right(self, files: Sequence[Sent]) -> bool:
        return all(each.is_right for each in files)

    def _are_kept(self, files: Sequence[Sent]) -> bool:
        try:
            for each in files:
                self._shelf.publish(each.sha256, each.content)
        except OSError:
            return False
        return True


def sent(attempt: str, paths: Sequence[str], random: Random, wrong: float) -> list[Sent]:
    """What a node sends of what an attempt left there; some of it becomes something else on its way."""
    return [
        Sent(
            path=path,
            sha256=sha256(content_of(attempt, path)),
            content="" if random.random() < wrong else content_of(attempt, path),
        )
        for path in paths
    ]
