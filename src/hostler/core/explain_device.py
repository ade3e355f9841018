"""Why does a device do what it does, or nothing?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hostler.core import accounts, cordons, foreign_use, gates, views
from hostler.core.care import effects, views as care
from hostler.core.gangs import partners
from hostler.core.held import held
from hostler.core.index import Index
from hostler.core.starting import filter_counts, ready_jobs
from hostler.core.state import Device, Job, State, is_calls
from hostler.core.trust import decide as trust
from hostler.core.uses import Group
from hostler.model.errors import NotFound
from hostler.model.fleet import Link
from hostler.model.views import DeviceExplanation, DeviceView
from hostler.model.work import ANYWHERE, WorkKind
from hostler.policy.fit import Gate, class_label

BEHIND = "behind others"
"""What keeps work off a device that would take it: somebody else is served first."""
BARRED = "barred"


def find_device(state: State, name: str) -> Device:
    """The device of this id. Raises `NotFound`."""
    if name not in state.devices:
        raise NotFound(f"there is no device {name!r}; `hostler device list` lists them")
    return state.devices[name]


def explain_device(state: State, index: Index, device: Device) -> DeviceExplanation:
    """What a device has and why, what it is kept for, what presses on it, and what keeps waiting work off it."""
    node, name = state.nodes[device.spec.node], device.spec.id
    view, waiting = views.device_view(state, index, device), _waiting(state, index, device)
    site = index.sites.get(name)
    return DeviceExplanation(
        device=view,
        node=node.spec.name,
        cls=class_label(index.classes[name]) if name in index.places else None,
        tier=None if site is None else site.tier,
        link=node.link,
        summary=f"{name} {_summary(state, index, device, waiting)}",
        reasons=tuple(_reasons(state, index, device, view)),
        held=tuple(held(state, index, device)),
        waiting=waiting,
        pressures=care.node_pressures(state, index, node.spec.name),
    )


def _summary(state: State, index: Index, device: Device, waiting: dict[str, int]) -> str:
    node, name = state.nodes[device.spec.node], device.spec.id
    count = len(device.attempts) + len(device.chunks)
    has = f"holds {count} {_kinds(state, device)}" if count else "is idle"
    if name not in index.places:
        return f"is in the fleet no more and {has}"
    if node.link is not Link.UP:
        return f"{has}; {node.spec.name} is out of reach: {node.trouble or 'it does not answer'}"
    used = foreign_use.gate(state, index, device, ANYWHERE)
    refused = cordons.gate(state, name) or used or trust.gate(state, name, index.now)
    if refused is not None and refused is used and not count:
        return refused.why.removeprefix(f"{name} ")
    if refused is not None:
        return f"{has}: {refused.why.removeprefix(f'{name} ')}"
    if count:
        return has
    if index.draining:
        return f"{has}: the controller is draining and starts nothing new"
    if name in index.reserved:
        return f"{has}, kept for {index.reserved[name]}"
    if not waiting:
        return f"{has}: nothing waits"
    jobs = sum(waiting.values())
    are = "waiting job is" if jobs == 1 else "waiting jobs are"
    return f"{has}: {jobs} {are} excluded ({filter_counts(waiting)})"


def _kinds(state: State, device: Device) -> str:
    kinds = {str(state.jobs[name.rpartition(".")[0]].spec.work) for name in device.attempts}
    chunks = "chunks of calls" if len(device.chunks) > 1 else "chunk of calls"
    for name in device.chunks:
        kinds.add(chunks if is_calls(state.jobs[name.rpartition(".")[0]]) else str(WorkKind.SWEEP))
    return " and ".join(sorted(kinds))


def _reasons(state: State, index: Index, device: Device, view: DeviceView) -> Iterator[str]:
    name = device.spec.id
    if name in index.places:
        yield f"class {class_label(index.classes[name])}, tier {accounts.tier_of(index, name)}"
    if index.classes.get(name) in index.prices:
        yield f"worth {index.prices[index.classes[name]]:.2f} of the dearest class, as last planned"
    used = "?" if view.utilization is None else f"{view.utilization:.0%}"
    if index.uses[name].unshared == 0 and len(device.attempts) and view.vram_gb is not None:
        yield f"{len(device.attempts)} of {view.lanes} lanes taken, utilisation {used}"
    else:
        yield f"utilisation {used}"
    if name in index.reserved:
        yield f"kept for {index.reserved[name]}"
    for work in (WorkKind.SELFPLAY, WorkKind.TRAINING, WorkKind.SCRIPT):
        blocked = effects.blocked(state, device.spec.node, work)
        if blocked is not None:
            yield f"{work} is not started there: {blocked.why}"


def _waiting(state: State, index: Index, device: Device) -> dict[str, int]:
    """How many waiting jobs each gate keeps off the device; of a group, all by what is said to its first."""
    counts: Counter[str] = Counter()
    if device.spec.id not in index.places:
        return {}
    for group in index.ready:
        names = ready_jobs(state, index, group)
        if names:
            counts[_keeps_off(state, index, group, names, device)] += len(names)
    for name in index.active:
        if state.sweeps[name].ledger.free and not any(chunk.startswith(f"{name}.") for chunk in device.chunks):
            counts[_keeps_sweep_off(state, index, state.jobs[name], device)] += 1
    return dict(counts.most_common())


def _keeps_off(state: State, index: Index, group: Group, names: set[str], device: Device) -> str:
    refused = index.misfit(group.need, group.work, index.classes[device.spec.id])
    if refused is not None:
        return str(refused.gate)
    first = min((state.jobs[name] for name in names), key=lambda job: job.rank)
    refused = gates.refusal(state, index, first, device)
    if refused is not None:
        return str(refused.gate)
    return BEHIND if partners(state, index, first, device) is not None else str(Gate.GPUS)


def _keeps_sweep_off(state: State, index: Index, job: Job, device: Device) -> str:
    if device.spec.id in state.sweeps[job.id].barred:
        return BARRED
    site = index.classes[device.spec.id]
    refused = index.misfit(job.spec.resources, job.spec.work, site)
    refused = refused or trust.gate(state, device.spec.id, index.now)
    refused = refused or effects.blocked(state, device.spec.node, job.spec.work)
    if refused is not None:
        return str(refused.gate)
    return str(Gate.TAKEN) if device.attempts else BEHIND
