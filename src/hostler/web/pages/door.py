"""Who looks at pages. Everything that pages know of access is here and in `login.html`."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request

from hostler.model.access import LOCAL, Scope
from hostler.web.answers import caller_name, desk_of, owner_of_caller
from hostler.web.door import Visitor
from hostler.web.session import csrf_token


class Viewer(NamedTuple):
    """Somebody who has been let in: by what name, and what their browser must send with whatever changes something."""

    name: str
    csrf: str
    """Empty where whoever looks is known by more than what browsers send by themselves, and needs none."""
    may_steer: bool
    """Whether what steers is shown to them. What they may do is the guard's to say, whatever is shown."""
    owner: str
    """The person whose jobs are the viewer's own, as in `GET /jobs?mine=true`."""


def viewer(request: Request) -> Viewer:
    """Who looks. The guard has let nobody in whom it does not know."""
    visitor: Visitor = request.state.visitor
    return Viewer(
        name=caller_name(request),
        csrf=csrf_token(request) or "",
        may_steer=visitor.holder.scope.covers(Scope.OPERATE),
        owner=owner_of_caller(request) or LOCAL,
    )


def may_change(request: Request, owner: str | None) -> bool:
    """Whether the viewer may change the jobs of this owner, as far as owners decide that."""
    visitor: Visitor = request.state.visitor
    return desk_of(request).may_change(visitor.holder, owner)
