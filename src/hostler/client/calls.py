"""Requests and answers without the wire: each operation is described once, and two clients carry it there and back.

An operation is a generator: it hands out what is to be asked (`Ask`), or how long to rest, and is handed the answer
(`Told`) or the error instead; what it returns is what its caller gets. Whoever drives it does the waiting.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload
from urllib.parse import parse_qsl, quote, urlencode

from hostler.client.forms import REMEDY, Lacking, checked, form_of
from hostler.model.errors import AnswerError, ControllerAbsent, LinkLost, UsageError

T = TypeVar("T")
S = TypeVar("S", covariant=True)
P = ParamSpec("P")

View: TypeAlias = Mapping[str, Any]
"""Any of `hostler.client.shapes`: a view of `hostler.model.views` as decoded JSON."""

API = "/api/v1"
PAGE = 1000
PAGES_MAX = 100_000
"""Of one list."""
PIECE = 1 << 20
"""Bytes of an artifact that are read at once."""
AROUND = 40
"""Characters that are shown around one that has no form in UTF-8."""
RECONNECT_S = (0.1, 0.2, 0.5, 1.0, 2.0, 2.0, 5.0, 5.0, 10.0)
"""Rests between attempts to take up a broken event stream; after the last one it is given up."""
BEGINNINGS = 3
"""How often a list is read from its beginning, where it changed so much that a page of it leads nowhere."""
NAMES = 500
"""Names of one request at most."""
ERROR_SHOWN = 1000
"""Characters of the error with which an event stream ends."""
TARGET_BYTES = 6000
"""Of a request's target at most: servers and proxies refuse longer ones, many of them from 8 kB on."""
NEXT = r'<([^>]*)>\s*;\s*rel="?next"?'

Query: TypeAlias = Sequence[tuple[str, str]]


class Ask(NamedTuple):
    """What is to be asked of the controller; `target` is a path with its query."""

    method: str
    target: str
    body: bytes | None = None
    headers: Mapping[str, str] = {}


class Told(NamedTuple):
    """An answer that is a success; the names of its headers are in lower case. `url` is that of the controller."""

    body: bytes
    headers: Mapping[str, str]
    url: str = "the controller"


class Work(Generic[T]):
    """Work on this machine that takes long, such as reading a large folder; `value` is what came of it."""

    value: T

    def __init__(self, do: Callable[[], T]) -> None:
        self._do = do

    def run(self) -> None:
        """Do it. A client of a program that does something else meanwhile does it in a thread."""
        self.value = self._do()


Answer: TypeAlias = Generator[Ask | float | Work[Any], Told, T]
"""What becomes a `T` once it is asked for; a number is a rest in seconds."""

DONE = Told(b"", {})
"""What follows a rest, or work."""


class LogPiece(NamedTuple):
    """A piece of an attempt's output; `offset` and `size` count bytes ever written."""

    offset: int
    data: bytes
    size: int
    ended: bool


class Shown(dict[str, Any]):
    """An answer as it came, and a table of it in notebooks."""

    def _repr_html_(self) -> str:
        from hostler.client.tables import fields_html

        return fields_html(self)


class Rows(list[T]):
    """A list as it came, and a table of it in notebooks."""

    def _repr_html_(self) -> str:
        from hostler.client.tables import rows_html

        return rows_html(self)


class Submitted(tuple[str, ...]):
    """The ids of submitted jobs."""

    notes: Sequence[Mapping[str, Any]]
    """Which of them no device can take now: `job`, `count`, `fits`, `why` (`shapes.SubmitNote`)."""

    gpu_by_default: int
    """How many of them take a GPU or wait for one, as they state no device and the fleet has GPUs."""

    with_earlier_files: Sequence[str]
    """Those that were known by their keys and keep the files of their first submission, which were others."""

    def __new__(
        cls,
        ids: Sequence[str],
        notes: Sequence[Mapping[str, Any]],
        gpu_by_default: int = 0,
        with_earlier_files: Sequence[str] = (),
    ) -> Submitted:
        made = super().__new__(cls, ids)
        made.with_earlier_files = with_earlier_files
        made.notes = notes
        made.gpu_by_default = gpu_by_default
        return made


class SubmittedGroup(NamedTuple):
    """A submitted job group (`shapes.SubmittedGroup`)."""

    group: Mapping[str, Any] | None
    """The group (`shapes.GroupView`); `None` where all jobs were known by their keys and are in no group."""
    ids: Sequence[str]
    """Its jobs, and those that were known, in the order of their specs."""
    known: Sequence[str]
    """Those that were known by their keys, and stay in the groups they were in."""
    notes: Sequence[Mapping[str, Any]]
    """As of `Submitted`, like the following."""
    gpu_by_default: int
    with_earlier_files: Sequence[str]


