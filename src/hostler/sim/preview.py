"""What would the scheduler do with this fleet before anything runs? The core, asked once, in memory.

Nothing is started: nodes are told to be there, work is submitted, and the decisions are read. A loop begins with an
untrained model, so the fleet is looked at twice: at once, and as if every config that got a device for it had one, and
it had been rated.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hostler.core import Core, Outcome, gates
from hostler.core.index import Index
from hostler.core.state import State
from hostler.core.stuck import never_on
from hostler.core.uses import Group
from hostler.model.commands import Launch
from hostler.model.errors import HostlerError
from hostler.model.events import AttemptLeased, ChunkLeased
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import (
    Begin,
    Configure,
    Declare,
    Ended,
    Input,
    Launched,
    LinkUp,
    NodeFound,
    Started,
    Submit,
)
from hostler.model.learning import ConfigSpec
from hostler.model.planning import Demand, Instance, Plan, QuotaRow
from hostler.model.record import record
from hostler.model.rules import Rules
from hostler.model.work import DeviceKind, JobSpec, JobState, StagePayload, WorkKind
from hostler.policy import cost, fit, power, programme, share
from hostler.policy.fit import Refusal
from hostler.sim.lab import Lab

GATES_TOLD = 3
"""Gates named for work that waits."""


@record
class Asked:
    """All that a preview looks at."""

    nodes: tuple[NodeSpec, ...]
    rules: Rules
    configs: tuple[ConfigSpec, ...] = ()
    jobs: tuple[JobSpec, ...] = ()


@record
class Run:
    """A piece of work on a device, and why it is there."""

    job: str
    work: WorkKind
    name: str
    """The training config it is for, or else its own name."""
    why: str
    with_others: tuple[str, ...] = ()
    """All devices that it holds, where these are several."""


@record
class DevicePlan:
    """What a device would have: at once, and when there are models."""

    id: str
    cls: str
    first: tuple[Run, ...]
    then: tuple[Run, ...]


@record
class ClassPlan:
    """The same for devices that are alike: how many have what, `selfplay hex8_2p` say."""

    cls: str
    tier: int | None
    devices: int
    price_per_h: float | None
    """Of one device; `None`: unknown."""
    first: Mapping[str, int]
    then: Mapping[str, int]


@record
class TierPlan:
    """The nodes of a tier, `None` for those without GPUs and those whose video memory is unknown."""

    tier: int | None
    nodes: int
    gpus: int
    cpu_slots: int
    vram_gb: float | None
    price_per_h: float | None
    """Of all its nodes; `None`: that of one is unknown."""


@record
class Waiting:
    """Work alike for which there is no device."""

    work: WorkKind
    name: str
    jobs: int
    fits: int
    """Devices that it fits on."""
    why: str


@record
class QuotaPlan:
    """What a quota asks for, and what comes of it."""

    tier: int
    pattern: str
    configs: tuple[str, ...]
    target: float
    """Its share of the tier's device time."""
    then: float | None
    """What it has of the tier's devices that work for training configs, when there are models; `None`: none does."""
    best: float | None
    """What the best plan for all quotas keeps of it; `None`: unknown, as it is without the solver."""


