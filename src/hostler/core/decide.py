"""What should happen now? Asks the policies, answers with decisions; each carries the values it was based on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from hostler.core.apply import duration_key
from hostler.core.index import Index
from hostler.core.state import Device, Job, State, Sweep, speed_key, sweep_payload
from hostler.model.events import AttemptLeased, ChunkLeased, Event
from hostler.model.work import Resources, SweepPayload, WorkKind
from hostler.policy import chunking, duration, fit, placement
from hostler.policy.chunking import Bounds

Emit: TypeAlias = Callable[[Event], None]


def place_all(state: State, index: Index, emit: Emit) -> None:
    """Give every device that has room the work it should have, one piece each in turn until nothing more is to give."""
    if index.draining:
        return
    candidates = list(index.open if index.new_work else index.fresh)
    index.fresh.clear()
    index.new_work = False
    while candidates:
        candidates = [name for name in candidates if _serve_or_close(state, index, state.devices[name], emit)]


def occupied(index: Index, device: Device) -> placement.Occupied:
    """What a device has been given, as the policies see it."""
    load = index.loads[device.spec.id]
    return placement.Occupied(
        attempts=len(device.attempts),
        attempts_s=load.attempts,
        chunks=len(device.chunks),
        chunks_s=load.chunks,
    )


def predicted_s(state: State, job: Job, device: Device) -> float | None:
    """Seconds a script will last on a device at most; `None` if nobody can say yet."""
    return duration.at_most(state.durations.get(duration_key(state, job, device.spec.id)))


def _serve_or_close(state: State, index: Index, device: Device, emit: Emit) -> bool:
    if _serve(state, index, device, emit):
        return True
    held = occupied(index, device)
    if not placement.takes_attempt(held, 0.0) and not _has_room_for_chunks(held):
        index.closed(device.spec.id)
    return False


def _serve(state: State, index: Index, device: Device, emit: Emit) -> bool:
    """Give the device one more piece of work; whether there was one."""
    held = occupied(index, device)
    job = _best_script(state, index, device)
    if job is not None and not placement.takes_attempt(held, predicted_s(state, job, device)):
        return False
    sweep = _best_sweep(state, index, device)
    sweep_priority = None if sweep is None else state.jobs[sweep.job].priority
    if job is not None and _script_first(index, device, job, sweep_priority):
        emit(_attempt_lease(index, held, device, job))
        return True
    if sweep is not None and _has_room_for_chunks(held):
        emit(_chunk_lease(state, index, device, sweep))
        return True
    return False


def _script_first(index: Index, device: Device, job: Job, sweep_priority: int | None) -> bool:
    if job.spec.work is not WorkKind.SELFPLAY or job.priority != sweep_priority:
        return placement.script_first(job.priority, sweep_priority)
    return placement.selfplay_first(
        placement.Contest(
            selfplay_devices=index.selfplaying,
            sweep_devices=len(index.sweeping),
            holds_chunks=bool(device.chunks),
            selfplay_waited_s=index.now - index.selfplay_at,
            selfplay_turn_s=index.selfplay_turn_s,
            sweep_waited_s=index.now - index.sweep_at,
        )
    )


def _best_script(state: State, index: Index, device: Device) -> Job | None:
    best: Job | None = None
    for need in list(index.ready):
        job = index.head(state, need)
        if job is not None and (best is None or job.rank < best.rank) and _fits(need, device):
            best = job
    return best


def _best_sweep(state: State, index: Index, device: Device) -> Sweep | None:
    candidates = [
        job
        for job in _open_sweeps(state, index)
        if device.spec.id not in state.sweeps[job.id].barred and _fits(job.spec.resources, device)
    ]
    if not candidates:
        return None
    best = min(candidates, key=lambda job: (-job.priority, index.attained_s[job.id], job.number))
    return state.sweeps[best.id]


def _open_sweeps(state: State, index: Index) -> Iterator[Job]:
    return (state.jobs[name] for name in index.active if state.sweeps[name].ledger.free)


def _fits(need: Resources, device: Device) -> bool:
    return fit.refusal(need, device.spec) is None


def _has_room_for_chunks(held: placement.Occupied) -> bool:
    return placement.takes_chunks(held) and chunking.wants_more(held.chunks, held.chunks_s)


def _attempt_lease(index: Index, held: placement.Occupied, device: Device, job: Job) -> AttemptLeased:
    waited = index.now - job.submitted_at
    place = "idle" if held.attempts == 0 else f"{held.attempts} ahead, {held.attempts_s:.3g} s at most"
    why = f"first that fits: priority {job.priority}, number {job.number}, waited {waited:.1f} s; device {place}"
    return AttemptLeased(job=job.id, attempt=f"{job.id}.{job.attempts + 1}", device=device.spec.id, why=why)


def _chunk_lease(state: State, index: Index, device: Device, sweep: Sweep) -> ChunkLeased:
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


def _bounds(payload: SweepPayload) -> Bounds:
    return Bounds(target_s=payload.target_s, floor=payload.min_chunk, ceiling=payload.max_chunk)