class Page(NamedTuple):
    """An answer that is not the whole of it, and the way to the next part."""

    value: Any
    next: Pages[Any] | None


class Pages(NamedTuple, Generic[T]):
    """A list that may be long, to be read page by page."""

    path: str
    query: Query
    number: int = 1

    def fetch(self) -> Answer[Page]:
        """The page that this leads to. Raises `AnswerError` for one that leads to itself, or on without an end."""
        told = yield Ask("GET", _target(self.path, self.query))
        value = decoded(told, "GET", self.path)
        link = re.search(NEXT, told.headers.get("link", ""))
        if link is None:
            return Page(value, None)
        more = parse_qsl(link[1].partition("#")[0].partition("?")[2], keep_blank_values=True)
        if not value or more == list(self.query) or self.number == PAGES_MAX:
            raise AnswerError(
                f"the list {self.path} of {told.url} has no end: its page {self.number} leads on. {REMEDY}"
            )
        return Page(value, Pages(self.path, more, self.number + 1))


class Driver(Protocol):
    """A client: it carries what is asked."""

    def _do(self, steps: Answer[Any]) -> Any: ...
    def _walk(self, pages: Pages[Any]) -> Any: ...


class Waits(Driver, Protocol):
    """A client whose methods come back with the answer."""

    _waits: bool


class Awaits(Driver, Protocol):
    """A client whose methods have to be awaited."""

    _awaits: bool


class Operation(Protocol[P, S]):
    """A method of both clients, as type checkers see it."""

    @overload
    def __get__(self, client: Waits, owner: type) -> Callable[P, S]: ...
    @overload
    def __get__(self, client: Awaits, owner: type) -> Callable[P, Coroutine[Any, Any, S]]: ...


class Walk(Protocol[P, S]):
    """A method of both clients that goes through a list, as type checkers see it."""

    @overload
    def __get__(self, client: Waits, owner: type) -> Callable[P, Iterator[S]]: ...
    @overload
    def __get__(self, client: Awaits, owner: type) -> Callable[P, AsyncIterator[S]]: ...


