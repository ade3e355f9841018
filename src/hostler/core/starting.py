"""When will a waiting job get a device? By what holds those that it fits on, and by what goes before it.

A list schedule: each job that goes before it takes the device that is free first, for as long as its like took before.
Shares and preferences between equals are left out, so this is an estimate for people; nothing is decided on it.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from hostler.core import accounts, dependencies, forecast
from hostler.core.bidding import fitting
from hostler.core.decide import PRECEDENCE
from hostler.core.index import Index
from hostler.core.preempting import URGENT
from hostler.core.state import Attempt, Device, Job, State
from hostler.core.uses import Group
from hostler.model.record import record
from hostler.model.views import StartView
from hostler.model.work import WorkKind
from hostler.policy import cost, fit, preemption
from hostler.policy.fit import Gate

AHEAD_MAX = 10_000
"""With more jobs before it, nobody can say."""
NODE_WIDE = frozenset({Gate.SCRIPTS, Gate.CPUS, Gate.MEMORY})
"""Gates that open when anything on the node ends."""
HELD = frozenset({Gate.TAKEN, Gate.SHARED, Gate.LANES, Gate.VRAM, Gate.GPUS})
"""Gates of a device that fits, which open when what is on it ends."""
PLURALS = {"is": "are", "has": "have", "takes": "take", "costs": "cost", "lacks": "lack"}
PHRASES: Mapping[str, tuple[str, str]] = {
    Gate.KIND: ("is", "of another kind"),
    Gate.NODE: ("is", "on another node"),
    Gate.MODEL: ("is", "another model"),
    Gate.PROVIDER: ("is", "of another provider"),
    Gate.LABEL: ("lacks", "a label"),
    Gate.VRAM: ("has", "too little VRAM"),
    Gate.TIER: ("is", "of another tier"),
    Gate.WORK: ("takes", "other work"),
    Gate.GPUS: ("has", "too few GPUs beside it"),
    Gate.CPUS: ("has", "too few host CPUs"),
    Gate.MEMORY: ("has", "too little memory"),
    Gate.DISK: ("has", "too little disk space"),
    Gate.PRICE: ("costs", "too much"),
    Gate.LINK: ("is", "out of reach"),
    Gate.CORDON: ("is", "cordoned"),
    Gate.QUARANTINE: ("is", "in quarantine"),
    Gate.CANARY: ("is", "not proved yet"),
    Gate.FOREIGN: ("is", "in use by others"),
    Gate.TAKEN: ("is", "taken"),
    Gate.SHARED: ("is", "taken"),
    Gate.RESERVED: ("is", "reserved"),
    Gate.PRESSURE: ("is", "under pressure"),
}
"""What a filter means for a device that it excludes: a verb and the rest."""
DRAINING = "the controller is draining: nothing new starts"

Times = tuple[float, float]
"""When something happens: as likely sooner as later, and hardly later."""


@record
class Verdict:
    """What a device says to a job. `never`: and will say as long as neither of them is changed."""

    gate: str | None
    says: str
    never: bool = False


def excluded_words(counts: Mapping[str, int]) -> str:
    """What excludes most devices, in words: `2 are taken, 1 is cordoned`; `counts` has the most frequent first."""
    return ", ".join(f"{count} {_phrase(gate, count)}" for gate, count in list(counts.items())[:3])


def _phrase(gate: str, count: int) -> str:
    verb, rest = PHRASES.get(gate, ("is", f"excluded ({gate})"))
    return f"{verb if count == 1 else PLURALS[verb]} {rest}"


def filter_counts(counts: Mapping[str, int]) -> str:
    """The three filters that exclude most, with their numbers; `counts` has the most frequent one first."""
    return ", ".join(f"{filtered_by} {count}" for filtered_by, count in list(counts.items())[:3])


def start_of(state: State, index: Index, job: Job, verdicts: Mapping[str, Verdict]) -> StartView:
    """When the waiting job is expected to start."""
    places = [name for name, verdict in verdicts.items() if not verdict.never]
    before = ahead_of(state, index, job, {index.classes[name] for name in places})
    count = sum(len(names) for names in before.values())
    unknown = _unknowable(state, index, job, places, count)
    if unknown is not None:
        return StartView(at=None, late_at=None, ahead=count, why=unknown)
    free = {name: _free_at(state, index, job, state.devices[name], verdicts[name]) for name in places}
    pools = _pools(index, job, free)
    if not any(pools.values()):
        return StartView(at=None, late_at=None, ahead=count, why=_all_unknown(verdicts, places))
    try:
        at, name = _after(state, index, pools, before, 0)
        late_at, _ = _after(state, index, pools, before, 1)
    except _Unknown as unknown_job:
        why = f"how long {unknown_job}, which goes before it, takes is not known yet"
        return StartView(at=None, late_at=None, ahead=count, why=why)
    return StartView(at=at, late_at=late_at, ahead=count, why=_basis(state, index, name, count, at))


def ahead_of(state: State, index: Index, job: Job, classes: set[str]) -> dict[Group, list[str]]:
    """Jobs that go before this one to devices of these classes, by group."""
    found = {}
    mine = -job.priority, PRECEDENCE.index(job.spec.work), job.number
    for group, heap in index.ready.items():
        if classes.isdisjoint(_affordable(state, index, group)):
            continue
        place = PRECEDENCE.index(group.work)
        names = {
            name
            for rank, number, name in heap
            if (rank, place, number) < mine and index.is_ready(state.jobs[name], (rank, number, name))
        }
        if names:
            found[group] = sorted(names, key=lambda name: state.jobs[name].rank)
    return found


def ready_jobs(state: State, index: Index, group: Group) -> set[str]:
    """All ready jobs of a group."""
    return {entry[2] for entry in index.ready.get(group, ()) if index.is_ready(state.jobs[entry[2]], entry)}


def ends_at(state: State, index: Index, device: Device, names: Iterable[str]) -> Times | None:
    """When attempts that are on a device one after the other have ended; `None`: nobody can say."""
    at = late_at = index.now
    for place, name in enumerate(names):
        job = state.jobs[name.rpartition(".")[0]]
        left = None if job.attempt is None else _left(state, index, job, job.attempt, device, waits=place > 0)
        if left is None:
            return None
        at, late_at = at + left[0], late_at + left[1]
    return at, late_at


class _Unknown(Exception):
    """A job whose duration nobody knows."""


def _unknowable(state: State, index: Index, job: Job, places: list[str], ahead: int) -> str | None:
    """Why nobody can say when the job starts, whatever the devices do."""
    if job.id in index.blocked:
        return f"it comes after {', '.join(sorted(index.blocked[job.id])[:5])}"
    if index.draining:
        return "the controller is draining and starts nothing new"
    if job.id in state.sweeps:
        return "a sweep gets whatever devices have room, in turns with others"
    if not places:
        return "it fits on no device"
    return f"{ahead} jobs go before it" if ahead > AHEAD_MAX else None


def _all_unknown(verdicts: Mapping[str, Verdict], places: list[str]) -> str:
    gates = Counter(verdicts[name].gate or "" for name in places)
    if set(gates) <= {*HELD, *NODE_WIDE}:
        return "how long its devices stay taken is not known: too few jobs like those have ended, or they are overdue"
    return f"how long its devices stay excluded is not known: {excluded_words(dict(gates.most_common()))}"


def _free_at(state: State, index: Index, job: Job, device: Device, verdict: Verdict) -> Times | None:
    """When the device could take the job; `None`: nobody can say."""
    soonest = max(index.now, job.not_before)
    at = _gate_opens(state, index, job, device, verdict.gate)
    taken = _preempted_at(state, index, job, device)
    if taken is not None and (at is None or taken < at[0]):
        at = taken, taken
    return None if at is None else (max(at[0], soonest), max(at[1], soonest))


def _gate_opens(state: State, index: Index, job: Job, device: Device, gate: str | None) -> Times | None:
    name = device.spec.id
    if gate is None:
        return index.now, index.now
    if gate in HELD:
        return _released_at(state, index, job, device)
    if gate in NODE_WIDE:
        ends = [_released_at(state, index, job, each) for each in _node_devices(state, device)]
        return min((end for end in ends if end is not None and end[0] > index.now), default=None)
    if gate == Gate.QUARANTINE:
        doubt = state.trust.doubts.get(name)
        until = None if doubt is None or doubt.until is None else doubt.until
        return _released_at(state, index, job, device) if until is None or until <= index.now else (until, until)
    if gate == Gate.CANARY and state.trust.proofs[name].why is None:
        return index.now, index.now  # it takes seconds
    if gate == Gate.FAILED:
        until = max(job.avoid.get(name, 0.0), job.avoid.get(device.spec.node, 0.0), job.vram_until)
        return until, until
    if gate == Gate.STAGGER:
        begun, stagger_s = index.nodes[device.spec.node].started_at, index.sites[name].node.limits.stagger_s
        return None if begun is None else (begun + stagger_s, begun + stagger_s)
    if gate == Gate.CONFIG:
        return _training_ends(state, index, job)
    if gate == Gate.GROUP:
        return _first_of_group_ends(state, index, job)
    return None


def _node_devices(state: State, device: Device) -> Iterator[Device]:
    return (state.devices[each.id] for each in state.nodes[device.spec.node].spec.devices)


def _released_at(state: State, index: Index, job: Job, device: Device) -> Times | None:
    """When enough of what is on the device has ended: one of those that share it for one that may, too, or else all."""
    if not device.attempts:
        return index.now, index.now
    lanes: defaultdict[int, list[str]] = defaultdict(list)
    for name in device.attempts:
        held = state.jobs[name.rpartition(".")[0]].attempt
        lanes[0 if held is None else held.lane].append(name)
    ends = [ends_at(state, index, device, names) for names in lanes.values()]
    known = [end for end in ends if end is not None]
    if job.spec.resources.shared and index.uses[device.spec.id].unshared == 0:
        return min(known, default=None)
    return max(known) if len(known) == len(ends) else None


def _left(
    state: State, index: Index, job: Job, attempt: Attempt, device: Device, *, waits: bool
) -> tuple[float, float] | None:
    """Seconds that an attempt still takes; one that waits for another has not begun."""
    if attempt.yielding is not None:
        return job.spec.grace_s, job.spec.grace_s
    known = forecast.prediction(state, index, job, device)
    if known is None:
        return None
    begun = attempt.leased_at if attempt.started_at is None else attempt.started_at
    elapsed_s = 0.0 if waits else max(index.now - begun, 0.0)
    left = forecast.left_s(known, elapsed_s)
    if left is None:
        return None
    limit = math.inf if job.spec.walltime_s is None else max(job.spec.walltime_s - elapsed_s, 0.0)
    return min(left[0], limit), min(left[1], limit)


def _training_ends(state: State, index: Index, job: Job) -> Times | None:
    """When the training of the job's config that runs now has ended."""
    ends = [
        ends_at(state, index, device, device.attempts)
        for device in state.devices.values()
        for name in device.attempts
        if (other := state.jobs[name.rpartition(".")[0]]).spec.work is WorkKind.TRAINING
        and other.spec.serves == job.spec.serves
    ]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def _first_of_group_ends(state: State, index: Index, job: Job) -> Times | None:
    """When one of the jobs of the job's group that hold devices has ended."""
    held = (each for each in dependencies.jobs_of(state, job.group or "") if each.attempt is not None)
    devices = (state.devices[each.attempt.device] for each in held if each.attempt is not None)
    ends = (ends_at(state, index, device, device.attempts[:1]) for device in devices)
    return min((each for each in ends if each is not None), default=None)


