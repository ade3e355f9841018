"""Tokens, and who asked for what."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from hostler.model.access import AuditView, Owner, Scope, TokenName, TokenView
from hostler.model.errors import Conflict
from hostler.model.inputs import CreateToken, RevokeToken
from hostler.model.record import record
from hostler.model.work import Seconds
from hostler.web.answers import Name, TheDesk, answer, load, owner_of_caller, read_body, tell
from hostler.web.document import body_of
from hostler.web.door import digest_of
from hostler.web.paging import Paged, answer_page, cut, split
from hostler.web.routing import Routes

router = Routes(tags=["access"])


@record
class TokenBody:
    """A token to be made."""

    name: TokenName
    scope: Scope = Scope.READ
    lifetime_s: Annotated[Seconds | None, Field(description="`null`: until it is revoked")] = None
    owner: Annotated[
        Owner | None, Field(description="whose jobs are submitted with it; `null`: those of who makes the token")
    ] = None


@record
class TokenMade:
    """A token, this once."""

    token: str
    about: TokenView


@router.get("/tokens", response_model=list[TokenView])
async def list_tokens(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Tokens that have not been revoked; what they are is not known to anybody but their owners."""
    # Of one name there may be one that is good and others that have expired.
    page, more = cut(desk.tokens(), paging, lambda each: f"{each.name} {each.created_at}")
    return answer_page(request, list[TokenView], page, more)


@router.post("/tokens", response_model=TokenMade, status_code=201, openapi_extra=body_of("TokenBody"))
async def create_token(desk: TheDesk, request: Request) -> Response:
    """Make a token. It is told in this answer and never again."""
    given = load(TokenBody, await read_body(request))
    token = secrets.token_urlsafe(32)
    made = CreateToken(
        name=given.name,
        sha256=digest_of(token),
        scope=given.scope,
        lifetime_s=given.lifetime_s,
        owner=given.owner if given.owner is not None else owner_of_caller(request),
    )
    if await tell(request, made, like=given) != made.sha256:
        raise Conflict(
            f"the token {given.name!r} was made by this request before, and was told only then; if it was lost, "
            f"revoke it (`hostler token revoke {given.name}`) and make another under another idempotency key"
        )
    about = next(view for view in desk.tokens() if view.name == given.name)
    return answer(TokenMade, TokenMade(token=token, about=about), HTTPStatus.CREATED)


@router.delete("/tokens/{name}", response_model=list[TokenView])
async def revoke_token(desk: TheDesk, name: Name, request: Request) -> Response:
    """Let nobody in by a token any more, its sessions and open streams included; answers with those that are left."""
    await tell(request, RevokeToken(name=name))
    return answer(list[TokenView], desk.tokens())


@router.get("/audit", response_model=list[AuditView])
async def list_requests(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Who asked for what, and was answered: everything that changed something, newest first."""
    found = await desk.audit(paging.number() or None, paging.limit + 1)
    page, more = split(found, paging.limit, lambda each: each.seq)
    return answer_page(request, list[AuditView], page, more)
