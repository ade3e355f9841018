"""What is in use: read off the core's state, rather too much than too little.

A stage finds its games, datasets and models in the controller's own store and nowhere else. So whatever a loop may
still order, and whatever a job that is not over was ordered to read, stays there, however many copies there are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

from hostler.core import dependencies
from hostler.core.loop.stages import WINDOW_SEGMENTS
from hostler.core.loop.state import Config
from hostler.core.state import Job, State
from hostler.model.events import job_of
from hostler.model.files import named_in
from hostler.model.fleet import Link
from hostler.model.learning import ModelStatus
from hostler.model.record import record
from hostler.model.telemetry import Level
from hostler.model.work import JobState, StagePayload
from hostler.policy import pressure

LATEST = 1000
"""Stages that are over whose work folders are known; an order may be long, and older folders stay."""


@record
class Needs:
    """What may not go now."""

    artifacts: frozenset[str]
    """SHA-256 of what loops or jobs may still read."""
    attempts: frozenset[str]
    """Attempts that are not over."""
    jobs: int
    """Jobs have numbers below this; of others nothing is known."""
    orders: Mapping[str, JobState]
    """By digest of their orders: where the stages stand whose work folders were asked for."""

    def is_over(self, attempt: str) -> bool | None:
        """Whether an attempt is; `None`: there never was such a one, as far as is known."""
        job, _, number = attempt.rpartition(".")
        if not (job.startswith("j") and job[1:].isdecimal() and number.isdecimal()) or int(job[1:]) >= self.jobs:
            return None
        return attempt not in self.attempts


class Orders:
    """Digests of the orders of stages, each made once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def standing(self, state: State, wanted: frozenset[str]) -> dict[str, JobState]:
        """By digest, of those that are wanted, where their jobs stand; of several the one that is not over."""
        found: dict[str, JobState] = {}
        stages = [job for job in reversed(state.jobs.values()) if isinstance(job.spec.payload, StagePayload)]
        over = (job for job in stages if job.state.final)
        for job in chain((job for job in stages if not job.state.final), islice(over, LATEST)):
            if len(found) == len(wanted):
                break
            assert isinstance(job.spec.payload, StagePayload)
            name = self._digest(job.id, job.spec.payload)
            if name in wanted:
                found.setdefault(name, job.state)
        return found

    def _digest(self, job: str, payload: StagePayload) -> str:
        if job not in self._known:
            self._known[job] = _digest(payload.order)
        return self._known[job]


def needs(state: State, orders: Orders, folders: frozenset[str]) -> Needs:
    """What the state says of now; `folders` are the names of work folders that there are."""
    open_ = [job for job in state.jobs.values() if not job.state.final]
    artifacts = {name for config in state.configs.values() for name in _of_loop(config)}
    artifacts |= {name for job in open_ for name in _of_job(job)}
    artifacts |= {name for job in open_ if job.attempt is not None for name in _given(state, job)}
    return Needs(
        artifacts=frozenset(artifacts),
        attempts=frozenset(job.attempt.id for job in open_ if job.attempt is not None),
        jobs=state.next_job,
        orders=orders.standing(state, folders),
    )


def needed_on(state: State, node: str) -> frozenset[str]:
    """What attempts that are on a node, or on their way there, were ordered to read, or given as results of the jobs
    that they come after; and what is to be fetched there of those that have ended."""
    devices = [each for each in state.devices.values() if each.spec.node == node]
    found: set[str] = set()
    for name in {attempt for each in devices for attempt in each.attempts}:
        job = state.jobs[job_of(name)]
        found.update(_of_job(job))
        found.update(_given(state, job))
        if job.attempt is not None and job.attempt.ended is not None and job.attempt.ended.fetch is not None:
            found.update(job.attempt.ended.fetch.artifacts)
    return frozenset(found)


def is_full(state: State, node: str) -> bool:
    """Whether a node can be reached whose disk is to be cleaned, as it was heard of last."""
    known, pressed = state.nodes.get(node), state.care.nodes.get(node, {})
    full = [pressed[name].signal.level for name in (pressure.DISK, pressure.DISK_FREE) if name in pressed]
    return known is not None and known.link is Link.UP and max(full, default=Level.NONE) >= Level.CLEAN


def _digest(order: Mapping[str, Any]) -> str:
    """As docs/reference/learning.md lays down for the names of work folders."""
    text = json.dumps(order, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _of_loop(config: Config) -> Iterator[str]:
    """Everything that a stage of it may be ordered to read: a retired loop may be taken up again."""
    games, count = 0, 0
    for segment in reversed(config.segments.values()):
        if segment.refused is not None:
            continue
        if games >= config.spec.export.window_games or count == WINDOW_SEGMENTS:
            break
        yield segment.sha256
        games, count = games + segment.games, count + 1
    newest = next(reversed(config.datasets.values()), None)
    yield from (each.ref.sha256 for each in config.datasets.values() if each is newest or not each.trained)
    yield from (name for name, model in config.models.items() if model.status is not ModelStatus.REJECTED)
    yield from (switch.model for switch in config.switches)


def _of_job(job: Job) -> Iterator[str]:
    payload = job.spec.payload
    if isinstance(payload, StagePayload):
        yield from _names(payload.order)


def _given(state: State, job: Job) -> Iterator[str]:
    """What is named in the results that a job is given of those that it comes after: it has what they name."""
    for name in job.after:
        for before in dependencies.jobs_of(state, name):
            yield from named_in(before.result)


def _names(value: Any) -> Iterator[str]:
    """Everything in an order that looks like an artifact, or like a player that is one."""
    if isinstance(value, str):
        _, _, name = value.rpartition("@")
        if len(name) == 64:
            yield name
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _names(key)
            yield from _names(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _names(each)
