"""Taking back what a node out of reach has, once its lease is over.

What runs there may run on: whatever it still tells is refused, because it is not current any more, and it is told to
end it as soon as it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from hostler.core import intake, judging, leases, sweeping
from hostler.core.index import Index
from hostler.core.state import Node, State
from hostler.model.events import ChunkTaken, Event, job_of
from hostler.model.units import duration

Emit: TypeAlias = Callable[[Event], None]


def review(state: State, index: Index, emit: Emit) -> None:
    """Take back what nodes have whose leases are over."""
    due = [each for each in index.chores if each.startswith(leases.CHORE)]
    for chore in sorted(due):
        index.chores.discard(chore)
        node = state.nodes[chore.removeprefix(leases.CHORE)]
        at = leases.ends_at(state, node)
        if at is not None and at > index.now:
            leases.watch(state, index, node)
        elif at is not None:
            _take_back(state, index, node, emit)
            leases.watch_queued(state, index, node)


def _take_back(state: State, index: Index, node: Node, emit: Emit) -> None:
    last = leases.ends_at(state, node, queued=True)
    keeps_queued = last is not None and last > index.now
    away = duration(index.now - leases.away_since(node))
    why = (
        f"{node.spec.name} has been out of reach for {away}, its lease is over: given to others; "
        "what it still does there is refused"
    )
    devices = [state.devices[name] for name in index.devices_at[node.spec.name]]
    for attempt in dict.fromkeys(name for device in devices for name in device.attempts):
        if not (keeps_queued and leases.is_queued(node, state.jobs[job_of(attempt)])):
            judging.lose(state, index, attempt, why, emit)
    _take_chunks(state, index, [chunk for device in devices for chunk in device.chunks], why, emit)


def _take_chunks(state: State, index: Index, chunks: Iterable[str], why: str, emit: Emit) -> None:
    """Take chunks back from where they were last heard to be."""
    shrunk: dict[str, None] = {}
    for chunk in chunks:
        sweep = state.sweeps[job_of(chunk)]
        position, hits = sweeping.told(state, sweep, chunk)
        device = sweep.leases[chunk].device
        emit(ChunkTaken(chunk=chunk, device=device, position=position, hits=hits, why=why, silent=False))
        shrunk[sweep.job] = None
    for name in shrunk:
        intake.review_sweep(state, index, state.jobs[name], emit)
