import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostler.workloads.alphazero.__main__ import main
from hostler.workloads.alphazero.artifacts import MODEL, SEGMENT
from hostler.workloads.alphazero.model import Manifest, publish
from hostler.workloads.alphazero.network import build
from tests.workloads.alphazero.stages import CONFIG, GAME, Node, games_of, segment_of, selfplay_order


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.long
def test_a_stage_is_a_process(node: Node) -> None:
    environ = {**os.environ, **node.environ(selfplay_order())}
    command = [sys.executable, "-m", "hostler.workloads.alphazero", "selfplay"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert node.result()["games"] == 40
    refused = subprocess.run([*command[:-1], "export"], env=environ, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "order.stage: 'selfplay', but this program does 'export'" in refused.stderr


def test_looking_into_a_segment(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    told = node.publish(segment_of(games_of(GAME, 3)))
    assert main(["inspect", str(node.artifacts.path(told["sha256"], SEGMENT))]) == 0
    out = capsys.readouterr().out
    assert json.loads(out[: out.rindex("}") + 1])["games"] == 3
    assert "ranking                  int8     3 x 2" in out


def test_looking_into_a_model(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = Manifest.untrained(GAME, CONFIG, channels=8, blocks=1, seed=1)
    sha256 = publish(node.artifacts, build(GAME, channels=8, blocks=1, seed=1), manifest).sha256
    assert main(["inspect", str(node.artifacts.path(sha256, MODEL))]) == 0
    out = capsys.readouterr().out
    assert json.loads(out[: out.rindex("}") + 1])["channels"] == 8
    assert "stem.linear.weight" in out


@pytest.mark.parametrize("name", ["games.npz", f"model{MODEL}", "nowhere.npz"])
def test_looking_into_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    if name != "nowhere.npz":
        (tmp_path / name).write_bytes(b"something else")
    assert main(["inspect", str(tmp_path / name)]) == 1
    assert f"{name} is no segment, dataset or model" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["inspect"]])
def test_wrong_usage_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage:" in capsys.readouterr().err
