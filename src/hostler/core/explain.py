"""Why a job waits, or why it runs where it runs: the policies' own answers, asked again for one job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from hostler.core import away, cordons, foreign_use, gates, leases, pools
from hostler.core.care import effects as care
from hostler.core.changes import changes_of
from hostler.core.gangs import partners
from hostler.core.index import Index
from hostler.core.loop import spawning
from hostler.core.starting import DRAINING, HELD, Verdict, ends_at, excluded_words, start_of
from hostler.core.state import Device, Job, Node, State, is_calls
from hostler.core.trust import decide as trust
from hostler.model.fleet import Link, Process
from hostler.model.units import duration
from hostler.model.views import DeviceGroup, Explanation, StartView
from hostler.model.work import JobState
from hostler.policy.fit import Gate, Refusal, class_label
from hostler.policy.retry import PRINTED

BARRED = "barred"
"""The gate of a device that keeps failing at a sweep."""
ENDS = {JobState.DONE: "is done", JobState.FAILED: "failed", JobState.CANCELLED: "was cancelled"}
EVIDENT = frozenset({Gate.KIND, Gate.NODE, Gate.PRICE})
"""Filters whose reasons are whole sentences."""
LISTED = 8
NO_CLASS = "not in the fleet any more"
"""The class of a device that its node has no more, and that still holds something."""


def explain_job(state: State, index: Index, job: Job) -> Explanation:
    """What keeps the job from running, or what gave it its place; and what each device says to it."""
    verdicts = verdicts_of(state, index, job)
    waits = job.state is JobState.PENDING and job.cancelling is None
    start = start_of(state, index, job, verdicts) if waits else None
    return Explanation(
        job=job.id,
        state=job.state,
        summary=_summary(state, index, job, verdicts, start),
        reasons=tuple(_reasons(state, index, job)),
        devices={name: verdict.says for name, verdict in verdicts.items()},
        groups=tuple(_grouped(index, verdicts)),
        gates=dict(Counter(str(each.gate) for each in verdicts.values() if each.gate is not None).most_common()),
        changes=() if start is None else tuple(changes_of(state, index, job, verdicts, start)),
        start=start,
    )


def verdicts_of(state: State, index: Index, job: Job) -> dict[str, Verdict]:
    """What each device of the fleet says to a job; of a job that is over, nobody says anything."""
    if job.state.final:
        return {}
    return {
        name: verdict_of(state, index, job, device)
        for name, device in state.devices.items()
        if name in index.places or _holds(job, device)
    }


def verdict_of(state: State, index: Index, job: Job, device: Device) -> Verdict:
    """What one device says to a job that is not over."""
    name = device.spec.id
    if job.attempt is not None and _holds(job, device):
        place = device.attempts.index(job.attempt.id)
        behind = f", {place} before it" if place and not job.attempt.lane else ""
        node = state.nodes[device.spec.node]
        away = "" if node.link is Link.UP else f"; {leases.away(state, node, job, index.now)}"
        return Verdict(gate=None, says=f"holds it{behind}{away}")
    refusal = gates.misfit(state, index, job, device)
    if refusal is not None:
        return Verdict(gate=refusal.gate, says=f"does not fit: {plain(refusal)}", never=True)
    sweep = state.sweeps.get(job.id)
    if sweep is not None and name in sweep.barred:
        says = f"barred for this sweep until `hostler retry {job.id}`: {sweep.barred[name]}"
        return Verdict(gate=BARRED, says=says, never=True)
    if job.state is not JobState.PENDING or sweep is not None:
        return _to_others(state, index, job, device)
    refusal = gates.refusal_now(state, index, job, device)
    if refusal is not None:
        return _refused(device, refusal)
    if partners(state, index, job, device) is None:
        return Verdict(gate=Gate.GPUS, says="would take it, but too few of its peers are free")
    runs = f" (runs {busy(device)})" if device.chunks else ""
    return Verdict(
        gate=None, says=f"free{runs}; the controller is draining" if index.draining else f"would take it{runs}"
    )


def plain(refusal: Refusal) -> str:
    """Why a device refuses work, with its filter where the reason does not say what it is about."""
    return refusal.why if refusal.gate in EVIDENT else str(refusal)


def _holds(job: Job, device: Device) -> bool:
    return job.attempt is not None and job.attempt.id in device.attempts


def _summary(state: State, index: Index, job: Job, verdicts: Mapping[str, Verdict], start: StartView | None) -> str:
    if job.state.final:
        return f"{job.id} {ENDS[job.state]}" + (f": {job.why.partition(PRINTED)[0]}" if job.why else "")
    if job.cancelling is not None:
        return f"{job.id} is being cancelled ({job.cancelling}); {_ending(state, job)}{_away(state, index, job)}"
    if job.id in state.sweeps and state.sweeps[job.id].leases:
        devices = sorted({lease.device for lease in state.sweeps[job.id].leases.values()})
        return f"{job.id} runs on {len(devices)} devices: {_listed(devices)}"
    if job.attempt is not None:
        place = f"{job.id} is {job.state} on {', '.join(job.attempt.devices)} as {job.attempt.id}"
        told = None if job.state is JobState.RUNNING else pools.says(state, index, job)
        return place + (f"; {told}" if told else "") + _away(state, index, job)
    return f"{job.id} waits: {_why_waiting(state, index, job, verdicts, start)}{_expected(index, start)}"


def _ending(state: State, job: Job) -> str:
    """What becomes of the process of a job that is being cancelled: a node out of reach has yet to hear of it."""
    node = None if job.attempt is None else state.nodes[state.devices[job.attempt.device].spec.node]
    if node is None or node.link is Link.UP:
        return "its process is being ended"
    return f"its process is ended once {node.spec.name} answers"


def _away(state: State, index: Index, job: Job) -> str:
    """What is to be said of a job that runs on a node out of reach."""
    node = None if job.attempt is None else state.nodes[state.devices[job.attempt.device].spec.node]
    if node is None or node.link is Link.UP:
        return ""
    then = "is started elsewhere" if job.cancelling is None else "counts as cancelled"
    return f"; {leases.away(state, node, job, index.now, then)}"


def _why_waiting(state: State, index: Index, job: Job, verdicts: Mapping[str, Verdict], start: StartView | None) -> str:
    if job.id in index.blocked:
        return f"it comes after {', '.join(sorted(index.blocked[job.id]))}, not done yet"
    if job.not_before > index.now:
        return f"it rests for {job.not_before - index.now:.0f} s more after a failure"
    unconnected = away.words(away.unconnected(state, job.spec.resources))
    if not verdicts:
        return unconnected or "the fleet has no devices yet"
    fitting = [verdict for verdict in verdicts.values() if not verdict.never]
    if not fitting:
        none = f"it fits on no device of the fleet: {_counted(verdicts.values())}"
        return away.all_unconnected(state, job.spec.resources) or none + (f"; {unconnected}" if unconnected else "")
    if index.draining:
        return f"{DRAINING}; the next `hostler up` starts it"
    ahead = 0 if start is None else start.ahead
    jobs = f"{ahead} {'job is' if ahead == 1 else 'jobs are'} ahead of it in the queue"
    if all(verdict.gate in HELD for verdict in fitting):
        return f"every device it fits on is taken; {jobs}"
    excluded = sum(verdict.gate is not None for verdict in fitting)
    if not excluded:
        return jobs
    if len(fitting) == 1:
        return f"the device it fits on {_counted(fitting).removeprefix('1 ')}; {jobs}"
    return f"of {len(fitting)} devices it fits on, {_counted(fitting)}; {jobs}"


def _counted(verdicts: Iterable[Verdict]) -> str:
    """How many devices each filter excludes."""
    return excluded_words(dict(Counter(str(each.gate) for each in verdicts if each.gate is not None).most_common()))


def _expected(index: Index, start: StartView | None) -> str:
    if start is None or start.at is None:
        return ""
    return f"; expected to start in about {duration(max(start.at - index.now, 0.0))}"


def _reasons(state: State, index: Index, job: Job) -> Iterator[str]:
    yield f"priority {job.priority}, number {job.number} in order of submission"
    if job.wanted is not None:
        yield f"wanted by its loop: {job.wanted}"
    asked = spawning.asked_for(state, job)
    if asked is not None:
        yield spawning.words(asked)
    if job.failures:
        yield "failed so far: " + ", ".join(f"{count} × {kind}" for kind, count in job.failures.items())
    if job.why and not job.state.final:
        yield f"last time: {job.why}"
    yield from _of_attempt(state, index, job)
    sweep = state.sweeps.get(job.id)
    if sweep is not None:
        ledger = sweep.ledger
        out = f"{len(sweep.leases)} chunks out"
        if is_calls(job):
            yield f"{ledger.done_items} of {ledger.total} calls have a result, {out}"
        else:
            yield f"{ledger.done_items} of {ledger.total} items done, {out}, {sweep.hits} hits"


def _of_attempt(state: State, index: Index, job: Job) -> Iterator[str]:
    attempt = job.attempt
    if attempt is None:
        return
    if attempt.why:
        yield f"put there: {attempt.why}"
    device = state.devices[attempt.device]
    node = state.nodes[device.spec.node]
    yield _process(attempt.process, node)
    told = pools.says(state, index, job)
    if told is not None and (job.state is JobState.RUNNING or job.cancelling is not None):
        yield told  # of one that has not begun, it is the first that is said
    if attempt.ended is not None:
        yield f"it has ended; what it left is being fetched from {node.spec.name}, and counts once it is here"
    if job.state is JobState.LEASED and node.spec.apart and node.link is Link.UP:
        yield f"what it needs is being sent to {node.spec.name}"
    if attempt.yielding is not None:
        yield f"was asked to leave: {attempt.yielding}"
    ends = ends_at(state, index, device, device.attempts[: device.attempts.index(attempt.id) + 1])
    if ends is not None and not attempt.lane:
        half, most = (duration(at - index.now) for at in ends)
        yield f"expected to end in about {half}, hardly later than in {most}"


def _process(process: Process, node: Node) -> str:
    """What is known of a process: of one on a node that is unreachable, what was reported last."""
    name = node.spec.name
    if process is Process.ENDED:
        known = "its process has ended"
    elif process is Process.UNKNOWN:
        known = f"{name} has not reported a process of it"
    elif node.link is Link.UP:
        known = "its process is alive" if process is Process.ALIVE else f"{name} has its order and has not started it"
    elif process is Process.ALIVE:
        known = f"its process was alive at the last report of {name}"
    else:
        known = f"at the last report of {name}, its process had not been started"
    return f"{known}; {name} is {'connected' if node.link is Link.UP else 'unreachable'}"


def _refused(device: Device, refusal: Refusal) -> Verdict:
    if refusal.gate is Gate.LINK:
        return Verdict(gate=refusal.gate, says=refusal.why)
    says = f"taken: {busy(device)}" if refusal.gate is Gate.TAKEN else str(refusal)
    return Verdict(gate=refusal.gate, says=says)


def _to_others(state: State, index: Index, job: Job, device: Device) -> Verdict:
    """What a device says to a job that has its place elsewhere, and to a sweep, which is given what is free."""
    node, name = state.nodes[device.spec.node], device.spec.id
    if node.link is not Link.UP:
        return Verdict(
            gate=None if job.attempt else Gate.LINK, says=f"out of reach: {node.trouble or 'its node does not answer'}"
        )
    used = foreign_use.gate(state, index, device, job.spec.resources)
    held_back = cordons.gate(state, name) or used if job.id in state.sweeps else None
    if held_back is None and job.id in state.sweeps and not device.chunks:
        held_back = trust.gate(state, name, index.now) or care.blocked(state, node.spec.name, job.spec.work)
    if held_back is not None:
        return _refused(device, held_back)
    if job.id in state.sweeps and name in index.reserved:
        return Verdict(gate=Gate.RESERVED, says=f"reserved: kept for {index.reserved[name]}")
    taken = device.attempts and job.id in state.sweeps
    says = busy(device)
    if not says:
        closed = cordons.gate(state, name) or used or trust.gate(state, name, index.now)
        says = "free" if closed is None else str(closed)
    return Verdict(gate=Gate.TAKEN if taken else None, says=says)


def _grouped(index: Index, verdicts: Mapping[str, Verdict]) -> Iterator[DeviceGroup]:
    found: defaultdict[tuple[str, str | None], list[str]] = defaultdict(list)
    for name, verdict in verdicts.items():
        found[index.classes.get(name, NO_CLASS), verdict.gate].append(name)
    for (cls, gate), names in sorted(found.items(), key=lambda item: -len(item[1])):
        yield DeviceGroup(
            cls=class_label(cls), gate=gate, count=len(names), says=verdicts[names[0]].says, devices=tuple(names)
        )  # fmt: skip


def busy(device: Device) -> str:
    """What is on a device, in words; nothing where nothing is."""
    parts = []
    if device.attempts:
        parts.append(f"attempt {device.attempts[0]}" + _more(len(device.attempts)))
    if device.chunks:
        parts.append(f"chunk {device.chunks[0]}" + _more(len(device.chunks)))
    return ", ".join(parts)


def _more(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""


def _listed(names: list[str]) -> str:
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
