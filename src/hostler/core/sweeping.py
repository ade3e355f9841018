"""Which sweep does a device go on with, how much of it is it given, and who helps whom at the end?"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from hostler.core import foreign_use, gates, pools
from hostler.core.care import effects as care
from hostler.core.index import Index
from hostler.core.ledger import Interval
from hostler.core.state import ChunkLease, Device, Job, State, Sweep, speed_of, sweep_payload
from hostler.model.codec import unwritable
from hostler.model.events import ChunkLeased, ChunkShortened, ChunkTaken, Event, job_of
from hostler.model.fleet import Link
from hostler.model.inputs import Found, Returned, Searched
from hostler.model.record import entity
from hostler.model.work import SweepPayload, WorkKind
from hostler.policy import chunking, placement
from hostler.policy.chunking import Bounds, Speed

Emit: TypeAlias = Callable[[Event], None]
Hits: TypeAlias = tuple[dict[str, Any], ...]

TAILS = "tails"
"""The chore of looking at the ends of sweeps."""
LOOK_EVERY_S = 0.1
LOOK_PER_DEVICE_S = 0.001
"""How often they are looked at, at most: less often where that takes longer."""
LOOK_ANYWAY_S = 1.0
"""How often they are looked at, at least."""
TRIED_AGAIN_S = 60.0
"""A device whose last chunk came to nothing rests for so long before it helps others with a trial."""
BORDER_S = 2 * chunking.USUAL_S
"""For so long others wait for the end of a chunk."""
UNMEASURED = Speed(per_s=1.0, longest=1, samples=0)
"""Of a helper at uneven items, until it has done one."""
RECENT_S = 8.0
"""A report is good for so long where items are uneven: their workers report every 5 s at least."""
PACE_S = 5.0
"""Over what time the pace of a chunk at work is averaged."""


@entity
class Owner:
    """A device that has chunks of a sweep, the seconds it is expected to need for all it has, and its speed."""

    device: Device
    left_s: float
    per_s: float


def best(state: State, index: Index, device: Device) -> Sweep | None:
    """The sweep that the device should be given a chunk of: the first in rank, then the one that had the least."""
    if not is_at_one(index, device) and care.blocked(state, device.spec.node, WorkKind.SWEEP) is not None:
        return None  # a device that is at work on one goes on with it
    candidates = [job for job in _open_sweeps(state, index) if _may(state, index, job, device)]
    if not candidates or pools.gate(state, index, device) is not None:  # asked last: it looks at all slots of a pool
        return None
    if not is_at_one(index, device) and foreign_use.unread(state, index, device) is not None:
        index.unread[device.spec.node] = None
        return None
    first = min(candidates, key=lambda job: (-job.priority, index.attained_s[job.id], job.number))
    return state.sweeps[first.id]


def room(state: State, index: Index, device: Device, held: placement.Occupied) -> bool:
    """Whether a device that holds this should be given a chunk more."""
    left_s = held.chunks_s
    if device.chunks:
        first = state.sweeps[job_of(device.chunks[0])].leases[device.chunks[0]]
        if _is_overdue(state, index, device, first):
            return False
        if left_s is not None:
            left_s -= min(index.now - (first.began_at or index.now), first.expected_s or 0.0)
    return placement.takes_chunks(held) and chunking.wants_more(held.chunks, left_s)


def _is_overdue(state: State, index: Index, device: Device, first: ChunkLease) -> bool:
    """Whether an item of uneven ones takes long: what is given to the device now would wait behind it."""
    since = max(first.heard_at or 0.0, first.began_at or first.leased_at)
    late = index.now - since > max(chunking.AHEAD_S, chunking.LATE * (first.expected_s or 0.0))
    return late and sweep_payload(state.jobs[job_of(device.chunks[0])]).uneven


def lease(state: State, index: Index, device: Device, sweep: Sweep) -> ChunkLeased:
    """The next chunk of the sweep, cut for the device."""
    payload, ledger = sweep_payload(state.jobs[sweep.job]), sweep.ledger
    speed, bounds = _speed(state, sweep, device), _bounds(payload)
    if _doubtful(sweep, device):
        wanted = chunking.trial(bounds, ledger.total, ledger.free_items, speed)
    else:
        pace = _fleet_per_s(index, sweep, device, speed)
        wanted = chunking.length(bounds, ledger.total, ledger.free_items, speed, pace)
    return _leased(state, sweep, device, ledger.next_free(wanted))


def is_at_one(index: Index, device: Device) -> bool:
    """Whether the device is at a sweep: it has a chunk, or has just handed one in."""
    return bool(device.chunks) or index.swept_at.get(device.spec.id) == index.now


def share_tails(state: State, index: Index, emit: Emit) -> None:
    """Give devices that have nothing to do a part of what others hold of sweeps that have nothing free any more."""
    if index.draining or not index.sweeping or index.now < index.tails_at:
        return
    index.chores.discard(TAILS)
    tails = [job for job in _active(state, index) if not state.sweeps[job.id].ledger.free]
    if not tails:
        return
    _look_again(index)
    new_work = index.new_work
    for job in sorted(tails, key=lambda each: (-each.priority, index.attained_s[each.id], each.number)):
        helpers = [device for device in _idle(state, index) if _helps(state, index, job, device)]
        if helpers:
            _share_tail(state, index, state.sweeps[job.id], helpers, emit)
    index.new_work = new_work or any(state.sweeps[job.id].ledger.free for job in tails)


def give_way(state: State, device: Device, now: float, to: str, emit: Emit) -> None:
    """Let the chunk at work on a device end soon if it would last long yet: something else waits for the device."""
    if not device.chunks:
        return
    chunk = device.chunks[0]
    sweep = state.sweeps[job_of(chunk)]
    start, stop = sweep.ledger.leased[chunk]
    speed, lease = _speed(state, sweep, device), sweep.leases[chunk]
    per_s = lease.pace_per_s or (0.0 if speed is None else speed.per_s)
    end = _reached(lease, start, per_s, speed, now) + int(per_s * chunking.MARGIN_S) + 1
    if per_s and end - start >= sweep_payload(state.jobs[sweep.job]).min_chunk and (stop - end) / per_s > BORDER_S:
        why = f"{to} waits for the device, and {(stop - end) / per_s:.0f} s are too long"
        emit(ChunkShortened(chunk=chunk, device=device.spec.id, stop=end, why=why))


def note_progress(lease: ChunkLease, now: float, position: int, hits: int, found: Found | None) -> None:
    """A device told how far a chunk is."""
    lease.told_at = now
    if lease.position is None or position > lease.position:
        if lease.position is not None and lease.heard_at is not None and now > lease.heard_at:
            _note_pace(lease, position - lease.position, now - lease.heard_at)
        lease.heard_at = now
    lease.position, lease.hits, lease.found = position, hits, found


def lies_in(sweep: Sweep, chunk: str, position: int) -> bool:
    """Whether a lease can have come so far: what a node tells may be any number, and floats hold not all of them."""
    start, stop = sweep.ledger.leased[chunk]
    return start <= position <= max(stop, sweep.leases[chunk].lent_stop or stop)


def searched_within(sweep: Sweep, given: Searched) -> Searched:
    """A result of a worker that had not heard yet that its chunk was shortened: what lies in the chunk still."""
    start, stop = sweep.ledger.leased[given.chunk]
    if not _reaches_beyond(sweep, given.chunk, given.stop):
        return given
    elapsed_s = given.elapsed_s * (stop - start) / (given.stop - start)
    return replace(given, stop=stop, hits=_before(given.hits, stop), elapsed_s=elapsed_s)


def returned_within(sweep: Sweep, given: Returned) -> Returned:
    """The same for a chunk that comes back."""
    _, stop = sweep.ledger.leased[given.chunk]
    if given.position is None or not _reaches_beyond(sweep, given.chunk, given.position):
        return given
    return replace(given, position=stop, hits=_before(given.hits, stop))


def hits_fault(hits: Hits, start: int, stop: int) -> str | None:
    """What is wrong with hits of `[start, stop)`, if anything is."""
    for hit in hits:
        at = hit.get("at")
        if type(at) is not int or not start <= at < stop:
            return f"hit {ascii(hit)[:80]} does not lie in [{start}, {stop})"
    fault = unwritable(list(hits)) if hits else None
    return None if fault is None else f"its hits cannot be kept: {fault}"


def _reaches_beyond(sweep: Sweep, chunk: str, reached: int) -> bool:
    """Whether it reaches beyond what the chunk is now, but not beyond what it was."""
    lent_stop = sweep.leases[chunk].lent_stop
    return lent_stop is not None and sweep.ledger.leased[chunk][1] < reached <= lent_stop


def _before(hits: Hits, stop: int) -> Hits:
    return tuple(hit for hit in hits if type(hit.get("at")) is not int or hit["at"] < stop)


def _look_again(index: Index) -> None:
    """Not at once, and not only when something happens: a device that tells nothing makes nothing happen."""
    pause_s = max(LOOK_EVERY_S, LOOK_PER_DEVICE_S * len(index.sweeping))
    index.tails_at = index.now + pause_s
    if index.tails_due <= index.now:
        index.tails_due = index.now + max(LOOK_ANYWAY_S, pause_s)
        index.do_later(TAILS, index.tails_due)


def _active(state: State, index: Index) -> Iterator[Job]:
    return (state.jobs[name] for name in index.active)


def _open_sweeps(state: State, index: Index) -> Iterator[Job]:
    return (job for job in _active(state, index) if state.sweeps[job.id].ledger.free)


def _may(state: State, index: Index, job: Job, device: Device) -> bool:
    if device.spec.id in state.sweeps[job.id].barred or not index.suits(job, device.spec.id):
        return False
    if foreign_use.gate(state, index, device, job.spec.resources) is not None:
        return False
    return WorkKind.SWEEP not in state.rules.cost.max_price_per_h or gates.misfit(state, index, job, device) is None


def _bounds(payload: SweepPayload) -> Bounds:
    return Bounds(
        target_s=payload.target_s,
        floor=payload.min_chunk,
        ceiling=payload.max_chunk,
        silence_s=payload.silence_s,
    )


def _speed(state: State, sweep: Sweep, device: Device) -> Speed | None:
    return speed_of(state, sweep, device.spec.id)


def _fleet_per_s(index: Index, sweep: Sweep, device: Device, speed: Speed | None) -> float:
    """Of all devices at work on the sweep and this one; those not measured yet count as much as the others do."""
    speeds, pace, unknown = index.fleet_per_s[sweep.job], index.pace_per_s[sweep.job], index.unmeasured[sweep.job]
    known = len(speeds) - unknown
    if speed is not None and device.spec.id not in speeds:
        pace, known = pace + speed.per_s, known + 1
    return pace + unknown * pace / max(known, 1)


def _leased(state: State, sweep: Sweep, device: Device, part: Interval) -> ChunkLeased:
    speed = _speed(state, sweep, device)
    return ChunkLeased(
        job=sweep.job,
        chunk=f"{sweep.job}.{state.skipped + sweep.chunks + 1}",
        device=device.spec.id,
        start=part[0],
        stop=part[1],
        expected_s=None if speed is None else speed.seconds(part[1] - part[0]),
    )


def _idle(state: State, index: Index) -> Iterator[Device]:
    for name in index.open:
        device = state.devices[name]
        is_free = not device.chunks and not device.attempts and name not in index.reserved
        may = care.blocked(state, device.spec.node, WorkKind.SWEEP) is None and pools.gate(state, index, device) is None
        if is_free and may and foreign_use.unread(state, index, device) is None:
            yield device


def _helps(state: State, index: Index, job: Job, device: Device) -> bool:
    """Whether an idle device is known to be able to do its part."""
    sweep = state.sweeps[job.id]
    rested = index.now - _failed_at(sweep, device) >= TRIED_AGAIN_S
    known = _speed(state, sweep, device) is not None or sweep_payload(job).uneven
    return rested and known and _may(state, index, job, device)


def _doubtful(sweep: Sweep, device: Device) -> bool:
    """Whether the last chunk of the device came to nothing."""
    return device.spec.id in sweep.silent or device.spec.id in sweep.in_a_row


def _failed_at(sweep: Sweep, device: Device) -> float:
    """When its last chunk came to nothing; never, if it did not."""
    name, never = device.spec.id, float("-inf")
    return max(sweep.silent.get(name, never), sweep.in_a_row.get(name, (0, never))[1])


def _share_tail(state: State, index: Index, sweep: Sweep, helpers: list[Device], emit: Emit) -> None:
    """Help those who would end last, the fastest helper first."""
    owners = [_owner(state, index, sweep, state.devices[name]) for name in index.fleet_per_s[sweep.job]]
    ends = [(-owner.left_s, at) for at, owner in enumerate(owners)]
    heapq.heapify(ends)
    for _, helper in sorted((-_known(state, sweep, each).per_s, each.spec.id) for each in helpers):
        device = state.devices[helper]
        while not sweep.ledger.free and ends:
            _, at = heapq.heappop(ends)
            relieved = _relieve(state, index, sweep, owners[at], device, emit)
            if relieved and _last(sweep, owners[at].device) is not None:
                heapq.heappush(ends, (-owners[at].left_s, at))
            if device.chunks:
                break
        if sweep.ledger.free:
            emit(lease(state, index, device, sweep))


def _known(state: State, sweep: Sweep, device: Device) -> Speed:
    speed = _speed(state, sweep, device)
    if speed is None and sweep_payload(state.jobs[sweep.job]).uneven:
        return UNMEASURED
    assert speed is not None, f"{device.spec.id} helps and was never measured"
    return speed


def _owner(state: State, index: Index, sweep: Sweep, device: Device) -> Owner:
    """What a device still has to do; infinitely much if it tells nothing, nothing if its speed is not known."""
    speed = _speed(state, sweep, device)
    held = [(chunk, state.sweeps[job_of(chunk)].leases[chunk]) for chunk in device.chunks]
    heard_at = max(each.heard_at or each.began_at or each.leased_at for _, each in held)
    first, node = held[0][1], state.nodes[device.spec.node]
    per_s = first.pace_per_s or (0.0 if speed is None else speed.per_s)
    uneven = sweep_payload(state.jobs[sweep.job]).uneven
    if uneven:
        # An item that takes long suggests that the next ones do; while its worker reports, it is not lost.
        per_s = 1 / max(index.now - heard_at, 1 / per_s if per_s else 0.0, 1e-3)
        heard_at = max(heard_at, first.told_at or 0.0, node.since)
    doubted = first.position is not None or node.link is Link.DOWN or _doubtful(sweep, device)
    if chunking.is_silent(index.now - heard_at, speed, None if doubted else first.expected_s or chunking.USUAL_S):
        return Owner(device=device, left_s=float("inf"), per_s=per_s)
    if not per_s or (uneven and (first.told_at is None or index.now - first.told_at > RECENT_S)):
        # Of uneven items no pace tells how far they are: what is done already must not be given to another.
        return Owner(device=device, left_s=0.0, per_s=per_s)
    left_s = sum(each.expected_s or 0.0 for _, each in held[1:])
    if uneven:
        left_s = sum(_items(sweep, chunk) for chunk, _ in held[1:] if job_of(chunk) == sweep.job) / per_s
    if job_of(held[0][0]) == sweep.job:
        start, stop = sweep.ledger.leased[held[0][0]]
        left_s += max(stop - _reached(first, start, per_s, speed, index.now), 0) / per_s
    else:
        left_s += first.expected_s or 0.0
    return Owner(device=device, left_s=left_s, per_s=per_s)


def _items(sweep: Sweep, chunk: str) -> int:
    start, stop = sweep.ledger.leased[chunk]
    return stop - start


def _reached(lease: ChunkLease, start: int, per_s: float, speed: Speed | None, now: float) -> int:
    """Where the chunk at work should be by now."""
    if lease.position is not None and lease.heard_at is not None:
        return lease.position + int(per_s * (now - lease.heard_at))
    overhead_s = 0.0 if speed is None else speed.overhead_s or 0.0
    began_at = lease.leased_at if lease.began_at is None else lease.began_at
    return start + int(per_s * max(now - began_at - overhead_s, 0.0))


def _relieve(state: State, index: Index, sweep: Sweep, owner: Owner, helper: Device, emit: Emit) -> bool:
    """Take something from the owner for the helper; whether there was anything to be gained."""
    if owner.left_s == float("inf"):
        _take_all(state, index, sweep, owner.device, emit)
        return True
    if not owner.per_s:
        return False
    speed = _known(state, sweep, helper)
    items = chunking.relief(owner.left_s, owner.per_s, speed)
    if not items and owner.left_s >= chunking.GAIN_S and sweep_payload(state.jobs[sweep.job]).uneven:
        items = 1  # what waits behind an item that takes long begins earlier elsewhere
    if not items:
        return False
    if _doubtful(sweep, helper):
        items = chunking.trial(_bounds(sweep_payload(state.jobs[sweep.job])), sweep.ledger.total, items, speed)
    chunk = _last(sweep, owner.device)
    assert chunk is not None, f"{owner.device.spec.id} has nothing of {sweep.job}"
    return _divide(state, index, sweep, chunk, items, owner, helper, emit)


def _last(sweep: Sweep, device: Device) -> str | None:
    """The last chunk that a device has of a sweep."""
    return next((name for name in reversed(device.chunks) if job_of(name) == sweep.job), None)


def _take_all(state: State, index: Index, sweep: Sweep, device: Device, emit: Emit) -> None:
    for chunk in [name for name in device.chunks if job_of(name) == sweep.job]:
        position, hits = told(state, sweep, chunk)
        why = f"{device.spec.id} has told nothing of it for more than {chunking.SILENT_S:g} s, and others are idle"
        emit(ChunkTaken(chunk=chunk, device=device.spec.id, position=position, hits=hits, why=why, silent=True))


def told(state: State, sweep: Sweep, chunk: str) -> tuple[int, Hits]:
    """How far a chunk is searched for certain, and what was found there."""
    lease, (start, stop) = sweep.leases[chunk], sweep.ledger.leased[chunk]
    found, position = lease.found, lease.position
    if found is None or position is None or found.digest != sweep_payload(state.jobs[sweep.job]).digest:
        return start, ()
    position = min(position, stop - 1)  # what is left keeps the sweep going until somebody finishes it
    hits = _before(found.hits, position)
    return (position, hits) if position >= start and hits_fault(hits, start, position) is None else (start, ())


def _divide(
    state: State, index: Index, sweep: Sweep, chunk: str, items: int, owner: Owner, helper: Device, emit: Emit
) -> bool:
    """Give the last `items` of a chunk to the helper: all of it if little would be left and it is not at work yet."""
    lease, (start, stop) = sweep.leases[chunk], sweep.ledger.leased[chunk]
    speed, payload = _known(state, sweep, helper), sweep_payload(state.jobs[sweep.job])
    least = max(payload.min_chunk, 1)
    why = f"{helper.spec.id} is idle, {owner.device.spec.id} has work for {owner.left_s:.1f} s"
    if owner.device.chunks[0] == chunk:
        reached = _reached(lease, start, owner.per_s, _speed(state, sweep, owner.device), index.now)
        margin = int(owner.per_s * chunking.MARGIN_S) + (0 if payload.uneven else 1)
        least = max(least, reached - start + margin)
    elif stop - items - start < max(least, owner.per_s * chunking.shortest_s(speed)):
        emit(ChunkTaken(chunk=chunk, device=owner.device.spec.id, position=start, hits=(), why=why, silent=False))
        owner.left_s -= lease.expected_s or 0.0
        emit(_leased(state, sweep, helper, (start, stop)))
        return True
    end = max(stop - items, start + least)
    if stop - end < max(payload.min_chunk, items // 2):
        return False
    emit(ChunkShortened(chunk=chunk, device=owner.device.spec.id, stop=end, why=why))
    owner.left_s -= (stop - end) / owner.per_s
    emit(_leased(state, sweep, helper, (end, stop)))
    return True


def _note_pace(lease: ChunkLease, items: int, seconds: float) -> None:
    pace, weight = items / seconds, seconds / (seconds + PACE_S)
    lease.pace_per_s = pace if lease.pace_per_s is None else (1 - weight) * lease.pace_per_s + weight * pace
