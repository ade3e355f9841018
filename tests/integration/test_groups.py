"""Job groups as people type them: from `submit --grid` to folders of outputs, limits, faults and dependencies."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.conftest import NODE, WAIT, Fleet, Hostler, HostlerIn, Said, a_fleet, until

TRAIN = """
import json, os, sys
lr, bs = float(sys.argv[1]), int(sys.argv[2])
open("model.pt", "w").write(f"{lr} {bs}")
open(os.environ["HOSTLER_RESULT"], "w").write(json.dumps({"loss": lr * bs, "steps": 10}))
print("trained", lr, bs)
"""
BEST = """
import json, os
rows = json.load(open(os.environ["HOSTLER_INPUTS"]))["{group}"]
best = min(rows, key=lambda row: row["result"]["loss"])
open(os.environ["HOSTLER_RESULT"], "w").write(json.dumps(best["parameters"]))
"""
GRID = ("--grid", "lr=0.1,0.03", "--grid", "bs=16,32")


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet of two nodes with two slots each."""
    nodes = [{"name": name, **{key: value for key, value in NODE.items() if key != "name"}} for name in ("a", "b")]
    with a_fleet(tmp_path_factory.mktemp("two"), nodes=nodes) as made:
        made.start()
        yield made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return folder


@pytest.fixture
def typed(two_nodes: Fleet, project: Path, hostler_in: HostlerIn, monkeypatch: pytest.MonkeyPatch) -> Hostler:
    """`hostler` in the folder of the project, for the fleet of two nodes."""
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(two_nodes.state))
    return lambda *words: hostler_in(project, *words)


def group_of(said: Said) -> str:
    assert said.status == 0, said.err
    return said.out.strip()


def test_grid_goes_from_submit_to_folders_named_by_parameters(typed: Hostler, project: Path) -> None:
    said = typed("submit", *GRID, "--", sys.executable, "train.py", "{lr}", "{bs}")
    group = group_of(said)
    assert f"{group}: 4 jobs, " in said.err
    assert said.err.count("files: ") == 1, "one snapshot for all"
    waited = typed("wait", group)
    assert (waited.status, waited.out.startswith(f"{group} done: 4 of 4 jobs in ")) == (0, True)
    table = typed("results", group, "--sort", "loss").out.splitlines()
    assert table[0].split() == ["JOB", "lr", "bs", "OUTCOME", "DURATION", "loss", "steps"]
    assert [row.split()[1:4] for row in table[1:]] == [
        ["0.03", "16", "done"],
        ["0.03", "32", "done"],
        ["0.1", "16", "done"],
        ["0.1", "32", "done"],
    ]
    rows = list(csv.DictReader(io.StringIO(typed("results", group, "--csv").out)))
    assert [(row["lr"], row["bs"], float(row["loss"])) for row in rows] == [
        ("0.1", "16", 1.6),
        ("0.1", "32", 3.2),
        ("0.03", "16", 0.48),
        ("0.03", "32", 0.96),
    ]
    told = json.loads(typed("results", group, "--json").out)
    assert told[0]["parameters"] == {"lr": "0.1", "bs": "16"}
    fetched = typed("fetch", group)
    assert fetched.status == 0, fetched.err
    assert {str(path.relative_to(project / group)): path.read_text() for path in (project / group).rglob("*.pt")} == {
        "lr=0.1,bs=16/model.pt": "0.1 16",
        "lr=0.1,bs=32/model.pt": "0.1 32",
        "lr=0.03,bs=16/model.pt": "0.03 16",
        "lr=0.03,bs=32/model.pt": "0.03 32",
    }
    again = typed("submit", "--", "true")
    assert (again.status, "files: 1 file, " in again.err) == (0, True), "what was fetched is no part of the project"


