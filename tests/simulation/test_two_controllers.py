"""Several controllers in one world in which everything goes wrong: one leads, nothing is lost, nothing counts twice.

`make test` plays the first `QUICK` worlds, `make test-long` the others. `TWO_SEEDS` is how many there are;
`make fleetdays` plays 500, and `make nights` 10,000.
`python -m tests.simulation.again SEED` plays a failing one again, and tells its story.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest

from hostler.sim.cluster import Cluster, Troubles, drawn
from hostler.sim.faults import Faults
from tests.simulation.clusters import finish, made, play
from tests.simulation.kept_seeds import KEPT
from tests.simulation.worlds import in_blocks

SEEDS = int(os.environ.get("TWO_SEEDS", "50"))
FIRST = int(os.environ.get("TWO_FIRST", "0"))
QUICK = 5
BLOCK = 25


@pytest.mark.parametrize("seeds", in_blocks(QUICK, SEEDS, BLOCK, FIRST))
def test_nothing_is_lost(seeds: range) -> None:
    for seed in seeds:
        play_noted(seed)


@pytest.mark.parametrize("seed", KEPT, ids=str)
def test_what_failed_once(seed: int) -> None:
    play_noted(seed)


def play_noted(seed: int) -> Cluster:
    """One world; a failure says how to have it again."""
    try:
        return play(seed)
    except Exception as error:
        error.add_note(f"again, with its story: python -m tests.simulation.again {seed}")
        raise


@pytest.mark.long
def test_every_kind_of_trouble_happens_and_controllers_take_over() -> None:
    happened: Counter[str] = Counter()
    epochs = 0
    for seed in range(40):
        cluster = play_noted(seed)
        happened.update(cluster.happened)
        epochs += cluster.store.row.epoch
    kinds = {
        "controller killed",
        "controller stopped",
        "controller asked to leave",
        "controller and node apart",
        "alone",
        "clock set",
        "store out of reach",
        "store without power",
        "store full",
        "slow",
        "shelf full",
        "shelf without power",
        "link cut",
        "partition",
        "agent lost",
        "agent restarted",
        "machine rebooted",
        "worker killed",
        "process killed",
        "disk full",
    }
    assert kinds <= happened.keys()
    assert epochs > 2 * 40


def test_a_quiet_world_has_one_leader_from_beginning_to_end() -> None:
    cluster = play(1, troubles=Troubles(controllers=3, nodes=Faults(until_s=70.0)))
    assert cluster.store.row.epoch == 1
    assert cluster.happened == Counter()
    assert {each.epoch for each in cluster.proof.lines} == {1}


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 12), marks=pytest.mark.long)], ids=["0", "1-11"])
@pytest.mark.parametrize("way", ["dies", "is stopped", "leaves", "loses the store"])
def test_a_standby_takes_over_in_time(way: str, seeds: range) -> None:
    """Within a lease, two looks and what the store takes; where the leader says that it goes, at once."""
    waits = []
    for seed in seeds:
        cluster, plan = made(seed, troubles=Troubles(nodes=Faults(until_s=70.0)), keep_story=True)
        cluster.agenda.later(30.0, lambda cluster=cluster: _befall(cluster, way))
        finish(cluster, plan)
        assert cluster.store.row.epoch == 2
        waits.append(next(float(line[:9]) for line in cluster.story if "begins epoch 2" in line) - 30.0)
    assert min(waits) > 0.0
    assert max(waits) < (1.5 if way == "leaves" else 7.0)


def _befall(cluster: Cluster, way: str) -> None:
    leader = cluster.leader()
    assert leader is not None
    if way == "dies":
        leader.die()
    elif way == "is stopped":
        leader.process.stop(60.0)
    elif way == "leaves":
        leader.leave()
    else:
        leader.way.cut = True
        cluster.agenda.later(60.0, lambda: setattr(leader.way, "cut", False))


def test_one_seed_is_one_history() -> None:
    first, second = play(7), play(7)
    assert first.proof.lines == second.proof.lines
    assert first.agenda.now == second.agenda.now


def test_worlds_differ_in_what_goes_wrong() -> None:
    assert len({repr(drawn(Random(f"cluster {seed}"))) for seed in range(20)}) == 20
