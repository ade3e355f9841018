"""What keeps a job off a device now: every gate, asked in one place, for decisions and for explanations alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hostler.core import cordons, environments, foreign_use, pools
from hostler.core.care import effects as care
from hostler.core.forecast import prediction
from hostler.core.index import Index, group_of
from hostler.core.state import Device, Job, State
from hostler.core.stuck import never_on, runs_in_place, waits_for_gpu
from hostler.core.trust import decide as trust
from hostler.model.fleet import Link, NodeSpec
from hostler.model.units import duration
from hostler.model.work import DeviceKind, WorkKind
from hostler.policy import cost, fit, placement
from hostler.policy.fit import DeviceLoad, Gate, NodeLoad, Refusal

GPUS_FIRST = (WorkKind.TRAINING, WorkKind.EVALUATION)
"""Kinds that take a CPU slot only where no GPU of the fleet fits them: there they would last for days."""
SOON_S = 60.0
"""A node that goes away sooner gets nothing whose duration is unknown."""


def misfit(state: State, index: Index, job: Job, device: Device) -> Refusal | None:
    """Why the job will never run on the device, in words about this very device; `None` where it may."""
    site = index.sites.get(device.spec.id)
    if site is None:
        return Refusal(gate=Gate.LINK, why=f"{device.spec.id} is not in the fleet any more")
    need = job.spec.resources
    refused = fit.refusal(need, site, job.spec.work) or fit.node_refusal(need, device.spec.node)
    return refused or _price_cap(state, index, job, device)


def refusal(state: State, index: Index, job: Job, device: Device) -> Refusal | None:
    """What keeps a waiting job off a device now; `None` where it can be put there."""
    return misfit(state, index, job, device) or refusal_now(state, index, job, device)


def refusal_now(state: State, index: Index, job: Job, device: Device) -> Refusal | None:
    """What keeps a waiting job off a device of a class that it fits on."""
    return (
        standing_refusal(state, index, job, device)
        or foreign_use.unread(state, index, device)
        or full(state, index, job, device)
    )


def standing_refusal(state: State, index: Index, job: Job, device: Device) -> Refusal | None:
    """What would keep the job off the device even if nothing ran there."""
    excluded = fit.node_refusal(job.spec.resources, device.spec.node)
    if excluded is not None:
        return excluded
    node = state.nodes[device.spec.node]
    if node.link is not Link.UP:
        return Refusal(gate=Gate.LINK, why=f"out of reach: {node.trouble or 'its node does not answer'}")
    cordoned = cordons.gate(state, device.spec.id)
    if cordoned is not None:
        return cordoned
    kept_for = index.reserved.get(device.spec.id)
    if kept_for is not None and kept_for != job.id:
        return Refusal(gate=Gate.RESERVED, why=f"{device.spec.id} is kept for {kept_for}")
    return (
        pools.gate(state, index, device, job.spec.resources)
        or foreign_use.gate(state, index, device, job.spec.resources)
        or trust.gate(state, device.spec.id, index.now)
        or trust.retry_gate(job, index.sites[device.spec.id], index.now)
        or environments.gate(state, job, node.spec, index.now)
        or care.blocked(state, device.spec.node, job.spec.work)
        or owner_limit(index, job)
        or _gpu_first(state, index, job, device)
        or gpu_by_default(state, index, job, device)
        or too_long(state, index, job, device, node.spec)
    )


def lasting_refusal(state: State, index: Index, job: Job, device: Device) -> Refusal | None:
    """What keeps the job off the device until the job, the fleet or a setting changes; not what passes by itself."""
    node = state.nodes[device.spec.node].spec
    return (
        misfit(state, index, job, device)
        or pools.closed(index, node)
        or environments.gate(state, job, node, index.now)
        or _gpu_first(state, index, job, device)
        or gpu_by_default(state, index, job, device)
        or too_long(state, index, job, device, node)
    )


def too_long(state: State, index: Index, job: Job, device: Device, node: NodeSpec) -> Refusal | None:
    """Why this very job would hardly be done there: the node goes away before, or its cluster gives it too little."""
    return (
        _wall(state, index, job, device, node)
        or _time_limit(state, index, job, device, node)
        or _options(job, node)
        or in_place(job, node)
        or _survival(state, index, job, device, node)
    )


def full(state: State, index: Index, job: Job, device: Device) -> Refusal | None:
    """Why there is no room for the job on the device beside what has been put there already."""
    spec, need = device.spec, job.spec.resources
    lane = lane_of(state, index, job, device)
    if lane is None:
        return Refusal(gate=Gate.TAKEN, why=f"{spec.id} has {_held(device)}")
    use = index.uses[spec.id]
    load = DeviceLoad(
        attempts=len(device.attempts) if need.shared else 0,  # others are queued behind what is there
        vram_gb=use.vram_gb,
        unshared=use.unshared > 0,
        lanes=lanes(state, spec.id),
    )
    return fit.crowded(need, job.spec.work, index.sites[spec.id], node_load(state, index, spec.node), load)


def lane_of(state: State, index: Index, job: Job, device: Device) -> int | None:
    """The lane that the job would take: 0 on a device that is free for it (or soon), more beside others; `None`: taken.

    Several in lane 0 run one after the other.
    """
    if not device.attempts:
        return 0
    if job.spec.resources.shared and index.uses[device.spec.id].unshared == 0:
        return None if device.chunks else _free_lane(state, device)
    if job.spec.resources.gpus > 1 or job.spec.resources.shards or job.spec.resources.shared:
        return None
    load = index.loads[device.spec.id]
    held = placement.Occupied(attempts=len(device.attempts), attempts_s=load.attempts, chunks=0, chunks_s=None)
    known = prediction(state, index, job, device)
    return 0 if placement.takes_attempt(held, None if known is None else known.at_most_s) else None


def lanes(state: State, device: str) -> int:
    """How many jobs may share the device now; what a cluster gives out, nobody shares."""
    if state.nodes[state.devices[device].spec.node].spec.pool is not None:
        return 1
    return care.lanes(state, device)


def node_load(state: State, index: Index, node: str) -> NodeLoad:
    """What is reserved on a node."""
    use = index.nodes[node]
    since = None if use.started_at is None else index.now - use.started_at
    return NodeLoad(
        scripts=use.scripts,
        cpus=use.cpus,
        memory_gb=use.memory_gb,
        since_start_s=since,
        disk_gb=use.disk_gb,
        disk_free_gb=care.disk_free_gb(state, index, node),
    )


def _free_lane(state: State, device: Device) -> int:
    taken = {
        job.attempt.lane for name in device.attempts if (job := state.jobs[name.rpartition(".")[0]]).attempt is not None
    }
    return next(lane for lane in range(len(taken) + 1) if lane not in taken)


def _held(device: Device) -> str:
    first = device.attempts[0]
    return first if len(device.attempts) == 1 else f"{first} and {len(device.attempts) - 1} more"


def _price_cap(state: State, index: Index, job: Job, device: Device) -> Refusal | None:
    if not state.rules.cost.max_price_per_h:
        return None
    site = index.sites[device.spec.id]
    why = cost.over_cap(state.rules.cost, job.spec.work, cost.device_price(site.node, site.device))
    return None if why is None else Refusal(gate=Gate.PRICE, why=why)


def owner_limit(index: Index, job: Job) -> Refusal | None:
    """The limit that the owner of a job has set on how many like it run at the same time, where it is reached."""
    return _one_per_config(index, job) or _max_running(index, job)


def _max_running(index: Index, job: Job) -> Refusal | None:
    if job.group is None or job.max_running is None or index.group_running[job.group] < job.max_running:
        return None
    jobs, run = ("1 job", "1 runs") if job.max_running == 1 else (f"{job.max_running} jobs", f"{job.max_running} run")
    return Refusal(gate=Gate.GROUP, why=f"{job.group} runs at most {jobs} at once, and {run} now")


def _one_per_config(index: Index, job: Job) -> Refusal | None:
    config = job.spec.serves
    if job.spec.work is not WorkKind.TRAINING or config is None or not index.trainings[config]:
        return None
    return Refusal(gate=Gate.CONFIG, why=f"{config} is in training already")


def _gpu_first(state: State, index: Index, job: Job, device: Device) -> Refusal | None:
    need = job.spec.resources
    if device.spec.kind is not DeviceKind.CPU or not need.cpu_too or job.spec.work not in GPUS_FIRST:
        return None
    for cls, members in index.members.items():
        is_gpu = index.samples[cls].device.kind is not DeviceKind.CPU
        if is_gpu and never_on(state, index, need, job.spec.work, cls) is None and _any_in_reach(state, members):
            return Refusal(gate=Gate.KIND, why=f"a GPU fits it, and would be done long before {device.spec.id}")
    return None


def gpu_by_default(state: State, index: Index, job: Job, device: Device) -> Refusal | None:
    """Why a CPU slot is not for a script that states no device; `None` for all others."""
    if device.spec.kind is not DeviceKind.CPU or not waits_for_gpu(state, index, job):
        return None
    why = f"{job.id} states no device and waits for a GPU; with `--device any` it would take {device.spec.id}, too"
    return Refusal(gate=Gate.KIND, why=why)


def _any_in_reach(state: State, names: Iterable[str]) -> bool:
    """Whether one of the devices may be given something, as far as links and cordons go."""
    in_reach = (name for name in names if state.nodes[state.devices[name].spec.node].link is Link.UP)
    return not all(map(state.is_cordoned, in_reach))


def _wall(state: State, index: Index, job: Job, device: Device, node: NodeSpec) -> Refusal | None:
    if node.ends_at is None:
        return None
    left_s = node.ends_at - index.now
    known = prediction(state, index, job, device)
    needs_s = SOON_S if known is None else min(known.p90_s, job.spec.walltime_s or known.p90_s)
    if needs_s <= left_s or (job.spec.checkpoints and left_s > SOON_S):
        return None
    return Refusal(gate=Gate.WALL, why=f"{node.name} goes away in {max(left_s, 0):.0f} s, it needs {needs_s:.0f} s")


def _time_limit(state: State, index: Index, job: Job, device: Device, node: NodeSpec) -> Refusal | None:
    """Why the job would not be done within what a cluster gives a job at most, or not be taken there at all."""
    if node.pool is None or node.pool.longest_s is None:
        return None
    known, batch, walltime_s = prediction(state, index, job, device), job.spec.batch, job.spec.walltime_s
    if batch is not None and batch.time_s is not None:
        needs_s, says = batch.time_s, "its own `time_s` is"
    elif job.spec.checkpoints:
        return None  # it goes on from what it has saved
    elif walltime_s is not None:
        needs_s, says = walltime_s + node.pool.margin_s, "it may run, with its start and its end,"
    elif known is None:
        return None
    else:
        needs_s, says = known.p50_s + node.pool.margin_s, "it takes, with its start and its end,"
    if needs_s <= node.pool.longest_s:
        return None
    why = f"{node.name} gives a job {duration(node.pool.longest_s)} at most, {says} {duration(needs_s)}"
    return Refusal(gate=Gate.WALL, why=why)


def _options(job: Job, node: NodeSpec) -> Refusal | None:
    """Why no host of a cluster has what the job's own options ask for."""
    wants = job.spec.batch
    refused = None if wants is None else fit.too_large(node, wants.cpus, wants.memory_gb)
    return None if refused is None else replace(refused, gate=Gate.OPTIONS)


