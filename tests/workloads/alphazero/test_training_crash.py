"""A training that is killed, as a real process, goes on as if nothing had been."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostler.workloads.alphazero import dataset as datasets
from hostler.workloads.alphazero.artifacts import DATASET, Artifacts
from hostler.workloads.alphazero.stage import Report
from hostler.workloads.alphazero.training import run
from hostler.workloads.beacons.game import make
from tests.workloads.alphazero.datasets import heuristic_dataset

STEPS = 150
HOLDING = """
import os, runpy, sys
from hostler.workloads.alphazero import training

tell = training._tell

def tell_and_hold(line):
    tell(line)
    if line.startswith(f"step {os.environ['HOLDS_AT']} of"):
        sys.stdin.read()

training._tell = tell_and_hold
runpy.run_module("hostler.workloads.alphazero", run_name="__main__", alter_sys=True)
"""
"""The program, which after it has told of one step waits for the end of its input: however late its signal comes, it
comes at that step."""
CONFIG = "hex4_2p"
COMMON = {"schema": 1, "stage": "training", "config": CONFIG, "seed": 5,
          "game": {"factory": "hostler.workloads.beacons.game:make",
                   "params": {"board": "hex4", "players": 2}}}  # fmt: skip


class Node:
    """An artifact folder with the base, the dataset and the order."""

    def __init__(self, root: Path) -> None:
        self.root, self.artifacts = root, Artifacts(root / "artifacts")
        self.result, self.inputs = root / "result.json", root / "order.json"
        began = {**COMMON, "base": None, "init": {"channels": 8, "blocks": 1}, "dataset": None, "steps": 0}
        base = run(began, self.artifacts, Report(self.result))["model"]["sha256"]
        data = heuristic_dataset(make("hex4", 2), CONFIG, 60, 1)
        sha256 = self.artifacts.publish(DATASET, datasets.write(data)).sha256
        named = {"sha256": sha256, "games": 60, "positions": len(data.states)}
        options = {"validate_every": 10, "checkpoint_every": 25, "learning_rate": 3e-3}
        self.order = {
            **COMMON,
            "base": base,
            "init": None,
            "dataset": named,
            "steps": STEPS,
            "batch": 32,
            "options": options,
        }
        self.inputs.write_text(json.dumps(self.order))
        self.result.unlink(missing_ok=True)

    def start(self, holds_at: int | None) -> subprocess.Popen[str]:
        places = {
            "HOSTLER_INPUTS": self.inputs,
            "HOSTLER_RESULT": self.result,
            "HOSTLER_ARTIFACTS": self.root / "artifacts",
        }
        environ = {**os.environ, "OMP_NUM_THREADS": "1", **{name: str(path) for name, path in places.items()}}
        program = ["-m", "hostler.workloads.alphazero"]
        if holds_at is not None:
            program, environ["HOLDS_AT"] = ["-c", HOLDING], str(holds_at)
        return subprocess.Popen(
            [sys.executable, *program, "training"],
            env=environ, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def life(self, ends_at: int | None = None, signum: int = signal.SIGKILL) -> tuple[int, dict[str, Any]]:
        """Exit status and result; with `ends_at` the process gets the signal at that step."""
        with self.start(ends_at) as process:
            assert process.stdin is not None
            assert process.stderr is not None
            for line in process.stderr:
                if ends_at is not None and line.startswith(f"training: step {ends_at} of"):
                    process.send_signal(signum)
                    process.stdin.close()
        return process.returncode, json.loads(self.result.read_text()) if self.result.exists() else {}

    def steps(self) -> list[int]:
        """Of the checkpoints in the work folder."""
        return [int(path.name.split("-")[1]) for path in self.work() if path.suffix == ".safetensors"]

    def work(self) -> list[Path]:
        return sorted(self.artifacts.work(self.order).iterdir())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    node = Node(tmp_path_factory.mktemp("uninterrupted"))
    return dict(run(node.order, node.artifacts, Report(node.result)))


def same(result: dict[str, Any], expected: dict[str, Any]) -> None:
    """All of it, the bytes of the model included, but for the time it took and where the last life began."""
    own = ("cpu_s", "resumed_from", "damaged", "schema")
    assert {key: value for key, value in result.items() if key not in own} == {
        key: value for key, value in expected.items() if key not in own
    }


@pytest.mark.long
def test_a_killed_training_ends_with_the_very_model_of_an_uninterrupted_one(
    node: Node, uninterrupted: dict[str, Any]
) -> None:
    status, result = node.life(ends_at=60)
    assert (status, result) == (-signal.SIGKILL, {})
    killed = node.steps()
    assert 50 <= killed[-1] < STEPS
    result = dict(run(node.order, node.artifacts, Report(node.result)))
    assert result["resumed_from"] == killed[-1]
    assert uninterrupted["resumed_from"] is None
    same(result, uninterrupted)


@pytest.mark.long
def test_killed_and_then_told_to_stop_it_ends_with_the_very_model_of_an_uninterrupted_training(
    node: Node, uninterrupted: dict[str, Any]
) -> None:
    status, result = node.life(ends_at=60)
    assert (status, result) == (-signal.SIGKILL, {})
    killed = node.steps()
    status, result = node.life(ends_at=110, signum=signal.SIGTERM)
    assert (status, result) == (128 + signal.SIGTERM, {})
    stopped = node.steps()
    assert 50 <= killed[-1] < 110 <= stopped[-1] < STEPS
    status, result = node.life()
    assert status == 0
    assert result["resumed_from"] == stopped[-1]
    assert uninterrupted["resumed_from"] is None
    same(result, uninterrupted)
    assert list((node.root / "artifacts" / "work").iterdir()) == []


@pytest.mark.long
def test_a_damaged_checkpoint_is_passed_over_and_told(node: Node, uninterrupted: dict[str, Any]) -> None:
    run(node.order, node.artifacts, Report(node.result))
    _, newest = node.work()
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    result = dict(run(node.order, node.artifacts, Report(node.result)))
    assert (result["resumed_from"], result["damaged"]) == (125, [newest.name])
    same(result, uninterrupted)


@pytest.mark.long
def test_without_a_whole_checkpoint_it_begins_again_and_says_so(node: Node, uninterrupted: dict[str, Any]) -> None:
    run(node.order, node.artifacts, Report(node.result))
    names = [path.name for path in node.work()]
    for path in node.work():
        path.write_bytes(path.read_bytes()[:100])
    result = dict(run(node.order, node.artifacts, Report(node.result)))
    assert (result["resumed_from"], sorted(result["damaged"])) == (None, names)
    same(result, uninterrupted)