@record
class Preview:
    """What the scheduler would do."""

    nodes: int
    price_per_h: float | None
    """Of everything whose price is known; `None`: nothing's is."""
    tiers: tuple[TierPlan, ...]
    classes: tuple[ClassPlan, ...]
    devices: tuple[DevicePlan, ...]
    waiting: tuple[Waiting, ...]
    blocked: int
    """Jobs that come after others."""
    quotas: tuple[QuotaPlan, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Quotas that cannot be met, and what stands in their way."""
    solved: bool = False
    """Whether the programme was solved that proves it."""


def preview(asked: Asked, now: float) -> Preview:
    """What the scheduler would do at `now`, in Unix seconds. Raises what the core would refuse."""
    core = Core()
    outcome = core.handle(now, *_inputs(asked))
    refused = next((answer for answer in outcome.answers if isinstance(answer, HostlerError)), None)
    if refused is not None:
        raise refused
    why = _reasons(outcome)
    first = _runs(core.state, why)
    _make_models(core, outcome, now, why)
    then = _runs(core.state, why)
    quotas, plan = _quotas(core, asked)
    return Preview(
        nodes=len(asked.nodes),
        price_per_h=_sum(node.price_per_h for node in asked.nodes if node.price_per_h is not None),
        tiers=tuple(_tiers(asked.nodes)),
        classes=tuple(_classes(core.index, first, then)),
        devices=tuple(
            DevicePlan(id=name, cls=fit.class_label(core.index.classes[name]), first=first[name], then=then[name])
            for name in core.state.devices
        ),
        waiting=tuple(_waiting(core.state, core.index)),
        blocked=len(core.index.blocked),
        quotas=quotas,
        conflicts=(*_empty_tiers(core.index, quotas), *(() if plan is None else plan.conflicts)),
        solved=plan is not None and plan.status == "optimal",
    )


def _inputs(asked: Asked) -> Iterator[Input]:
    yield Begin(version="preview", epoch=1)
    # Nobody is told of what is only tried out.
    yield Configure(rules=replace(asked.rules, alerts=()))
    for node in asked.nodes:
        yield NodeFound(node=node)
        yield LinkUp(node=node.name, agent=node.name, incarnation=1, boot=None, attempts=(), chunks=())
    yield Submit(specs=asked.jobs)
    # Without anchors nothing is rated: the second look is at a fleet that has that behind it.
    yield Declare(configs=tuple(replace(spec, game=replace(spec.game, anchors={})) for spec in asked.configs))


def _reasons(outcome: Outcome) -> dict[str, str]:
    """Why each attempt and chunk got its device."""
    found = {}
    for entry in outcome.entries:
        event = entry.event
        if isinstance(event, AttemptLeased):
            found[event.attempt] = event.why
        elif isinstance(event, ChunkLeased):
            found[event.chunk] = "a sweep takes what is left over"
    return found


def _make_models(core: Core, outcome: Outcome, now: float, why: dict[str, str]) -> None:
    """Let the trainings that begin a loop end at once, and decide what comes then."""
    lab = Lab({})
    for _ in range(len(core.state.configs)):
        begun = [each for each in outcome.commands if isinstance(each, Launch) and _is_first_training(core.state, each)]
        if not begun:
            return
        outcome = core.handle(now, *(given for launch in begun for given in _ended(launch, lab, now)))
        why.update(_reasons(outcome))


def _is_first_training(state: State, launch: Launch) -> bool:
    payload = state.jobs[launch.order.id.rpartition(".")[0]].spec.payload
    return isinstance(payload, StagePayload) and payload.kind == "training"


def _ended(launch: Launch, lab: Lab, now: float) -> Iterator[Input]:
    attempt = launch.order.id
    assert launch.order.inputs is not None
    status, result = lab.report(launch.order.inputs)
    yield Launched(attempts=(attempt,))
    yield Started(attempt=attempt, pid=1, pid_start=1)
    yield Ended(attempt=attempt, ended_at=now, exit_code=status, result=result)


def _runs(state: State, why: Mapping[str, str]) -> dict[str, tuple[Run, ...]]:
    return {
        name: tuple(_run(state, piece, why[piece]) for piece in (*device.attempts, *device.chunks))
        for name, device in state.devices.items()
    }


def _run(state: State, piece: str, why: str) -> Run:
    job = state.jobs[piece.rpartition(".")[0]]
    held = () if job.attempt is None or not job.attempt.others else job.attempt.devices
    return Run(job=job.id, work=job.spec.work, name=job.spec.serves or job.spec.name, why=why, with_others=held)


def _tiers(nodes: Sequence[NodeSpec]) -> Iterator[TierPlan]:
    by_tier: defaultdict[int | None, list[NodeSpec]] = defaultdict(list)
    for node in nodes:
        by_tier[fit.site(node, node.devices[0]).tier if node.devices else None].append(node)
    for tier in sorted(by_tier, key=lambda each: each or math.inf):
        mine = by_tier[tier]
        gpus = [each for node in mine for each in node.devices if each.kind is not DeviceKind.CPU]
        yield TierPlan(
            tier=tier,
            nodes=len(mine),
            gpus=len(gpus),
            cpu_slots=sum(len(node.devices) for node in mine) - len(gpus),
            vram_gb=_sum(each.vram_gb for each in gpus),
            price_per_h=_sum(node.price_per_h for node in mine),
        )


def _classes(
    index: Index, first: Mapping[str, tuple[Run, ...]], then: Mapping[str, tuple[Run, ...]]
) -> Iterator[ClassPlan]:
    def place(cls: str) -> tuple[float, float, str]:
        site = index.samples[cls]
        return site.tier or math.inf, -(power.prior(site.device.model) or 0.0), cls

    for cls in sorted((each for each, names in index.members.items() if names), key=place):
        site, names = index.samples[cls], sorted(index.members[cls])
        yield ClassPlan(
            cls=fit.class_label(cls),
            tier=site.tier,
            devices=len(names),
            price_per_h=cost.device_price(site.node, site.device),
            first=_counted(first[name] for name in names),
            then=_counted(then[name] for name in names),
        )


def _counted(runs: Iterable[tuple[Run, ...]]) -> Mapping[str, int]:
    """Devices by what they have, most first."""
    counts = Counter(f"{each.work} {each.name}" for held in runs for each in held)
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _waiting(state: State, index: Index) -> Iterator[Waiting]:
    """Groups of which nothing runs, but for self-play of configs that have a device: of that there is always more."""
    playing = {
        job.spec.serves for job in state.jobs.values() if job.attempt is not None and job.spec.work is WorkKind.SELFPLAY
    }
    for group in list(index.ready):
        job = index.head(state, group)
        if job is not None and not (group.work is WorkKind.SELFPLAY and job.spec.serves in playing):
            yield _stuck(state, index, group, job.id)
    for name in sorted(index.active):
        job = state.jobs[name]
        if not state.sweeps[name].leases and job.state is not JobState.DONE:
            yield _stuck(state, index, None, name)


def _stuck(state: State, index: Index, group: Group | None, name: str) -> Waiting:
    job = state.jobs[name]
    misfits = {name: gates.misfit(state, index, job, device) for name, device in state.devices.items()}
    fitting = [state.devices[name] for name, refused in misfits.items() if refused is None]
    if not misfits:
        why = "the fleet has no devices that are known"
    elif not fitting:
        why = f"fits on no device: {_gates(misfits.values())}"
    elif group is None:
        busy = "device it fits on is" if len(fitting) == 1 else f"{len(fitting)} devices it fits on are"
        why = f"the {busy} at other work; a sweep takes what that leaves"
    else:
        why = _gates(gates.refusal(state, index, job, each) for each in fitting) or "others go first"
    return Waiting(
        work=job.spec.work,
        name=job.spec.serves or job.spec.name,
        jobs=1 if group is None else len(index.ready[group]),
        fits=len(fitting),
        why=why,
    )


def _gates(refusals: Iterable[Refusal | None]) -> str:
    """The commonest gates, each with the number of devices and one device's own words."""
    known = [each for each in refusals if each is not None]
    counts = Counter(each.gate for each in known)
    words = {each.gate: each.why for each in reversed(known)}
    return "; ".join(f"{gate} on {count} ({words[gate]})" for gate, count in counts.most_common(GATES_TOLD))


def _quotas(core: Core, asked: Asked) -> tuple[tuple[QuotaPlan, ...], Plan | None]:
    """Each quota beside what comes of it, and the plan that proves what can; `None` without the solver."""
    configs = [spec.name for spec in asked.configs]
    weights = {spec.name: spec.weight for spec in asked.configs}
    found = []
    for tier in sorted({quota.tier for quota in asked.rules.quotas}):
        aims = share.targets(asked.rules.quotas, configs, tier, weights)
        had = _had(core, tier)
        for quota in (each for each in asked.rules.quotas if each.tier == tier):
            mine = tuple(name for name, aim in aims.items() if aim.pattern == quota.pattern)
            then = math.fsum(had.get(name, 0.0) for name in mine) if had else None
            found.append(
                QuotaPlan(tier=tier, pattern=quota.pattern, configs=mine, target=quota.share, then=then, best=None)
            )
    if not found or not programme.available():
        return tuple(found), None
    plan = programme.solve(_instance(core, asked, found))
    return tuple(_with_best(each, plan, core.index) for each in found), plan


def _empty_tiers(index: Index, quotas: Iterable[QuotaPlan]) -> Iterator[str]:
    for tier in sorted({each.tier for each in quotas}):
        if not _of_tier(index, tier):
            yield f"quotas of tier {tier}: the fleet has no node of that tier"


def _had(core: Core, tier: int) -> Mapping[str, float]:
    """The part of the tier's devices at work for training configs that each of these has; empty where none is."""
    held: Counter[str] = Counter()
    for device in core.state.devices.values():
        if core.index.sites[device.spec.id].tier == tier:
            jobs = (core.state.jobs[name.rpartition(".")[0]] for name in device.attempts)
            held.update({job.spec.serves for job in jobs if job.spec.serves is not None})
    return share.achieved(held)


def _instance(core: Core, asked: Asked, quotas: Sequence[QuotaPlan]) -> Instance:
    """Self-play of every config on every class that it fits on and may be paid, as fast as the ranking table has it."""
    index = core.index
    classes = {cls: float(len(names)) for cls, names in index.members.items() if names}
    speeds = {cls: power.prior(index.samples[cls].device.speed_class) or power.CPU_POWER for cls in classes}
    fastest = max(speeds.values(), default=1.0)
    return Instance(
        classes=classes,
        demands=tuple(
            Demand(
                name=spec.name,
                worth={cls: speeds[cls] / fastest for cls in classes if _plays(core, spec, cls)},
            )
            for spec in asked.configs
        ),
        quotas=tuple(
            QuotaRow(
                name=_name(each),
                groups=frozenset(each.configs),
                classes=frozenset(_of_tier(index, each.tier)),
                share=each.target,
            )
            for each in quotas
            if each.configs and each.target > 0
        ),
    )


def _plays(core: Core, spec: ConfigSpec, cls: str) -> bool:
    return never_on(core.state, core.index, spec.selfplay.stage.resources, WorkKind.SELFPLAY, cls) is None


def _of_tier(index: Index, tier: int) -> list[str]:
    return [cls for cls, names in index.members.items() if names and index.samples[cls].tier == tier]


def _with_best(quota: QuotaPlan, plan: Plan, index: Index) -> QuotaPlan:
    devices = sum(len(index.members[cls]) for cls in _of_tier(index, quota.tier))
    lacking = plan.quota_slack.get(_name(quota))
    if lacking is None or not devices:
        return quota
    return replace(quota, best=max(quota.target - lacking / devices, 0.0))


def _name(quota: QuotaPlan) -> str:
    return f"{quota.pattern} of tier {quota.tier}"


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; `None` where there are none, or one is unknown."""
    known = list(values)
    return None if not known or None in known else math.fsum(each for each in known if each is not None)
