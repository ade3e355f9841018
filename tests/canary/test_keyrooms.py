"""Our game is learnt from nothing: a policy that plays by chance stays in the first rooms, this one sees nearly all."""

from __future__ import annotations

from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.homebrew.cartridge import ROOMS
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.run import read_run
from hostler.workloads.gameboy.training import Training
from tests.workloads.gameboy.conftest import cart, keyrooms, one_thread

__all__ = ["cart", "keyrooms", "one_thread"]

ASKED = {
    "envs_per_worker": 16,
    "batch_steps": 2048,
    "seed": 1,
    "course": {"entropy": 0.02},
}


def test_the_rooms_of_our_game_are_found(keyrooms: Game, cart: Cartridge) -> None:
    by_chance = Training(read_run({**ASKED, "steps": 16_384, "course": {"rate": 0.0}}), keyrooms, cart).run()
    assert by_chance.mean_places is not None
    assert by_chance.mean_places < 4
    learnt = Training(read_run({**ASKED, "steps": 400_000, "target_places": 0.9 * ROOMS}), keyrooms, cart).run()
    assert learnt.mean_places is not None
    assert learnt.mean_places >= 0.9 * ROOMS, learnt.steps
    assert max(learnt.places) == ROOMS - 1
