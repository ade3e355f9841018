"""Secrets: their names, and values on their way to where they are kept. No answer has a value."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import field, replace
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from hostler.model.errors import NotFound
from hostler.model.inputs import NoteSecret
from hostler.model.record import record
from hostler.model.secrets import OWN, SecretName, SecretView, expect_value, is_own
from hostler.model.work import JobSpec, ScriptPayload
from hostler.web.answers import Name, TheDesk, answer, load, read_body, tell
from hostler.web.desk import Desk, SecretKeeper
from hostler.web.document import body_of
from hostler.web.paging import Paged, answer_page, cut
from hostler.web.routing import Routes

router = Routes(tags=["secrets"])


@record
class SecretBody:
    """A secret to be kept: text of at most 64 KiB in UTF-8, without NUL."""

    name: SecretName
    value: str = field(repr=False)


@record
class Asked:
    """What tells setting a secret from setting it to another value."""

    name: str
    mark: str


@router.get("/secrets", response_model=list[SecretView])
async def list_secrets(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Secrets by name, without their values, which no request can read."""
    found = await asyncio.to_thread(desk.secrets().names)
    page, more = cut(found, paging, lambda each: each.name)
    return answer_page(request, list[SecretView], page, more)


@router.post("/secrets", response_model=SecretView, status_code=201, openapi_extra=body_of("SecretBody"))
async def set_secret(desk: TheDesk, request: Request) -> Response:
    """Keep a secret under a name; the value it had is gone. Attempts that are launched from now on get the new one."""
    given = load(SecretBody, await read_body(request))
    expect_value(f"secret {given.name}", given.value)
    keeper = desk.secrets()
    mark = await asyncio.to_thread(keeper.mark, given.value)
    if await _is_first(desk, request, given.name, Asked(name=given.name, mark=mark)):
        made = await asyncio.to_thread(keeper.set, given.name, given.value)
    else:
        made = await asyncio.to_thread(_view, keeper, given.name)
    return answer(SecretView, made, HTTPStatus.CREATED)


@router.delete("/secrets/{name}", response_model=list[SecretView])
async def remove_secret(desk: TheDesk, name: Name, request: Request) -> Response:
    """Forget a secret; answers with those that are left. Attempts that run keep what they were given."""
    keeper = desk.secrets()
    if await _is_first(desk, request, name):
        await asyncio.to_thread(keeper.remove, name)
    return answer(list[SecretView], await asyncio.to_thread(keeper.names))


async def _is_first(desk: Desk, request: Request, name: str, like: object = None) -> bool:
    """Put a request on record; whether it was not made before under the same key."""
    newest = desk.status().seq
    number = await tell(request, NoteSecret(name=name), like=like)
    return number is None or number > newest  # a controller that stands by keeps no record


def _view(keeper: SecretKeeper, name: str) -> SecretView:
    found = next((each for each in keeper.names() if each.name == name), None)
    if found is None:
        raise NotFound(f"secret {name} was set by this request before, and removed since; set it under another key")
    return found


async def protected(desk: Desk, specs: Sequence[JobSpec]) -> tuple[JobSpec, ...]:
    """The specs with the values of credentials kept apart from them. Raises `SpecError`, `StoreFull`."""
    payloads = [each.payload for each in specs if isinstance(each.payload, ScriptPayload)]
    if not any(each.env or each.secrets for each in payloads):
        return tuple(specs)
    return await asyncio.to_thread(desk.secrets().protect, specs)


async def likened(specs: Sequence[JobSpec]) -> tuple[JobSpec, ...]:
    """The specs as they are compared with a repeated request: another controller has other names for kept values.

    In a thread: there may be many.
    """
    return await asyncio.to_thread(lambda: tuple(map(_likened, specs)))


def _likened(spec: JobSpec) -> JobSpec:
    payload = spec.payload
    if not isinstance(payload, ScriptPayload) or not any(map(is_own, payload.secrets.values())):
        return spec
    own = {name: OWN if is_own(ref) else ref for name, ref in payload.secrets.items()}
    return replace(spec, payload=replace(payload, secrets=own))
