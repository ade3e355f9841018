import json
import os
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hostler.workloads.alphazero.artifacts import ArtifactError, Artifacts
from hostler.workloads.alphazero.stage import OrderError, Report, StageError, Stopped, run_stage, termination
from tests.workloads.alphazero.stages import Node

ORDER = {"schema": 1, "stage": "work", "what": "anything"}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


class Working:
    """A stage that notes something in its work folder, reports, and then fails or not."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def __call__(self, order: Mapping[str, Any], artifacts: Artifacts, report: Report) -> Mapping[str, Any]:
        (artifacts.work(order) / "note").touch()
        report({"games": 1})
        if self.error is not None:
            raise self.error
        return {"games": 2}


def work_folders(node: Node) -> list[Path]:
    return list((node.root / "work").glob("*"))


def test_a_stage_that_is_done_leaves_its_result_and_no_work_folder(node: Node) -> None:
    assert node.run(Working(), ORDER) == (0, {"games": 2})
    assert work_folders(node) == []
    assert {path.name for path in node.folder.iterdir()} == {"inputs.json", "result.json", "artifacts"}


def test_a_stage_that_cannot_says_why_beside_what_there_was(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    status, result = node.run(Working(StageError("3 games lack 5", lacking=5)), ORDER)
    assert (status, result) == (1, {"games": 1, "lacking": 5, "error": "3 games lack 5"})
    assert work_folders(node) == []
    assert "work: 3 games lack 5" in capsys.readouterr().err


def test_after_trouble_of_the_node_the_work_folder_is_kept_for_the_next_life(node: Node) -> None:
    status, result = node.run(Working(ArtifactError("disk full")), ORDER)
    assert (status, result) == (1, {"games": 1, "error": "disk full"})
    assert len(work_folders(node)) == 1
    assert node.run(Working(), ORDER)[0] == 0
    assert work_folders(node) == []


def test_a_stopped_stage_keeps_its_result_so_far_and_its_work_folder(node: Node) -> None:
    assert node.run(Working(Stopped("by SIGTERM")), ORDER) == (143, {"games": 1})
    assert len(work_folders(node)) == 1


def test_what_nobody_foresaw_is_reported_and_raised(node: Node) -> None:
    with pytest.raises(ZeroDivisionError):
        node.run(Working(ZeroDivisionError("oh")), ORDER)
    assert node.result() == {"games": 1, "error": "ZeroDivisionError: oh; the traceback is in the log: report it"}


def test_a_field_that_cannot_be_read_is_status_2(node: Node) -> None:
    status, result = node.run(Working(OrderError("order.games: missing")), ORDER)
    assert (status, result) == (2, {"error": "order.games: missing"})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "cannot be read"),
        ("[]", "must be a JSON object"),
        ('{"schema": 2, "stage": "work"}', r"order\.schema: 2, but this program does 1"),
        ('{"schema": 1, "stage": "play"}', r"order\.stage: 'play', but this program does 'work'"),
        ('{"schema": 1, "stage": "work", "x": NaN}', "no canonical form"),
    ],
)
def test_an_order_that_cannot_be_read_is_status_2(node: Node, content: str, told: str) -> None:
    environ = node.environ(ORDER)
    Path(environ["HOSTLER_INPUTS"]).write_text(content)
    assert run_stage("work", Working(), environ) == 2
    assert re.search(told, node.result()["error"])


def test_a_missing_order_or_environment_is_status_2(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    environ = node.environ(ORDER)
    Path(environ["HOSTLER_INPUTS"]).unlink()
    assert run_stage("work", Working(), environ) == 2
    assert run_stage("work", Working(), {}) == 2
    assert "lacks HOSTLER_INPUTS, HOSTLER_RESULT, HOSTLER_ARTIFACTS" in capsys.readouterr().err


def test_a_result_that_cannot_be_left_is_a_failure(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    environ = {**node.environ(ORDER), "HOSTLER_RESULT": "/proc/no-such-folder/result.json"}
    assert run_stage("work", Working(), environ) == 1
    assert "the result /proc/no-such-folder/result.json" in capsys.readouterr().err
    assert len(work_folders(node)) == 1


def test_a_result_is_json_without_nan(tmp_path: Path) -> None:
    report = Report(tmp_path / "result.json")
    with pytest.raises(ValueError, match="JSON"):
        report({"loss": float("nan")})
    assert not (tmp_path / "result.json").exists()
    report({"loss": None})
    assert json.loads((tmp_path / "result.json").read_text()) == {"schema": 1, "loss": None}


def test_within_termination_a_sigterm_is_noted_and_afterwards_it_kills_again() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with termination() as asked:
        assert not asked()
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked()
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, '{"schema": true, "stage": "work"}', '{"schema": 1, "stage": "work", "x": ' + "9" * 5000 + "}"],
)
def test_wild_json_is_status_2(node: Node, content: str) -> None:
    environ = node.environ(ORDER)
    Path(environ["HOSTLER_INPUTS"]).write_text(content)
    assert run_stage(ORDER["stage"], Working(), environ) == 2
    assert node.result()["error"]


def test_two_lives_of_one_order_do_not_work_at_once(node: Node) -> None:
    with node.artifacts.alone(ORDER):
        status, result = node.run(Working(), ORDER)
    assert status == 1
    assert "another process is at work on the same order" in result["error"]
    assert node.run(Working(), ORDER)[0] == 0


def test_any_stage_that_sigterm_ends_is_status_143(node: Node) -> None:
    def asked(order: Mapping[str, Any], artifacts: Artifacts, report: Report) -> Mapping[str, Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
        return {}

    before = signal.getsignal(signal.SIGTERM)
    assert run_stage(ORDER["stage"], asked, node.environ(ORDER)) == 143
    assert not node.result_path.exists()
    assert signal.getsignal(signal.SIGTERM) is before
