"""Why a job waits, or why it runs where it runs: the policies' own answers, asked again for one job."""

from __future__ import annotations

from collections.abc import Iterator

from hostler.core import gates
from hostler.core.gangs import partners
from hostler.core.index import Index
from hostler.core.state import Device, Job, State
from hostler.model.fleet import Link
from hostler.model.views import Explanation
from hostler.model.work import JobState
from hostler.policy.fit import Gate


def explain_job(state: State, index: Index, job: Job) -> Explanation:
    """What keeps the job from running, or what gave it its place; and what each device says to it."""
    return Explanation(
        job=job.id,
        state=job.state,
        summary=_summary(state, index, job),
        reasons=tuple(_reasons(state, index, job)),
        devices={name: _device_says(state, index, job, device) for name, device in state.devices.items()},
    )


def _summary(state: State, index: Index, job: Job) -> str:
    if job.state.final:
        return f"{job.id} is {job.state}" + (f": {job.why}" if job.why else "")
    if job.cancelling is not None:
        return f"{job.id} is being cancelled ({job.cancelling}); its process is being ended"
    if job.id in state.sweeps and state.sweeps[job.id].leases:
        devices = sorted({lease.device for lease in state.sweeps[job.id].leases.values()})
        return f"{job.id} runs on {len(devices)} devices: {', '.join(devices[:8])}"
    if job.attempt is not None:
        return f"{job.id} is {job.state} on {job.attempt.device} as {job.attempt.id}"
    return f"{job.id} waits: {_why_waiting(state, index, job)}"


def _why_waiting(state: State, index: Index, job: Job) -> str:
    if job.id in index.blocked:
        return f"it comes after {', '.join(sorted(index.blocked[job.id]))}, not done yet"
    if job.not_before > index.now:
        return f"it rests for {job.not_before - index.now:.0f} s more after a failure"
    verdicts = [_device_says(state, index, job, device) for device in state.devices.values()]
    if not verdicts:
        return "the fleet has no devices yet"
    if all(verdict.startswith(("does not fit", "barred")) for verdict in verdicts):
        return "it fits on no device of the fleet; `hostler explain` tells what each says"
    ahead = _ahead(state, index, job)
    return f"every device it fits on is taken; {ahead} jobs are ahead of it in the queue"


def _ahead(state: State, index: Index, job: Job) -> int:
    count = 0
    for other in index.in_order(state):
        if other.rank >= job.rank:
            break
        count += 1
    return count


def _reasons(state: State, index: Index, job: Job) -> Iterator[str]:
    yield f"priority {job.priority}, number {job.number} in order of submission"
    if job.wanted is not None:
        yield f"wanted by its loop: {job.wanted}"
    if job.failures:
        yield "failed so far: " + ", ".join(f"{count} × {kind}" for kind, count in job.failures.items())
    if job.why and not job.state.final:
        yield f"last time: {job.why}"
    if job.attempt is not None:
        node = state.nodes[state.devices[job.attempt.device].spec.node]
        yield f"its process is {job.attempt.process}, the link to {node.spec.name} is {node.link}"
    sweep = state.sweeps.get(job.id)
    if sweep is not None:
        ledger = sweep.ledger
        yield f"{ledger.done_items} of {ledger.total} items done, {len(sweep.leases)} chunks out, {sweep.hits} hits"


def _device_says(state: State, index: Index, job: Job, device: Device) -> str:
    if job.attempt is not None and job.attempt.id in device.attempts:
        place = device.attempts.index(job.attempt.id)
        return "holds it" + (f", {place} before it" if place and not job.attempt.lane else "")
    refusal = gates.misfit(state, index, job, device)
    if refusal is not None:
        return f"does not fit: {refusal}"
    sweep = state.sweeps.get(job.id)
    if sweep is not None and device.spec.id in sweep.barred:
        return f"barred for this sweep until `hostler retry {job.id}`: {sweep.barred[device.spec.id]}"
    if job.state is not JobState.PENDING or job.id in state.sweeps:
        return _reach(state, device) or _busy(device) or "free"
    refusal = gates.standing_refusal(state, index, job, device)
    if refusal is not None:
        return refusal.why if refusal.gate is Gate.LINK else str(refusal)
    refusal = gates.full(state, index, job, device)
    if refusal is not None:
        return f"taken: {_busy(device)}" if refusal.gate is Gate.TAKEN else str(refusal)
    if partners(state, index, job, device) is None:
        return "would take it, but too few of its peers are free"
    return "would take it" + (f" (runs {_busy(device)})" if device.chunks else "")


def _reach(state: State, device: Device) -> str | None:
    node = state.nodes[device.spec.node]
    return None if node.link is Link.UP else f"out of reach: {node.trouble or 'its node does not answer'}"


def _busy(device: Device) -> str:
    parts = []
    if device.attempts:
        parts.append(f"attempt {device.attempts[0]}" + _more(len(device.attempts)))
    if device.chunks:
        parts.append(f"chunk {device.chunks[0]}" + _more(len(device.chunks)))
    return ", ".join(parts)


def _more(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""
