"""Is a game what its file says? Values that change, sound that nothing waits for, buttons that always do the same.

Wrong addresses and settings that are fast for other games do not fail by themselves: they are learnt from for months.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from hostler.workloads.gameboy.game import Game, over_at_once
from hostler.workloads.gameboy.machine import Layout, Machine
from hostler.workloads.gameboy.rom import Cartridge

STEPS = 2000
PLAYED = 5
"""Times that a game is begun for it, at most."""
PRESSED = 8
"""Steps for which a button is held, on average: whoever lets go at once stays where they are."""


class Verdict(StrEnum):
    """What a finding means."""

    GOOD = "good"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was looked at."""

    what: str
    verdict: Verdict
    words: str


def frames_of(game: Game, steps: int) -> int:
    """How many it takes to check a game, about."""
    return PLAYED * (game.boot_frames + steps * game.skip)


def check_game(game: Game, cartridge: Cartridge, *, steps: int = STEPS, seed: int = 0) -> list[Finding]:
    """Play by chance, and look at everything that can be wrong without failing; wrong ones first."""
    actions = _actions(game, steps, seed)
    seen = _played(game, cartridge, actions)
    found = [
        *_of_start(game, cartridge),
        *_of_values(game, seen),
        *_of_repeats(game, cartridge, actions, seen),
        *_of_sound(game, cartridge, actions),
    ]
    order = [Verdict.WRONG, Verdict.NOTE, Verdict.GOOD]
    return sorted(found, key=lambda each: order.index(each.verdict))


def _of_start(game: Game, cartridge: Cartridge) -> Iterator[Finding]:
    """Whether there is anything between an episode's beginning and its end."""
    (values,) = _played(game, cartridge, None)
    fault = over_at_once(game, values.tolist())
    if fault is not None:
        yield Finding("end", Verdict.WRONG, fault)


def _of_values(game: Game, seen: npt.NDArray[np.int64]) -> Iterator[Finding]:
    for column, value in enumerate(game.values.values()):
        own = seen[:, column]
        what, most = f"ram.{value.name}", int(own.max())
        if most >= value.below:
            words = (
                f"is {most} once, and is to be below {value.below}: the address {value.where} is wrong, or the bound"
            )
            yield Finding(what, Verdict.WRONG, words)
        elif (own == own[0]).all():
            words = (
                f"is {own[0]} all the time, for {len(seen)} steps: the address {value.where} is wrong, or whoever "
                "plays by chance never comes to where it changes"
            )
            yield Finding(what, Verdict.NOTE, words)
        else:
            yield Finding(what, Verdict.GOOD, f"had {len(np.unique(own))} values, {int(own.min())} to {most}")


def _of_repeats(
    game: Game, cartridge: Cartridge, actions: npt.NDArray[np.int8], seen: npt.NDArray[np.int64]
) -> Iterator[Finding]:
    differs = _first_difference(seen, _played(game, cartridge, actions))
    if differs is None:
        yield Finding("repeats", Verdict.GOOD, "the same buttons led to the same values")
    else:
        words = f"the same buttons led to other values from step {differs} on: something outside of the game decides"
        yield Finding("repeats", Verdict.WRONG, words)


def _of_sound(game: Game, cartridge: Cartridge, actions: npt.NDArray[np.int8]) -> Iterator[Finding]:
    """Whether the game goes on as it should without sound; that it is slower with it is known."""
    without, with_it = (_played(replace(game, sound=sound), cartridge, actions) for sound in (False, True))
    differs = _first_difference(without, with_it)
    if differs is None:
        saves = "; `sound: false` would be faster" if game.sound else ""
        yield Finding("sound", Verdict.NOTE if game.sound else Verdict.GOOD, f"nothing waits for it{saves}")
    elif game.sound:
        yield Finding("sound", Verdict.GOOD, f"it is needed: without it the game is another one from step {differs} on")
    else:
        words = f"without it the game is another one from step {differs} on; say `sound: true`"
        yield Finding("sound", Verdict.WRONG, words)


def _actions(game: Game, steps: int, seed: int) -> npt.NDArray[np.int8]:
    random = np.random.default_rng(seed)
    presses = random.integers(len(game.actions), size=steps)
    chosen = np.repeat(presses, random.geometric(1 / PRESSED, size=steps))[:steps]
    return chosen.astype(np.int8)


def _played(game: Game, cartridge: Cartridge, actions: npt.NDArray[np.int8] | None) -> npt.NDArray[np.int64]:
    """Values after each action, one row each; without any, those that an episode begins with."""
    machine, layout = Machine(game, cartridge), Layout(tuple(game.values.values()))
    machine.reset()
    seen = bytearray() if actions is not None else bytearray(machine.memory())
    for action in () if actions is None else actions:
        machine.step(int(action))
        seen += machine.memory()
    machine.close()
    return layout.numbers(np.frombuffer(seen, np.uint8).reshape(-1, layout.bytes))


def _first_difference(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> int | None:
    differs = np.nonzero((one != other).any(axis=1))[0]
    return int(differs[0]) if len(differs) else None
