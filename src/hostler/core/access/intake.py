"""What is asked for: by whom, and whether it was asked for before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hostler.core.access.folds import KEPT_S, TOKENS_MOST
from hostler.core.access.state import Answered, Token, kept_as
from hostler.core.index import Index
from hostler.core.state import State
from hostler.model import events, inputs
from hostler.model.access import LOCAL
from hostler.model.codec import plain, record_fault
from hostler.model.errors import Conflict, NotFound, UsageError
from hostler.model.events import Event

Emit: TypeAlias = Callable[[Event], None]


def known_answer(state: State, index: Index, given: inputs.Asked) -> Answered | None:
    """What was answered under this key; `None` where nothing was, or too long ago.

    Raises `Conflict` where something else was asked for under it.
    """
    if given.key is None:
        return None
    known = state.access.answered.get(kept_as(given.who, given.key))
    if known is None or index.now >= known.at + KEPT_S:
        return None
    if known.fingerprint != given.fingerprint:
        raise Conflict(
            f"the idempotency key {given.key!r} was used for another request less than a day ago; nothing was done. "
            "Send each request under a key of its own, and only its repetitions under the same"
        )
    return known


def accepted(given: inputs.Asked, entries: int, answer: Any) -> events.RequestAccepted:
    """The entry of the audit: what was asked for, and what came of it."""
    keyed = given.key is not None
    return events.RequestAccepted(
        who=given.who,
        what=given.what,
        entries=entries,
        key=given.key,
        fingerprint=given.fingerprint if keyed else None,
        answer=plain(answer) if keyed else None,
    )


def create_token(state: State, index: Index, given: inputs.CreateToken, emit: Emit) -> str:
    """Let in whoever has the token of this hash; returns the hash, by which a repetition is known."""
    fault = record_fault(given)
    if fault is not None:
        raise UsageError(f"there cannot be such a token, none was made: {fault}")
    if given.name == LOCAL:
        raise UsageError(f"{LOCAL!r} is the token of the state directory; give the new one another name")
    live = [token for token in state.access.tokens.values() if token.is_live(index.now)]
    if any(token.name == given.name for token in live):
        raise Conflict(
            f"there is a token {given.name!r} already, and what it is cannot be told again; revoke it first "
            f"(`hostler token revoke {given.name}`), or choose another name"
        )
    if given.sha256 in state.access.tokens:
        raise Conflict("this very token has been made before; make another, by chance and 256 bits long")
    if len(live) >= TOKENS_MOST:
        raise Conflict(f"there are {len(live)} tokens, more cannot be kept; revoke those that nobody uses")
    expires_at = None if given.lifetime_s is None else index.now + given.lifetime_s
    emit(
        events.TokenCreated(
            name=given.name, sha256=given.sha256, scope=given.scope, expires_at=expires_at, owner=given.owner
        )
    )
    return given.sha256


def revoke_token(state: State, index: Index, given: inputs.RevokeToken, emit: Emit) -> None:
    """Let nobody in by a token any more."""
    token = _named(state, index, given.name)
    emit(events.TokenRevoked(name=token.name, sha256=token.sha256))


def note_secret(state: State, index: Index, given: inputs.NoteSecret, emit: Emit) -> int:
    """Nothing follows from it but the entry of the audit; returns a number beyond that of the newest entry.

    A repetition of the request is answered with the same number, which is not beyond it any more.
    """
    return state.seq + 1


def _named(state: State, index: Index, name: str) -> Token:
    found = [token for token in state.access.tokens.values() if token.name == name]
    if not found:
        raise NotFound(f"there is no token {name!r}; `hostler token list` tells which there are")
    return found[-1]
