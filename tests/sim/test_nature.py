"""How long virtual work takes: by the power of its devices, and the size of its board."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.model.commands import AttemptOrder
from hostler.model.work import WorkKind
from hostler.policy.power import CPU_POWER
from hostler.sim.nature import (
    CORE_SECONDS_PER_GAME,
    Habits,
    Rated,
    cells,
    core_seconds,
    devices_of,
    drawn_powers,
    script_seconds,
    stage_seconds,
)
from hostler.sim.programs import Script, script_job
from tests.core.builders import node

QUIET = Habits(noise=0.0)
POWER = {"n/cuda0": 624.0, "n/cuda1": 312.0}


def order(inputs: dict[str, Any] | None = None, argv: tuple[str, ...] = (), name: str = "j1.1") -> AttemptOrder:
    return AttemptOrder(
        id=name,
        queue="cuda0",
        argv=argv,
        env={},
        cwd=None,
        walltime_s=None,
        memory_bytes=None,
        grace_s=1.0,
        inputs=inputs,
    )


def selfplay(board: str, games: int = 10) -> dict[str, Any]:
    game = {"factory": "f", "params": {"board": board, "players": 2}}
    return {"stage": "selfplay", "config": f"{board}_2p", "games": games, "game": game}


def test_half_the_power_takes_twice_as_long() -> None:
    nature = Rated(POWER, 100.0, 0, QUIET)
    fast, slow = (nature.course(order(selfplay("square19")), (device,)) for device in POWER)
    assert fast.amount == slow.amount
    assert fast.per_s == pytest.approx(2 * slow.per_s)
    assert nature.items_per_s("n/cuda0") == pytest.approx(100.0)
    gang = nature.course(order(selfplay("square19")), tuple(POWER))
    assert gang.per_s == pytest.approx(fast.per_s + slow.per_s)


def test_large_boards_cost_by_the_square_of_their_cells() -> None:
    small, large = (stage_seconds(selfplay(board)) for board in ("hex8", "hexagonal"))
    assert large / small == pytest.approx((469 / 61) ** 2)
    assert cells({"config": "square19_4p"}) == 361
    assert cells({"config": "whatever", "game": {"params": {"cells": 7}}}) == 7


def test_small_boards_leave_room_on_fast_devices() -> None:
    nature = Rated(POWER, 100.0, 0, QUIET)
    alone = nature.course(order(selfplay("hex8")), ("n/cuda0",))
    assert alone.share == 0.5
    assert alone.per_s == pytest.approx(0.5)
    assert nature.course(order(selfplay("square19")), ("n/cuda0",)).share == 1.0


def test_scripts_say_where_they_last_how_long() -> None:
    nature = Rated(POWER, 100.0, 0, QUIET)
    anywhere = script_job("s", Script(seconds=100.0)).payload
    powered = script_job("s", Script(seconds=100.0, power=312.0, checkpoint_s=60.0)).payload
    assert nature.course(order(argv=anywhere.argv), ("n/cuda1",)).per_s == 1.0  # type: ignore[union-attr]
    course = nature.course(order(argv=powered.argv), ("n/cuda1",))  # type: ignore[union-attr]
    assert course.amount / course.per_s == pytest.approx(100.0)
    assert course.keeps_every_s == 60.0


def test_noise_is_of_the_attempt_alone() -> None:
    nature = Rated(POWER, 100.0, 0, Habits(noise=0.3))
    first, again, other = (
        nature.course(order(selfplay("hex8"), name=name), ("n/cuda0",)) for name in ("a.1", "a.1", "a.2")
    )
    assert first == again != other


def test_powers_are_drawn_around_their_prior() -> None:
    fleet = [node(f"n{number}", devices=4) for number in range(50)]
    prior = {device.id: CPU_POWER for each in fleet for device in each.devices}
    drawn = drawn_powers(fleet, prior, seed=1)
    assert drawn == drawn_powers(fleet, prior, seed=1) != drawn_powers(fleet, prior, seed=2)
    assert sum(drawn.values()) / len(drawn) == pytest.approx(CPU_POWER, rel=0.05)
    assert len(set(drawn.values())) == len(drawn)


def test_queues_stand_for_devices() -> None:
    assert devices_of("n", "cuda0") == ("n/cuda0",)
    assert devices_of("n", "cuda0.1") == ("n/cuda0",)
    assert devices_of("n", "cuda0+cuda3") == ("n/cuda0", "n/cuda3")


def test_readings_are_those_of_the_kind() -> None:
    nature = Rated(POWER, 100.0, 0, Habits(reading={WorkKind.SELFPLAY: 0.3}))
    assert nature.course(order(selfplay("hex8")), ("n/cuda0",)).reading == 0.3


def test_on_cores_games_cost_what_their_search_does() -> None:
    order64, order32 = ({**selfplay("hex8"), "player": f"gumbel-{count}@m"} for count in (64, 32))
    assert core_seconds(order64) == pytest.approx(10 * CORE_SECONDS_PER_GAME)
    assert core_seconds(order32) == pytest.approx(core_seconds(order64) / 2)
    assert core_seconds({**selfplay("hex8"), "player": "heuristic"}) < core_seconds(order32) / 50
    match = {"a": "gumbel-64@m", "b": "random", "groups": 5}
    evaluation = {"stage": "evaluation", "config": "hex8_2p", "game": selfplay("hex8")["game"], "matches": [match]}
    assert core_seconds(evaluation) == pytest.approx(core_seconds(order64) / 2, rel=0.01)
    training = {"stage": "training", "config": "hex8_2p", "steps": 1000, "batch": 256}
    assert 30 < core_seconds(training) < 300


def test_a_fleet_of_cores_plays_as_was_measured() -> None:
    power = {"n/cpu0": CPU_POWER}
    given = {**selfplay("hex8", 1000), "player": "gumbel-64@m"}
    cores = Rated(power, 1.0, 0, QUIET, cores=True).course(order(given), ("n/cpu0",))
    assert cores.amount / cores.per_s == pytest.approx(1000 * CORE_SECONDS_PER_GAME)


@pytest.mark.parametrize(
    ("said", "model", "seconds"),
    [
        ({"RTX 4090": 60.0, "*": 600.0}, "RTX 4090", 60.0),
        ({"RTX 4090": 60.0, "*": 600.0}, "RTX 3060", 600.0),
        ({"A100": 60.0}, "H100", 60.0 * 624 / 2000),
        ({"A100": 60.0, "cpu": 700.0}, "cpu", 700.0),
        ({"A100": 60.0, "H100": 30.0}, "cpu", 60.0),
        ({"cpu": 700.0}, "A100", 700.0),
    ],
)
def test_scripts_last_as_their_owner_says_of_the_model(said: dict[str, float], model: str, seconds: float) -> None:
    made = script_job("s", Script(seconds=1.0, by_model=said)).payload
    nature = Rated({"n/x0": 1.0}, 1.0, 0, QUIET, models={"n/x0": model})
    course = nature.course(order(argv=made.argv), ("n/x0",))  # type: ignore[union-attr]
    assert course.amount / course.per_s == pytest.approx(seconds)
    assert script_seconds(Script(seconds=5.0), model) == 5.0
