"""Small worlds with training configs in which everything goes wrong: nothing of a loop is lost, nothing counts twice.

`make test` plays the first `QUICK` worlds with every fault at once, `make test-long` the others. `LOOP_SEEDS` is how
many there are (three take a second of work); `make fleetdays` plays 200, a long campaign thousands.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import Any

import pytest

from hostler.model import events
from hostler.model.errors import HostlerError
from hostler.model.inputs import Cancel, Declare, Input, RollBack, SetPriority
from hostler.model.learning import ConfigSpec, Goal, ModelStatus, model_of
from hostler.model.work import JobState, StagePayload, WorkKind
from hostler.sim import Faults, World
from hostler.sim.controller import replayed
from hostler.sim.faults import all_kinds
from hostler.sim.lab import Lab
from hostler.sim.report import Report
from tests.simulation.loops import ANCHORS, LoopPlan, config, loop_world
from tests.simulation.test_faults import check_nothing_is_left
from tests.simulation.worlds import _name_of, _node, in_blocks

SEEDS = int(os.environ.get("LOOP_SEEDS", "30"))
QUICK = 2
BLOCKS = 10
MAX_VIRTUAL_S = 40_000.0


def run(seed: int) -> tuple[World, LoopPlan, Lab, Report]:
    """One world with every fault, to its end; in every third a stage now and then fails, or lies."""
    faults = replace(all_kinds(scale=1.5, until_s=160.0), process_killed_every_s=25.0)
    broken = {"fails": 0.1, "lies": 0.1} if seed % 3 == 0 else {}
    world, plan, lab = loop_world(seed, faults, **broken)
    return world, plan, lab, world.run(MAX_VIRTUAL_S)


@pytest.mark.parametrize("seeds", in_blocks(QUICK, SEEDS, -(-SEEDS // BLOCKS)))
def test_nothing_of_a_loop_is_lost_or_doubled(seeds: range) -> None:
    for seed in seeds:
        try:
            world, plan, lab, report = run(seed)
            check(world, plan, lab, report)
            check_nothing_is_left(world)
        except Exception as error:
            error.add_note(f"world of seed {seed}; again: tests.simulation.test_loops.run({seed})")
            raise


def check(world: World, plan: LoopPlan, lab: Lab, report: Report) -> None:
    """Everything that must hold of a world that has ended."""
    core = world.controller.core
    assert core is not None
    core.validate()
    assert report.idle, {job.spec.name: job.state for job in core.state.jobs.values() if not job.state.final}
    by_name = {job.spec.name: job for job in core.state.jobs.values() if not isinstance(job.spec.payload, StagePayload)}
    for spec in (*plan.scripts, *plan.sweeps):
        assert by_name[spec.name].state is JobState.DONE, by_name[spec.name].why
        assert report.accepted[by_name[spec.name].id] == 1
    for name, hits in plan.planted.items():
        assert report.coverage[by_name[name].id] is None
        assert report.hits[by_name[name].id] == hits
    journal = world.journal()
    for spec in plan.configs:
        check_config(world, lab, spec, journal)
    assert replayed(world.controller.journal).state == core.state


def check_config(world: World, lab: Lab, spec: ConfigSpec, journal: list[events.Event]) -> None:
    core = world.controller.core
    assert core is not None
    config = core.state.configs[spec.name]
    told = [event for event in journal if getattr(event, "config", None) == spec.name]
    check_told_once(told)
    orders = {event.job: event.spec.payload for event in journal if isinstance(event, events.JobSubmitted)}
    check_reports(core.state.jobs.values(), orders, told, spec.name, lab)
    for event in told:
        if isinstance(event, events.ModelPromoted) and event.over is not None:
            assert event.groups >= spec.promotion.min_groups
            assert event.llr is not None
            assert event.llr >= 2.9
    assert config.current is not None
    assert spec.goal is not None
    assert config.promotions >= 1 or config.candidates >= spec.goal.candidates
    current = config.models[config.current]
    assert current.status is ModelStatus.PROMOTED
    trained = [job for job in core.state.jobs.values() if job.spec.work is WorkKind.TRAINING]
    assert len(config.models) <= len(trained)


def check_told_once(told: list[Any]) -> None:
    """Every file is known once, and every job told of its own once."""
    segments = Counter(
        each.sha256 for event in told if isinstance(event, events.SegmentsMade) for each in event.segments
    )
    models = Counter(event.training.model.sha256 for event in told if isinstance(event, events.ModelMade))
    datasets = Counter(event.dataset.sha256 for event in told if isinstance(event, events.DatasetMade))
    played = Counter(event.job for event in told if isinstance(event, events.MatchesPlayed))
    decided = Counter(event.model for event in told if isinstance(event, events.ModelPromoted | events.ModelRejected))
    for counts in (segments, models, datasets, played, decided):
        assert not counts or max(counts.values()) == 1


def check_reports(jobs: Any, orders: dict[str, Any], told: list[Any], name: str, lab: Lab) -> None:
    """Of every job that is done, exactly what the lab had to report of its order is known; of others, no more."""
    known: dict[str, set[str]] = {}
    for event in told:
        match event:
            case events.SegmentsMade(job=job):
                known.setdefault(job, set()).update(each.sha256 for each in event.segments)
            case events.ModelMade(job=job):
                known.setdefault(job, set()).add(event.training.model.sha256)
            case events.DatasetMade(job=job):
                known.setdefault(job, set()).add(event.dataset.sha256)
            case events.MatchesPlayed(job=job):
                known.setdefault(job, set()).add(str([match.groups for match in event.matches]))
    for job in jobs:
        payload = orders[job.id]  # as it was ordered: the state keeps less of a job that is over
        if isinstance(payload, StagePayload) and payload.config == name:
            made = files(payload.kind, lab.report(payload.order)[1])
            found = known.get(job.id, set())
            assert not (job.state is JobState.DONE and lab.is_broken(payload.order)), f"{job.id} broke its contract"
            assert found == made if job.state is JobState.DONE else found <= made, (job.id, job.state)
            if job.spec.work is not WorkKind.SELFPLAY:
                assert bool(found) == (job.state is JobState.DONE)


def files(stage: str, result: dict[str, Any]) -> set[str]:
    """What a report says was made."""
    match stage:
        case "selfplay":
            return {each["sha256"] for each in result.get("segments", ())}
        case "training":
            return {result["model"]["sha256"]} if "model" in result else set()
        case "export":
            return {result["dataset"]["sha256"]} if result.get("dataset") else set()
    groups = [tuple(tuple(map(tuple, group)) for group in match["groups"]) for match in result.get("matches", ())]
    return {str(groups)}


def quiet(number: int, promotions: int, **fields: Any) -> tuple[World, Lab]:
    """A config on two devices without faults, to so many promotions."""
    lab = Lab(ANCHORS)
    world = World(number, (_node("n", 2),), {"n/cpu0": 1.0, "n/cpu1": 1.0}, Faults(), validate=False, lab=lab)
    world.declare(config(goal=Goal(promotions=promotions, candidates=60, failures=100), **fields))
    assert world.run(10 * MAX_VIRTUAL_S).idle
    return world, lab


@pytest.mark.long
def test_what_is_promoted_is_stronger_and_ratings_tell_how_strong() -> None:
    gains, covered, asked = [], 0, 0
    for seed in range(9):
        world, lab = quiet(seed, promotions=3, players=2 + seed % 3, seed=seed)
        assert world.controller.core is not None
        known = world.controller.core.state.configs["tiny_2p"]
        assert known.promotions == 3
        line = [lab.strength[switch.model] for switch in known.switches]
        gains += [after - before for before, after in pairwise(line)]
        for player, rating in known.ratings.items():
            model = model_of(player)
            if model is not None and rating is not None:
                asked += 1
                covered += rating.low <= lab.strength[model] <= rating.high
    assert fmean(gains) > 40.0
    assert min(gains) > -40.0, "elo1 is 80: a promotion of a much weaker one would be a defect, not chance"
    assert covered / asked >= 0.85, f"{covered} of {asked} intervals hold the true strength"


def test_after_the_goal_everything_is_idle() -> None:
    world, _ = quiet(1, promotions=1)
    before = len(world.controller.journal)
    world.agenda.later(50_000.0, lambda: None)
    world.rest(50_000.0)
    assert len(world.controller.journal) == before


@pytest.mark.parametrize(
    "change",
    [
        {"link_cut_every_s": 15.0},
        {"agent_lost_every_s": 40.0},
        {"agent_restart_every_s": 15.0},
        {"reboot_every_s": 30.0},
        {"process_killed_every_s": 10.0},
        {"controller_crash_every_s": 30.0},
        {"crash_at_commit": 0.05},
        {"clock_jump_every_s": 20.0},
        {"told_again": 1.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [12, *(pytest.param(seed, marks=pytest.mark.long) for seed in (0, 1))])
def test_each_fault_is_survived_alone(change: dict[str, float], seed: int) -> None:
    world, plan, lab = loop_world(seed, replace(Faults(until_s=240.0), **change))  # type: ignore[arg-type]
    check(world, plan, lab, world.run(MAX_VIRTUAL_S))


@pytest.mark.parametrize("seeds", [range(7, 9), pytest.param(range(4), marks=pytest.mark.long)], ids=_name_of)
def test_killed_selfplay_leaves_what_it_had_closed(seeds: range) -> None:
    left = 0
    for seed in seeds:
        world, plan, lab = loop_world(seed, Faults(until_s=240.0, process_killed_every_s=10.0))
        report = world.run(MAX_VIRTUAL_S)
        check(world, plan, lab, report)
        assert report.faults["process killed"] > 0
        told = Counter(event.job for event in world.journal() if isinstance(event, events.SegmentsMade))
        left += sum(count > 1 for count in told.values())
    assert left > 0, "no job told of its segments in two parts"


@pytest.mark.long
def test_owners_of_loops_change_their_minds() -> None:
    """Rolled back, cancelled, ranked and declared anew amid faults: it ends all the same, and nothing counts twice."""
    rolled_back = 0
    for seed in range(8):
        world, plan, _ = loop_world(seed, replace(all_kinds(scale=3.0, until_s=240.0), process_killed_every_s=60.0))
        random = Random(seed)
        for _ in range(30):
            world.tell(random.uniform(1.0, 500.0), wish(random, plan))
        world.run(MAX_VIRTUAL_S)
        world.live(500.0)  # it may have been idle before the last wish
        while not world.idle():
            assert world.agenda.now < MAX_VIRTUAL_S
            world.live(world.agenda.now + 60.0)
        journal = world.journal()
        for spec in plan.configs:
            told = [event for event in journal if getattr(event, "config", None) == spec.name]
            check_told_once(told)
            rolled_back += sum(isinstance(event, events.ModelRolledBack) for event in told)
        assert world.controller.core is not None
        assert replayed(world.controller.journal).state == world.controller.core.state
        check_nothing_is_left(world)
    assert rolled_back > 0


def wish(random: Random, plan: LoopPlan) -> Input:
    """Something an owner may want."""
    spec = random.choice(plan.configs)
    changed = replace(spec, selfplay=replace(spec.selfplay, games=random.choice([16, 48, 64])))
    job = f"j{random.randint(1, 40)}"
    wishes: list[Input] = [
        RollBack(config=spec.name),
        RollBack(config=spec.name),
        Cancel(job=job),
        SetPriority(job=job, priority=random.randint(-2, 2)),
        Declare(configs=tuple(changed if each is spec else each for each in plan.configs)),
        Declare(configs=plan.configs),
    ]
    return random.choice(wishes)


@pytest.mark.long
def test_a_core_that_believes_any_report_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worlds are worth something: with the contracts left out, lies become facts."""
    monkeypatch.setattr("hostler.core.loop.results.fault", lambda *_: None)
    broken = 0
    for seed in range(0, 9, 3):
        try:
            check(*run(seed))
        except (AssertionError, HostlerError):
            broken += 1
    assert broken > 0
