"""Small worlds whose owners change their minds amid faults: what is cancelled ends, what is done counts."""

from __future__ import annotations

from random import Random

import pytest

from hostler.model.inputs import Cancel, Input, Retry, SetPriority
from hostler.model.work import JobState
from hostler.sim.controller import replayed
from hostler.sim.faults import all_kinds
from hostler.sim.report import Report
from hostler.sim.world import World
from tests.simulation.test_faults import MAX_VIRTUAL_S, check_nothing_is_left
from tests.simulation.worlds import Plan, in_blocks, small_world

SEEDS = 100
QUICK = 3
BLOCK = 30


@pytest.mark.parametrize("seeds", in_blocks(QUICK, SEEDS, BLOCK))
def test_owners_change_their_minds(seeds: range) -> None:
    for seed in seeds:
        try:
            check(*run(seed))
        except Exception as error:
            error.add_note(f"world of seed {seed}; again: tests.simulation.test_owners.run({seed})")
            raise


def run(seed: int) -> tuple[World, Plan, Report]:
    """One world with a restless owner, to its end."""
    world, plan = small_world(seed, all_kinds(until_s=90.0))
    random = Random(seed)
    keys = [spec.name for spec in (*plan.scripts, *plan.sweeps)]
    for _ in range(40):
        world.tell(random.uniform(1.0, 90.0), _wish(random, random.choice(keys)))
    return world, plan, world.run(MAX_VIRTUAL_S)


def check(world: World, plan: Plan, report: Report) -> None:
    """Everything is over; what is done was accepted once and is whole, and nothing else was accepted."""
    core = world.controller.core
    assert core is not None
    assert report.idle, {job.spec.name: job.state for job in core.state.jobs.values() if not job.state.final}
    for job in core.state.jobs.values():
        done = job.state is JobState.DONE
        assert report.accepted.get(job.id, 0) == int(done), job.spec.name
        if done and job.id in core.state.sweeps:
            assert report.coverage[job.id] is None
            assert report.hits[job.id] == plan.planted[job.spec.name]
    assert replayed(world.controller.journal).state == core.state
    check_nothing_is_left(world)


def _wish(random: Random, key: str) -> Input:
    wishes: list[Input] = [Cancel(job=key), Retry(job=key), Retry(job=key)]
    return random.choice([*wishes, SetPriority(job=key, priority=random.randint(-2, 2))])
