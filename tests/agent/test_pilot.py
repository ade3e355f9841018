"""A pilot: what work in a job of a Ray cluster inherits of it, and what it leaves. Whole ones: tests/backends/ray."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path

import pytest

from hostler.agent import pilot


def test_what_is_ours_is_taken_out_of_what_work_inherits(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"working_dir": "gcs://ours.zip", "env_vars": {pilot.TICKET: "secret", "RAY_x": "1"}}
    monkeypatch.setenv(pilot.JOB_CONFIG, json.dumps({"runtime_env": own, "metadata": {"job_submission_id": "h"}}))
    pilot._clean_environment()
    left = json.loads(os.environ[pilot.JOB_CONFIG])
    assert left == {"runtime_env": {"env_vars": {"RAY_x": "1"}}, "metadata": {"job_submission_id": "h"}}


@pytest.mark.parametrize(
    "words", ["", "no JSON", "[]", "{}", '{"runtime_env": 1}', '{"runtime_env": {"env_vars": null}}']
)
def test_what_cannot_be_understood_is_not_handed_on(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setenv(pilot.JOB_CONFIG, words)
    pilot._clean_environment()
    assert pilot.TICKET not in os.environ.get(pilot.JOB_CONFIG, "")


def test_folders_of_pilots_that_died_long_ago_go_and_no_others(tmp_path: Path) -> None:
    long_ago = time.time() - 2 * pilot.LEFT_S
    for name in ("old", "young", "held"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dial.lock").touch()
        if name != "young":
            os.utime(tmp_path / name / "dial.lock", (long_ago, long_ago))
    (tmp_path / "of somebody else").mkdir()
    with (tmp_path / "held" / "dial.lock").open("w") as lock:
        os.utime(tmp_path / "held" / "dial.lock", (long_ago, long_ago))
        fcntl.flock(lock, fcntl.LOCK_EX)
        pilot._clear_left(str(tmp_path))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["held", "of somebody else", "young"]


def test_without_a_ticket_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(pilot.TICKET, raising=False)
    monkeypatch.setenv(pilot.JOB_CONFIG, "")
    words = ["--dir", str(tmp_path / "d"), "--journal", "j", "--to", "h:1", "--node", "n", "--alone-s", "1"]
    assert pilot.main([*words, "--fingerprint", "0" * 64]) == pilot.EXIT_USAGE
    assert pilot.TICKET in capsys.readouterr().err
    monkeypatch.setenv(pilot.TICKET, "t")
    assert pilot.main([*words, "--fingerprint", "xyz"]) == pilot.EXIT_USAGE
    assert "--fingerprint" in capsys.readouterr().err
