"""What would change the lot of a waiting job: what happens by itself, and when; and what its owner could do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from hostler.core import away, environments
from hostler.core.index import Index
from hostler.core.starting import HELD, NODE_WIDE, Verdict, ends_at
from hostler.core.state import Job, State
from hostler.model.fleet import Link
from hostler.model.units import gigabytes
from hostler.model.views import Change, StartView
from hostler.model.work import Resources, WorkKind
from hostler.policy import cost, fit
from hostler.policy.fit import Gate

SERVED = HELD | {Gate.RESERVED, Gate.GROUP, Gate.CONFIG, *NODE_WIDE}
"""Filters of devices that are given to waiting jobs by their rank."""
LISTED = 3
"""Things alike that are named one by one."""


def changes_of(
    state: State, index: Index, job: Job, verdicts: Mapping[str, Verdict], start: StartView
) -> Iterator[Change]:
    """What would help the job: what comes first by itself, then what takes somebody."""
    by_gate: defaultdict[str, list[str]] = defaultdict(list)
    for name, verdict in verdicts.items():
        if verdict.gate is not None and not verdict.never:
            by_gate[verdict.gate].append(name)
    yield from _before_all(state, index, job)
    if all(verdict.never for verdict in verdicts.values()):
        for node in away.unconnected(state, job.spec.resources)[:LISTED]:
            yield Change(what=f"{node.spec.name} is connected")
    yield from _by_time(state, index, job, by_gate)
    yield from _by_others(state, index, job, by_gate)
    if start.ahead and _is_served_by_rank(verdicts):
        yield _rank(job, start.ahead)
    yield from _by_need(state, index, job)


def _before_all(state: State, index: Index, job: Job) -> Iterator[Change]:
    for name in sorted(index.blocked.get(job.id, ()))[:LISTED]:
        yield Change(what=f"{name} is done ({_standing(state, name)} now)")
    if job.not_before > index.now:
        yield Change(what="its rest after a failure is over", at=job.not_before)
    if index.draining:
        yield Change(what="the next `hostler up`, once this controller has ended")


def _by_time(state: State, index: Index, job: Job, by_gate: Mapping[str, list[str]]) -> Iterator[Change]:
    """What ends by itself, the first of each kind."""
    held = [name for gate in HELD for name in by_gate.get(gate, ()) if state.devices[name].attempts]
    ends = [
        (times[0], name)
        for name in held
        if (times := ends_at(state, index, state.devices[name], state.devices[name].attempts[:1])) is not None
    ]
    if ends:
        at, first = min(ends)
        yield Change(what=f"{state.devices[first].attempts[0]} ends on {first}", at=at)
    resting = [
        (doubt.until, name)
        for name in by_gate.get(Gate.QUARANTINE, ())
        if (doubt := state.trust.doubts.get(name)) is not None and doubt.until is not None and doubt.until > index.now
    ]
    if resting:
        until, name = min(resting)
        yield Change(what=f"the quarantine of {name} ends{_among(len(resting))}", at=until)
    unproved = [(state.trust.provable_at(name), name) for name in by_gate.get(Gate.CANARY, ())]
    if unproved:
        at, name = min(unproved)
        what = f"the canary of {name} gives the right answer{_among(len(unproved))}"
        yield Change(what=what, at=at if at > index.now else None)
    kept_off = [until for until in (*job.avoid.values(), job.vram_until) if until > index.now]
    if kept_off and Gate.FAILED in by_gate:
        yield Change(what=f"it may go back to where it failed ({_some(by_gate[Gate.FAILED])})", at=min(kept_off))
    nodes = {state.devices[name].spec.node for name in by_gate.get(Gate.ENVIRONMENT, ())}
    holds = [view for view in environments.bans(state, index.now) if view.what in nodes]
    if holds:
        soonest = min(holds, key=lambda view: view.until or 0.0)
        what = f"its Python environment is built again on {soonest.what}, or `hostler retry {soonest.of}`"
        yield Change(what=what, at=soonest.until)
    for name in by_gate.get(Gate.STAGGER, ())[:1]:
        begun, stagger_s = (
            index.nodes[state.devices[name].spec.node].started_at,
            index.sites[name].node.limits.stagger_s,
        )
        yield Change(what=f"{name} may start a process again", at=None if begun is None else begun + stagger_s)


def _by_others(state: State, index: Index, job: Job, by_gate: Mapping[str, list[str]]) -> Iterator[Change]:
    """What depends on nodes and on other jobs."""
    away = [name for name in by_gate.get(Gate.LINK, ()) if state.nodes[state.devices[name].spec.node].link is Link.DOWN]
    for node, names in _by_node(state, away):
        yield Change(what=f"{node} answers again ({_devices(len(names))} that it fits on)")
    cordoned = by_gate.get(Gate.CORDON, ())
    for node, names in _by_node(state, [each for each in cordoned if state.devices[each].spec.node in state.cordons]):
        yield Change(what=f"`hostler node resume {node}` ({_devices(len(names))} that it fits on)")
    single = [name for name in cordoned if state.devices[name].spec.node not in state.cordons]
    for name in single[:LISTED]:
        yield Change(what=f"`hostler device resume {name}`", at=state.device_cordons[name].until)
    used = by_gate.get(Gate.FOREIGN, ())
    if used:
        yield Change(what=f"others stop using {_some(list(used))}")
    for node, names in _by_node(state, by_gate.get(Gate.PRESSURE, ())):
        yield Change(what=f"the pressure on {node} ends ({_devices(len(names))})")
    for kept_for in list(dict.fromkeys(index.reserved[name] for name in by_gate.get(Gate.RESERVED, ())))[:LISTED]:
        yield Change(what=f"{kept_for} has got what is kept for it")
    if Gate.CONFIG in by_gate:
        yield Change(what=f"the training of {job.spec.serves} that runs now ends")
    if Gate.GROUP in by_gate:
        yield Change(what=f"one of the jobs of {job.group} that run now ends")


def _is_served_by_rank(verdicts: Mapping[str, Verdict]) -> bool:
    """Whether the rank of a job matters to a device that it fits on: one that is free, or that other work holds."""
    return any(not each.never and (each.gate is None or each.gate in SERVED) for each in verdicts.values())


def _standing(state: State, name: str) -> str:
    """The progress of a dependency: the state of a job, or how many jobs of a group are done."""
    group = state.groups.get(name)
    return str(state.jobs[name].state) if group is None else f"{group.done} of {group.size} jobs"


def _rank(job: Job, ahead: int) -> Change:
    jobs = "1 job is" if ahead == 1 else f"{ahead} jobs are"
    return Change(what=f"a higher priority than {job.priority}: {jobs} ahead; `hostler job priority {job.id} N`")


def _by_need(state: State, index: Index, job: Job) -> Iterator[Change]:
    """What the job's owner could ask less of, and on how many devices more it would fit then."""
    misfits = [
        cls
        for cls, names in index.members.items()
        if names and fit.refusal(job.spec.resources, index.samples[cls], job.spec.work) is not None
    ]
    for what, need in _lesser(job.spec.resources):
        more = sum(
            len(index.members[cls]) for cls in misfits if fit.refusal(need, index.samples[cls], job.spec.work) is None
        )
        if more:
            yield Change(what=f"{what}: it would fit on {_devices(more)} more")
    yield from _by_price(state, index, job)
    wanted_gb = job.spec.resources.vram_gb
    if misfits and wanted_gb and not job.spec.resources.shards:
        yield _more_vram(index, wanted_gb)


