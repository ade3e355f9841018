"""Jobs and groups submitted from Python, by a program that runs beside a real controller."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import hostler
from tests.integration.conftest import PATIENCE_S, Fleet, a_fleet

TRAIN = """
import json, os, sys
lr = float(sys.argv[1])
print("epoch 1", flush=True)
print("a warning", file=sys.stderr, flush=True)
print("epoch 2", open("data.txt").read().strip())
open("model.pt", "w").write(str(lr))
json.dump({"loss": lr * 2}, open(os.environ["HOSTLER_RESULT"], "w"))
"""
FAILS = """
print("before")
raise ValueError("no data")
"""
GATE = """
import pathlib, sys, time
print("waits", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with a_fleet(tmp_path_factory.mktemp("lab")) as made:
        made.start()
        yield made


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "fails.py").write_text(FAILS)
    (folder / "data.txt").write_text("old\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def client(lab: Fleet, project: Path, monkeypatch: pytest.MonkeyPatch) -> hostler.Client:
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(lab.state))
    monkeypatch.delenv("HOSTLER_URL", raising=False)
    return hostler.connect()


def test_job_goes_from_a_list_of_words_to_its_result_and_files(client: hostler.Client, project: Path) -> None:
    begun = datetime.now(UTC) - timedelta(seconds=1)
    job = client.submit(["python", "train.py", 0.5], name="train")
    assert job.wait(PATIENCE_S) == job.state == "done"
    assert job.result() == {"loss": 1.0}
    assert job.logs() == "epoch 1\na warning\nepoch 2 old\n"
    assert [path.relative_to(job.id) for path in job.fetch()] == [Path("model.pt")]
    assert (project / job.id / "model.pt").read_text() == "0.5"
    assert (project / job.id / ".gitignore").exists()
    assert repr(job) == f"<Job {job.id} done: train>"
    assert job.started_at is not None
    assert job.ended_at is not None
    assert begun < job.submitted_at <= job.started_at <= job.ended_at <= datetime.now(UTC) + timedelta(seconds=1)
    assert client.attach("train") == job
    assert job.explain()["job"] == job.id


def test_job_starts_from_the_files_as_they_were_at_submission(client: hostler.Client, project: Path) -> None:
    gate = project.parent / "gate"
    first = client.submit([sys.executable, "-c", GATE, gate], cwd=None)
    second = client.submit(["python", "train.py", "1"], after=first)
    (project / "data.txt").write_text("new\n")
    gate.touch()
    assert second.wait(PATIENCE_S) == "done"
    assert "epoch 2 old" in second.logs()


def test_failed_job_raises_its_reason_and_exit_status(client: hostler.Client) -> None:
    job = client.submit(["python", "fails.py"], max_attempts={"exit": 1})
    with pytest.raises(
        hostler.JobFailed, match=rf"{job.id} failed: exit 1, attempt 1 of 1: ValueError: no data"
    ) as error:
        job.result(PATIENCE_S)
    assert (error.value.job, error.value.exit_status) == (job.id, 1)
    assert job.logs().startswith("Traceback") or job.logs().startswith("before")
    assert "ValueError: no data" in job.logs(1)
    with pytest.raises(hostler.HostlerError, match=f"{job.id} has no attempt 7. Its attempts are {job.id}.1"):
        job.logs(7)
    assert job.retry() not in ("failed", "done")
    assert job.wait(PATIENCE_S) == "failed"


def test_follow_yields_lines_while_the_job_runs(client: hostler.Client, project: Path) -> None:
    gate = project.parent / "gate"
    job = client.submit([sys.executable, "-c", GATE + "print('ends', end='')", gate], cwd=None)
    lines = []
    for line in job.follow():
        lines.append((line, job.refresh()))
        gate.touch()
    assert lines[0] == ("waits", "running")
    assert [line for line, _ in lines] == ["waits", "ends"]


def test_follow_continues_through_a_second_attempt(client: hostler.Client, project: Path) -> None:
    mark = project.parent / "mark"
    code = """
import pathlib, sys
mark = pathlib.Path(sys.argv[1])
is_first = not mark.exists()
print(is_first)
mark.touch()
sys.exit(is_first)
"""
    job = client.submit([sys.executable, "-c", code, mark], cwd=None, max_attempts={"exit": 2})
    assert list(job.follow()) == ["True", "False"]
    assert (job.refresh(), job.logs(1), job.logs()) == ("done", "True\n", "False\n")


