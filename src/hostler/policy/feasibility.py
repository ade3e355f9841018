"""Can this training work at all? Every contradiction of a plan, with its arithmetic and what to change.

Only what is certain is told: conditions that every way to place pods has to meet. So more machines never make more of
what is `IMPOSSIBLE`. The order of findings is fixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from math import floor, inf

from hostler.model.record import record
from hostler.model.rl import Advice, Hosts, Pods, RlPlan, Share
from hostler.policy.sampling import (
    Estimate,
    calls_per_s,
    count,
    env_rate,
    estimate,
    node_gb,
    node_runners,
    number,
    places,
    rooms,
    runner_gb,
    span,
)

NEAR = 0.02
"""What people round away, as a part of the number, or of the whole where it is a share."""
ROUNDING = 1e-9
IDLE_TIMES, IDLE_GB = 3.0, 4.0
"""Memory is called idle where a pod asks for so many times what it needs, and for so much more."""
GAME_FRAMES_PER_S = 59.73
"""https://gbdev.io/pandocs/Specifications.html"""
ACTIONS_NEAR = 0.05
GROUPS_MAX = 8
"""Sets of so many groups of pods are all looked at; of more, each alone and all together."""
RESOURCES: Mapping[str, str] = {"cpus": "CPUs", "memory_gb": "GB", "gpus": "GPUs"}
WHOLE: Mapping[str, str] = {"cpus": "CPUs", "memory_gb": "memory"}


class Level(StrEnum):
    """How bad a finding is."""

    IMPOSSIBLE = "impossible"
    """It cannot run so, or not learn."""
    FALSE = "false"
    """Something is said of the plan that does not follow from it."""
    DOUBTFUL = "doubtful"
    """It runs, and hardly as it was meant."""


@record
class Contradiction:
    """Something in a plan that cannot be."""

    code: str
    level: Level
    words: str
    """With the numbers that do not go together."""
    fix: str


@record
class Row:
    """A line of the table: what is asked for, and what there is."""

    what: str
    asked: str
    there: str
    how: str
    """The arithmetic."""


@record
class Feasibility:
    """What a plan comes to."""

    rows: tuple[Row, ...]
    estimate: Estimate
    findings: tuple[Contradiction, ...]

    @property
    def wrong(self) -> bool:
        """Whether something cannot be; what is doubtful alone can."""
        return any(each.level is not Level.DOUBTFUL for each in self.findings)


def examine(plan: RlPlan) -> Feasibility:
    """All there is to say of a plan."""
    expected = estimate(plan)
    findings = (
        *_of_start(plan),
        *_of_hosts(plan),
        *_of_pods(plan),
        *_of_runners(plan),
        *_of_memory(plan),
        *_of_episodes(plan),
        *_of_updates(plan),
        *_of_advice(plan, expected),
        *_of_claims(plan),
        *_of_speed(plan, expected),
    )
    return Feasibility(rows=tuple(_rows(plan, expected)), estimate=expected, findings=findings)


def _impossible(code: str, words: str, fix: str) -> Contradiction:
    return Contradiction(code=code, level=Level.IMPOSSIBLE, words=words, fix=fix)


def _false(code: str, words: str, fix: str) -> Contradiction:
    return Contradiction(code=code, level=Level.FALSE, words=words, fix=fix)


def _doubtful(code: str, words: str, fix: str) -> Contradiction:
    return Contradiction(code=code, level=Level.DOUBTFUL, words=words, fix=fix)