def _lesser(need: Resources) -> Iterator[tuple[str, Resources]]:
    if need.vram_gb:
        yield f"less than `--vram-gb {gigabytes(need.vram_gb)}`", replace(need, vram_gb=0.0)
    if need.tiers:
        yield f"another `--tier` than {' or '.join(map(str, need.tiers))}", replace(need, tiers=())
    if need.gpus > 1:
        yield f"fewer than `--gpus {need.gpus}`", replace(need, gpus=1)
    if need.cpus:
        yield f"less than `--cpus {need.cpus:g}`", replace(need, cpus=0.0)
    if need.memory_gb:
        yield f"less than `--memory-gb {need.memory_gb:g}`", replace(need, memory_gb=None)
    if need.device in ("cpu", "gpu"):
        yield f"`--device any` instead of `--device {need.device}`", replace(need, device="any")


def _more_vram(index: Index, wanted_gb: float) -> Change:
    sizes = {index.samples[cls].device.vram_gb: len(names) for cls, names in index.members.items()}
    enough = sum(
        len(names) for cls, names in index.members.items() if (index.samples[cls].device.vram_gb or 0.0) >= wanted_gb
    )
    largest = max((size for size in sizes if size is not None), default=None)
    has = "none is known" if largest is None else f"the largest has {gigabytes(largest)} GB"
    return Change(what=f"more devices with {gigabytes(wanted_gb)} GB of VRAM: {enough} of the fleet have it, {has}")


def _by_price(state: State, index: Index, job: Job) -> Iterator[Change]:
    cap = state.rules.cost.max_price_per_h.get(job.spec.work)
    if cap is None:
        return
    prices: list[float] = []
    for cls, names in index.members.items():
        site = index.samples[cls]
        price = cost.device_price(site.node, site.device)
        if price is not None and price > cap and fit.refusal(job.spec.resources, site, job.spec.work) is None:
            prices += [price] * len(names)
    if prices:
        lifted = f"a price cap of {min(prices):g} per hour or more for {WorkKind(job.spec.work)} (it is {cap:g})"
        yield Change(what=f"{lifted}: up to {_devices(len(prices))} more")


def _by_node(state: State, names: list[str] | tuple[()]) -> Iterator[tuple[str, list[str]]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        found[state.devices[name].spec.node].append(name)
    yield from list(found.items())[:LISTED]


def _among(count: int) -> str:
    return f", the first of {count}" if count > 1 else ""


def _some(names: list[str]) -> str:
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"
