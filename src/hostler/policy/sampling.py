"""How many steps a second can a training make? The arithmetic, from measured costs, with what holds it back."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor, inf, isinf
from typing import Final

from hostler.model.record import record
from hostler.model.rl import Hosts, Measured, RlPlan, Share

SECOND_US: Final = 1e6
RAY_FRAGMENT_US: Final = 3300.0
"""What a fragment of one environment costs beyond its own steps when it comes by an actor of Ray 2.60: 51 us for each
of its 64 steps, measured on 2 shared cores."""
ROUNDING: Final = 1e-9


@record
class Cost:
    """What one step of one environment costs a CPU, in microseconds."""

    what: str
    us: Measured
    arithmetic: str


@record
class Room:
    """Where runners find room, one node of Ray after the other."""

    name: str
    nodes: int
    cpus: float
    """Of each node."""
    memory_gb: float


@record
class Estimate:
    """What a plan comes to, from the slowest that was measured to the fastest."""

    steps_per_s: tuple[float, float]
    bound_by: str
    """What would have to be faster."""
    runners: int
    """Those that find room, and so count."""
    costs: tuple[Cost, ...]
    """Of the runners, and then `learn`."""
    sampled: tuple[float, float]
    """What the runners could make."""
    learned: tuple[float, float]
    """What the learner could take."""
    waits_us: float
    """For advice, for each step, while nothing else happens."""
    calls_per_s: float | None
    """Advice that is asked for; `None`: none is."""
    lines: tuple[str, ...]
    """The arithmetic."""


def estimate(plan: RlPlan) -> Estimate:
    """The steps a second of all environments together that can be expected of a plan, cut to what finds room."""
    costs = (*_costs(plan), _learning(plan))
    step = _sum(costs[:-1])
    runners = min(plan.runners, places(plan))
    workers = min(1.0, plan.runner_cpus) * runners if plan.runners else 1.0
    waits_us = _waits_us(plan)
    sampled = _pace(workers, step, waits_us)
    learned = _learned(plan)
    beside = plan.learns_beside and plan.runners > 0
    both = [_both(one, other, beside=beside) for one, other in zip(sampled, learned, strict=True)]
    most = _advised_most(plan)
    steps = (min(both[0], most), min(both[1], most))
    return Estimate(
        steps_per_s=steps,
        bound_by=_bound_by(sampled[1], learned[1], most, waits_us, step.low),
        runners=runners,
        costs=costs,
        sampled=sampled,
        learned=learned,
        waits_us=waits_us,
        calls_per_s=calls_per_s(plan, steps[1]),
        lines=tuple(_lines(plan, workers, step, waits_us, sampled, learned, beside=beside)),
    )


def rooms(plan: RlPlan) -> tuple[Room, ...]:
    """The nodes of Ray that runners may be on: pods as they are asked for, or hosts as they are."""
    if not plan.pods:
        return tuple(_host_room(each) for each in plan.hosts)
    found = [Room(name=p.name, nodes=p.count, cpus=p.takes.cpus, memory_gb=p.takes.memory_gb) for p in plan.pods]
    if plan.head is not None and plan.head_works:
        found.append(Room(name="head", nodes=1, cpus=plan.head.takes.cpus, memory_gb=plan.head.takes.memory_gb))
    return tuple(found)


def places(plan: RlPlan) -> int:
    """How many runners find room beside the learner. What hosts lack for pods is another question."""
    found = rooms(plan)
    whole = sum(each.nodes * _places_in(plan, each, each.cpus) for each in found)
    learner = plan.learner_cpus
    losses = [
        _places_in(plan, each, each.cpus) - _places_in(plan, each, each.cpus - learner)
        for each in found
        if each.nodes and each.cpus + ROUNDING >= learner
    ]
    return max(whole - min(losses), 0) if losses else 0


def runner_gb(plan: RlPlan) -> float:
    """Memory of a runner with its environments."""
    return plan.rates.runner_gb.high + plan.envs_per_runner * plan.rates.env_gb.high


def node_runners(plan: RlPlan, node: Share) -> int:
    """Runners that the CPUs of a node of Ray let in, of those there are."""
    return min(max(plan.runners, 1), floor(node.cpus / plan.runner_cpus + ROUNDING))


def node_gb(plan: RlPlan, node: Share) -> float:
    """Memory that a node of Ray needs for the runners that its CPUs let in."""
    return plan.rates.ray_gb.high + node_runners(plan, node) * runner_gb(plan)


def env_rate(plan: RlPlan) -> tuple[float, float]:
    """Steps of an environment alone in a second of a CPU."""
    step = _sum(tuple(_environment(plan)))
    return SECOND_US / step.high, SECOND_US / step.low


def calls_per_s(plan: RlPlan, steps_per_s: float) -> float | None:
    """Advice that is asked for at such a pace; `None`: none is."""
    advice = plan.advice
    if advice is None:
        return None
    by_step = inf if advice.calls_per_step is None else advice.calls_per_step * steps_per_s
    asked = min(by_step, inf if advice.calls_per_s is None else advice.calls_per_s)
    return None if asked == inf else asked


def span(low: float, high: float) -> str:
    """One number where both are told alike, else both."""
    one, other = number(low), number(high)
    return one if one == other else f"{one} to {other}"


def number(value: float) -> str:
    """As people write it: three digits, or whole, by thousands."""
    if isinf(value):
        return "∞"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def count(value: float, what: str) -> str:
    """So many of them."""
    return f"{number(value)} {what}" + ("" if value == 1 else "s")


def _host_room(hosts: Hosts) -> Room:
    return Room(name=hosts.name, nodes=hosts.count, cpus=hosts.free.cpus, memory_gb=hosts.free.memory_gb)


def _places_in(plan: RlPlan, room: Room, cpus: float) -> int:
    """Of a host as it is, its memory counts as well: Ray looks at CPUs alone, and fills it until it has none left."""
    by_cpus = max(floor(cpus / plan.runner_cpus + ROUNDING), 0)
    if plan.one_per_node:
        by_cpus = min(by_cpus, 1)
    if plan.pods:
        return by_cpus
    by_memory = (room.memory_gb - plan.rates.ray_gb.high) / runner_gb(plan)
    return floor(max(min(by_cpus, by_memory + ROUNDING), 0))


def _costs(plan: RlPlan) -> Iterator[Cost]:
    rates = plan.rates
    yield from _environment(plan)
    yield Cost(what="policy", us=rates.policy_us, arithmetic="")
    yield _transport(plan)


def _environment(plan: RlPlan) -> Iterator[Cost]:
    rates = plan.rates
    if rates.env_step_us is not None:
        yield Cost(what="environment", us=rates.env_step_us, arithmetic="a whole step, as it was measured")
        return
    frames = rates.frames_with_sound if plan.sound else rates.frames_per_cpu_s
    low, high = plan.frame_skip / frames.high * SECOND_US, plan.frame_skip / frames.low * SECOND_US
    words = f"{plan.frame_skip} frames at {span(frames.low, frames.high)} a second"
    yield Cost(what="emulate", us=Measured(low=low, high=high, source=frames.source), arithmetic=words)
    if plan.drawn_frames:
        drawn = plan.drawn_frames
        us = Measured(low=drawn * rates.draw_us.low, high=drawn * rates.draw_us.high, source=rates.draw_us.source)
        yield Cost(what="draw", us=us, arithmetic=f"{drawn} frames at {span(rates.draw_us.low, rates.draw_us.high)} us")
    yield Cost(what="encode", us=rates.encode_us, arithmetic="")


def _transport(plan: RlPlan) -> Cost:
    """Within a machine as it was measured; between machines a fragment's toll is shared by its steps."""
    us = plan.rates.transport_us
    if plan.cluster == "here":
        return Cost(what="transport", us=us, arithmetic="")
    toll = RAY_FRAGMENT_US / plan.fragment_steps
    more = Measured(low=us.low + toll, high=us.high + toll, source=f"{us.source}; fragments by Ray 2.60")
    return Cost(what="transport", us=more, arithmetic=f"and Ray's toll over {plan.fragment_steps} steps of a fragment")


