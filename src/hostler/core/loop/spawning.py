"""Jobs that somebody asks for beyond what a loop orders by itself: how they are ordered, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from hostler.core.index import Index
from hostler.core.loop.stages import job_for
from hostler.core.loop.state import Config, Spawned
from hostler.core.state import Job, State
from hostler.model import events
from hostler.model.events import Event
from hostler.model.work import JobState, StagePayload, WorkKind

Emit: TypeAlias = Callable[[Event], None]
Fold: TypeAlias = Callable[[State, Index, Any], None]

SPAWNED_MOST = 16
"""Jobs of one config that may be there beyond what its loop orders."""
ANEW = ", in place of "


def order(
    state: State,
    config: Config,
    stage: WorkKind,
    asked: Spawned,
    now: float,
    emit: Emit,
    key: str | None = None,
    nodes: tuple[str, ...] = (),
) -> str:
    """Queue one more job of a stage, on these nodes alone if any are named; returns its id."""
    name, spec = f"j{state.next_job}", job_for(config, stage, now)
    if nodes:
        spec = replace(spec, resources=replace(spec.resources, nodes=nodes))
    assert isinstance(spec.payload, StagePayload)
    payload = replace(spec.payload, order=_order(spec.payload.order, asked.games))
    emit(events.JobSubmitted(job=name, spec=replace(spec, key=key, payload=payload)))
    emit(
        events.StageSpawned(config=config.spec.name, job=name, who=asked.who, why=asked.why, games=asked.games)
    )  # fmt: skip
    return name


def order_anew(state: State, config: Config, cancelled: Mapping[str, Spawned], now: float, emit: Emit) -> None:
    """Self-play that was asked for and is void is ordered as things are now; of the rest, the loop knows what it needs.

    `cancelled` are jobs that are over.
    """
    if config.paused is not None:
        return
    for name, asked in cancelled.items():
        if state.jobs[name].spec.work is WorkKind.SELFPLAY:
            why = asked.why if ANEW in asked.why else f"{asked.why}{ANEW}{name}"
            nodes = state.jobs[name].spec.resources.nodes
            order(state, config, WorkKind.SELFPLAY, replace(asked, why=why), now, emit, nodes=nodes)


def waiting(state: State, config: Config) -> Mapping[str, Spawned]:
    """Those of a config that have no device."""
    return {name: asked for name, asked in config.spawned.items() if state.jobs[name].state is JobState.PENDING}


def asked_for(state: State, job: Job) -> Spawned | None:
    """Who asked for a job; `None` where the loop ordered it, and of a job that is over."""
    payload = job.spec.payload
    return state.configs[payload.config].spawned.get(job.id) if isinstance(payload, StagePayload) else None


def words(asked: Spawned) -> str:
    """Who asked for a job, and what for."""
    return f"asked for by {asked.who}, beyond what the loop orders: {asked.why}"


def faults(config: Config) -> Iterator[str]:
    """What is wrong with the jobs that were asked for."""
    if not config.spawned.keys() <= config.jobs.keys():
        yield f"asked for are {sorted(config.spawned)}, its jobs are {sorted(config.jobs)}"
    if len(config.spawned) > SPAWNED_MOST:
        yield f"{len(config.spawned)} jobs beyond what the loop orders"


def _order(order: Mapping[str, Any], games: int | None) -> Mapping[str, Any]:
    """The order with other numbers of games."""
    if games is None:
        return order
    return {**order, "games": games, "segment_games": min(order["segment_games"], games)}


def _spawned(state: State, index: Index, event: events.StageSpawned) -> None:
    config = state.configs[event.config]
    config.spawned[event.job] = Spawned(who=event.who, why=event.why, games=event.games)
    index.loops_due.add(event.config)


FOLDS: dict[type, Fold] = {events.StageSpawned: _spawned}
