"""Days of small rented fleets in which everything goes wrong: the invariants hold after every step, and all gets done.

`make test` plays one fleet, `make test-long` all of them. `FLEET_DAYS` is how many fleet-days there are;
a long campaign sets it to a thousand and more.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import pytest

from hostler.model import events
from hostler.model.rules import Rules
from hostler.model.simulated import Measures
from hostler.model.work import JobSpec, JobState, Resources, WorkKind
from hostler.policy import fit
from hostler.sim import Script, script_job
from hostler.sim.controller import replayed
from hostler.sim.fleet import Scenario, added, build, measured, prior
from hostler.sim.nature import REFERENCE_POWER, game_seconds
from hostler.sim.world import World
from tests.simulation.fleets import DAYS, GPU, QUIET_S, fleet
from tests.simulation.worlds import in_blocks

FLEET_DAYS = float(os.environ.get("FLEET_DAYS", "20"))
BLOCKS = 10
QUICK = range(1, 2)
"""A fleet with work for several devices at once; half of all have it."""
FLEETS = max(round(FLEET_DAYS / DAYS), 1)
LONGEST_S = (DAYS + 3.0) * 86_400
STARVED_S = 4 * 3600.0


@pytest.mark.parametrize("seeds", [pytest.param(QUICK, id="1"), *in_blocks(0, FLEETS, -(-FLEETS // BLOCKS))])
def test_days_of_a_fleet(seeds: range) -> None:
    """The error names the fleet in which something was wrong."""
    for seed in seeds:
        try:
            check(*run(seed))
        except Exception as error:
            error.add_note(f"fleet of seed {seed}; again: tests.simulation.test_fleets.check(*run({seed}))")
            raise


def run(seed: int) -> tuple[Scenario, World, Measures]:
    """One fleet, played until everything is done that was asked for."""
    scenario = fleet(seed)
    world = build(scenario)
    world.live(scenario.span_s)
    found = measured(scenario, world)
    until_s = scenario.span_s
    while unfinished(world) and until_s < LONGEST_S:
        until_s += 3600.0
        world.live(until_s)
    return scenario, world, found


def unfinished(world: World) -> list[str]:
    """Jobs that somebody asked for and that are not over; all of them while the controller is away."""
    core = world.controller.core
    if core is None:
        return ["the controller is away"]
    return [job.spec.name for job in core.state.jobs.values() if job.wanted is None and not job.state.final]


def check(scenario: Scenario, world: World, found: Measures) -> None:
    """Everything that must hold of a fleet that was played."""
    core = world.controller.core
    assert core is not None
    core.validate()
    assert not unfinished(world)
    asked = [job for job in core.state.jobs.values() if job.wanted is None]
    assert len(asked) == len(scenario.jobs)
    assert all(job.state is JobState.DONE for job in asked), Counter((job.state, job.why) for job in asked)
    check_nothing_counts_twice(world)
    check_nobody_starved(scenario, found, longest_outage_s(world))
    assert replayed(world.controller.journal).state == core.state


def longest_outage_s(world: World) -> float:
    """The longest that a node was out of reach and came back."""
    since: dict[str, float] = {}
    longest_s = 0.0
    for entry in world.controller.journal:
        match entry.event:
            case events.NodeUnreachable(node=node):
                since.setdefault(node, entry.at)
            case events.NodeLinked(node=node):
                longest_s = max(longest_s, entry.at - since.pop(node, entry.at))
    return longest_s


def check_nothing_counts_twice(world: World) -> None:
    """Every job is done once, every segment told once, and what is done has one accepted attempt."""
    done: Counter[str] = Counter()
    segments: Counter[str] = Counter()
    told: dict[str, str] = {}
    for event in world.journal():
        if isinstance(event, events.JobDone):
            done[event.job] += 1
        elif isinstance(event, events.SegmentsMade):
            segments.update(each.sha256 for each in event.segments)
            told |= {each.sha256: event.job for each in event.segments}
    assert set(done.values()) <= {1}
    assert set(segments.values()) <= {1}
    core = world.controller.core
    assert core is not None
    known = {name for config in core.state.configs.values() for name in config.segments}
    assert known <= segments.keys(), "segments are known that nobody told"
    gone = [name for name, job in told.items() if job in core.state.jobs and name not in known]
    assert not gone, "segments have left before their jobs"


def check_nobody_starved(scenario: Scenario, found: Measures, outage_s: float) -> None:
    """No config is without work for longer than starvation allows, plus the longest that anything held the fleet.

    A node that is out of reach is held by that as much as by work, and what needs several devices may fit nowhere else.
    """
    longest_s = max((span.end - span.begin for span in found.spans), default=0.0)
    longest_s = max(longest_s, outage_s)
    for config in found.configs:
        assert config.longest_without_s <= STARVED_S + longest_s, config
    assert found.span_s == scenario.span_s > QUIET_S


def stubborn(*jobs: tuple[float, JobSpec]) -> Scenario:
    """Two equal devices of one node, which self-play of two hours keeps busy from different times on."""
    scenario = fleet(0, days=1.5)
    config = replace(scenario.configs[0], selfplay=replace(scenario.configs[0].selfplay, games=games_of(2 * 3600.0)))
    devices = (added("n", "RTX 3090", 2, 24.0, "own", 1.0),)
    first = script_job("first", Script(seconds=3600.0), key="first", resources=GPU, priority=5)
    return replace(
        scenario,
        nodes=devices,
        configs=(config,),
        rules=Rules(),
        jobs=((0.0, first), *jobs),
        faults=None,
        lives=None,
        validate=False,
        telemetry_every_s=None,
    )


def games_of(seconds: float) -> int:
    """Games of the first fleet's first config that last so long on an RTX 3090."""
    name = fleet(0).configs[0].name
    return round(
        seconds
        * prior((added("n", "RTX 3090", 1, 24.0, "own", 1.0),))["n/cuda0"]
        / REFERENCE_POWER
        / game_seconds(name)
    )


@pytest.mark.long
def test_the_fleets_do_have_work_for_several_devices() -> None:
    """What is said of them in docs/reliability.md: of half of them, scripts and self-play, and it runs on several."""
    asked = {seed: several(fleet(seed)) for seed in range(40)}
    assert sum(bool(kinds) for kinds in asked.values()) == 20
    assert all(WorkKind.SELFPLAY in kinds for kinds in asked.values() if kinds)
    assert sum(WorkKind.SCRIPT in kinds for kinds in asked.values()) > 15
    _, world, _ = run(5)
    core = world.controller.core
    assert core is not None
    leases = [event for event in world.journal() if isinstance(event, events.AttemptLeased) and event.others]
    assert {core.state.jobs[event.job].spec.work for event in leases} == {WorkKind.SELFPLAY, WorkKind.SCRIPT}


def several(scenario: Scenario) -> set[WorkKind]:
    """Kinds of work that need more than one device at once on some node of the fleet that they fit."""
    home = scenario.nodes[0]
    at_home = fit.site(home, home.devices[0])
    needs = [(job.work, job.resources) for _, job in scenario.jobs]
    needs += [(WorkKind.SELFPLAY, config.selfplay.stage.resources) for config in scenario.configs]
    return {work for work, need in needs if fit.devices_needed(need, at_home) > 1}


def test_work_for_two_devices_is_not_starved_by_work_for_one() -> None:
    need = Resources(device="gpu", gpus=2)
    spec = script_job("both", Script(seconds=600.0), key="both", resources=need, priority=1)
    world = build(stubborn((1800.0, spec)))
    world.live(86_400.0)
    assert unfinished(world) == []