def test_job_after_a_group_picks_the_best_of_its_results(typed: Hostler, two_nodes: Fleet, project: Path) -> None:
    group = group_of(typed("submit", *GRID, "--", sys.executable, "train.py", "{lr}", "{bs}"))
    (project / "best.py").write_text(BEST.replace("{group}", group))
    best = group_of(typed("submit", "--after", group, "--", sys.executable, "best.py"))
    assert two_nodes.over(best)["result"] == {"lr": "0.03", "bs": "16"}
    assert f"after      {group}\n" in typed("job", "show", best).out


def test_array_runs_at_most_so_many_jobs_on_all_nodes(typed: Hostler, two_nodes: Fleet, tmp_path: Path) -> None:
    script = f"{WAIT}\nimport os; print(os.environ['HOSTLER_INDEX'])"
    gate = tmp_path / "gate"
    group = group_of(typed("submit", "--array", "0-9:3,20%3", "--", sys.executable, "-c", script, str(gate)))
    until(lambda: two_nodes.client.group(group)["jobs"]["running"] == 3, "three that run")
    waiting = [row["job"] for row in two_nodes.client.group_results(group) if row["state"] == "pending"]
    assert len(waiting) == 2
    assert f"{group} runs at most 3 jobs at once" in " ".join(typed("explain", waiting[0]).out.split())
    free = group_of(typed("submit", "--", "true"))
    assert two_nodes.over(free)["job"]["state"] == "done", "the limit is that of the group"
    gate.touch()
    assert typed("wait", group).status == 0
    rows = list(two_nodes.client.group_results(group))
    assert [row["parameters"]["index"] for row in rows] == ["0", "3", "6", "9", "20"]
    most, running = 0, 0
    moments = [(at, step) for row in rows for at, step in ((row["started_at"], 1), (row["ended_at"], -1))]
    for _, step in sorted(moments):
        running += step
        most = max(most, running)
    assert most <= 3


def test_lines_of_a_file_are_jobs_whatever_is_in_them(typed: Hostler, two_nodes: Fleet, project: Path) -> None:
    lines = ["plain", "two words", "a;b $HOME `id` \"q\" 'q' \\", "ü {lr} {{x}}", "../up"]
    (project / "lines").write_text("\n".join([*lines, "", "  "]) + "\n")
    program = "import sys; print(sys.argv[1], end='')"
    group = group_of(typed("submit", "--each-line", "lines", "--", sys.executable, "-c", program, "{line}"))
    assert typed("wait", group).status == 0
    rows = list(two_nodes.client.group_results(group))
    assert [row["parameters"]["line"] for row in rows] == lines
    assert [typed("logs", row["job"]).out for row in rows] == lines


def test_failures_stop_a_group_and_what_failed_is_tried_again(typed: Hostler, two_nodes: Fleet, tmp_path: Path) -> None:
    good = tmp_path / "good"
    program = "import os, sys; sys.exit(0 if os.path.exists(sys.argv[1]) else 7)"
    words = ("--repeat", "5", "--max-running", "1", "--max-failures", "1", "--max-attempts", "exit=1")
    group = group_of(typed("submit", *words, "--", sys.executable, "-c", program, str(good)))
    waited = typed("wait", group)
    assert (waited.status, "2 failed" in waited.out, "3 cancelled" in waited.out) == (1, True, True)
    assert "exit 7" in waited.out
    rows = list(two_nodes.client.group_results(group))
    assert rows[4]["why"] == f"{group} was stopped: 2 jobs of it have failed, max_failures is 1"
    good.touch()
    assert typed("retry", group, "--failed").status == 0
    assert typed("wait", group).status == 1, "three are cancelled still"
    assert two_nodes.client.group(group)["jobs"] == {"pending": 0, "running": 0, "done": 2, "failed": 0, "cancelled": 3}
    assert typed("retry", group).status == 0
    assert typed("wait", group).status == 0
    again = typed("retry", group)
    assert (again.status, "no failed or cancelled jobs" in again.err) == (2, True)


