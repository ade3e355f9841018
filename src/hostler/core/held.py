"""What does a device hold, why, and until when?"""

from __future__ import annotations

from collections.abc import Iterator

from hostler.core.index import Index
from hostler.core.starting import ends_at
from hostler.core.state import Device, Job, State, is_calls
from hostler.model.views import HeldView, HoldView

TURN = "the next free part of the sweep whose turn it was"
TURN_OF_CALLS = "the next free calls of the batch whose turn it was"


def held(state: State, index: Index, device: Device) -> Iterator[HeldView]:
    """What is on a device, in the order in which it is done, with when each is expected to end."""
    for place, name in enumerate(device.attempts):
        job = state.jobs[name.rpartition(".")[0]]
        attempt = job.attempt
        assert attempt is not None, f"{name} is on {device.spec.id}"
        before = device.attempts[: place + 1] if not attempt.lane else [name]
        ends = ends_at(state, index, device, before)
        why = attempt.why if attempt.yielding is None else f"asked to leave: {attempt.yielding}"
        begun = attempt.leased_at if attempt.started_at is None else attempt.started_at
        yield _view(job, name, why, begun, None if ends is None else ends[0])
    free_at: float | None = index.now
    for place, name in enumerate(device.chunks):
        job = state.jobs[name.rpartition(".")[0]]
        lease = state.sweeps[job.id].leases[name]
        known = free_at is not None and lease.expected_s is not None
        begun = lease.leased_at if place == 0 else free_at or lease.leased_at
        free_at = max(begun + (lease.expected_s or 0.0), index.now) if known else None
        yield _view(job, name, _turn(job), lease.leased_at, free_at)


def holds(state: State, device: Device) -> Iterator[HoldView]:
    """The same without looking ahead, which costs the most."""
    for name in device.attempts:
        job = state.jobs[name.rpartition(".")[0]]
        attempt = job.attempt
        assert attempt is not None, f"{name} is on {device.spec.id}"
        begun = attempt.leased_at if attempt.started_at is None else attempt.started_at
        yield _hold(
            job, name, attempt.why if attempt.yielding is None else f"asked to leave: {attempt.yielding}", begun
        )
    for name in device.chunks:
        job = state.jobs[name.rpartition(".")[0]]
        yield _hold(job, name, _turn(job), state.sweeps[job.id].leases[name].leased_at)


def _turn(job: Job) -> str:
    """Why a device has a chunk."""
    return TURN_OF_CALLS if is_calls(job) else TURN


def _hold(job: Job, name: str, why: str, since: float) -> HoldView:
    return HoldView(
        id=name,
        job=job.id,
        name=job.spec.name,
        work=job.spec.work,
        config=job.spec.serves,
        since=since,
        why=why,
        calls=is_calls(job),
    )


def _view(job: Job, name: str, why: str, since: float, ends: float | None) -> HeldView:
    return HeldView(id=name, job=job.id, name=job.spec.name, work=job.spec.work, why=why, since=since, ends_at=ends)