def is_barred(state: State, job: Job, node: NodeSpec) -> bool:
    """Whether something of the job itself may keep it off the node, and not others like it."""
    return lacks_folder(job, node) or environments.concerns(state, job, node)


def lacks_folder(job: Job, node: NodeSpec) -> bool:
    """Whether the job runs in place in a folder that is not on the node."""
    return node.apart and runs_in_place(job)


def in_place(job: Job, node: NodeSpec) -> Refusal | None:
    """Why the folder that the job runs in is not on the node."""
    if not lacks_folder(job, node):
        return None
    why = f"{job.id} runs in place in {job.spec.payload.cwd}, which is not on {node.name}: it has files of its own"
    return Refusal(gate=Gate.FOLDER, why=why)


def _survival(state: State, index: Index, job: Job, device: Device, node: NodeSpec) -> Refusal | None:
    """Long work does not go to a node that hardly lives so long, where there is another that it fits on."""
    if not node.ephemeral or job.spec.checkpoints or job.spec.work is WorkKind.SELFPLAY:
        return None
    known = prediction(state, index, job, device)
    lifetime_s = node.lifetime_s or cost.USUAL_LIFETIME_S
    if known is None or cost.survival(lifetime_s, known.p50_s) >= cost.SURVIVAL_MIN:
        return None
    waited_s = index.now - job.submitted_at
    if waited_s > lifetime_s or not _fits_somewhere_safe(state, index, job):
        return None
    why = f"{node.name} lives {lifetime_s / 3600:.1f} h on average, it takes {known.p50_s / 3600:.1f} h"
    return Refusal(gate=Gate.SURVIVAL, why=why)


def _fits_somewhere_safe(state: State, index: Index, job: Job) -> bool:
    """Whether a node that lives, can be reached and may be paid has devices for the job."""
    group = group_of(job)
    return any(
        index.misfit(group.need, group.work, cls) is None
        and _price_cap(state, index, job, state.devices[next(iter(members))]) is None
        and _any_in_reach(state, members)
        for cls, members in index.members.items()
        if members and not index.samples[cls].node.ephemeral
    )
