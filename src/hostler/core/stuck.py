"""Is there still something to wait for?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hostler.core.index import CHORE, Index
from hostler.core.state import Job, State
from hostler.model.fleet import Link
from hostler.model.work import DeviceKind, Resources, ScriptPayload, WorkKind
from hostler.policy import cost, fit
from hostler.policy.fit import Gate, Refusal


def is_stuck(state: State, index: Index, nodes: Iterable[str]) -> bool:
    """Whether work waits that no device of the fleet will ever take, and nothing else goes on.

    `nodes` are those the fleet should have: while one of them is out of reach, its devices may yet come.
    """
    if any(not name.startswith(CHORE) for _, name in index.timers):
        return False
    if any(device.attempts or device.chunks for device in state.devices.values()):
        return False
    if not all(name in state.nodes and state.nodes[name].link is Link.UP for name in nodes):
        return False
    waiting = list(_waiting(state, index))
    return bool(waiting) and not any(
        members and _may_go(state, index, job, cls) for job in waiting for cls, members in index.members.items()
    )


def never_on(state: State, index: Index, need: Resources, work: WorkKind, cls: str) -> Refusal | None:
    """Why work will never run on devices of a class, as long as neither it nor the rules change; `None` where it may.

    It does not fit there, it excludes all their nodes, or these devices cost more than such work may.
    """
    refused = index.misfit(need, work, cls) or _excluded(index, need, cls)
    if refused is not None or work not in state.rules.cost.max_price_per_h:
        return refused
    site = index.samples[cls]
    dear = cost.over_cap(state.rules.cost, work, cost.device_price(site.node, site.device))
    return None if dear is None else Refusal(gate=Gate.PRICE, why=dear)


def _excluded(index: Index, need: Resources, cls: str) -> Refusal | None:
    """The refusal of the nodes of a class, if none of them may be taken."""
    refused = None
    for name in index.members.get(cls, ()) if need.nodes or need.exclude_nodes else ():
        refused = fit.node_refusal(need, index.sites[name].node.name)
        if refused is None:
            return None
    return refused


def waits_for_gpu(state: State, index: Index, job: Job) -> bool:
    """Whether a job that states no device waits for a GPU: a script, where the fleet has a GPU that it may take.

    Models that it names or excludes do not count: they choose among GPUs, and are no choice of a CPU slot.
    """
    need, work = job.spec.resources, job.spec.work
    if work is not WorkKind.SCRIPT or need.device is not None or need.cpu_too:
        return False
    if need.gpu_models or need.exclude_gpu_models:
        need = replace(need, gpu_models=(), exclude_gpu_models=())
    return any(
        members
        and index.samples[cls].device.kind is not DeviceKind.CPU
        and never_on(state, index, need, work, cls) is None
        and (not runs_in_place(job) or any(not index.sites[name].node.apart for name in members))
        for cls, members in index.members.items()
    )


def runs_in_place(job: Job) -> bool:
    """Whether the job runs in a folder that is not copied for it."""
    return isinstance(job.spec.payload, ScriptPayload) and job.spec.payload.in_place


def _may_go(state: State, index: Index, job: Job, cls: str) -> bool:
    if never_on(state, index, job.spec.resources, job.spec.work, cls) is not None:
        return False
    return index.samples[cls].device.kind is not DeviceKind.CPU or not waits_for_gpu(state, index, job)


def _waiting(state: State, index: Index) -> Iterator[Job]:
    """The sweeps, and of waiting jobs that look the same the first."""
    heads = (index.head(state, group) for group in list(index.ready))
    yield from (job for job in heads if job is not None)
    yield from (state.jobs[name] for name in index.active)
