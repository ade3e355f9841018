"""What is read of copies of artifacts becomes facts. Which artifacts there are, the catalogue knows, not the state.

A million of them would not fit into a state that is folded and kept whole. What they are copied by and deleted for is
decided by `policy.replication` and `policy.retention` on rows of the catalogue, which is a projection of these facts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hostler.core.index import Index
from hostler.core.state import State
from hostler.model import events, inputs
from hostler.model.errors import UsageError
from hostler.model.events import Event

Emit: TypeAlias = Callable[[Event], None]
Fold: TypeAlias = Callable[[State, Index, Any], None]


def _told(state: State, index: Index, given: inputs.CopiesTold, emit: Emit) -> None:
    if given.verified:
        emit(events.CopiesVerified(place=given.place, artifacts=given.verified))
    if given.damaged:
        emit(events.CopiesDamaged(place=given.place, artifacts=given.damaged, why=given.why))
    if given.gone:
        emit(events.CopiesGone(place=given.place, artifacts=given.gone, why=given.why))


def _given_up(state: State, index: Index, given: inputs.GivePlaceUp, emit: Emit) -> None:
    if not given.who.strip() or not given.why.strip():
        raise UsageError(f"say who gives {given.place} up, and why: all copies there count no more")
    emit(events.PlaceGone(place=given.place, who=given.who, why=given.why))


def _nothing(state: State, index: Index, event: Event) -> None:
    """The catalogue folds it."""


TAKES: dict[type, Callable[[State, Index, Any, Emit], Any]] = {
    inputs.CopiesTold: _told,
    inputs.GivePlaceUp: _given_up,
}
FOLDS: dict[type, Fold] = dict.fromkeys(
    (events.CopiesVerified, events.CopiesDamaged, events.CopiesGone, events.PlaceGone), _nothing
)
