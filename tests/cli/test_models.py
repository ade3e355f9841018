"""`hostler model` and `hostler model play` in front of made-up configs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostler.cli import models
from hostler.model.inputs import RollBack
from tests.cli.conftest import Hostler
from tests.test_client import announce
from tests.web.core_desk import window
from tests.web.loops import LoopDesk, busy, empty, losing, sha


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopDesk]:
    """Three configs, announced in the state directory that commands use."""
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    made = LoopDesk(busy("hex8_2p"), empty("square8_2p"), losing("old"))
    with window(made) as served:
        announce(tmp_path / "state", served.port)
        yield made


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that were run; each ends with status 7."""
    ran: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 7)

    monkeypatch.setattr(subprocess, "run", run)
    return ran


def test_models_are_listed_with_what_became_of_them(desk: LoopDesk, hostler: Hostler) -> None:
    lines = hostler("model", "list", "hex8_2p").out.splitlines()
    assert lines[0].split() == ["#", "MODEL", "STATUS", "ELO", "STEPS", "AGE", "WHY"]
    assert lines[11].split()[:6] == ["*10", sha(("hex8_2p", 10))[:12], "promoted", "826", "±53", "1200"]
    assert lines[12].split()[:4] == ["11", sha(("hex8_2p", 11))[:12], "candidate", "?"]
    assert hostler("model", "list", "square8_2p").out == "no models yet\n"


def test_without_a_name_the_model_before_is_current_again(desk: LoopDesk, hostler: Hostler) -> None:
    said = hostler("model", "rollback", "hex8_2p", "--why", "it lost")
    now, was = sha(("hex8_2p", 9))[:12], sha(("hex8_2p", 10))[:12]
    assert said.out == f"hex8_2p: the current model is 9 ({now}), was 10 ({was})\n"
    assert desk.rolled_back == [RollBack(config="hex8_2p", why="it lost")]


@pytest.mark.parametrize("word", ["4", sha(("hex8_2p", 4))[:10], sha(("hex8_2p", 4)).upper()])
def test_a_model_is_named_by_number_or_hash(desk: LoopDesk, hostler: Hostler, word: str) -> None:
    said = hostler("model", "rollback", "hex8_2p", word, "--json")
    assert said.json["current"] == sha(("hex8_2p", 4))
    assert desk.rolled_back == [RollBack(config="hex8_2p", model=sha(("hex8_2p", 4)))]


def test_an_unknown_model_is_refused_with_those_there_are(desk: LoopDesk, hostler: Hostler) -> None:
    said = hostler("model", "rollback", "hex8_2p", "99")
    assert said.status == 2
    assert f"hex8_2p has no model '99'; there are: 11 ({sha(('hex8_2p', 11))[:12]}), 10 (" in said.err
    said = hostler("model", "rollback", "square8_2p", "abcdef")
    assert "square8_2p has no model 'abcdef'; there is none yet" in said.err
    said = hostler("model", "rollback", "hex8_2p", "")
    assert "'' is the beginning of several models of hex8_2p; write more of it: 11 (" in said.err
    assert desk.rolled_back == []


def test_long_lists_of_models_are_cut(desk: LoopDesk, hostler: Hostler) -> None:
    desk.histories["hex8_2p"] = busy("hex8_2p", 40)
    assert hostler("model", "rollback", "hex8_2p", "99").err.endswith("and 20 older\n")


def test_play_starts_the_program_on_the_current_model(
    desk: LoopDesk, hostler: Hostler, program: list[list[str]], tmp_path: Path
) -> None:
    assert hostler("model", "play", "hex8_2p").status == 7
    assert hostler("model", "play", "hex8_2p", "--simulations", "9", "--seat", "2").status == 7
    usual, chosen = (dict(zip(words[4::2], words[5::2], strict=True)) for words in program)
    assert [words[:4] for words in program] == [[sys.executable, "-m", "hostler.workloads.alphazero", "play"]] * 2
    assert json.loads(usual.pop("--game")) == desk.config("hex8_2p").game
    assert usual == {
        "--artifacts": str(tmp_path / "state" / "artifacts"),
        "--model": sha(("hex8_2p", 10)),
        "--config": "hex8_2p",
        "--simulations": "64",
        "--seat": "first",
    }
    assert (chosen["--simulations"], chosen["--seat"]) == ("9", "second")


@pytest.mark.long
def test_the_program_understands_what_play_asks(desk: LoopDesk, hostler: Hostler) -> None:
    """The real one: it reads every word, makes the game, and finds that these made-up models have no weights."""
    pytest.importorskip("torch", reason="the extra train is not installed")
    said = hostler("model", "play", "hex8_2p", "--simulations", "9", "--seat", "2")
    assert said.status == 1
    assert sha(("hex8_2p", 10)) in said.err
    assert "Traceback" not in said.err


def test_what_cannot_be_played_is_refused(
    desk: LoopDesk, hostler: Hostler, program: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = desk.histories["old"]
    unknown = replace(made.config, game={"factory": "", "params": {}})
    desk.histories["old"] = replace(made, config=unknown)
    assert "square8_2p has no model to play against yet; next: training" in hostler("model", "play", "square8_2p").err
    assert "old is a game that only its own commands know" in hostler("model", "play", "old").err
    assert (
        "hex8_2p has the seats 1 to 2, and --seat 3 is none of them"
        in hostler("model", "play", "hex8_2p", "--seat", "3").err
    )
    monkeypatch.setattr(models, "find_spec", lambda _: None)
    said = hostler("model", "play", "hex8_2p")
    assert (said.status, "pip install 'hostler[train]'" in said.err) == (2, True)
    assert program == []
