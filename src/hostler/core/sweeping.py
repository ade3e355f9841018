"""Which sweep does a device go on with, and how much of it is it given?"""

from __future__ import annotations

from collections.abc import Iterator

from hostler.core.care import effects as care
from hostler.core.index import Index
from hostler.core.state import Device, Job, State, Sweep, speed_key, sweep_payload
from hostler.model.events import ChunkLeased
from hostler.model.work import SweepPayload, WorkKind
from hostler.policy import chunking, placement
from hostler.policy.chunking import Bounds


def best(state: State, index: Index, device: Device) -> Sweep | None:
    """The sweep that the device should be given a chunk of: the first in rank, then the one that had the least."""
    if not device.chunks and care.blocked(state, device.spec.node, WorkKind.SWEEP) is not None:
        return None  # a device that is at work on one goes on with it
    candidates = [
        job
        for job in _open_sweeps(state, index)
        if device.spec.id not in state.sweeps[job.id].barred and index.suits(job, device.spec.id)
    ]
    if not candidates:
        return None
    first = min(candidates, key=lambda job: (-job.priority, index.attained_s[job.id], job.number))
    return state.sweeps[first.id]


def room(held: placement.Occupied) -> bool:
    """Whether a device that holds this should be given a chunk more."""
    return placement.takes_chunks(held) and chunking.wants_more(held.chunks, held.chunks_s)


def lease(state: State, index: Index, device: Device, sweep: Sweep) -> ChunkLeased:
    """The next chunk of the sweep, cut for the device."""
    payload = sweep_payload(state.jobs[sweep.job])
    speed = state.speeds.get(speed_key(device.spec.id, payload))
    fleet_per_s = index.pace_per_s[sweep.job]
    if speed is not None and device.spec.id not in index.fleet_per_s[sweep.job]:
        fleet_per_s += speed.per_s
    ledger = sweep.ledger
    wanted = chunking.length(_bounds(payload), ledger.total, ledger.free_items, speed, fleet_per_s)
    start, stop = ledger.next_free(wanted)
    return ChunkLeased(
        job=sweep.job,
        chunk=f"{sweep.job}.{sweep.chunks + 1}",
        device=device.spec.id,
        start=start,
        stop=stop,
        expected_s=None if speed is None else (stop - start) / speed.per_s,
    )


def _open_sweeps(state: State, index: Index) -> Iterator[Job]:
    return (state.jobs[name] for name in index.active if state.sweeps[name].ledger.free)


def _bounds(payload: SweepPayload) -> Bounds:
    return Bounds(target_s=payload.target_s, floor=payload.min_chunk, ceiling=payload.max_chunk)