def _preempted_at(state: State, index: Index, job: Job, device: Device) -> float | None:
    """When self-play would have left the device to the job; `None` where it would not."""
    rules, name = state.rules.placement, device.spec.id
    if job.spec.work not in URGENT or not rules.preempt or name not in index.yieldable.get(index.classes[name], ()):
        return None
    held = [state.jobs[attempt.rpartition(".")[0]] for attempt in device.attempts]
    served = {kind: accounts.served_s(state, index, accounts.kind_account(kind)) for kind in state.rules.shares}
    if any(each.priority > job.priority for each in held):
        return None
    if not preemption.may_yield(WorkKind.SELFPLAY, served, state.rules.shares):
        return None
    asked = max(index.now, max(job.submitted_at, job.not_before) + rules.preempt_after_s)
    return asked + max(each.spec.grace_s for each in held)


def _pools(index: Index, job: Job, free: Mapping[str, Times | None]) -> dict[str, list[tuple[Times, str]]]:
    """When places for the job come free, by class: devices, or as many of one node as it takes."""
    by_node: defaultdict[tuple[str, str], list[tuple[Times, str]]] = defaultdict(list)
    for name, at in free.items():
        if at is not None:
            by_node[index.classes[name], index.sites[name].node.name].append((at, name))
    pools: dict[str, list[tuple[Times, str]]] = defaultdict(list)
    for (cls, _), found in by_node.items():
        wanted = fit.devices_needed(job.spec.resources, index.samples[cls])
        found.sort()
        pools[cls] += found[wanted - 1 :: wanted]
    return pools


