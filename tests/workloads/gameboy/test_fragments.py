"""What sampling makes: chances of actions, what was ahead of each step, advantages as their definition has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from hostler.workloads.gameboy.batch import Batch, Features, Screens
from hostler.workloads.gameboy.fragments import Fragment, Sampler, advantages, chosen
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.rom import Cartridge

Floats = npt.NDArray[np.float32]


def test_actions_come_as_often_as_their_logits_say() -> None:
    logits = np.tile(np.array([0.0, 1.0, -50.0, 2.0], np.float32), (40_000, 1))
    actions, chances = chosen(logits, np.random.default_rng(0))
    wanted = np.exp(logits[0]) / np.exp(logits[0]).sum()
    found = np.bincount(actions, minlength=4) / len(actions)
    assert np.abs(found - wanted).max() < 0.01
    assert np.allclose(chances, np.log(wanted)[actions], atol=1e-5)


def test_a_chance_of_one_is_certain_whatever_the_size_of_logits() -> None:
    logits = np.full((100, 7), -1e9, np.float32)
    logits[:, 3] = 1e9
    actions, chances = chosen(logits, np.random.default_rng(0))
    assert set(actions.tolist()) == {3}
    assert (chances == 0).all()


def by_definition(fragment: Fragment, discount: float, trace: float) -> Floats:
    """Every step's surprises, weighed one by one."""
    steps, machines = fragment.rewards.shape
    found = np.zeros((steps, machines), np.float64)
    for machine in range(machines):
        for step in range(steps):
            weight = 1.0
            for later in range(step, steps):
                ahead = discount * fragment.ahead[later, machine] - fragment.worths[later, machine]
                found[step, machine] += weight * (fragment.rewards[later, machine] + ahead)
                if fragment.over[later, machine]:
                    break
                weight *= discount * trace
    return found.astype(np.float32)


@given(st.integers(1, 12), st.integers(1, 3), st.integers(0, 2**32 - 1), st.floats(0, 1), st.floats(0, 1))
def test_advantages_are_those_of_their_definition(
    steps: int, machines: int, seed: int, discount: float, trace: float
) -> None:
    random = np.random.default_rng(seed)

    def some() -> Floats:
        return random.normal(size=(steps, machines)).astype(np.float32)

    fragment = Fragment(
        features=np.zeros((steps, machines, 1), np.float32),
        screens=None,
        actions=np.zeros((steps, machines), np.int8),
        chances=some(),
        worths=some(),
        rewards=some(),
        over=random.random((steps, machines)) < 0.3,
        ahead=some(),
        version=0,
    )
    gains, returns = advantages(fragment, discount, trace)
    assert np.allclose(gains, by_definition(fragment, discount, trace), atol=1e-4)
    assert np.allclose(returns, gains + fragment.worths, atol=1e-6)


class Counting:
    """Thinks that each state is worth ten times its number, and always goes to the right."""

    def __init__(self) -> None:
        self.asked: list[Features] = []

    def think(self, features: Features, screens: Screens | None) -> tuple[Floats, Floats]:
        logits = np.full((len(features), 7), -1e9, np.float32)
        logits[:, 4] = 0
        self.asked.append(features.copy())
        return logits, features.sum(axis=1)


@pytest.mark.parametrize("cut_at", [3, 100])
def test_what_is_ahead_is_the_worth_of_what_came_next(keyrooms: Game, cart: Cartridge, cut_at: int) -> None:
    batch = Batch(replace(keyrooms, episode_steps=cut_at), cart, 2)
    sampler, player = Sampler(batch, seed=1), Counting()
    first = sampler.fragment(player, 7, steps=5)
    second = sampler.fragment(player, 8, steps=5)
    batch.close()
    assert (first.version, second.version, first.steps) == (7, 8, 10)
    whole = np.concatenate([first.worths, second.worths])
    ahead, over = np.concatenate([first.ahead, second.ahead]), np.concatenate([first.over, second.over])
    assert over.any() == (cut_at == 3)
    for step in range(9):
        for machine in (0, 1):
            if not over[step, machine]:
                assert ahead[step, machine] == whole[step + 1, machine]
            else:  # of the state that it was cut off in, not of the next episode's first
                assert ahead[step, machine] not in (0.0, whole[step + 1, machine])


def test_nothing_is_ahead_of_the_end_of_a_game(keyrooms: Game, cart: Cartridge) -> None:
    over_in_the_next_room = replace(keyrooms.ends[0], of="room_x", value=1)
    batch = Batch(replace(keyrooms, ends=(over_in_the_next_room,)), cart, 1)
    fragment = Sampler(batch, seed=1).fragment(Counting(), 0, steps=12)
    batch.close()
    ended = np.nonzero(fragment.over[:, 0])[0]
    assert len(ended) == len(fragment.episodes) > 0
    assert (fragment.ahead[ended, 0] == 0).all()
    assert (fragment.rewards[ended, 0] > 1).all()
