"""The learner against what is known of others: CartPole is solved as fast as published implementations solve it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from hostler.workloads.gameboy.batch import Episode, Step
from hostler.workloads.gameboy.fragments import Sampler
from hostler.workloads.gameboy.policy import Network, player
from hostler.workloads.gameboy.ppo import Course, Learner
from hostler.workloads.gameboy.spent import Spent
from tests.workloads.gameboy.conftest import one_thread

__all__ = ["one_thread"]

pytestmark = pytest.mark.long
SOLVED = 475.0
"""Mean return over 100 episodes at which CartPole-v1 counts as solved (Gymnasium's registry, `reward_threshold`)."""
STEPS = 100_000
"""Stable-Baselines3's PPO is there by then, with the settings of its zoo (rl-baselines3-zoo, hyperparams/ppo.yml)."""
MACHINES = 8


class CartPoles:
    """CartPole-v1, played as a batch of machines."""

    def __init__(self, seed: int) -> None:
        self.machines = [gymnasium.make("CartPole-v1") for _ in range(MACHINES)]
        self.features = np.zeros((MACHINES, 4), np.float32)
        self.screens = None
        self.spent = Spent()
        self._steps = [0] * MACHINES
        self._seed = seed

    def reset(self) -> None:
        for index, each in enumerate(self.machines):
            self.features[index] = each.reset(seed=self._seed + index)[0]

    def step(self, actions: Sequence[int], *, shown: int | None = None) -> Step:
        reward, ended, cut = np.ones(MACHINES, np.float32), np.zeros(MACHINES, bool), np.zeros(MACHINES, bool)
        last: dict[int, Any] = {}
        episodes = []
        for index, each in enumerate(self.machines):
            seen, _, ended[index], cut[index], _ = each.step(int(actions[index]))
            self._steps[index] += 1
            if ended[index] or cut[index]:
                episodes.append(Episode(self._steps[index], bool(ended[index]), (self._steps[index],), ()))
                last[index] = np.asarray(seen, np.float32), None
                seen, self._steps[index] = each.reset()[0], 0
            self.features[index] = seen
        return Step(reward, ended, cut & ~ended, last, episodes)

    def learnt(self, updates: int) -> None:
        """Nobody advises."""

    def news(self) -> None:
        """The same."""


def greedy(network: Network, seed: int, episodes: int = 20) -> float:
    """The mean return of the policy when it always takes what it likes best."""
    poles, thinking = CartPoles(seed), player(network)
    poles.reset()
    returns: list[int] = []
    while len(returns) < episodes:
        done = poles.step(thinking.think(poles.features, None)[0].argmax(axis=1))
        returns += [each.total for each in done.episodes]
    return float(np.mean(returns))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cartpole_is_solved_within_what_others_take(seed: int) -> None:
    torch.manual_seed(seed)
    course = Course(rate=1e-3, discount=0.98, trace=0.8, epochs=20, minibatch=256, entropy=0.0)
    learner = Learner(Network(4, None, 2, hidden=64), course, seed)
    sampler, steps, best = Sampler(CartPoles(seed), seed), 0, 0.0  # type: ignore[arg-type] - played as machines
    while best < SOLVED:
        assert steps < STEPS, best
        fragment = sampler.fragment(player(learner.network), learner.updates, 32)
        learner.learn([fragment])
        steps += fragment.steps
        if learner.updates % 20 == 0:
            best = max(best, greedy(learner.network, 1000 + seed))
