"""Small worlds in which everything goes wrong: nothing is lost, nothing counts twice, everything ends.

`make test` plays the first `QUICK` seeds, `make test-long` the others. `FAULT_SEEDS` is how many there are;
`make fleetdays` plays a thousand (a second of work for six).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from hostler.model.events import AttemptEnded, AttemptLost, ChunkTaken, Event, ResultRefused
from hostler.model.work import JobState
from hostler.sim.controller import replayed
from hostler.sim.faults import Faults, all_kinds
from hostler.sim.report import Report
from hostler.sim.world import World
from tests.simulation.worlds import Plan, _name_of, in_blocks, small_world

SEEDS = int(os.environ.get("FAULT_SEEDS", "150"))
QUICK = 5
BLOCK = 50
MAX_VIRTUAL_S = 3600.0
LONG_S = 200.0
Run: TypeAlias = Callable[[int], tuple[World, Plan, Report]]
Check: TypeAlias = Callable[[World, Plan, Report], None]


@pytest.mark.parametrize("seeds", in_blocks(QUICK, SEEDS, BLOCK))
def test_nothing_is_lost(seeds: range) -> None:
    play(seeds, run, check)


def play(seeds: range, run: Run, check: Check) -> None:
    """Worlds to their ends, each checked; a fault says which one it is of."""
    for seed in seeds:
        try:
            world, plan, report = run(seed)
            check(world, plan, report)
            check_nothing_is_left(world)
        except Exception as error:
            error.add_note(f"world of seed {seed}; again: {run.__module__}.run({seed})")
            raise


def run(seed: int) -> tuple[World, Plan, Report]:
    """One world, to its end."""
    world, plan = small_world(seed, all_kinds(until_s=90.0))
    return world, plan, world.run(MAX_VIRTUAL_S)


def check(world: World, plan: Plan, report: Report) -> None:
    """Everything that must hold of a world that has ended."""
    core = world.controller.core
    assert core is not None
    core.validate()
    by_key = {job.spec.name: job for job in core.state.jobs.values()}
    assert report.idle, {name: job.state for name, job in by_key.items() if not job.state.final}
    assert len(core.state.jobs) == len(plan.scripts) + len(plan.sweeps)
    for spec in (*plan.scripts, *plan.sweeps):
        job = by_key[spec.name]
        doomed = spec.name in plan.doomed
        assert job.state is (JobState.FAILED if doomed else JobState.DONE), (spec.name, job.why)
        assert report.accepted.get(job.id, 0) == (0 if doomed else 1)
        if not doomed and spec.name.startswith("s"):
            assert job.result["saw"] == sorted({*job.after, *job.spec.after})
    for name, hits in plan.planted.items():
        assert report.coverage[by_key[name].id] is None
        assert report.hits[by_key[name].id] == hits
    assert replayed(world.controller.journal).state == core.state


def check_nothing_is_left(world: World, rest_s: float = LONG_S) -> None:
    """Once all is quiet, no node holds anything: no attempt, no chunk, no unacknowledged fact, no warm worker."""
    world.rest(rest_s)
    for name, agent in world.agents.items():
        inventory = agent.hello()
        assert (inventory.attempts, inventory.chunks, agent.facts) == ((), (), []), name
        assert agent.workers() == frozenset(), name


@pytest.mark.long
def test_bad_devices_cost_no_sweep() -> None:
    bad = frozenset({"n0/cpu0", "n1/cpu1"})
    barred: set[str] = set()
    for seed in range(20):
        world, plan = small_world(seed, replace(all_kinds(until_s=90.0), bad_devices=bad))
        check(world, plan, world.run(MAX_VIRTUAL_S))
        assert world.controller.core is not None
        barred |= {name for sweep in world.controller.core.state.sweeps.values() for name in sweep.barred}
        check_nothing_is_left(world)
    assert barred == bad


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 60), marks=pytest.mark.long)], ids=_name_of)
def test_nodes_out_of_reach_for_longer_than_their_lease_lose_and_double_nothing(seeds: range) -> None:
    faults = replace(all_kinds(until_s=150.0), partition_every_s=20.0, partition_s=120.0)
    happened: Counter[str | None] = Counter()
    for seed in seeds:
        world, plan = small_world(seed, faults, lease_s=20.0)
        try:
            check(world, plan, world.run(MAX_VIRTUAL_S))
            check_nothing_is_left(world, rest_s=10 * LONG_S)
        except Exception as error:
            error.add_note(f"world of seed {seed}")
            raise
        happened.update(map(_lease_event, world.journal()))
    assert min(happened[each] for each in ("lost", "taken", "ended", "refused")) > 0, happened


@pytest.mark.long
def test_no_job_runs_twice_at_the_same_time() -> None:
    """Without leaps of clocks: the node ends what it has before others get it."""
    faults = Faults(partition_every_s=15.0, partition_s=120.0, controller_crash_every_s=60.0, until_s=150.0)
    given_away = 0
    for seed in range(20):
        world, _ = small_world(seed, faults, lease_s=20.0)
        for second in range(1, 400):
            world.live(float(second))
            running = Counter(
                each.order.id.partition(".")[0] for agent in world.agents.values() for each in agent.running()
            )
            assert max(running.values(), default=0) <= 1, (seed, second, running)
        given_away += sum(_lease_event(event) == "lost" for event in world.journal())
    assert given_away > 0


def _lease_event(event: Event) -> str | None:
    """What an event has to do with the end of a lease, on either side; or that it refuses a result."""
    match event:
        case AttemptLost(evidence=why) if "its lease is over" in why:
            return "lost"
        case ChunkTaken(why=why) if "its lease is over" in why:
            return "taken"
        case AttemptEnded(reason="lease"):
            return "ended"
    return "refused" if isinstance(event, ResultRefused) else None
