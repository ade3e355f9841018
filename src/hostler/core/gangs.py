"""Work that takes several devices of a node at once: which ones, now?"""

from __future__ import annotations

import math

from hostler.core import gates
from hostler.core.forecast import prediction
from hostler.core.index import Index
from hostler.core.state import Device, Job, State
from hostler.policy import fit

HOLD_MARGIN = 1.5
"""How much longer than was foreseen a device is kept at most."""


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


def keep(state: State, index: Index, job: Job, device: Device) -> bool:
    """Keep the device for a job that lacks others of the node, if these come free in time; whether it is kept."""
    site, hold_s = index.sites[device.spec.id], state.rules.placement.hold_s
    wanted = fit.devices_needed(job.spec.resources, site)
    if not hold_s or job.id in index.reserved.values():
        return False
    ends = sorted(_free_in_s(state, index, job, peer.id) for peer in site.peers)
    if len(ends) < wanted or ends[wanted - 1] > hold_s:
        return False
    index.reserved[device.spec.id] = job.id
    index.kept_until[device.spec.id] = index.now + HOLD_MARGIN * hold_s
    index.look_again(device.spec.id, index.kept_until[device.spec.id])
    return True


def _free_in_s(state: State, index: Index, job: Job, name: str) -> float:
    """When a device will be free for the job, as far as is known; infinite where nobody can say, or it may not go."""
    device = state.devices[name]
    if gates.standing_refusal(state, index, job, device) is not None:
        return math.inf
    ends = 0.0
    for attempt in (state.jobs[each.rpartition(".")[0]] for each in device.attempts):
        known = prediction(state, index, attempt, device)
        if known is None or attempt.attempt is None:
            return math.inf
        ends = max(ends, attempt.attempt.leased_at + known.p50_s - index.now)
    return ends


def is_empty(device: Device) -> bool:
    """Whether nothing at all has been put on the device."""
    return not device.attempts and not device.chunks


def _may_have(state: State, index: Index, job: Job, name: str) -> bool:
    return name in index.open and gates.standing_refusal(state, index, job, state.devices[name]) is None