def _of_start(plan: RlPlan) -> Iterator[Contradiction]:
    """How it comes to the cluster."""
    if plan.cluster == "ray" and plan.address is None and plan.joins is None:
        words = (
            f"no address of the Ray cluster is given: `ray.init()` without one begins a Ray of its own on the machine "
            f"where it is called, and the {number(_total(plan.hosts, 'cpus'))} CPUs of the cluster stay idle"
        )
        yield _impossible("address", words, "name it in `rl.cluster.address`, or have KubeRay make one for the job")
    for words in plan.address_faults:
        fix = "two clusters would be planned for and used; leave it out in `rl.cluster`, and that of the nodes is meant"
        yield _impossible("address", words, fix)
    if plan.manifest_fault is not None:
        words = f"{plan.manifest} cannot be applied: {plan.manifest_fault}"
        yield _impossible("manifest", words, "mend it there, or have `hostler kuberay render` write it")
    for words in plan.differs:
        yield _false("order", words, "say it in one place: in the order, which is what runs")
    for words in plan.may_differ:
        yield _doubtful("order-unclear", words, "say it in one place: in the order, which is what runs")


def _of_hosts(plan: RlPlan) -> Iterator[Contradiction]:
    for hosts in plan.hosts:
        for resource, unit in RESOURCES.items():
            has, kept, serves = (getattr(each, resource) for each in (hosts.has, hosts.reserved, hosts.serving))
            if kept + serves > has + ROUNDING:
                words = (
                    f"of each {hosts.name} {number(kept)} {unit} are reserved and {number(serves)} serve the language "
                    f"model: {number(kept + serves)}, and it has {number(has)}"
                )
                yield _impossible(f"reserved-{resource.removesuffix('_gb')}", words, "reserve less, or serve elsewhere")


def _of_pods(plan: RlPlan) -> Iterator[Contradiction]:
    """Sets of pods that hosts have no room for, however they are placed; a set with such a part is not told of."""
    groups = [*plan.pods, *([] if plan.head is None else [plan.head])]
    told: list[frozenset[str]] = []
    for chosen in _sets(groups):
        names = frozenset(each.name for each in chosen)
        if any(part <= names for part in told):
            continue
        lack = _lack(plan, chosen)
        if lack is not None:
            told.append(names)
            fix = "ask for fewer pods, for less in each, or for more hosts"
            yield _impossible("pods", f"{_pods_told(chosen)}: {lack}; some would stay Pending without an error", fix)


def _sets(groups: Sequence[Pods]) -> Iterator[tuple[Pods, ...]]:
    """All sets of groups, small ones first."""
    sizes = range(1, len(groups) + 1) if len(groups) <= GROUPS_MAX else sorted({1, len(groups)})
    for size in sizes:
        yield from combinations(groups, size)


def _lack(plan: RlPlan, groups: Sequence[Pods]) -> str | None:
    """Why these pods cannot all be placed; `None`: nothing is known that speaks against it."""
    hosts = [each for each in plan.hosts if any(not pods.on or each.name in pods.on for pods in groups)]
    least = _least([each.takes for each in groups])
    asked, limit = sum(each.count for each in groups), _per_host(plan, groups)
    held = [min(_fits(each.free, least), limit) for each in hosts]
    room = sum(each.count * fits for each, fits in zip(hosts, held, strict=True))
    if asked > room:
        listed = ", ".join(f"{h.count} × {h.name} {number(fits)} each" for h, fits in zip(hosts, held, strict=True))
        apart = "; no two workers may share one" if plan.apart else ""
        return (
            f"{asked} places of {_told(least)} are asked for, there are {number(room)} ({listed or 'no hosts'}{apart})"
        )
    for resource, unit in RESOURCES.items():
        wanted = sum(each.count * getattr(each.takes, resource) for each in groups)
        there = sum(each.count * getattr(each.free, resource) for each in hosts)
        if wanted > there + ROUNDING:
            return f"{number(wanted)} {unit} are asked for, {number(there)} are free"
    return None


def _per_host(plan: RlPlan, groups: Sequence[Pods]) -> float:
    """Pods of these that one host may have."""
    if not plan.apart:
        return inf
    heads = sum(each is plan.head for each in groups)
    return heads + (1 if len(groups) > heads else 0)


