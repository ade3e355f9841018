"""What nodes report: taken as far as it concerns their own work, refused otherwise, and recorded at a bounded rate.

A node that reports on the work of others again and again is held: it is given no more work until a person resumes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from hostler.core import cordons
from hostler.core.conduct import Conduct
from hostler.core.index import Index
from hostler.core.ownership import Foreign, admitted
from hostler.core.state import State
from hostler.model import events, inputs
from hostler.model.events import Event

Emit: TypeAlias = Callable[[Event], None]
Take: TypeAlias = Callable[[State, Index, Any, Emit], Any]

OF_MOST = 200
"""Characters of a name of a node's own choice that an event repeats."""


def reported(take: Take) -> Take:
    """How an input is taken that a node reports; `take` is how it is taken otherwise."""

    def taken(state: State, index: Index, given: inputs.Reported, emit: Emit) -> Any:
        conduct = index.conduct[given.node]
        bounded = _bounded(index, given.node, conduct, emit)
        own, foreign = admitted(state, index, given.node, given.given)
        # First: where an event of it cannot be kept, nothing of the input may have been applied.
        answer = None if own is None else take(state, index, own, bounded)
        for each in foreign:
            _refuse(state, index, given, each, bounded)
        if isinstance(own, inputs.LinkDown) and conduct.counted:
            emit(_summary(given.node, conduct))
        return answer

    return taken


def _refuse(state: State, index: Index, given: inputs.Reported, foreign: Foreign, emit: Emit) -> None:
    what = type(given.given).__name__
    emit(events.ResultRefused(of=foreign.of[:OF_MOST], why=f"{given.node} reported {what} of it, and {foreign.why}"))
    conduct = index.conduct[given.node]
    known = state.cordons.get(given.node)
    is_free = given.node in state.nodes and (known is None or known.who == cordons.ITSELF)
    if conduct.is_held(index.now) and is_free:
        why = (
            f"it reported {len(conduct.foreign)} times on work of other nodes within an hour, the last time {what} of "
            f"{foreign.of[:OF_MOST]}: {foreign.why}"
        )
        drain = known is not None and known.drain
        emit(events.NodeCordoned(node=given.node, why=why, who=cordons.HOSTLER, drain=drain, now=False))


def _bounded(index: Index, node: str, conduct: Conduct, emit: Emit) -> Emit:
    """`emit`, with the node in what is refused; of faults beyond so many only the number is kept."""

    def emitted(event: Event) -> None:
        if isinstance(event, events.ResultRefused | events.TroubleRecorded) and not conduct.records(index.now):
            return
        if isinstance(event, events.ResultRefused):
            event = replace(event, of=event.of[:OF_MOST], node=node)
        emit(event)
        if isinstance(event, events.ResultRefused | events.TroubleRecorded) and conduct.counted:
            emit(_summary(node, conduct))

    return emitted


def _summary(node: str, conduct: Conduct) -> events.TroubleRecorded:
    counted = conduct.take_counted()
    return events.TroubleRecorded(where=f"node {node}", what=f"{counted} more faults of it were counted, not recorded")
