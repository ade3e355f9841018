"""What requests and answers have in common: values to JSON, bodies from JSON, the desk behind the window."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

import pydantic_core
from fastapi import Depends, HTTPException, Path, Query
from pydantic import AfterValidator, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from hostler.model import codec
from hostler.model.access import LOCAL, Holder
from hostler.model.errors import HostlerError, SpecError, UsageError
from hostler.model.inputs import Asked, Submit, SubmitGroup, Wish
from hostler.model.schemas import KeyPath, show
from hostler.model.work import NAME_MAX, JobSpec
from hostler.web.desk import Desk
from hostler.web.hiding import shown

T = TypeVar("T")

MAX_BODY_BYTES = 64 << 20
LARGE_BYTES = 64 << 10
"""A body that is read in a thread."""
MAX_PAGE = 1000
MAX_WHAT = 200
NO_NUL = r"^[^\x00]*$"
FEW_JOBS = 100
"""Jobs of a submission that is compared and vetted at once."""
_WHITESPACE = re.compile(r"[ \t\r\n]*")
_SCANNER = json.JSONDecoder(parse_int=str, parse_float=str)
KEY = re.compile(r"[\x21-\x7e]{1,200}")


def desk_of(request: Request) -> Desk:
    """The controller that the application was made for."""
    desk: Desk = request.app.state.desk
    return desk


async def _the_desk(request: Request) -> Desk:
    # FastAPI sends a dependency without `async` through a thread, which costs more than most answers.
    return desk_of(request)


TheDesk = Annotated[Desk, Depends(_the_desk)]


def _called(name: str) -> str:
    """A name of a path, which the guard leaves as it was sent. Raises `ValueError` for what nothing is called."""
    decoded = unquote(name)
    if "\0" in decoded:
        raise ValueError("contains a NUL byte, which no id, key or name has")
    if len(decoded) > NAME_MAX:
        raise ValueError(f"has {len(decoded)} characters, and no id, key or name has more than {NAME_MAX}")
    return decoded


Name = Annotated[
    str,
    Path(description="an id, an idempotency key or, of a job, its unique name (percent-encoded)"),
    AfterValidator(_called),
]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="rows of a page")]


def answer(shape: Any, value: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """`value` as JSON, converted as a `shape`; integers of any size stay what they are."""
    return Response(shown(codec.adapter(shape).dump_json(value)), status, media_type="application/json")


async def tell(request: Request, wish: Wish, *, like: object = None) -> Any:
    """Ask the core for something in the name of whoever sent the request; raises the error it answers with.

    Under an `Idempotency-Key` it is done once. `like` is what tells equal requests from others, where the wish itself
    does not: where there is chance in it.
    """
    what, key = _what(request), _key(request)
    fingerprint = None if key is None else await _fingerprint(what, wish if like is None else like)
    holder: Holder = request.state.visitor.holder
    asked = Asked(
        who=holder.name,
        what=what,
        key=key,
        fingerprint=fingerprint,
        owner=holder.owner,
        scope=holder.scope,
        given=wish,
    )
    (said,) = await desk_of(request).tell(asked)
    if isinstance(said, HostlerError):
        raise said
    return said


def caller_name(request: Request) -> str:
    """Who sent a request, as the audit calls them."""
    name: str = request.state.visitor.holder.name
    return name


def owner_of_caller(request: Request) -> str | None:
    """The person that jobs belong to which a request submits."""
    holder: Holder = request.state.visitor.holder
    return holder.owner


def owner(request: Request, said: str | None = None) -> str | None:
    """Who asks: as they call themselves, with the name of their token behind it, which nobody can choose for another.

    Of the token in the state directory nobody knows who has it: `None`, where nothing is `said`.
    """
    name = caller_name(request)
    if name == LOCAL:
        return said
    return name if said in (None, name) else f"{said} ({name})"


async def read_body(request: Request) -> bytes:
    """The body of a request; answers with status 413 beyond `MAX_BODY_BYTES`, as early as can be."""
    if int(request.headers.get("content-length", "0")) > MAX_BODY_BYTES:
        raise _too_large()
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
    return bytes(body)


async def apart(read: Callable[[bytes], T], body: bytes) -> T:
    """What `read` makes of a body: in a thread where it is large, so that others are answered meanwhile."""
    return read(body) if len(body) <= LARGE_BYTES else await asyncio.to_thread(read, body)


def decode(body: bytes) -> Any:
    """The value of a JSON text. Raises `SpecError`."""
    try:
        value = _in_parts(body) if len(body) > LARGE_BYTES else None
        if value is None:
            value = pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise SpecError(f"the body ({len(body)} bytes) is not JSON: {error}") from error
    twice = _twice(body)
    if twice is not None:
        raise SpecError(f"the body was refused, nothing was done: {twice} is given twice; keep one of them")
    return value


def _in_parts(body: bytes) -> Any:
    """The value of a JSON list, or of an object with its lists, read element by element.

    `None` where the text is neither, or is not JSON. One call for a large text keeps all other threads waiting to its
    end.
    """
    try:
        text = body.decode()
        at = _past(text, 0)
        if text[at : at + 1] not in ("[", "{"):
            return None
        value, at = _elements(text, at) if text[at] == "[" else _members(text, at)
    except (ValueError, RecursionError):
        return None
    return value if at == len(text) else None


def _elements(text: str, at: int) -> tuple[list[Any], int]:
    """The list that begins there, and where the text after it begins. Raises `ValueError`, `RecursionError`."""
    found: list[Any] = []
    while text[at : at + 1] == ("," if found else "["):
        value, at = _whole(text, _past(text, at + 1))
        found.append(value)
    return found, _after(text, at, "]")


def _members(text: str, at: int) -> tuple[dict[str, Any], int]:
    """The object that begins there, as `_elements`."""
    found: dict[str, Any] = {}
    while text[at : at + 1] == ("," if found else "{"):
        name, at = _whole(text, _past(text, at + 1))
        at = _after(text, at, ":")
        if not isinstance(name, str):
            raise ValueError("the name of a field is a text")
        is_list = text[at : at + 1] == "[" and text[(first := _past(text, at + 1)) : first + 1] != "]"
        found[name], at = _elements(text, at) if is_list else _whole(text, at)
    return found, _after(text, at, "}")


def _whole(text: str, at: int) -> tuple[Any, int]:
    """The value that begins there, read by one call, as `_elements`."""
    _, end = _SCANNER.raw_decode(text, at)
    return pydantic_core.from_json(text[at:end].encode(), allow_inf_nan=False), _past(text, end)


def _after(text: str, at: int, sign: str) -> int:
    """Where the text behind a sign begins. Raises `ValueError` where another one stands there."""
    if text[at : at + 1] != sign:
        raise ValueError(f"{sign} should be there")
    return _past(text, at + 1)


def _past(text: str, at: int) -> int:
    """Where the next sign stands that is not white space."""
    return _WHITESPACE.match(text, at).end()  # type: ignore[union-attr]


class _Twice(dict[str, Any]):
    """An object of which a text gives a field twice."""

    field = ""


def _twice(body: bytes) -> str | None:
    """The path of a field that a JSON text gives twice in one object; `None` where each is given once.

    Readers of JSON differ in which of the two they take.
    """
    found: list[_Twice] = []

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        once = dict(pairs)
        if len(once) == len(pairs):
            return once
        counts = Counter(name for name, _ in pairs)
        marked = _Twice(once)
        marked.field = next(name for name in once if counts[name] > 1)
        found.append(marked)
        return marked

    # Numbers stay texts: they are not used, and Python converts no integer of more than 4,300 digits.
    value = json.loads(body, object_pairs_hook=made, parse_int=str, parse_float=str)
    return None if not found else show((*_way_to(value, found[0]), found[0].field))


def _way_to(value: object, wanted: _Twice) -> KeyPath:
    """The path of an object in a decoded value; its own, if a field that is given twice hides it."""
    waiting: list[tuple[KeyPath, object]] = [((), value)]
    while waiting:
        path, each = waiting.pop()
        if each is wanted:
            return path
        if isinstance(each, dict):
            waiting += [((*path, name), inner) for name, inner in each.items()]
        elif isinstance(each, list):
            waiting += [((*path, i), inner) for i, inner in enumerate(each)]
    return ()


def load(shape: type[T], body: bytes) -> T:
    """The `shape` of a JSON text. Raises `SpecError` naming the field of every fault."""
    given = decode(body)
    try:
        value: T = codec.adapter(shape).validate_python(given)
    except ValidationError as error:
        faults = codec.explain(error, given, shape)
        raise SpecError(f"the body was refused, nothing was done: {faults}") from error
    return value


def _what(request: Request) -> str:
    """The operation, and what it is asked for."""
    names = (unquote(str(value)) for value in request.path_params.values())
    return " ".join((request.scope["route"].name, *names))[:MAX_WHAT]


def _key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not KEY.fullmatch(key):
        raise UsageError("an Idempotency-Key is 1 to 200 visible ASCII characters; nothing was done")
    return key


async def _fingerprint(what: str, asked: object) -> str:
    if isinstance(asked, Submit) and len(asked.specs) > FEW_JOBS:
        return await asyncio.to_thread(_digest, what, asked, "specs", asked.specs)
    if isinstance(asked, SubmitGroup) and len(asked.jobs) > FEW_JOBS:
        return await asyncio.to_thread(_digest, what, asked, "jobs", asked.jobs)
    return _digest(what, asked)


def _digest(what: str, asked: object, field: str = "", specs: Sequence[JobSpec] = ()) -> str:
    """The digest of a request; `specs` are those of its `field`, written out one by one."""
    shape = type(asked)
    digest = hashlib.sha256(f"{what}\n{shape.__name__}\n".encode())
    empty = replace(asked, **{field: ()}) if specs else asked  # type: ignore[type-var]
    before, mark, after = codec.adapter(shape).dump_json(empty).partition(f'"{field}":['.encode() if specs else b"\0")
    digest.update(before + mark)
    for at, spec in enumerate(specs):
        digest.update((b"," if at else b"") + codec.adapter(JobSpec).dump_json(spec))
    digest.update(after)
    return digest.hexdigest()


def _too_large() -> HTTPException:
    return HTTPException(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is larger than {MAX_BODY_BYTES} bytes; nothing was done; submit the jobs in several parts",
    )
