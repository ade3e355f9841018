"""Access for people and for the door: who somebody is, which tokens there are, who asked for what."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.core.state import State
from hostler.model.access import AuditView, Holder, TokenView
from hostler.model.events import Entry, RequestAccepted


def holder(state: State, sha256: str, now: float) -> Holder | None:
    """Who has the token with this hash; `None` where there is none such, or it is good for nothing any more."""
    token = state.access.tokens.get(sha256)
    if token is None or not token.is_live(now):
        return None
    return Holder(name=token.name, scope=token.scope, owner=token.owner)


def token_views(state: State, now: float) -> Sequence[TokenView]:
    """All tokens that have not been revoked, in order of creation."""
    return [
        TokenView(
            name=token.name,
            scope=token.scope,
            created_at=token.created_at,
            expires_at=token.expires_at,
            left_s=None if token.expires_at is None else max(token.expires_at - now, 0.0),
            expired=not token.is_live(now),
            owner=token.owner,
        )
        for token in state.access.tokens.values()
    ]


def audit_views(entries: Sequence[Entry]) -> Sequence[AuditView]:
    """Accepted requests among journal entries."""
    return [_audit_view(entry, entry.event) for entry in entries if isinstance(entry.event, RequestAccepted)]


def _audit_view(entry: Entry, event: RequestAccepted) -> AuditView:
    return AuditView(
        seq=entry.seq,
        at=entry.at,
        who=event.who,
        what=event.what,
        entries=event.entries,
        key=event.key,
    )