def _least(shapes: Sequence[Share]) -> Share:
    return Share(
        cpus=min(each.cpus for each in shapes),
        memory_gb=min(each.memory_gb for each in shapes),
        gpus=min(each.gpus for each in shapes),
    )


def _fits(free: Share, takes: Share) -> float:
    """How many such pods a host holds, if it has nothing else."""
    asked = ((getattr(free, each), getattr(takes, each)) for each in RESOURCES)
    return min((floor(there / wanted + ROUNDING) for there, wanted in asked if wanted > 0), default=inf)


def _of_runners(plan: RlPlan) -> Iterator[Contradiction]:
    """Whether the nodes of Ray hold the runners and the learner."""
    found = rooms(plan)
    largest = max((each.cpus for each in found if each.nodes), default=0.0)
    if largest + ROUNDING < plan.learner_cpus:
        words = f"the learner asks for {number(plan.learner_cpus)} CPUs at once, the largest node has {number(largest)}"
        yield _impossible("learner", words, "ask for fewer, or for a larger pod")
        return
    nodes = sum(each.nodes for each in found)
    if plan.one_per_node and plan.runners > nodes:
        words = f"no two runners may share a node (STRICT_SPREAD): {plan.runners} runners, {nodes} nodes of Ray"
        yield _impossible("spread", words, "spread them as far as that goes: `strategy: SPREAD`")
        return
    room = places(plan)
    if plan.runners <= room:
        return
    listed = " + ".join(f"{each.nodes} × {number(each.cpus)} ({each.name})" for each in found)
    what = "hosts" if not plan.pods else "pods"
    if plan.runner_cpus == plan.learner_cpus == 1:
        head = f"{plan.runners + 1} CPU bundles are asked for, {room + 1} are there"
        asked = f"{plan.runners} runners and the learner, one CPU each; {what}: {listed}"
    else:
        head = f"{plan.runners} runners are asked for, there is room for {room}"
        each = f"each takes {number(plan.runner_cpus)} CPUs, the learner {number(plan.learner_cpus)}"
        asked = f"{each}; {what}: {listed} CPUs"
    memory = "" if plan.pods else f", {number(runner_gb(plan))} GB a runner"
    words = f"{head}: {asked}{memory}. Ray lets the rest wait for ever, without an error"
    yield _impossible("cpus", words, f"set `rl.runners` (RAY_WORKERS) to {room}, or have more CPUs in the cluster")


def _of_memory(plan: RlPlan) -> Iterator[Contradiction]:
    """Whether pods have the memory that their runners need, and what for they have more."""
    alike: dict[Share, list[str]] = {}
    for pods in plan.pods:
        alike.setdefault(pods.takes, []).append(pods.name)
    for takes, names in alike.items():
        need, has = node_gb(plan, takes), takes.memory_gb
        held, whose = node_runners(plan, takes), " and ".join(names)
        arithmetic = (
            f"{number(plan.rates.ray_gb.high)} GB of Ray and {held} runners × ({number(plan.rates.runner_gb.high)} GB "
            f"+ {plan.envs_per_runner} environments × {number(plan.rates.env_gb.high)} GB) are {number(need)} GB"
        )
        if need > has + ROUNDING:
            words = f"each pod of {whose} has {number(has)} GB: {arithmetic}"
            fix = f"give it {number(need)} GB, or fewer environments"
            yield _impossible("pod-memory", words, fix)
        elif has > IDLE_TIMES * need and has > need + IDLE_GB:
            games = held * plan.envs_per_runner
            words = (
                f"each pod of {whose} asks for {number(has)} GB: {arithmetic}, of which the {games} emulators are "
                f"{number(games * plan.rates.env_gb.high)} GB"
            )
            yield _doubtful("pod-memory-idle", words, f"ask for {number(2 * need)} GB: that is twice what it needs")


