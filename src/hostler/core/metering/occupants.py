"""What a device has now: kinds of work, each with its part of the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hostler.model.events import job_of
from hostler.model.work import WorkKind

if TYPE_CHECKING:
    from hostler.core.state import Attempt, Device, Job, State

NOBODY: Mapping[str, float] = {}


def occupants(state: State, device: Device) -> Mapping[str, float]:
    """The parts add up to 1, or there are none.

    Those that share a device have equal parts. Of those that wait there for each other, the first has all of it. On a
    part of a cluster an attempt has nothing before it runs: it waits in the cluster's queue.
    """
    pooled = state.nodes[device.spec.node].spec.pool is not None
    there = [(job, each) for job, each in _attempts(state, device) if each.started_at is not None or not pooled]
    if there and not (device.chunks and _is_before(state, device.chunks[0], there[0][1])):
        return _parts(there)
    return {WorkKind.SWEEP.value: 1.0} if device.chunks else NOBODY


def _attempts(state: State, device: Device) -> list[tuple[Job, Attempt]]:
    jobs = (state.jobs[job_of(name)] for name in device.attempts)
    return [(job, job.attempt) for job in jobs if job.attempt is not None]


def _is_before(state: State, chunk: str, attempt: Attempt) -> bool:
    return state.sweeps[job_of(chunk)].leases[chunk].leased_at < attempt.leased_at


def _parts(there: list[tuple[Job, Attempt]]) -> Mapping[str, float]:
    (first, _), parts = there[0], dict[str, float]()
    if not first.spec.resources.shared:
        return {first.spec.work.value: 1.0}
    for job, _ in there:
        parts[job.spec.work.value] = parts.get(job.spec.work.value, 0.0) + 1 / len(there)
    return parts
