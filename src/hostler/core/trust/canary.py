"""Devices that must be proved before they get work: when their canary is run, and what its answer means.

A proof holds for one boot of the node and for one agent. It is lost by a quarantine as well, and then takes the place
of the job that would be tried on the device once it has rested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from hostler.core.index import Index
from hostler.core.state import Device, State
from hostler.core.trust.state import Proof
from hostler.model import events, inputs
from hostler.model.errors import IllegalTransition
from hostler.model.events import Event
from hostler.model.fleet import Link, NodeSpec
from hostler.policy import quarantine
from hostler.policy.fit import Gate, Refusal

Emit: TypeAlias = Callable[[Event], None]


def due(state: State, index: Index) -> Iterator[Device]:
    """Devices that are to be proved now: they have nothing to do, and were not asked on this link yet."""
    if index.draining:
        return
    unproved, index.unproved = index.unproved, {}
    for name in unproved:
        device = state.devices[name]
        if state.trust.is_proved(name) or not _is_free(state, index, device):
            continue
        at = state.trust.provable_at(name)
        if at > index.now:
            index.look_again(name, at)
        elif name not in index.proving:
            index.proving[name] = index.now
            yield device


def proved(state: State, index: Index, given: inputs.DeviceProved, emit: Emit) -> None:
    """A canary has ended. What nobody waits for any more is passed over: it tells of another boot, or comes twice."""
    if given.device not in index.proving or state.trust.is_proved(given.device):
        return
    failures = state.trust.proofs[given.device].failures + 1
    again_at = None if given.ok else index.now + quarantine.canary_rest_s(failures)
    emit(events.DeviceProved(device=given.device, ok=given.ok, why=given.why, seconds=given.seconds, again_at=again_at))


def refusal(state: State, device: str, now: float) -> Refusal | None:
    """Why a device that is not proved is given nothing; `None` where it is, or need not be."""
    if state.trust.is_proved(device):
        return None
    return Refusal(gate=Gate.CANARY, why=explained(device, state.trust.proofs[device], now))


def explained(device: str, proof: Proof, now: float) -> str:
    """What keeps a device out that is not proved, and what to do about it."""
    if proof.why is None:
        return f"{device} has not been proved yet: its canary has to give the right answer first"
    left_s = proof.again_at - now
    again = f"in {left_s:.0f} s" if left_s > 0 else "now"
    return f"{device} failed its canary: {proof.why}; mend it, it is tried again {again}"


def joined(state: State, index: Index, spec: NodeSpec) -> None:
    """Fold: a node is described, and so is what proves its devices. One that has become another is a new one."""
    known = state.nodes.get(spec.name)
    before = {} if known is None else {device.id: device for device in known.spec.devices}
    for name in before.keys() - {device.id for device in spec.devices}:
        forget(state, index, name)
    for device in spec.devices:
        if spec.canary is None:
            forget(state, index, device.id)
        elif device.id not in state.trust.proofs or before.get(device.id) != device:
            require(state, index, device.id)


def linked(state: State, index: Index, event: events.NodeLinked) -> None:
    """Fold: a node answers. After a new boot or under a new agent nothing is proved; else only what failed is asked."""
    node = state.nodes[event.node]
    is_same = (node.agent, node.boot) == (event.agent, event.boot)
    for device in node.spec.devices:
        index.proving.pop(device.id, None)
        proof = state.trust.proofs.get(device.id)
        if proof is None:
            continue
        if not is_same:
            require(state, index, device.id)
        proof.again_at = 0.0


def require(state: State, index: Index, device: str, again_at: float = 0.0) -> None:
    """Fold: whatever was known, the device must be proved now."""
    state.trust.proofs[device] = Proof(since=state.at, again_at=again_at)
    index.proving.pop(device, None)
    index.closed(device)


def forget(state: State, index: Index, device: str) -> None:
    """Fold: the device need not be proved."""
    state.trust.proofs.pop(device, None)
    index.proving.pop(device, None)


def device_proved(state: State, index: Index, event: events.DeviceProved) -> None:
    """Fold: its canary has given the right answer, or not."""
    index.proving.pop(event.device, None)
    before = state.trust.proofs[event.device]
    if not event.ok:
        again_at = event.again_at or 0.0
        state.trust.proofs[event.device] = Proof(
            since=before.since, why=event.why or "nobody knows why", failures=before.failures + 1, again_at=again_at
        )
        index.look_again(event.device, again_at)
        return
    state.trust.proofs[event.device] = Proof(ok=True, since=state.at)
    doubt = state.trust.doubts.get(event.device)
    if doubt is not None and doubt.until is not None:
        doubt.proved = "its canary"
        index.doubted.add(event.device)
    index.opened(state, event.device)


def expect_proved(state: State, device: str) -> None:
    """Raises `IllegalTransition` if the device must be proved before it is given anything."""
    if not state.trust.is_proved(device):
        raise IllegalTransition(f"{device} is given work though its canary has not given the right answer")


def faults(state: State, index: Index) -> Iterator[str]:
    """What is wrong with proofs, in words."""
    proofs = state.trust.proofs
    needed = {
        device.id for node in state.nodes.values() if node.spec.canary is not None for device in node.spec.devices
    }
    if proofs.keys() != needed:
        yield f"to be proved are {sorted(proofs)}, should be {sorted(needed)}"
    missing = {name: proof for name, proof in proofs.items() if not proof.ok}
    for name in missing:
        if name in index.open:
            yield f"{name} is open though it has not been proved"
    for name, at, what in _leases(state):
        if name in missing and at > missing[name].since:
            yield f"{what} was put on {name}, which has not been proved since {missing[name].since:.0f}"


def _leases(state: State) -> Iterator[tuple[str, float, str]]:
    for job in state.jobs.values():
        if job.attempt is not None:
            yield from ((name, job.attempt.leased_at, job.attempt.id) for name in job.attempt.devices)
    for sweep in state.sweeps.values():
        yield from ((lease.device, lease.leased_at, chunk) for chunk, lease in sweep.leases.items())


def _is_free(state: State, index: Index, device: Device) -> bool:
    up = state.nodes[device.spec.node].link is Link.UP
    return up and device.spec.id in index.places and not device.attempts and not device.chunks