def _of_episodes(plan: RlPlan) -> Iterator[Contradiction]:
    asked, own = plan.episode_steps, plan.env_episode_steps
    if asked is not None and own is not None and own < asked:
        words = f"episodes of {asked:,} steps are asked for, the environment ends them after {own:,}"
        yield _false("episode-limit", words, "ask for what it does, or raise its own limit")
    ends = min((each for each in (asked, own) if each is not None), default=None)
    if ends is None or plan.steps is None:
        return
    each_has = plan.steps / plan.environments
    if each_has < ends:
        words = (
            f"no episode may come to its end: {plan.steps:,} steps over {plan.environments:,} environments are "
            f"{number(each_has)} for each, an episode has up to {ends:,}"
        )
        yield _doubtful("episodes", words, "take fewer environments, shorter episodes, or more steps")


def _of_updates(plan: RlPlan) -> Iterator[Contradiction]:
    """Whether fragments are still young enough when they come."""
    if plan.stale_updates is None or not plan.learns_beside or plan.runners == 0:
        return
    under_way = plan.environments * plan.fragment_steps
    updates = under_way / plan.batch_steps
    if updates > plan.stale_updates + 1:
        words = (
            f"{plan.environments:,} environments × {plan.fragment_steps} steps of a fragment are {under_way:,} steps "
            f"under way, {number(updates)} updates of {plan.batch_steps:,}: more than the {plan.stale_updates} after "
            "which a fragment is thrown away"
        )
        yield _impossible("stale", words, "take larger batches, shorter fragments, or fewer environments")


def _of_advice(plan: RlPlan, expected: Estimate) -> Iterator[Contradiction]:
    advice = plan.advice
    if advice is None:
        return
    yield from _of_calls(plan, advice, expected)
    if expected.waits_us > 0:
        step = sum(each.us.high for each in expected.costs[:-1])
        calls, latency = number(advice.calls_per_step or 0), number(advice.latency_s or 0)
        words = (
            f"steps wait for advice: {calls} calls a step × {latency} s are {number(expected.waits_us / 1000)} ms of "
            f"waiting for each step of {number(step / 1000)} ms"
        )
        yield _doubtful("advice-blocks", words, "ask beside the step, within a budget (`rl.advice.calls_per_s`)")


def _of_calls(plan: RlPlan, advice: Advice, expected: Estimate) -> Iterator[Contradiction]:
    """Calls at the pace that is promised, or that a budget allows, against what can be answered."""
    if advice.capacity is None:
        return
    promised = plan.claims.steps_per_s
    sure = advice.calls_per_s if promised is None else calls_per_s(plan, promised)
    if sure is not None and sure > advice.capacity:
        each = "" if advice.calls_per_step is None else f" × {number(advice.calls_per_step)} calls a step"
        pace = "the budget" if promised is None else f"{number(promised)} steps/s{each}"
        words = (
            f"{number(sure)} calls/s of advice are asked for ({pace}), {number(advice.capacity)} can be answered: "
            f"{number(sure / advice.capacity)} times as many"
        )
        yield _impossible("llm", words, f"set `rl.advice.calls_per_s` to at most {number(advice.capacity)}")
        return
    asked = expected.calls_per_s
    if advice.calls_per_s is None and not advice.blocking and asked is not None and asked > advice.capacity:
        words = f"{number(asked)} calls/s of advice would be asked for, {number(advice.capacity)} can be answered"
        yield _doubtful("llm-budget", words, "give it a budget: `rl.advice.calls_per_s`")


