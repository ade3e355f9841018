"""`hostler cancel`, `retry`, `jobs` and `job` with job groups, and with several names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hostler.model.errors import LinkLost
from tests.cli.conftest import Hostler
from tests.cli.fake_groups import FakeController


def states(fake: FakeController) -> list[str]:
    return [job["state"] for job in fake.jobs_by_id.values()]


@pytest.fixture
def mixed(fake: FakeController) -> FakeController:
    """A group of five jobs, each in another state, and a job without a group."""
    for state in ("done", "failed", "cancelled", "running", "pending"):
        fake.add(state)
    fake.add("pending", None)
    return fake


def test_cancel_of_a_group_prints_how_many_jobs(mixed: FakeController, hostler: Hostler) -> None:
    said = hostler("cancel", "g1", "j6")
    assert (said.status, said.out) == (0, "g1 cancelled: 2 jobs\nj6 cancelled\n")
    assert states(mixed) == ["done", "failed", "cancelled", "cancelled", "cancelled", "cancelled"]
    said = hostler("cancel", "g1")
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)


def test_cancel_tries_each_name_whatever_becomes_of_others(mixed: FakeController, hostler: Hostler) -> None:
    said = hostler("cancel", "j1", "j99", "j6", "g7", "j4")
    assert (said.status, said.out) == (2, "j6 cancelled\nj4 cancelled\n")
    assert said.err.splitlines() == [
        "hostler: error: j1 is done already",
        "hostler: error: there is no job 'j99'; `hostler jobs` lists them",
        "hostler: error: there is no job group 'g7'",
    ]
    assert hostler("cancel", "j99", "j1").status == 2


def test_cancel_as_json_has_what_was_cancelled(mixed: FakeController, hostler: Hostler) -> None:
    said = hostler("cancel", "j1", "g1", "j6", "--json")
    assert (said.status, [each["id"] for each in said.json]) == (2, ["g1", "j6"])


def test_cancel_ends_where_the_controller_is_lost(mixed: FakeController, hostler: Hostler) -> None:
    mixed.absent = [LinkLost("gone")]
    said = hostler("cancel", "j6", "g1", "j4")
    assert (said.status, said.out, said.err) == (1, "j6 cancelled\n", "hostler: error: gone\n")
    assert states(mixed)[3] == "running"


def test_retry_of_a_group_tries_failed_and_cancelled_jobs(mixed: FakeController, hostler: Hostler) -> None:
    assert hostler("retry", "g1").out == "g1 tried again: 2 of 5 jobs\n"
    assert states(mixed)[:3] == ["done", "pending", "pending"]
    said = hostler("retry", "g1")
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)


def test_retry_of_failed_jobs_leaves_cancelled_ones(mixed: FakeController, hostler: Hostler) -> None:
    assert hostler("retry", "g1", "--failed").out == "g1 tried again: 1 of 5 jobs\n"
    assert states(mixed)[:3] == ["done", "pending", "cancelled"]


def test_retry_of_failed_jobs_leaves_out_named_jobs_that_did_not_fail(mixed: FakeController, hostler: Hostler) -> None:
    said = hostler("retry", "j1", "j2", "j3", "--failed")
    assert (said.status, said.err) == (0, "")
    assert said.out == "j1 left out: done\nj2 pending\nj3 left out: cancelled\n"
    assert hostler("retry", "j3", "--failed", "--json").json == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--group", "g1", "--state", "failed", "--state", "done"], ["j1", "j2"]),
        (["--node", "rig-2"], ["j4"]),
        (["--name", "train-j[12]"], ["j1", "j2"]),
        (["--name", "j3"], ["j3"]),
        (["--name", "J3"], []),
        (["--name", "*5", "--group", "g1"], ["j5"]),
    ],
)
def test_jobs_are_filtered(mixed: FakeController, hostler: Hostler, words: list[str], found: list[str]) -> None:
    mixed.jobs_by_id["j4"]["device"] = "rig-2/cuda1"
    assert [job["id"] for job in hostler("jobs", *words, "--json").json] == found
    out = hostler("jobs", *words).out.splitlines()
    assert [line.split()[0] for line in out[1:] if line[0] != " "] == found if found else out == ["no jobs"]


def test_jobs_that_are_filtered_are_limited_to_the_newest(mixed: FakeController, hostler: Hostler) -> None:
    said = hostler("jobs", "--group", "g1", "--limit", "2")
    assert [line.split()[0] for line in said.out.splitlines()[1:]] == ["j4", "j5"]
    assert said.err == "and 3 older; `--limit 5` shows them, too\n"


def test_jobs_of_no_group_is_wrong_usage(mixed: FakeController, hostler: Hostler) -> None:
    said = hostler("jobs", "--group", "train")
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert "'train' is not the id of a job group" in said.err


def test_jobs_show_duration_device_and_name_in_80_columns(
    mixed: FakeController, hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.cli.jobs.time.time", lambda: 300.0)
    for job in mixed.jobs_by_id.values():
        job["why"] = "placed on rig-1/cuda0: the device with the most free memory of those that are free"
        job["name"] = "train-resnet-with-a-long-name"
    lines = hostler("jobs").out.splitlines()
    assert lines[0].split() == ["ID", "STATE", "WORK", "TRIES", "DURATION", "DEVICE", "NAME"]
    rows = [line for line in lines[1:] if line.startswith("j")]
    assert [re.split(r"  +", line)[4] for line in rows] == ["12 s", "12 s", "12 s", "3m 20s", "-", "-"]
    assert all("rig-1/cuda0" in line for line in rows)
    assert lines.count("    train-resnet-with-a-long-name") == len(rows)
    assert all(len(line) <= 80 for line in lines)
    assert sum(line.startswith("    placed on rig-1/cuda0: the device") for line in lines) == len(rows)
    monkeypatch.setenv("COLUMNS", "120")
    assert {"PRIO", "AGE"} < set(hostler("jobs").out.splitlines()[0].split())


def test_job_has_its_group_and_parameters(fake: FakeController, hostler: Hostler) -> None:
    fake.add(lr="0.1", bs="16")
    fake.add()
    fake.add(group=None)
    assert "group      g1, parameters lr=0.1 bs=16" in hostler("job", "show", "j1").out.splitlines()
    assert "group      g1" in hostler("job", "show", "j2").out.splitlines()
    assert "group" not in hostler("job", "show", "j3").out


def test_job_has_absolute_paths_of_files_that_lie_here(
    fake: FakeController, hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTLER_STATE_DIR", "state")
    fake.keep(fake.add(), **{f"{number:02}-{'x' * 60}_pt": b"" for number in range(22)})
    assert "files      out/00-" in hostler("job", "show", "j1").out
    folder = tmp_path / "state/results/j1.1/out"
    folder.mkdir(parents=True)
    for number in range(22):
        (folder / f"{number:02}-{'x' * 60}.pt").touch()
    lines = hostler("job", "show", "j1").out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("files"))
    paths = [line[11:] for line in lines[at : at + 20]]
    assert all(Path(path).is_absolute() and Path(path).exists() for path in paths)
    assert lines[at + 20] == f"{'':11}and 2 more below {folder}"