def operation(build: Callable[Concatenate[Any, P], Answer[T]]) -> Operation[P, T]:
    """Make a description a method of both clients."""

    @wraps(build)
    def ask(self: Driver, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self._do(build(self, *args, **kwargs))

    return cast(Operation[P, T], ask)


def walk(build: Callable[Concatenate[Any, P], Pages[T]]) -> Walk[P, T]:
    """Make a list a method of both clients that goes through all its pages."""

    @wraps(build)
    def go(self: Driver, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self._walk(build(self, *args, **kwargs))

    return cast(Walk[P, T], go)


def get(path: str, **query: Any) -> Answer[Any]:
    """One value."""
    told = yield Ask("GET", _target(path, _pairs(query)))
    return _shown(decoded(told, "GET", path))


def pages(path: str, **query: Any) -> Pages[Any]:
    """A list, page by page; as many rows in each as may be, unless `limit` says otherwise."""
    return Pages(path, _pairs({"limit": PAGE, **query}))


def rows(path: str, limit: int | None = None, **query: Any) -> Answer[Rows[Any]]:
    """A list from all its pages, or so many of its first rows."""
    begin = pages(path, **query) if limit is None else pages(path, **query, limit=min(limit, PAGE))
    found: Rows[Any] = Rows()
    for page in (yield from _all_of(begin, limit)):
        found += page
    return found if limit is None else Rows(found[:limit])


def whole(path: str, field: str) -> Answer[Any]:
    """A value of which one field is a list, with that from all its pages."""
    parts = yield from _all_of(pages(path))
    made = _shown(parts[-1])
    made[field] = [row for part in parts for row in part[field]]
    return made


def write(method: str, path: str, value: Any = None, key: str | None = None, **query: Any) -> Answer[Any]:
    """Ask for something; once more if the connection broke: under its key it is done once, and that is known."""
    body = None if value is None else _encoded(value)
    ask = Ask(method, _target(path, _pairs(query)), body, {"Idempotency-Key": key or os.urandom(16).hex()})
    try:
        told = yield ask
    except LinkLost as lost:
        yield RECONNECT_S[0]
        try:
            told = yield ask
        except ControllerAbsent:
            raise lost from None
    said = decoded(told, method, path)
    return Rows(said) if isinstance(said, list) else _shown(said)


def _encoded(value: Any) -> bytes:
    """JSON of a value. Raises `UsageError` naming the text that JSON has no form for."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        around = error.object[max(error.start - AROUND, 0) : error.end + AROUND]
        raise UsageError(f"{around!a} is not UTF-8, as every text of a request must be; nothing was done") from error


def log_piece(path: str, **query: Any) -> Answer[LogPiece]:
    """Bytes, and where they stand."""
    told = yield Ask("GET", _target(path, _pairs(query)))
    try:
        begin, size = int(told.headers["hostler-log-offset"]), int(told.headers["hostler-log-size"])
        return LogPiece(begin, told.body, size, told.headers["hostler-log-ended"] == "true")
    except (KeyError, ValueError) as error:
        raise AnswerError(f"the answer of {told.url} to GET {path} lacks the place of its bytes. {REMEDY}") from error


def text(path: str) -> Answer[str]:
    """What is no JSON."""
    told = yield Ask("GET", path)
    return told.body.decode(errors="replace")


def binary(path: str) -> Answer[bytes]:
    """Bytes as they are."""
    told = yield Ask("GET", _target(path, []))
    return told.body


def listed(path: str) -> Answer[Rows[Any]]:
    """A list that has no pages."""
    told = yield Ask("GET", _target(path, []))
    return Rows(decoded(told, "GET", path))


def by_name(path: str, names: Sequence[str]) -> Answer[Rows[Any]]:
    """One row for each name, in as few requests as their lengths allow."""
    found: Rows[Any] = Rows()
    for some in _in_targets(names):
        told = yield Ask("GET", _target(path, _pairs({"name": some})))
        found += decoded(told, "GET", path)
    return found


def decoded(told: Told, method: str, path: str) -> Any:
    """The document of an answer, in the form of the interface. Raises `AnswerError` for another, as a login page."""
    try:
        value = json.loads(told.body, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        begin = told.body[:80]
        raise AnswerError(
            f"the answer {begin!r} of {told.url} to {method} {path} is not JSON; the address is not that of a Hostler "
            "controller"
        ) from error
    return checked(value, form_of(method, path), f"the answer of {told.url} to {method} {path}")


def expect_ids(ids: Sequence[str], specs: Sequence[object]) -> None:
    """Raise `AnswerError` unless there is an id for each spec that was submitted."""
    if len(ids) != len(specs):
        raise AnswerError(f"{len(specs)} jobs were submitted, and the answer has {len(ids)} ids. {REMEDY}")


def entry_of(frame: Mapping[str, str], url: str) -> tuple[int, Any]:
    """The number and the entry of a frame of the event stream; the first one has a number alone."""
    try:
        number = int(frame["id"])
        entry = json.loads(frame["data"], parse_constant=_refuse) if "data" in frame else None
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"the event stream of {url} has a frame that is none: {error}. {REMEDY}") from error
    return number, None if entry is None else checked(entry, "Entry", f"an event of {url}")


def numbered(frame: Mapping[str, str], before: int, url: str) -> tuple[int, Any]:
    """The number and the entry of any frame; one that brings nothing, such as a heartbeat, has the number before it.

    Raises `AnswerError` for the frame with which a stream says why it ends.
    """
    if frame.get("event") == "error":
        raise AnswerError(
            f"the event stream of {url} ended with an error: {frame.get('data', '')[:ERROR_SHOWN]}. "
            "`hostler status` and the log of the controller have more"
        )
    return entry_of(frame, url) if "id" in frame else (before, None)


def part(name: str) -> str:
    """A name as a part of a path. Raises `UsageError` for none: without it the path is that of a list."""
    if not name:
        raise UsageError("a name is empty; say which one is meant")
    return quote(name, safe="")


def given(**fields: Any) -> dict[str, Any]:
    """A body without what is `None`."""
    return {name: value for name, value in fields.items() if value is not None}


def _shown(value: Any) -> Any:
    return value if isinstance(value, Lacking) else Shown(value)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _all_of(begin: Pages[Any], limit: int | None = None) -> Answer[list[Any]]:
    """The pages of a list, from its beginning; anew where it changed so much that a page leads nowhere."""
    left = BEGINNINGS
    while True:
        left -= 1
        found: list[Any] = []
        here: Pages[Any] | None = begin
        try:
            while here is not None and (limit is None or not found or sum(map(len, found)) < limit):
                page = yield from here.fetch()
                found.append(page.value)
                here = page.next
        except UsageError:
            if not found or not left:
                raise
        else:
            return found


def _in_targets(names: Sequence[str]) -> Iterator[list[str]]:
    """The names in parts, each of which fits into the target of one request."""
    some: list[str] = []
    room = TARGET_BYTES
    for name in names:
        size = len(quote(name, safe="")) + len("name=&")
        if some and (size > room or len(some) == NAMES):
            yield some
            some, room = [], TARGET_BYTES
        some.append(name)
        room -= size
    if some:
        yield some


def _target(path: str, query: Query) -> str:
    return API + path + ("?" + urlencode(query) if query else "")


def _pairs(fields: Mapping[str, Any]) -> Query:
    """What is `None` is left out, a list is told one by one."""
    every = ((name, value if isinstance(value, list | tuple) else [value]) for name, value in fields.items())
    return [(name, str(each)) for name, values in every for each in values if each is not None]