def _learning(plan: RlPlan) -> Cost:
    return Cost(what="learn", us=plan.rates.learn_us, arithmetic="")


def _sum(costs: tuple[Cost, ...]) -> Measured:
    return Measured(low=sum(c.us.low for c in costs), high=sum(c.us.high for c in costs), source="")


def _waits_us(plan: RlPlan) -> float:
    advice = plan.advice
    if advice is None or not advice.blocking or advice.latency_s is None:
        return 0.0
    return (advice.calls_per_step or 0.0) * advice.latency_s * SECOND_US


def _advised_most(plan: RlPlan) -> float:
    """Steps that a model that is waited for lets through."""
    advice = plan.advice
    if advice is None or not advice.blocking or advice.capacity is None or not advice.calls_per_step:
        return inf
    return advice.capacity / advice.calls_per_step


def _pace(cpus: float, step: Measured, waits_us: float) -> tuple[float, float]:
    return _per_s(cpus, step.high + waits_us), _per_s(cpus, step.low + waits_us)


def _learned(plan: RlPlan) -> tuple[float, float]:
    """How far threads scale was not measured: the slowest is one of them alone, the fastest all of them at best."""
    learn = plan.rates.learn_us
    return _per_s(min(plan.learner_cpus, 1.0), learn.high), _per_s(plan.learner_cpus, learn.low)


def _per_s(cpus: float, us: float) -> float:
    return cpus * SECOND_US / us if us > 0 else inf


def _both(sampled: float, learned: float, *, beside: bool) -> float:
    """Side by side the slower one counts, one after the other their times add up."""
    if beside:
        return min(sampled, learned)
    if sampled <= 0 or learned <= 0:
        return 0.0
    return 1 / (1 / sampled + 1 / learned)


def _bound_by(sampled: float, learned: float, most: float, waits_us: float, step_us: float) -> str:
    if most < min(sampled, learned):
        return "advice that is waited for"
    if learned < sampled:
        return "the learner"
    return "waiting for advice" if waits_us > step_us else "the runners"


def _lines(
    plan: RlPlan,
    workers: float,
    step: Measured,
    waits_us: float,
    sampled: tuple[float, float],
    learned: tuple[float, float],
    *,
    beside: bool,
) -> Iterator[str]:
    waiting = f" and {number(waits_us)} us of waiting for advice" if waits_us else ""
    who = f"{count(workers, 'CPU')} of runners" if plan.runners else "the learner itself"
    yield f"sampling: {who} at {span(step.low, step.high)} us{waiting} a step: {span(*sampled)} steps/s"
    cpus, learn = plan.learner_cpus, plan.rates.learn_us
    scaling = ": one alone, or all at their best" if cpus > 1 else ""
    pace = f"{span(learn.low, learn.high)} us a step: {span(*learned)} steps/s"
    yield f"learning: {count(cpus, 'CPU')} at {pace}{scaling}"
    yield "both at the same time: the slower one counts" if beside else "one after the other: their times add up"
    most = _advised_most(plan)
    if most < inf:
        yield f"advice that is waited for lets {number(most)} steps/s through"
