"""The same small worlds, where jobs leave the controller's memory as soon as they may."""

from __future__ import annotations

import os

import pytest

from hostler.core.past import beside
from hostler.model.events import JobCameBack, JobsLeft
from hostler.model.inputs import Configure
from hostler.model.rules import PastRules, Rules
from hostler.model.work import JobState
from hostler.sim.controller import replayed
from hostler.sim.faults import all_kinds
from hostler.sim.report import Report
from hostler.sim.world import World
from tests.simulation.test_faults import MAX_VIRTUAL_S, play
from tests.simulation.worlds import Plan, in_blocks, small_world

SEEDS = int(os.environ.get("FAULT_SEEDS", "40"))
QUICK = 3
BLOCK = 20
AT_ONCE = Rules(past=PastRules(keep_finished=0, keep_finished_s=0.0))


@pytest.mark.parametrize("seeds", in_blocks(QUICK, SEEDS, BLOCK))
def test_nothing_is_lost_where_jobs_leave(seeds: range) -> None:
    play(seeds, run, check)


def run(seed: int) -> tuple[World, Plan, Report]:
    """One world, to its end; all that was asked for is asked for again when most of it is long over."""
    world, plan = small_world(seed, all_kinds(until_s=90.0))
    world.tell(0.1, Configure(rules=AT_ONCE))
    world.submit(150.0, plan.sweeps)
    world.submit(200.0, plan.scripts)
    return world, plan, world.run(MAX_VIRTUAL_S)


def check(world: World, plan: Plan, report: Report) -> None:
    """Everything that must hold of a world that has ended, wherever its jobs are."""
    core = world.controller.core
    assert core is not None
    core.validate()
    written = [job for job in world.controller.past.jobs.values() if job.id not in core.state.jobs]
    left = beside(core.state, written).jobs
    assert not left.keys() & core.state.jobs.keys()
    jobs = {job.spec.name: job for job in (*core.state.jobs.values(), *left.values())}
    assert report.idle
    assert len(jobs) == len(left) + len(core.state.jobs) == len(plan.scripts) + len(plan.sweeps)
    assert sum(core.index.counts.values()) == len(jobs)
    assert core.state.past.total == len(left)
    for spec in (*plan.scripts, *plan.sweeps):
        job = jobs[spec.name]
        doomed = spec.name in plan.doomed
        assert job.state is (JobState.FAILED if doomed else JobState.DONE), (spec.name, job.why)
        assert report.accepted.get(job.id, 0) == (0 if doomed else 1)
        if not doomed and spec.name.startswith("s"):
            assert job.result["saw"] == sorted({*job.after, *job.spec.after})
    for name, hits in plan.planted.items():
        assert report.coverage[jobs[name].id] is None
        assert report.hits[jobs[name].id] == hits
    assert replayed(world.controller.journal).state == core.state


def test_jobs_leave_and_come_back_there() -> None:
    left = back = 0
    for seed in (0, 2):
        world, _, _ = run(seed)
        events = world.journal()
        left += sum(len(event.jobs) for event in events if isinstance(event, JobsLeft))
        back += sum(isinstance(event, JobCameBack) for event in events)
    assert left > 20
    assert back > 5
