"""Folding facts of access, and what must always be true of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from hostler.core.access.state import Access, Answered, Token, kept_as
from hostler.core.index import Index
from hostler.core.state import State
from hostler.model import events
from hostler.model.errors import IllegalTransition

Fold: TypeAlias = Callable[[State, Index, Any], None]

KEPT_S = 86_400.0
"""How long an answer is known under its key."""
KEPT_MOST = 10_000
"""Answers that are known at most; the oldest make way."""
WEIGHT_MOST = 250_000
"""Words that all of them have at most together, such as ids of submitted jobs."""
TOKENS_MOST = 1000


def faults(state: State) -> Iterator[str]:
    """Everything that is wrong with tokens and answers, in words."""
    access = state.access
    live = Counter(token.name for token in access.tokens.values() if token.is_live(state.at))
    if any(count > 1 for count in live.values()):
        yield f"tokens of the same name: {[name for name, count in live.items() if count > 1]}"
    if any(key != token.sha256 for key, token in access.tokens.items()):
        yield "tokens are kept under other hashes than theirs"
    if access.weight != sum(each.weight for each in access.answered.values()):
        yield f"answers weigh {sum(each.weight for each in access.answered.values())}, noted are {access.weight}"
    if len(access.answered) > KEPT_MOST or (access.weight > WEIGHT_MOST and len(access.answered) > 1):
        yield f"{len(access.answered)} answers of {access.weight} words are kept, more than there may be"
    times = [each.at for each in access.answered.values()]
    if times != sorted(times):
        yield "answers are not kept in order of time"


def _created(state: State, index: Index, event: events.TokenCreated) -> None:
    tokens = {name: each for name, each in state.access.tokens.items() if each.is_live(state.at)}
    if event.sha256 in tokens:
        raise IllegalTransition(f"{event.name} does not fit: there is a token with this hash")
    tokens[event.sha256] = Token(
        name=event.name,
        sha256=event.sha256,
        scope=event.scope,
        created_at=state.at,
        expires_at=event.expires_at,
        owner=event.owner,
    )
    state.access.tokens = tokens


def _revoked(state: State, index: Index, event: events.TokenRevoked) -> None:
    del state.access.tokens[event.sha256]


def _accepted(state: State, index: Index, event: events.RequestAccepted) -> None:
    if event.key is None:
        return
    access = state.access
    _forget(access, kept_as(event.who, event.key))
    made = Answered(at=state.at, fingerprint=event.fingerprint, answer=event.answer, weight=_weight(event.answer))
    access.answered[kept_as(event.who, event.key)] = made
    access.weight += made.weight
    while _is_over(access, state.at):
        _forget(access, next(iter(access.answered)))


def _is_over(access: Access, now: float) -> bool:
    """Whether the oldest answer has to go. The newest stays, whatever it weighs."""
    oldest = next(iter(access.answered.values()))
    too_many = len(access.answered) > KEPT_MOST or access.weight > WEIGHT_MOST
    return len(access.answered) > 1 and (too_many or now >= oldest.at + KEPT_S)


def _forget(access: Access, name: str) -> None:
    gone = access.answered.pop(name, None)
    access.weight -= 0 if gone is None else gone.weight


def _weight(answer: Any) -> int:
    """About how many words; the same before and after a journey through JSON."""
    if isinstance(answer, Mapping):
        return 1 + sum(map(_weight, answer.values()))
    return 1 + sum(map(_weight, answer)) if isinstance(answer, list | tuple) else 1


FOLDS: dict[type, Fold] = {
    events.TokenCreated: _created,
    events.TokenRevoked: _revoked,
    events.RequestAccepted: _accepted,
}
