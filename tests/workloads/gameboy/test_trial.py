"""The first time a game is played: cartridges that stand still are told, and nobody stands still with them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.workloads.gameboy import trial
from hostler.workloads.gameboy.checks import Verdict, check_game
from hostler.workloads.gameboy.game import End, Game
from hostler.workloads.gameboy.rom import Cartridge, NoCartridge, insert
from hostler.workloads.gameboy.strict import SpecError
from hostler.workloads.gameboy.trial import Hangs, Unsound, proved, tried
from tests.workloads.gameboy import standing

STEPS = 40


@pytest.mark.long
def test_what_is_found_is_what_is_found_without_a_child(keyrooms: Game, cart: Cartridge) -> None:
    assert tried(keyrooms, cart, steps=STEPS) == check_game(keyrooms, cart, steps=STEPS)


def test_a_cartridge_that_stands_still_at_its_start_is_told_with_its_hash_and_where(keyrooms: Game) -> None:
    cart = standing.at_once()
    with pytest.raises(Hangs, match=rf"the SHA-256 {cart.sha256} stands still at 0x015[0-9a-f]: 0xd3 there") as caught:
        tried(keyrooms, cart, steps=STEPS)
    assert "try another copy" in str(caught.value)


@pytest.mark.long
def test_one_that_stands_still_later_is_told_by_what_it_uses_up(
    keyrooms: Game, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow a machine is, it stands still: what it may use up only says how soon that is told."""
    monkeypatch.setattr(trial, "LEAST_CPU_S", 1.0)
    monkeypatch.setattr(trial, "FRAMES_PER_CPU_S", 1e9)
    cart = standing.at_a()
    with pytest.raises(Hangs, match=rf"the SHA-256 {cart.sha256} has stood still: .* not ended in \d+ s"):
        tried(keyrooms, cart, steps=10 * STEPS)


def test_what_pyboy_cannot_take_is_told_as_it_is_without_a_child(keyrooms: Game, cart: Cartridge) -> None:
    with pytest.raises(NoCartridge, match="PyBoy cannot take the ROM"):
        tried(keyrooms, replace(cart, rom=cart.rom[:100]), steps=STEPS)


def test_a_child_that_dies_is_told(keyrooms: Game, cart: Cartridge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "CHILD", "raise SystemExit(1)")
    with pytest.raises(SpecError, match="ended with status 1; see what it wrote above"):
        tried(keyrooms, cart, steps=STEPS)


@pytest.mark.long
def test_only_what_is_sound_is_learnt(keyrooms: Game, cart: Cartridge) -> None:
    notes = proved(keyrooms, cart, steps=STEPS)
    assert any(each.startswith("ram.goal: is 0 all the time") for each in notes)
    wrong = replace(keyrooms, values={**keyrooms.values, "x": replace(keyrooms.values["x"], below=3)})
    with pytest.raises(Unsound, match=r"so nothing is learnt: ram.x: is \d+ once, and is to be below 3"):
        proved(wrong, cart, steps=STEPS)


@pytest.mark.long
def test_an_episode_that_is_over_where_it_begins_is_wrong(keyrooms: Game, cart: Cartridge) -> None:
    game = replace(keyrooms, ends=(*keyrooms.ends, End("keys", 0)))
    (first, *_) = tried(game, cart, steps=STEPS)
    assert (first.what, first.verdict) == ("end", Verdict.WRONG)
    assert first.words.startswith("end[1]: keys is 0 where episodes begin already")


@pytest.mark.long
def test_a_state_is_tried_without_its_start(keyrooms: Game, cart: Cartridge) -> None:
    from hostler.workloads.gameboy.machine import Machine

    machine = Machine(keyrooms, cart)
    state = machine.state()
    machine.close()
    assert tried(keyrooms, insert(cart.rom, state), steps=STEPS)
    with pytest.raises(SpecError, match="PyBoy cannot load the state"):
        tried(keyrooms, insert(cart.rom, state[: len(state) // 2]), steps=STEPS)
    assert not list(Path.cwd().glob("core*")), os.getcwd()
