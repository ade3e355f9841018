"""Rewards: components add up exactly, whatever happens; caps and flags hold; what is there already earns nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings, strategies as st

from hostler.workloads.gameboy.game import MICRO, Game, read_game
from hostler.workloads.gameboy.rewards import Rewards, Shares

BELOW = 5


def game(**components: Any) -> Game:
    """A game with two values and these components."""
    return read_game(
        yaml.safe_dump(
            {
                "schema": 1,
                "game": "g",
                "skip": 1,
                "episode_steps": 10,
                "ram": {"a": {"at": 0xC000, "below": BELOW}, "b": {"at": 0xC001, "below": BELOW}},
                "observation": {"values": [{"of": "a", "as": "scaled"}, {"of": "b", "as": "scaled"}]},
                "reward": {"components": components},
                "map": ["a", "b"],
            }
        )
    )


def paid(asked: Game, *values: tuple[int, int]) -> list[float]:
    """What the steps from each pair of values to the next are worth, for one machine."""
    rewards = Rewards(asked, 1)
    rows = [np.array([each], np.int64) for each in values]
    rewards.begin(0, rows[0][0])
    return [int(rewards.step(before, after)[0]) / MICRO for before, after in pairwise(rows)]


@pytest.mark.parametrize(
    ("component", "values", "wanted"),
    [
        ({"pays": "first", "of": "a", "worth": 2}, [(0, 0), (1, 0), (0, 0), (1, 1), (3, 0)], [2, 0, 0, 2]),
        ({"pays": "first", "of": ["a", "b"], "worth": 1}, [(0, 0), (0, 1), (1, 0), (0, 1)], [1, 1, 0]),
        ({"pays": "rise", "of": "a", "worth": 0.1}, [(1, 0), (4, 0), (2, 0), (3, 0)], [0.3, 0, 0.1]),
        ({"pays": "fall", "of": "b", "worth": -1}, [(0, 4), (0, 1), (0, 4), (0, 3)], [-3, 0, -1]),
        ({"pays": "reach", "of": "a", "value": 2, "worth": 5}, [(2, 0), (2, 0), (1, 0), (2, 0), (2, 0)], [0, 0, 5, 0]),
        ({"pays": "step", "worth": -0.01}, [(0, 0), (0, 0), (1, 1)], [-0.01, -0.01]),
        ({"pays": "rise", "of": "a", "worth": 1, "cap": 2.5}, [(0, 0), (2, 0), (0, 0), (2, 0), (3, 0)], [2, 0, 0.5, 0]),
        ({"pays": "step", "worth": -1, "cap": 1.5}, [(0, 0)] * 4, [-1, -0.5, 0]),
        (
            {"pays": "reach", "of": "a", "value": 1, "worth": 3, "once": True},
            [(0, 0), (1, 0), (0, 0), (1, 0)],
            [3, 0, 0],
        ),
    ],
)
def test_what_is_paid(component: dict[str, Any], values: list[tuple[int, int]], wanted: list[float]) -> None:
    assert paid(game(it=component), *values) == wanted


VALUES = st.lists(st.tuples(st.integers(0, BELOW - 1), st.integers(0, BELOW - 1)), min_size=2, max_size=30)
WORTHS = st.integers(-(10**7), 10**7).map(lambda each: each / MICRO)


@st.composite
def components(draw: st.DrawFn) -> dict[str, Any]:
    """One of any kind."""
    pays = draw(st.sampled_from(["first", "rise", "fall", "reach", "step"]))
    made: dict[str, Any] = {"pays": pays, "worth": draw(WORTHS), "once": draw(st.booleans())}
    if pays != "step":
        made["of"] = draw(st.sampled_from(["a", "b"]))
    if pays == "reach":
        made["value"] = draw(st.integers(0, BELOW - 1))
    if draw(st.booleans()):
        made["cap"] = abs(draw(WORTHS))
    return made


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from("uvwxyz"), components(), min_size=1), VALUES, VALUES)
def test_components_add_up_to_the_reward_exactly_and_keep_their_caps(
    asked: dict[str, Any], one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    rewards, steps = Rewards(game(**asked), 2), min(len(one), len(other))
    rows = np.array([one[:steps], other[:steps]], np.int64).transpose(1, 0, 2)
    for machine in (0, 1):
        rewards.begin(machine, rows[0, machine])
    total = np.zeros(2, np.int64)
    for before, after in pairwise(rows):
        total += rewards.step(before, after)
        assert (rewards.totals.sum(axis=1) == total).all()
        for column, name in enumerate(rewards.names):
            if "cap" in asked[name]:
                assert (abs(rewards.totals[:, column]) <= round(asked[name]["cap"] * MICRO)).all()


@settings(max_examples=40)
@given(components(), VALUES, VALUES)
def test_machines_do_not_know_of_each_other(
    component: dict[str, Any], one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    asked, steps = game(it=component), min(len(one), len(other))
    rewards = Rewards(asked, 2)
    rows = np.array([one[:steps], other[:steps]], np.int64).transpose(1, 0, 2)
    for machine in (0, 1):
        rewards.begin(machine, rows[0, machine])
    both = [rewards.step(before, after) / MICRO for before, after in pairwise(rows)]
    assert [each[0] for each in both] == paid(asked, *one[:steps])
    assert [each[1] for each in both] == paid(asked, *other[:steps])


def test_a_component_that_pays_nearly_everything_is_told() -> None:
    shares = Shares(("advice", "rooms", "harm"), 0.7)
    assert (shares.shares, shares.alarms) == ({}, ())
    shares.add([74, 16, -10])
    assert shares.shares == {"advice": 0.74, "rooms": 0.16, "harm": 0.10}
    assert shares.alarms == ("advice",)
    shares.add([0, 50, 0])
    assert shares.alarms == ()
