"""Months of one fleet in which everything goes wrong: a day costs at the end what it cost in the middle, and so does
the state.

`SOAK_DAYS` is for how many virtual days (`make soak`: 730); without it a few, in which only the invariants are looked
at.
"""

from __future__ import annotations

import os
import time
from copy import copy
from dataclasses import dataclass, replace
from statistics import median

import pytest

from hostler.core.snapshot import dump_state
from hostler.core.state import State
from hostler.model.rules import PastRules
from hostler.sim.fleet import build
from tests.simulation.fleets import fleet
from tests.simulation.test_fleets import check_nothing_counts_twice

DAYS = float(os.environ.get("SOAK_DAYS", "3"))
SEED = int(os.environ.get("SOAK_SEED", "0"))
PIECES = 12
DAY_S = 86_400.0
KEPT = PastRules(keep_finished=100, keep_finished_s=3600.0)
"""Finished jobs in memory: that many are there after a day."""
COSTLIER = 1.5
"""How many times the CPU of a day before the middle a day after it may take: others work on the machine, too."""
LARGER = 1.25


@dataclass(frozen=True)
class Piece:
    """A part of the time: CPU seconds for a virtual day of it, and bytes of the state at its end, as a snapshot.

    What loops have learnt stays on purpose, and is counted apart: models with their trainings, datasets and ratings.
    """

    days: float
    cpu_s: float
    state: int
    learnt: int
    models: int
    jobs: int
    entries: int


@pytest.mark.long
def test_months_of_a_fleet_cost_the_same_all_the_time() -> None:
    scenario = fleet(SEED, DAYS)
    world = build(replace(scenario, rules=replace(scenario.rules, past=KEPT)))
    pieces: list[Piece] = []
    for at in range(1, PIECES + 1):
        began, days = time.process_time(), DAYS * at / PIECES
        world.live(days * DAY_S)
        core = world.controller.core
        cpu_s = (time.process_time() - began) / (DAYS / PIECES)
        if core is not None:  # it is dead just then
            state = core.state
            learnt, models = lineage(state)
            rest = len(dump_state(state)) - learnt
            pieces.append(Piece(days, cpu_s, rest, learnt, models, len(state.jobs), len(world.controller.journal)))
            print(pieces[-1], flush=True)
    core = world.controller.core
    assert core is not None
    core.validate()
    check_nothing_counts_twice(world)
    if DAYS >= 60:
        check_flat(pieces)


def lineage(state: State) -> tuple[int, int]:
    """Bytes of what loops have learnt, and of how many models."""
    configs = [copy(config) for config in state.configs.values()]
    for config in configs:
        config.segments, config.matches, config.closing, config.jobs = {}, [], {}, {}
    return len(dump_state(State(configs={each.spec.name: each for each in configs}))), sum(
        len(each.models) for each in configs
    )


def check_flat(pieces: list[Piece]) -> None:
    """The second half beside the second quarter: at first everything is new."""
    quarter = len(pieces) // 4
    before, after = pieces[quarter : 2 * quarter], pieces[2 * quarter :]
    assert median(each.cpu_s for each in after) <= COSTLIER * median(each.cpu_s for each in before), pieces
    assert median(each.state for each in after) <= LARGER * median(each.state for each in before), pieces
    assert max(each.learnt / each.models for each in after) <= LARGER * max(
        each.learnt / each.models for each in before
    )