def _of_claims(plan: RlPlan) -> Iterator[Contradiction]:
    """What is said of the plan, against what follows from it."""
    said = plan.claims
    if said.environments is not None and said.environments != plan.environments:
        words = (
            f"{said.environments:,} environments are promised; {plan.runners} runners × {plan.envs_per_runner} "
            f"environments are {plan.environments:,}"
        )
        yield _false("environments", words, "RAY_WORKERS counts runners, not pods: say which of the two is meant")
    yield from _of_pod_sums(plan)
    for resource, claim in (("cpus", said.inventory_cpus), ("memory_gb", said.inventory_memory_gb)):
        total, unit = _total(plan.hosts, resource), RESOURCES[resource]
        if claim is not None and _differs(claim, total):
            terms = " + ".join(f"{h.count} × {number(getattr(h.has, resource))}" for h in plan.hosts)
            words = f"the hosts are said to have {number(claim)} {unit}: {terms} = {number(total)}"
            yield _false(f"inventory-{resource.removesuffix('_gb')}", words, "correct the sum, or the hosts")
    for resource, share in (("cpus", said.cpu_share), ("memory_gb", said.memory_share)):
        yield from _of_share(plan, resource, share)
    yield from _of_utilization(plan)
    yield from _of_actions(plan)


def _of_pod_sums(plan: RlPlan) -> Iterator[Contradiction]:
    said = plan.claims
    for resource, claim in (("cpus", said.worker_cpus), ("memory_gb", said.worker_memory_gb)):
        total, unit = _asked(plan.pods, resource), RESOURCES[resource]
        if claim is None or not plan.pods or not _differs(claim, total):
            continue
        terms = " + ".join(f"{p.count} × {number(getattr(p.takes, resource))}" for p in plan.pods)
        words = f"the worker pods are said to have {number(claim)} {unit}: {terms} = {number(total)}"
        head = None if plan.head is None else getattr(plan.head.takes, resource)
        if head is not None and not _differs(claim, total + head):
            words += f"; it is {number(claim)} only with the {number(head)} of the head, which is not counted"
        yield _false(f"workers-{resource.removesuffix('_gb')}", words, "count the head as what it is: one pod more")


def _of_share(plan: RlPlan, resource: str, claim: float | None) -> Iterator[Contradiction]:
    total, asked = _total(plan.hosts, resource), _asked_in_all(plan, resource)
    if claim is None or total <= 0 or abs(claim - asked / total) <= NEAR:
        return
    words = (
        f"{_percent(claim)} of the {WHOLE[resource]} of all hosts is said to be asked for: {number(asked)} of "
        f"{number(total)} {RESOURCES[resource]} are {_percent(asked / total)}"
    )
    yield _false(f"share-{resource.removesuffix('_gb')}", words, "correct the share")


def _of_utilization(plan: RlPlan) -> Iterator[Contradiction]:
    said, total = plan.claims.utilization, _total(plan.hosts, "cpus")
    if said is None or total <= 0:
        return
    asked = _asked_in_all(plan, "cpus")
    share = asked / total
    if said[0] - NEAR <= share <= said[1] + NEAR:
        return
    pinned = "".join(
        f"; {h.count} × {h.name} with {number(h.count * h.has.cpus)} CPUs in all are used for {number(used)}"
        for h in (plan.hosts if plan.pods else ())
        if (used := _asked([p for p in plan.pods if p.on == (h.name,)], "cpus")) < said[0] * h.count * h.has.cpus
    )
    words = (
        f"{_percent(said[0])} to {_percent(said[1])} of the CPUs are to be busy: only {number(asked)} of "
        f"{number(total)} are asked for, {_percent(share)}{pinned}"
    )
    yield _false("utilization", words, "ask for more, or promise less")


def _of_actions(plan: RlPlan) -> Iterator[Contradiction]:
    said, makes = plan.claims.actions_per_s, GAME_FRAMES_PER_S / plan.frame_skip
    if said is not None and abs(said - makes) > ACTIONS_NEAR * makes:
        words = (
            f"{number(said)} decisions in a second of the game are meant: {GAME_FRAMES_PER_S} frames a second by "
            f"{plan.frame_skip} frames a step are {number(makes)}"
        )
        yield _false("actions", words, f"a skip of {max(round(GAME_FRAMES_PER_S / said), 1)} frames makes that")


