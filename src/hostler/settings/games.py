"""Games for training configs, known by name: installed packages announce them as entry points of `hostler.games`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from hostler.model.errors import SpecError
from hostler.settings.installed import load_installed

GROUP = "hostler.games"


@runtime_checkable
class GameProgram(Protocol):
    """What a training config needs to know of its game before anything is played. Any object of this shape will do."""

    @property
    def name(self) -> str:
        """The name under which settings ask for it."""

    @property
    def factory(self) -> str:
        """`module:function` that makes the game of prepared parameters, on nodes."""

    def prepare(self, config: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Complete, canonical parameters (JSON) of the game of a config; the config's name may tell some of them.

        Raises `ValueError` saying what is wrong with which parameter.
        """

    def players(self, params: Mapping[str, Any]) -> int:
        """How many play, for prepared parameters."""

    def anchors(self, params: Mapping[str, Any]) -> dict[str, float]:
        """Players whose rating is fixed, and their Elo, for prepared parameters."""


def find_game(name: str) -> GameProgram:
    """The installed game of that name. Raises `SpecError` naming those that are installed."""
    game, place = load_installed(
        GROUP, "game", name, "a game of your own needs `players` and `factory`, or a `command` for every stage"
    )
    if not isinstance(game, GameProgram):
        raise SpecError(f"{place} is no game for training configs; see hostler.settings.games.GameProgram")
    return game
