"""What is read of copies of artifacts becomes facts. Which artifacts there are, the catalogue knows, not the state.

A million of them would not fit into a state that is folded and kept whole. What they are copied by and deleted for is
decided by `policy.replication` and `policy.retention` on rows of the catalogue, which is a projection of these facts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hostler.core import nearness
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


def _to_be_read(state: State, index: Index, given: inputs.ReadCopies, emit: Emit) -> float:
    """When it was asked for: what was read since then need not be read again where the request is repeated."""
    return index.now


def _files(state: State, index: Index, given: inputs.FilesTold, emit: Emit) -> None:
    tombstone, who = given.tombstone, given.who
    if given.retired:
        emit(events.FilesRetired(tombstone=tombstone, who=who, until=given.until, files=given.retired))
    if given.restored:
        emit(events.FilesRestored(tombstone=tombstone, who=who, why=given.why, files=given.restored))
    if given.deleted:
        emit(events.FilesDeleted(tombstone=tombstone, files=given.deleted, bytes=given.bytes))


def _dropped(state: State, index: Index, given: inputs.DropTold, emit: Emit) -> None:
    if given.dropping:
        emit(events.FilesDropping(node=given.node, who=given.who, files=given.dropping))
    if given.dropped:
        emit(events.FilesDropped(node=given.node, files=given.dropped, bytes=given.bytes))


def _asked(state: State, index: Index, given: inputs.CleanDisk | inputs.UndoDisk, emit: Emit) -> str:
    """What comes of it is told file by file; that somebody asked for it, the audit keeps."""
    return given.id


def _nothing(state: State, index: Index, event: Event) -> None:
    """The catalogue folds it, or it is for people alone."""


TAKES: dict[type, Callable[[State, Index, Any, Emit], Any]] = {
    inputs.CopiesTold: _told,
    inputs.GivePlaceUp: _given_up,
    inputs.ReadCopies: _to_be_read,
    inputs.FilesTold: _files,
    inputs.DropTold: _dropped,
    inputs.CleanDisk: _asked,
    inputs.UndoDisk: _asked,
}
FOLDS: dict[type, Fold] = dict.fromkeys(
    (
        events.CopiesVerified,
        events.CopiesDamaged,
        events.CopiesGone,
        events.PlaceGone,
        events.FilesRetired,
        events.FilesRestored,
        events.FilesDeleted,
        events.FilesDropping,
    ),
    _nothing,
) | {events.FilesDropped: nearness.dropped}