def _of_speed(plan: RlPlan, expected: Estimate) -> Iterator[Contradiction]:
    said, (low, high) = plan.claims.steps_per_s, expected.steps_per_s
    if said is None or said <= high * (1 + NEAR):
        return
    cpus = sum(each.nodes * each.cpus for each in rooms(plan))
    if cpus <= 0:
        words = f"{number(said)} steps/s are promised, and no CPU is left to make them"
        yield _impossible("steps", words, "leave some to the runners: reserve less, or serve elsewhere")
        return
    slow, fast = env_rate(plan)
    each_frames = said * plan.frame_skip / cpus
    words = (
        f"{number(said)} steps/s are promised: at {plan.frame_skip} frames a step that is {number(each_frames)} "
        f"frames/s on each of {number(cpus)} CPUs. An environment makes {span(slow, fast)} steps per CPU-second, all "
        f"CPUs {span(cpus * slow, cpus * fast)}/s before learner and advice; expected are {span(low, high)}/s, "
        f"held back by {expected.bound_by}"
    )
    yield _impossible("steps", words, "promise what is expected, or change what holds it back")


def _rows(plan: RlPlan, expected: Estimate) -> Iterator[Row]:
    groups, places_there = _groups(plan), places(plan)
    pods = " + ".join(f"{p.count} × {p.name}" for p in groups) or "none: hosts as they are"
    yield Row(what="pods", asked=str(sum(p.count for p in groups)), there="", how=pods)
    yield Row(
        what="runners", asked=str(plan.runners), there=str(places_there), how=f"{count(plan.runner_cpus, 'CPU')} each"
    )
    environments = f"{max(plan.runners, 1)} × {plan.envs_per_runner}"
    yield Row(what="environments", asked=f"{plan.environments:,}", there="", how=environments)
    for resource, unit in RESOURCES.items():
        asked = _asked_in_all(plan, resource)
        free = sum(h.count * getattr(h.free, resource) for h in plan.hosts)
        how = " + ".join(f"{h.count} × {number(getattr(h.free, resource))} {h.name}" for h in plan.hosts)
        yield Row(what=unit, asked=number(asked), there=number(free), how=f"free: {how}")
    if plan.advice is not None:
        calls = expected.calls_per_s
        there = "?" if plan.advice.capacity is None else number(plan.advice.capacity)
        yield Row(what="advice calls/s", asked="?" if calls is None else number(calls), there=there, how="")
    promised = "" if plan.claims.steps_per_s is None else number(plan.claims.steps_per_s)
    how = f"held back by {expected.bound_by}"
    yield Row(what="steps/s", asked=promised, there=span(*expected.steps_per_s), how=how)


def _asked_in_all(plan: RlPlan, resource: str) -> float:
    return _asked(_groups(plan), resource) if plan.pods else _bare(plan, resource)


def _bare(plan: RlPlan, resource: str) -> float:
    """What is asked of hosts that are nodes of Ray themselves."""
    if resource == "cpus":
        return plan.runners * plan.runner_cpus + plan.learner_cpus
    return plan.runners * runner_gb(plan) if resource == "memory_gb" else 0.0


def _groups(plan: RlPlan) -> list[Pods]:
    return [*plan.pods, *([] if plan.head is None else [plan.head])]


def _asked(pods: Sequence[Pods], resource: str) -> float:
    return float(sum(each.count * getattr(each.takes, resource) for each in pods))


def _total(hosts: Sequence[Hosts], resource: str) -> float:
    return float(sum(each.count * getattr(each.has, resource) for each in hosts))


def _differs(said: float, true: float) -> bool:
    return abs(said - true) > NEAR * abs(true)


def _pods_told(groups: Sequence[Pods]) -> str:
    return " and ".join(f"{each.count} × {each.name}" for each in groups)


def _told(share: Share) -> str:
    parts = [f"{number(getattr(share, each))} {unit}" for each, unit in RESOURCES.items() if getattr(share, each)]
    return ", ".join(parts) or "nothing"


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"
