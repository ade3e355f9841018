"""What requests and answers have in common: values to JSON, bodies from JSON, the desk behind the window."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

import pydantic_core
from fastapi import Depends, HTTPException, Path, Query
from pydantic import AfterValidator, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from hostler.model import codec
from hostler.model.errors import HostlerError, SpecError
from hostler.model.inputs import Input
from hostler.web.desk import Desk

T = TypeVar("T")

MAX_BODY_BYTES = 64 << 20
MAX_PAGE = 1000


def desk_of(request: Request) -> Desk:
    """The controller that the application was made for."""
    desk: Desk = request.app.state.desk
    return desk


TheDesk = Annotated[Desk, Depends(desk_of)]
# The guard leaves the path as it was sent.
Name = Annotated[str, Path(description="an id, or an idempotency key (percent-encoded)"), AfterValidator(unquote)]
Cursor = Annotated[int, Query(ge=0, description="the `next` of the page before")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]


def answer(shape: Any, value: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """`value` as JSON, converted as a `shape`; integers of any size stay what they are."""
    return Response(codec.adapter(shape).dump_json(value), status, media_type="application/json")


async def tell(desk: Desk, given: Input) -> Any:
    """Give one input to the core; raises the error it answers with."""
    (said,) = await desk.tell(given)
    if isinstance(said, HostlerError):
        raise said
    return said


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


def decode(body: bytes) -> Any:
    """The value of a JSON text. Raises `SpecError`."""
    try:
        return pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise SpecError(f"the body ({len(body)} bytes) is not JSON: {error}") from error


def load(shape: type[T], body: bytes) -> T:
    """The `shape` of a JSON text. Raises `SpecError` naming the field of every fault."""
    try:
        value: T = codec.adapter(shape).validate_python(decode(body))
    except ValidationError as error:
        raise SpecError(f"the body was refused, nothing was done: {codec.explain(error)}") from error
    return value


def _too_large() -> HTTPException:
    return HTTPException(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is larger than {MAX_BODY_BYTES} bytes; nothing was done; submit the jobs in several parts",
    )
