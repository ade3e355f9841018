"""The seam: what a store of artifacts can do. Each call waits, so it is made in a thread of its own.

A store holds immutable objects under names that say their SHA-256, laid out the same everywhere. It decides nothing
and remembers nothing: what lies where, and when it was read last, is the controller's to know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from hostler.model.errors import FilesError

Pace: TypeAlias = Callable[[int], None]
"""Told of every piece that was sent or read, in bytes, from whichever thread did. It may wait, to keep to a bandwidth,
and may raise, to end the call."""

PIECE = 1 << 20
"""Bytes that are sent or read at once."""
QUARANTINE = "quarantine"
"""The folder of what was set aside."""

LABEL = "hostler-store.json"
"""The file at the root of a store that says whose it is: what does not have it is another place, or is not mounted."""
LABEL_MAX = 4096

_PATH = re.compile(r"objects/(?P<shelf>[0-9a-f]{2})/(?P<sha256>(?P=shelf)[0-9a-f]{62})(?P<suffix>\.[a-z.]{1,30})")


class ObjectName(NamedTuple):
    """What an object is called: the SHA-256 of its bytes, and a suffix that says what they are."""

    sha256: str
    suffix: str

    @property
    def path(self) -> str:
        """Where it lies, relative to the root of any store: as docs/reference/learning.md lays down for nodes."""
        return f"objects/{self.sha256[:2]}/{self.sha256}{self.suffix}"

    @classmethod
    def at(cls, path: str) -> ObjectName | None:
        """The name of what lies there; `None` for what is no object."""
        found = _PATH.fullmatch(path)
        return None if found is None else cls(found["sha256"], found["suffix"])


class Listed(NamedTuple):
    """An object that a store says it has."""

    name: ObjectName
    bytes: int


class Damaged(FilesError):
    """What is stored under a name has another hash. The message says which."""


class Missing(FilesError):
    """There is nothing under that name."""


class Store(Protocol):
    """A place for objects.

    All methods raise `LinkError` where the store cannot be reached or says no, of which nothing follows about what it
    holds, and `FilesError` where something is wrong with what is sent or stored.
    """

    def put(self, name: ObjectName, source: Path, pace: Pace) -> None:
        """Publish a file. On return all of it lies under its name, and was read back from there with the right hash.

        Nobody ever sees a part of it under its name. What lies there already and is right is left alone, what is not is
        replaced. Raises `FilesChanged` where `source` has another hash itself; nothing is published then.
        """
        ...

    def get(self, name: ObjectName, target: Path, pace: Pace) -> None:
        """Fetch an object into a file that appears whole, on the disk and with the right hash, or not at all.

        Raises `Missing` or `Damaged`.
        """
        ...

    def check(self, name: ObjectName, pace: Pace) -> int:
        """Read all of an object and compare its hash; answers its bytes. Raises `Missing` or `Damaged`."""
        ...

    def listed(self) -> Iterator[Listed]:
        """All objects, in any order; what is there besides is passed over."""
        ...

    def delete(self, name: ObjectName) -> None:
        """Delete an object; that it is not there is no error. Whether it may go, the caller has proved."""
        ...

    def set_aside(self, name: ObjectName) -> None:
        """Move an object out of the way, where nobody takes it for one but a person can look at it."""
        ...

    def free_bytes(self) -> int | None:
        """What may be put there still; `None`: it cannot say."""
        ...

    def read_label(self) -> str | None:
        """What the file says that lies at its root, to know it by; `None`: there is none."""
        ...

    def write_label(self, text: str) -> None:
        """Have it say that from now on. There was none before."""
        ...


def at_once(_: int) -> None:
    """The pace of who is in a hurry."""
