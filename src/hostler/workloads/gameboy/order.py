"""What a training is made from: a game's file, the cartridge and the state it is played from, how it is learnt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from hostler.workloads.gameboy.advice.settings import check
from hostler.workloads.gameboy.game import Game, read_game
from hostler.workloads.gameboy.homebrew.cartridge import BUSY, cartridge
from hostler.workloads.gameboy.rom import Cartridge, banked, insert, read
from hostler.workloads.gameboy.run import Run, read_run
from hostler.workloads.gameboy.strict import Fields, SpecError, fields, loaded

SCHEMA = 1
KEYROOMS = "keyrooms"
"""What our own game is called, where others have the path of a file."""
MODES = ("dmg", "cgb")


@dataclass(frozen=True, slots=True)
class Order:
    """A game that can be played, and how it is to be learnt."""

    game: Game
    cartridge: Cartridge
    run: Run

    @property
    def made_of(self) -> dict[str, Any]:
        """What a checkpoint has to agree with, or its weights would mean something else: what is played, seen, pressed
        and paid, and how much less what comes later is worth."""
        advice = self.run.advice
        reward = replace(self.game.reward, alarm_share=0.0)
        meant = replace(self.game, name="", episode_steps=0, reward=reward)
        return {
            "rom": self.cartridge.sha256,
            "state": None if self.cartridge.state is None else hashlib.sha256(self.cartridge.state).hexdigest(),
            "cgb": self.cartridge.cgb,
            "game": hashlib.sha256(repr(meant).encode()).hexdigest(),
            "discount": self.run.course.discount,
            **({} if advice is None else {"advice": advice.made_of}),
        }

    @property
    def beside(self) -> dict[str, Any]:
        """What may be otherwise than in a checkpoint that is gone on from, and is told where it is."""
        game = self.run.game(self.game)
        course = {name: each for name, each in asdict(self.run.course).items() if name != "discount"}
        told = {"game": game.name, "episode_steps": game.episode_steps, "alarm_share": game.reward.alarm_share}
        return {**told, **course}


def read_order(path: Path, environment: Mapping[str, str]) -> Order:
    """An order from its file; paths in it are relative to its folder. Raises `SpecError`."""
    return order_of(_content(path), path.parent, environment)


def read_sizes(path: Path, environment: Mapping[str, str]) -> tuple[Game, Run]:
    """What an order plays and how it learns it, without a look at cartridge and state. Raises `SpecError`."""
    with fields(_content(path)) as found:
        found.whole("schema", least=SCHEMA, most=SCHEMA)
        game = _game(found.text("game"), path.parent)
        for later in ("rom", "state", "mode"):
            found.take(later, None)
        return game, read_run(found.take("training"), environment)


def order_of(content: object, folder: Path, environment: Mapping[str, str]) -> Order:
    """The same, from what such a file says."""
    with fields(content) as found:
        found.whole("schema", least=SCHEMA, most=SCHEMA)
        game = _game(found.text("game"), folder)
        inserted = _cartridge(found, folder)
        run = read_run(found.take("training"), environment)
    banked(inserted, run.game(game).banks)
    if run.advice is not None:
        check(run.advice, game)
    return Order(game, inserted, run)


def keyrooms() -> Game:
    """Our own game, as its file has it."""
    return read_game(files("hostler.workloads.gameboy.homebrew").joinpath("keyrooms.yaml").read_text())


def _content(path: Path) -> object:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} cannot be read: {error}") from error
    return loaded(text)


def _game(named: str, folder: Path) -> Game:
    if named == KEYROOMS:
        return keyrooms()
    path = folder / named
    try:
        return read_game(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"game: {path} cannot be read: {error}") from error
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from error


def _cartridge(found: Fields, folder: Path) -> Cartridge:
    asked = found.take("rom")
    state = found.take("state", None)
    mode = found.choice("mode", MODES, None)
    rom = cartridge(busy=BUSY) if asked == KEYROOMS else _file(asked, found.at("rom"), folder)
    kept = None if state is None else _file(state, found.at("state"), folder)
    return insert(rom, kept, cgb=None if mode is None else mode == "cgb")


def _file(content: object, where: str, folder: Path) -> bytes:
    with fields(content, where) as found:
        path, digest = found.text("path"), found.text("sha256")
    return read(folder / path, digest)