def test_cancel_of_a_group_ends_all_of_it(typed: Hostler, two_nodes: Fleet, tmp_path: Path) -> None:
    words = ("--", sys.executable, "-c", WAIT, str(tmp_path / "never"))
    group = group_of(typed("submit", "--array", "1-6", *words))
    until(lambda: two_nodes.client.jobs(["running"], group=group), "one that runs")
    assert typed("cancel", group, "--reason", "wrong data").status == 0
    until(lambda: two_nodes.client.group(group)["jobs"]["cancelled"] == 6, "the end of all")
    assert {row["why"] for row in two_nodes.client.group_results(group)} == {"wrong data"}
    again = typed("cancel", group)
    assert (again.status, "nothing to cancel" in again.err) == (2, True), again.err


def test_larger_grid_under_the_same_key_adds_what_is_new(typed: Hostler, two_nodes: Fleet) -> None:
    words = ("--key", "exp", "--grid")
    first = group_of(typed("submit", *words, "lr=1,2", "--", "echo", "{lr}"))
    again = typed("submit", *words, "lr=1,2", "--", "echo", "{lr}")
    assert (group_of(again), f"2 were submitted before under their keys, in {first}" in again.err) == (first, True)
    more = typed("submit", *words, "lr=1,2,3", "--", "echo", "{lr}")
    assert group_of(more) != first
    assert two_nodes.client.group(group_of(more))["size"] == 1
    changed = typed("submit", *words, "lr=1,2", "--", "echo", "changed", "{lr}")
    assert (changed.status, "belongs to" in changed.err) == (2, True), changed.err


def test_jobs_are_listed_by_group_node_and_name(typed: Hostler, two_nodes: Fleet) -> None:
    group = group_of(typed("submit", "--name", "sweepish {x}", "--grid", "x=1,2,3", "--", "true", "{x}"))
    assert typed("wait", group).status == 0
    rows = json.loads(typed("jobs", "--group", group, "--json").out)
    assert [row["name"] for row in rows] == ["sweepish 1", "sweepish 2", "sweepish 3"]
    assert [row["id"] for row in json.loads(typed("jobs", "--name", "*ish 2", "--json").out)] == [rows[1]["id"]]
    by_node = {row["id"]: row["device"].split("/")[0] for row in rows}
    for node in ("a", "b"):
        listed = json.loads(typed("jobs", "--node", node, "--group", group, "--json").out)
        assert [row["id"] for row in listed] == [job for job, at in by_node.items() if at == node]
    listed = typed("results").out.splitlines()
    assert listed[0].split() == ["GROUP", "JOBS", "DONE", "FAILED", "CANCELLED", "RUNNING", "PENDING", "AGE", "NAME"]
    (row,) = [row.split() for row in listed if row.split()[0] == group]
    assert row[:4] == [group, "3", "3", "0"]
    assert "hostler jobs --group g1" in typed("job", "show", "g1").err
    lost = typed("jobs", "--group", "g999")
    assert (lost.status, "g999" in lost.err) == (2, True)


@pytest.mark.parametrize(
    "cpu_s", [pytest.param(0.1, marks=pytest.mark.services), 0.3, pytest.param(0.6, marks=pytest.mark.services)]
)
def test_group_is_complete_or_absent_when_the_controller_is_killed(fleet: Fleet, tmp_path: Path, cpu_s: float) -> None:
    fleet.start()
    assert fleet.controller is not None
    process = psutil.Process(fleet.controller.pid)
    begun_s = sum(process.cpu_times()[:2])
    words = ("submit", "--own-dir", "--array", "1-1000", "--", "true", "{index}")
    with subprocess.Popen(
        [sys.executable, "-m", "hostler", *words, "--state-dir", str(fleet.state)],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as submitting:
        # Whichever step the controller is in when it has worked for so long: the group must be whole or not there.
        until(lambda: submitting.poll() is not None or sum(process.cpu_times()[:2]) > begun_s + cpu_s, "the submission")
        fleet.kill()
        submitting.kill()
    fleet.start()
    groups = fleet.client.groups()
    jobs = list(fleet.client.all_jobs())
    assert [group["size"] for group in groups] == [1000] * bool(jobs)
    assert [job["group"] for job in jobs] == ["g1"] * 1000 * bool(jobs)
