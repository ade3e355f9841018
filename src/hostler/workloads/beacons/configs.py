"""The boards and numbers of players there are, and how both are checked. Imports neither numpy nor numba."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RULES_VERSION = 1
"""Raised whenever a recorded game could replay differently; ratings of anchors hold for one version only."""

BOARDS = ("hex4", "hex6", "hex8", "hexagonal", "square5", "square8", "square19")
PLAYERS = (2, 3, 4)


def config_name(board: str, players: int) -> str:
    """What a training config of this board and number of players is usually called, such as `hex8_2p`."""
    return f"{board}_{players}p"


def parameters(config: str) -> dict[str, Any]:
    """The board and players that the name of a training config stands for; raises `ValueError` if it is none."""
    for board in BOARDS:
        for players in PLAYERS:
            if config == config_name(board, players):
                return {"board": board, "players": players}
    raise ValueError(
        f"{config!r} names no board and number of players; name it <board>_<players>p (boards: {', '.join(BOARDS)}; "
        f"players: 2, 3 or 4), or give params with both"
    )


def checked(params: Mapping[str, Any]) -> dict[str, Any]:
    """Canonical parameters; raises `ValueError` naming the one that is missing, unknown or wrong."""
    if odd := set(params) ^ {"board", "players"}:
        problem = "; ".join(f"{key} is {'unknown' if key in params else 'missing'}" for key in sorted(map(str, odd)))
        raise ValueError(f"{problem}; Beacons takes board and players")
    board, players = params["board"], params["players"]
    if board not in BOARDS:
        raise ValueError(f"board: there is no board {board!r}; choose one of {', '.join(BOARDS)}")
    if type(players) is not int or players not in PLAYERS:
        raise ValueError(f"players: {players!r} cannot play Beacons; give 2, 3 or 4")
    return {"board": board, "players": players}
