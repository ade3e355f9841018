"""Work that takes several devices of a node at once: which ones, now?"""

from __future__ import annotations

import math

from hostler.core import foreign_use, gates
from hostler.core.forecast import left_s, prediction
from hostler.core.index import Index
from hostler.core.state import Device, Job, State
from hostler.policy import fit

WORTH_IT = 0.25
"""A device may be kept idle for this part of the time that the job then has it."""
HOLD_MARGIN = 1.5
"""How much longer than was foreseen a device is kept at most."""
KEPT_AGAIN = 6.0
"""How many times as long passes before devices are kept for the same job again."""


def partners(state: State, index: Index, job: Job, device: Device) -> tuple[str, ...] | None:
    """The further devices that the job would take beside this one, which it may have; `None`: there are too few now."""
    site = index.sites[device.spec.id]
    lacking = fit.devices_needed(job.spec.resources, site) - 1
    if lacking <= 0:
        return ()
    if not is_empty(device):
        return None
    found = [
        peer.id
        for peer in site.peers
        if peer.id != device.spec.id and is_empty(state.devices[peer.id]) and _may_have(state, index, job, peer.id)
    ]
    return tuple(found[:lacking]) if len(found) >= lacking else None


def keep(state: State, index: Index, job: Job, device: Device, worth_s: float = 0.0) -> bool:
    """Keep the device for a job that lacks others of the node, if these come free in time; whether it is kept.

    That is within as long as the rules say, or as it is worth to the caller (infinite: however long it takes, as far as
    anybody can say). Peers that hold nothing but chunks are kept with it; and one that comes free later joins those
    that are kept already.
    """
    site, hold_s = index.sites[device.spec.id], _hold_s(state, index, job, device)
    patient = math.isinf(worth_s)
    wanted = fit.devices_needed(job.spec.resources, site)
    kept = [name for name, whom in index.reserved.items() if whom == job.id]
    if kept:
        joins = len(kept) < wanted and {peer.id for peer in site.peers}.issuperset(kept)
        if joins:
            _reserve(index, job, device.spec.id, index.kept_until.get(kept[0], math.inf))
        return joins
    if not hold_s or index.now < index.keeps.get(job.id, 0.0):
        return False
    ends = sorted((_free_in_s(state, index, job, peer.id), peer.id != device.spec.id, peer.id) for peer in site.peers)
    last_s = ends[wanted - 1][0] if len(ends) >= wanted else math.inf
    if len(ends) < wanted or last_s > max(hold_s, worth_s):
        return False
    until = index.now + HOLD_MARGIN * (hold_s if math.isinf(last_s) else max(hold_s, last_s))
    # Who is patient may try at once on another node, where this one has promised too much.
    index.keeps[job.id] = until if patient else index.now + KEPT_AGAIN * hold_s
    for _, _, name in ends[:wanted]:
        if not state.devices[name].attempts:
            _reserve(index, job, name, until)
    return device.spec.id in index.reserved


def _reserve(index: Index, job: Job, name: str, until: float) -> None:
    index.reserved[name] = job.id
    index.kept_until[name] = until
    if math.isfinite(until):
        index.look_again(name, until)


def _hold_s(state: State, index: Index, job: Job, device: Device) -> float:
    """How long devices may be idle for the job: as the rules say, or longer for what then lasts much longer still."""
    hold_s, known = state.rules.placement.hold_s, prediction(state, index, job, device)
    return max(hold_s, WORTH_IT * known.p50_s) if hold_s and known is not None else hold_s


def _free_in_s(state: State, index: Index, job: Job, name: str) -> float:
    """When a device will be free for the job, as far as is known; infinite where nobody can say, or it may not go."""
    device = state.devices[name]
    if gates.standing_refusal(state, index, job, device) is not None:
        return math.inf
    ends = 0.0
    for holder in (state.jobs[each.rpartition(".")[0]] for each in device.attempts):
        known = prediction(state, index, holder, device)
        left = None
        if known is not None and holder.attempt is not None:
            left = left_s(known, index.now - holder.attempt.leased_at)
        if left is None:
            return math.inf
        ends = max(ends, left[0])
    return ends


def is_empty(device: Device) -> bool:
    """Whether nothing at all has been put on the device."""
    return not device.attempts and not device.chunks


def _may_have(state: State, index: Index, job: Job, name: str) -> bool:
    device = state.devices[name]
    if name not in index.open or foreign_use.unread(state, index, device) is not None:
        return False
    return gates.standing_refusal(state, index, job, device) is None