def test_wait_ends_after_its_time_and_survives_a_restart_of_the_controller(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_fleet(tmp_path) as fleet:
        fleet.start()
        client = hostler.connect(state_dir=fleet.state)
        gate = project.parent / "gate"
        job = client.submit([sys.executable, "-c", GATE, gate], cwd=None)
        fleet.state_of(job.id, "running")
        with pytest.raises(TimeoutError, match=f"{job.id} has not ended after"):
            job.wait(0.1)
        states: list[str] = []
        waiting = threading.Thread(target=lambda: states.append(job.wait()))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            waiting.start()
            fleet.kill()
            with pytest.raises(TimeoutError, match="the controller does not answer"):
                job.wait(0)
            gate.touch()
            fleet.start()
            waiting.join(PATIENCE_S)
        assert any("the controller does not answer, and is waited for" in str(each.message) for each in said)
        assert states == ["done"]


def test_grid_is_a_group_with_a_row_of_results_for_each_job(client: hostler.Client, project: Path) -> None:
    group = client.submit(["python", "train.py", "{lr}"], grid={"lr": [0.1, 0.25]}, name="lr", max_running=1)
    assert group.wait(PATIENCE_S) == "done"
    rows = group.results()
    assert [{**row, "duration_s": None} for row in rows] == [
        {"job": job.id, "lr": float(lr), "outcome": "done", "duration_s": None, "loss": float(lr) * 2}
        for job, lr in zip(group.jobs(), ("0.1", "0.25"), strict=True)
    ]
    assert all(row["duration_s"] > 0 for row in rows)
    assert "<th>lr</th>" in rows._repr_html_()
    paths = group.fetch("runs")
    assert [str(path) for path in paths] == ["runs/lr=0.1/model.pt", "runs/lr=0.25/model.pt"]
    assert (project / "runs/lr=0.25/model.pt").read_text() == "0.25"
    assert client.attach_group(group.id).counts == {"done": 2}
    best = client.submit(["python", "-c", "print('after all')"], after=[group, group.jobs()[0].id], cwd=None)
    assert best.wait(PATIENCE_S) == "done"


def test_group_of_chosen_parameters_stops_after_failures_and_is_retried(client: hostler.Client) -> None:
    group = client.submit(
        [sys.executable, "-c", "import sys; sys.exit(int(sys.argv[1]))", "{code}"],
        grid=[{"code": code} for code in (1, 2, 3)],
        cwd=None,
        max_attempts={"exit": 1},
        max_running=1,
        max_failures=0,
    )
    assert group.wait(PATIENCE_S) == group.state == "failed"
    assert group.counts == {"failed": 1, "cancelled": 2}
    with pytest.raises(hostler.HostlerError, match=f"no job of {group.id} has left files"):
        group.fetch()
    assert group.retry(only_failed=True) == "running"
    group.wait(PATIENCE_S)


def test_cancelled_job_raises_that_it_was_cancelled(client: hostler.Client, project: Path) -> None:
    job = client.submit([sys.executable, "-c", GATE, project.parent / "never"], cwd=None)
    job.cancel("a mistake")
    with pytest.raises(hostler.JobFailed, match=f"{job.id} cancelled: a mistake"):
        job.result(PATIENCE_S)


def test_job_that_fits_nowhere_is_a_warning_and_with_strict_an_error(client: hostler.Client) -> None:
    with pytest.warns(hostler.HostlerWarning, match="fits on no device") as told:
        job = client.submit(["true"], cwd=None, gpus=1)
    assert told[0].filename == __file__
    assert "fits on no device" in job.notes[0]
    job.cancel()
    with pytest.raises(hostler.HostlerError, match="cannot run on any device: needs a GPU"):
        client.submit(["true"], cwd=None, gpus=1, strict=True)
    assert client.jobs(limit=1, after=int(job.id[1:])) == []


def test_python_of_a_job_is_the_python_of_the_program(lab: Fleet, project: Path, tmp_path: Path) -> None:
    """A program that a virtual environment runs, which no shell has activated."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    code = (
        "import hostler\njob = hostler.connect().submit(['python', '-c', 'import sys; print(sys.prefix)'], cwd=None)\n"
    )
    code += "job.wait()\nprint(job.logs(), end='')"
    found = subprocess.run(
        [tmp_path / "env/bin/python", "-c", code],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), "HOSTLER_STATE_DIR": str(lab.state)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert found.stdout == f"{tmp_path}/env\n"


def test_async_client_has_the_same_methods(client: hostler.Client, project: Path) -> None:
    async def submitted() -> tuple[object, ...]:
        async with await hostler.connect_async() as asked:
            job = await asked.submit(["python", "train.py", "2"])
            lines = [line async for line in job.follow()]
            group = await asked.submit(["python", "train.py", "{lr}"], grid={"lr": [1]}, cwd=".")
            state = await group.wait(PATIENCE_S)
            jobs = await group.jobs()
            paths = await (await asked.attach(jobs[0].id)).fetch("there")
            return lines, await job.result(), await job.wait(), state, [str(each) for each in paths]

    lines, result, *others = asyncio.run(submitted())
    assert sorted(map(str, lines)) == ["a warning", "epoch 1", "epoch 2 old"]  # type: ignore[call-overload]
    assert (result, others) == ({"loss": 4.0}, ["done", "done", ["there/model.pt"]])


def test_connect_without_a_controller_names_the_command_that_starts_one(tmp_path: Path) -> None:
    with pytest.raises(hostler.HostlerError, match=r"no controller is running .* start one with `hostler up"):
        hostler.connect(state_dir=tmp_path)


def test_connect_to_an_address_needs_its_token(
    lab: Fleet, client: hostler.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOSTLER_TOKEN", raising=False)
    url = client._locate().url
    with pytest.raises(hostler.HostlerError, match="HOSTLER_TOKEN is not set"):
        hostler.connect(url)
    with pytest.raises(hostler.HostlerError, match="token"):
        hostler.connect(url, token="wrong")
    job = hostler.connect(url, token=(lab.state / "token").read_text().strip()).submit(
        [sys.executable, "train.py", "3"]
    )
    assert job.result(PATIENCE_S) == {"loss": 6.0}
