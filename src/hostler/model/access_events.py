"""Facts of access: who may come in, and who asked for what."""

from __future__ import annotations

from typing import Any, Literal

from hostler.model.access import Scope
from hostler.model.record import record


@record
class TokenCreated:
    """Somebody who has the token with this hash is let in from now on, as `name`."""

    kind: Literal["token.created"] = "token.created"
    name: str
    sha256: str
    scope: Scope
    expires_at: float | None
    """`None`: until it is revoked."""
    owner: str | None = None
    """`None`: the user that the controller runs as."""


@record
class TokenRevoked:
    """The token of this name is good for nothing any more."""

    kind: Literal["token.revoked"] = "token.revoked"
    name: str
    sha256: str


@record
class RequestAccepted:
    """Somebody asked for something, and it was done; what followed at once are the `entries` entries before this."""

    kind: Literal["request.accepted"] = "request.accepted"
    who: str
    what: str
    entries: int = 0
    key: str | None = None
    """Under which the same request, by the same person, means this one for a day."""
    fingerprint: str | None = None
    """Of what was asked for, where it came under a key."""
    answer: Any = None
    """What was answered, where it came under a key."""
