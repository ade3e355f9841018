"""What pages are made of: parts that are shown, watched and fetched again each by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from hostler.web.desk import Desk

MARK_BYTES = 8


class Subject(NamedTuple):
    """What a page is asked about: the `name` in its path, if it has one, and what stands after the question mark."""

    name: str | None = None
    query: Mapping[str, str] = {}

    def get(self, key: str) -> str | None:
        """A value of the query; empty ones are as if they were not there."""
        return self.query.get(key) or None


@dataclass(frozen=True)
class Part:
    """A piece of a page. `id` is its element's; `shown` is all that its template knows, and nothing else is shown.

    Its values are rounded to what can be seen of them: two parts look alike if, and only if, their marks are equal.
    """

    id: str
    template: str
    shown: Mapping[str, Any]
    group: str = ""
    """The heading it stands under, where the page has several."""
    kind: str = "panel"
    """Class of its element."""
    outline: Mapping[str, Any] | None = None
    """What is shown of it until somebody gets there; `None`: a page shows all of it from the beginning."""
    _mark: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def mark(self) -> str:
        """A digest of what is shown."""
        if not self._mark:
            self._mark.append(digest(self.shown))
        return self._mark[0]


Parts: TypeAlias = Callable[[Desk, Subject], Awaitable[Sequence[Part]]]


@dataclass(frozen=True)
class Page:
    """One kind of page: how its parts are made, and the template that puts them in their places.

    `frame` makes what does not change while one looks: the title, choices of forms. Both raise `NotFound` where the
    subject is unknown.
    """

    name: str
    template: str
    parts: Parts
    frame: Callable[[Desk, Subject], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]


def digest(value: object) -> str:
    """Short, and different for whatever reads differently."""
    return blake2b(repr(value).encode("utf-8", "backslashreplace"), digest_size=MARK_BYTES).hexdigest()


def element_id(kind: str, name: str) -> str:
    """The id of an element for something whose name may hold anything."""
    return f"{kind}-{digest(name)}"
