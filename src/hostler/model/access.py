"""Who may do what, and who did: scopes, tokens and accepted requests as they are shown."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import Field

from hostler.model.record import record

LOCAL = "local"
"""Who has the token of the state directory; no token that is made is called so."""

TokenName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Digest: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""The SHA-256 of a token, in hexadecimal. Of the token itself nothing is kept anywhere."""
Owner: TypeAlias = Annotated[str, Field(max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""The person that a token and the jobs submitted with it belong to."""


class Scope(StrEnum):
    """What somebody may do; each contains the ones before it."""

    READ = "read"
    """Look."""
    OPERATE = "operate"
    """Submit, cancel, steer."""
    ADMIN = "admin"
    """Make and revoke tokens, and stop the controller."""

    def covers(self, wanted: Scope) -> bool:
        """Whether this scope allows what `wanted` allows."""
        ranks = list(Scope)
        return ranks.index(self) >= ranks.index(wanted)


@record
class Holder:
    """Somebody who was let in: by which name, and for what."""

    name: str
    scope: Scope
    owner: str | None = None
    """The person that the jobs submitted under this name belong to; `None`: the user that the controller runs as."""


@record
class TokenView:
    """A token as it is shown: never itself, nor its hash."""

    name: str
    scope: Scope
    created_at: float
    expires_at: float | None
    """`None`: it is good until it is revoked."""
    left_s: float | None
    """Seconds until then by the controller's time, which may differ from that of the machine that asks."""
    expired: bool
    owner: str | None = None
    """Whose the jobs are that are submitted with it; `null`: those of the user that the controller runs as."""


@record
class AuditView:
    """Something that somebody asked for and that was done."""

    seq: int
    """Number of its entry in the journal."""
    at: float
    who: str
    """Name of the token; `local` for that of the state directory, `proxy/NAME` for whom a trusted proxy vouches."""
    what: str
    """The operation and what it was asked for, as `cancel_job j17`."""
    entries: int
    """How many entries directly before it are what followed at once."""
    key: str | None
    """The idempotency key it came under; what was answered under one, its entry tells."""
