from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostler.workloads.alphazero.artifacts import Artifacts
from hostler.workloads.alphazero.game import Game, load
from hostler.workloads.alphazero.model import Manifest, publish
from hostler.workloads.alphazero.network import build
from hostler.workloads.alphazero.play import Session, main
from hostler.workloads.alphazero.search import GumbelSearch
from hostler.workloads.beacons.game import make as beacons
from tests.workloads.alphazero.fakes import IgnorantEvaluator
from tests.workloads.alphazero.trivial import make as spacing

GAME = {"factory": "hostler.workloads.beacons.game:make", "params": {"board": "hex4", "players": 2}}


def played(game: Game, person: int, *lines: str) -> str:
    """What a person sees who types these lines, then ends the input."""
    given, seen = iter(lines), list[str]()

    def ask(prompt: str) -> str | None:
        line = next(given, None)
        seen.append(f"{prompt}{line}")
        return line

    search = GumbelSearch(game, IgnorantEvaluator(game, spread=1.0), 8, 4, gumbel_scale=0.0)
    Session(game, search, person, ask, seen.append).run()
    return "\n".join(seen)


def test_a_whole_game_is_played_and_its_ranking_told() -> None:
    game: Any = beacons("hex4", 2)
    moves = [game.action_name(cell) for cell in range(19)] * 2
    seen = played(game, 0, *moves)
    assert "beacons hex4 2p: you have seat 0" in seen
    assert seen.count("The model, seat 1, plays") >= 9
    assert re.search(
        r"The game is over\. (You win|You are number 2 of 2)\. From the best to the last: seat \d, seat \d", seen
    )


def test_the_model_begins_where_the_person_is_second() -> None:
    seen = played(beacons("hex4", 2), 1)
    assert seen.index("The model, seat 0, plays") < seen.index("> None")


def test_with_three_seats_the_model_has_two() -> None:
    game: Any = beacons("hex4", 3)
    seen = played(game, 1, game.action_name(3), game.action_name(4))
    assert "The model, seat 0, plays" in seen
    assert "The model, seat 2, plays" in seen
    assert "seat 1, plays" not in seen


def test_the_end_of_the_input_ends_the_session() -> None:
    assert played(beacons("hex4", 2), 0).endswith("Left.")
    assert played(beacons("hex4", 2), 0, "quit", "a1").endswith("> quit\nLeft.")


def test_bad_input_is_answered_and_changes_nothing() -> None:
    game: Any = beacons("hex4", 2)
    seen = played(game, 0, "z99", "", "help", "swap", "moves")
    assert "there is no cell 'z99'" in seen
    assert "swap cannot be played now; 'moves' lists what can" in seen
    assert seen.count("Type a move (such as a") == 4
    assert seen.splitlines()[-3].split() == [game.action_name(cell) for cell in range(19)]
    assert "The model" not in seen


def test_an_occupied_cell_is_refused() -> None:
    game: Any = beacons("hex4", 2)
    name = game.action_name(5)
    assert f"{name} cannot be played now" in played(game, 0, name, name)


def test_undo_goes_back_to_ones_own_last_decision() -> None:
    game: Any = beacons("hex4", 2)
    start = game.text(game.initial(1)[0])
    seen = played(game, 0, "undo", game.action_name(0), "undo")
    assert "There is no move of yours to take back." in seen
    assert seen.count(start) == 2
    assert seen.rindex(start) > seen.index("The model, seat 1, plays")


def test_undo_for_a_second_player_keeps_the_models_first_move() -> None:
    game: Any = beacons("hex4", 2)
    seen = played(game, 1, "undo", "moves", game.action_name(18), "undo", "moves")
    assert "There is no move of yours to take back." in seen
    listed = [line for line in seen.splitlines() if line.endswith("swap")]
    assert len(listed) == 2
    assert listed[0] == listed[1]


def test_the_model_tells_what_it_thinks() -> None:
    game: Any = beacons("hex4", 2)
    seen = played(game, 0, "?")
    assert re.search(r"The network thinks: seat 0 [+-]\d\.\d\d, seat 1 [+-]\d\.\d\d; after search: seat 0", seen)
    assert re.search(r"It would play: [a-e]\d \d+%, ", seen)
    line = re.search(r"The best line it sees: (.*)", seen)
    assert line is not None
    assert len(line[1].split()) == 6
    assert len(set(line[1].split())) == 6


def test_a_game_that_does_not_show_itself_is_played_by_numbers() -> None:
    seen = played(spacing(7, 2), 0, "x", "9", "?", "3", "0", "6", "1", "5", "7")
    assert "'x' is no action; they are 0 to 7" in seen
    assert "'9' is no action" in seen
    assert "The game is over." in seen


# ---- as a process ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    root, game, size = tmp_path_factory.mktemp("artifacts"), load(GAME), {"channels": 4, "blocks": 1, "seed": 1}
    return root, publish(Artifacts(root), build(game, **size), Manifest.untrained(game, "hex4_2p", **size)).sha256


def arguments(held: tuple[Path, str], **changes: str) -> list[str]:
    given = {"artifacts": str(held[0]), "model": held[1], "game": json.dumps(GAME), "simulations": "8", **changes}
    return [part for name, value in given.items() for part in (f"--{name}", value)]


@pytest.mark.long
def test_it_is_played_through_pipes(model: tuple[Path, str]) -> None:
    moves = [load(GAME).action_name(cell) for cell in range(19)]  # type: ignore[attr-defined]
    done = subprocess.run(
        [sys.executable, "-m", "hostler.workloads.alphazero", "play", *arguments(model, seat="second")],
        input="\n".join(["?", "rubbish", "undo", *moves, *moves]), capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "The network thinks:" in done.stdout
    assert "there is no cell 'rubbish'" in done.stdout
    assert "The game is over." in done.stdout


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model": "0" * 64}, "cannot be read"),
        ({"config": "hex8_2p"}, "its config is 'hex4_2p', that of the order is 'hex8_2p'"),
        ({"seat": "third"}, "--seat third: this game has 2 seats"),
        ({"game": '{"factory": "nowhere:make"}'}, "the game 'nowhere:make' cannot be loaded"),
        ({"game": json.dumps({**GAME, "params": {"board": "hex6", "players": 2}})}, "its game is 'beacons hex4 2p'"),
    ],
)
def test_what_cannot_be_played_is_told_without_a_traceback(
    model: tuple[Path, str], changes: dict[str, str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(model, **changes)) == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("changes", [{"simulations": "0"}, {"seat": "ninth"}, {"game": "{"}])
def test_wrong_usage_is_refused(model: tuple[Path, str], changes: dict[str, str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments(model, **changes))
    assert left.value.code == 2


def test_a_random_seat_comes_from_the_seed(
    model: tuple[Path, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", nothing)
    seats = []
    for seed in (1, 1, *range(10)):
        assert main(arguments(model, seat="random", seed=str(seed))) == 0
        seats.append(re.search(r"you have seat (\d)", capsys.readouterr().out)[1])  # type: ignore[index]
    assert seats[0] == seats[1]
    assert set(seats) == {"0", "1"}
