"""Our game is learnt from nothing: a policy that plays by chance stays in the first rooms, this one sees nearly all."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.homebrew.cartridge import ROOMS
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.run import read_run
from hostler.workloads.gameboy.training import Training
from tests.workloads.gameboy.conftest import cart, keyrooms, one_thread

__all__ = ["cart", "keyrooms", "one_thread"]

STEPS_MAX = 400_000
ASKED: dict[str, Any] = {
    "envs_per_worker": 16,
    "batch_steps": 2048,
    "seed": 1,
    "course": {"entropy": 0.02},
}


def test_the_rooms_of_our_game_are_found(keyrooms: Game, cart: Cartridge, capsys: pytest.CaptureFixture[str]) -> None:
    """In so many steps at most, which are the same ones everywhere; what they cost is told, and decides nothing."""
    by_chance = Training(read_run({**ASKED, "steps": 16_384, "course": {"rate": 0.0}}), keyrooms, cart).run()
    assert by_chance.mean_places is not None
    assert by_chance.mean_places < 4
    begun = time.process_time()
    learnt = Training(read_run({**ASKED, "steps": STEPS_MAX, "target_places": 0.9 * ROOMS}), keyrooms, cart).run()
    with capsys.disabled():
        print(f"\n{learnt.steps} steps, {time.process_time() - begun:.1f} CPU-s, {learnt.mean_places} rooms")
    assert learnt.mean_places is not None
    assert learnt.mean_places >= 0.9 * ROOMS, learnt.steps
    assert learnt.steps <= STEPS_MAX + ASKED["batch_steps"]
    assert max(learnt.places) == ROOMS - 1
