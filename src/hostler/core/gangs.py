"""Work that takes several devices of a node at once: which ones, now?"""

from __future__ import annotations

from hostler.core import gates
from hostler.core.index import Index
from hostler.core.state import Device, Job, State
from hostler.policy import fit


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


def is_empty(device: Device) -> bool:
    """Whether nothing at all has been put on the device."""
    return not device.attempts and not device.chunks


def _may_have(state: State, index: Index, job: Job, name: str) -> bool:
    return name in index.open and gates.standing_refusal(state, index, job, state.devices[name]) is None
