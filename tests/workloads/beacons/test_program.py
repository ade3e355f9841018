"""What a controller asks of the game."""

import json
import subprocess
import sys
from importlib import resources

import pytest

from hostler.workloads.beacons import configs
from hostler.workloads.beacons.configs import BOARDS, PLAYERS
from hostler.workloads.beacons.program import PROGRAM


def test_it_needs_neither_numpy_nor_numba() -> None:
    code = (
        "import sys; from hostler.workloads.beacons.program import PROGRAM;"
        "PROGRAM.anchors(PROGRAM.prepare('hex8_2p', {}));"
        "print([name for name in ('numpy', 'numba', 'torch') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_a_config_is_known_by_its_name() -> None:
    assert PROGRAM.prepare("hex8_2p", {}) == {"board": "hex8", "players": 2}
    assert PROGRAM.prepare("square19_4p", {}) == {"board": "square19", "players": 4}


def test_params_count_more_than_the_name() -> None:
    params = {"players": 3, "board": "hexagonal"}
    assert PROGRAM.prepare("my own name", params) == {"board": "hexagonal", "players": 3}
    assert PROGRAM.players(params) == 3


@pytest.mark.parametrize(
    ("config", "params", "message"),
    [
        ("chess_2p", {}, "'chess_2p' names no board.*boards: hex4, hex6, hex8.*players: 2, 3 or 4"),
        ("hex8_5p", {}, "'hex8_5p' names no board"),
        ("x", {"board": "hex8"}, "players is missing"),
        ("x", {"board": "hex8", "players": 2, "size": 3}, "size is unknown"),
        ("x", {"board": "hex5", "players": 2}, "board: there is no board 'hex5'; choose one of hex4"),
        ("x", {"board": ["hex8"], "players": 2}, "board: there is no board"),
        ("x", {"board": "hex8", "players": "2"}, "players: '2' cannot play"),
        ("x", {"board": "hex8", "players": True}, "players: True cannot play"),
    ],
)
def test_what_is_wrong_is_named(config: str, params: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PROGRAM.prepare(config, params)


@pytest.mark.parametrize("players", PLAYERS)
@pytest.mark.parametrize("board", BOARDS)
def test_every_board_has_measured_anchors(board: str, players: int) -> None:
    anchors = PROGRAM.anchors({"board": board, "players": players})
    assert set(anchors) == {"random", "greedy", "mc-200"}
    assert anchors["random"] == 0.0
    assert anchors["greedy"] > 150
    assert anchors["mc-200"] > 150


def test_figures_lie_in_their_intervals() -> None:
    table = json.loads(resources.files("hostler.workloads.beacons").joinpath("anchors.json").read_text())
    for config, measured in table["configs"].items():
        for figures in measured["elo"].values():
            assert figures["low"] <= figures["elo"] <= figures["high"], config


def test_anchors_of_other_rules_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs, "RULES_VERSION", 99)
    with pytest.raises(ValueError, match=r"hex8_2p have not been measured under version 99.*benchmarks/anchors\.py"):
        PROGRAM.anchors({"board": "hex8", "players": 2})
