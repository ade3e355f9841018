"""The game as others' learners have it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from hostler.workloads.gameboy.env import GameBoyEnv
from hostler.workloads.gameboy.game import MICRO, Game, Screen
from hostler.workloads.gameboy.rom import Cartridge


@pytest.mark.filterwarnings("ignore:.*alternative render modes.*")
def test_gymnasium_finds_nothing_wrong_with_it(keyrooms: Game, cart: Cartridge) -> None:
    env = GameBoyEnv(replace(keyrooms, screen=Screen()), cart, render_mode="rgb_array")
    check_env(env, skip_render_check=True)
    env.close()


def test_what_is_paid_is_the_sum_of_its_parts(keyrooms: Game, cart: Cartridge) -> None:
    env, random, total = GameBoyEnv(replace(keyrooms, episode_steps=200), cart), np.random.default_rng(3), 0
    env.reset()
    while True:
        _, reward, ended, cut, info = env.step(random.choice([2, 4]))
        total += round(reward * MICRO)
        assert sum(info["parts"].values()) == total
        if ended or cut:
            break
    assert info["episode"] == {"r": total / MICRO, "l": 200, "places": info["episode"]["places"]}
    env.close()


def test_the_same_actions_give_the_same_episode(keyrooms: Game, cart: Cartridge) -> None:
    stories = []
    for env in (GameBoyEnv(keyrooms, cart), GameBoyEnv(keyrooms, cart)):
        random, story = np.random.default_rng(5), []
        for _ in range(2):
            env.reset()
            story += [
                (seen["values"].tobytes(), reward)
                for seen, reward, *_ in (env.step(random.integers(7)) for _ in range(100))
            ]
        stories.append(story)
        env.close()
    assert stories[0] == stories[1]


def test_what_is_rendered_is_what_is_played(keyrooms: Game, cart: Cartridge) -> None:
    """Also of a game that shows no screen to its policy."""
    env = GameBoyEnv(keyrooms, cart, render_mode="rgb_array")
    env.reset()
    before = env.render()
    for _ in range(3):
        env.step(4)
    assert (env.render() != before).any()
    env.close()