def _after(
    state: State,
    index: Index,
    pools: Mapping[str, list[tuple[Times, str]]],
    before: Mapping[Group, list[str]],
    which: int,
) -> tuple[float, str]:
    """When and where the first place is free, once all that goes before has been given one. Raises `_Unknown`."""
    heaps = {cls: sorted((at[which], name) for at, name in places) for cls, places in pools.items() if places}
    for group, names in before.items():
        able = [cls for cls in _affordable(state, index, group) if cls in heaps]
        for first in names[: _part(state, index, group, len(names), heaps)] if able else ():
            cls = min(able, key=lambda each: heaps[each][0])
            at, name = heaps[cls][0]
            heapq.heapreplace(heaps[cls], (at + _takes(state, index, state.jobs[first], cls)[which], name))
    return min(heap[0] for heap in heaps.values())


def _affordable(state: State, index: Index, group: Group) -> list[str]:
    """Classes that a group may ever go to."""
    return [
        cls
        for cls in fitting(index, group)
        if cost.over_cap(
            state.rules.cost, group.work, cost.device_price(index.samples[cls].node, index.samples[cls].device)
        )
        is None
    ]


def _part(state: State, index: Index, group: Group, count: int, heaps: Mapping[str, object]) -> int:
    """How many of a group's jobs go to these classes, if they are spread evenly over all that fit."""
    able = {cls: len(index.members[cls]) for cls in _affordable(state, index, group)}
    mine = sum(able.get(cls, 0) for cls in heaps)
    return math.ceil(count * mine / max(sum(able.values()), 1))


def _takes(state: State, index: Index, job: Job, cls: str) -> tuple[float, float]:
    known = forecast.prediction(state, index, job, Device(spec=index.samples[cls].device))
    if known is None:
        raise _Unknown(job.id)
    return known.p50_s, known.p90_s


def _basis(state: State, index: Index, name: str, ahead: int, at: float) -> str:
    """What the estimate rests on, in words."""
    device = state.devices[name]
    first = f"{name} is free" if not device.attempts else f"{', '.join(device.attempts[:3])} ends on {name}"
    if not ahead and at <= index.now:
        return f"{name} is free for it"
    jobs = "job goes" if ahead == 1 else "jobs go"
    return f"{ahead} {jobs} before it; then {name} is free" if ahead else f"when {first}"
