"""`hostler submit` of groups, in front of a client that records its requests."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hostler.cli import submission, submitting, waiting
from hostler.client import notes, snapshots
from hostler.client.calls import Ask, Submitted, Told, Work
from hostler.client.snapshots import SentFolders
from hostler.snapshots import folder as folders
from tests.cli.conftest import Hostler

GRID = ["--grid", "lr=0.1,0.03", "--grid", "bs=16,32"]
COMMAND = ["--", "./train", "--lr", "{lr}", "--bs", "{bs}"]


class Answered(NamedTuple):
    """What `submit_group` of a client returns."""

    group: dict[str, Any]
    ids: Sequence[str]
    known: Sequence[str]
    notes: Sequence[Mapping[str, Any]] = ()
    gpu_by_default: int = 0
    with_earlier_files: Sequence[str] = ()


class FakeClient:
    """A controller that accepts everything; jobs are known by their keys."""

    def __init__(self) -> None:
        self.groups: list[Mapping[str, Any]] = []
        self.specs: list[Mapping[str, Any]] = []
        """Those of the last submission."""
        self.sent: list[str] = []
        self.ids: dict[object, str] = {}

    def nodes(self) -> list[dict[str, Any]]:
        return []

    def send_folders(self, specs: Sequence[Mapping[str, Any]], skip: Path | None, watch: Any) -> SentFolders:
        """Send folders as a client does, to a controller that has all contents."""
        steps = snapshots.send_folders(specs, skip, watch)
        try:
            step = next(steps)
            while True:
                answer: dict[str, Any] = {"version": "1"}
                if isinstance(step, Work):
                    step.run()
                elif isinstance(step, Ask) and step.target == snapshots.PATH:
                    self.sent.append(hashlib.sha256(step.body or b"").hexdigest())
                    answer = {"missing": {}}
                step = steps.send(Told(json.dumps(answer).encode(), {}))
        except StopIteration as end:
            sent: SentFolders = end.value
            return sent

    def named(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return [{"id": name, "group": "g1"} for name in names]

    def submit_jobs(self, specs: Sequence[Mapping[str, Any]], *, strict: bool) -> Submitted:
        self.specs = list(specs)
        return Submitted(["j1"] * len(specs), ())

    def submit_group(
        self, group: Mapping[str, Any], specs: Sequence[Mapping[str, Any]], *, strict: bool = False
    ) -> Answered:
        json.dumps([group, specs])
        self.groups.append(group)
        self.specs = list(specs)
        known = [self.ids[spec["key"]] for spec in specs if spec["key"] in self.ids]
        ids = [self.ids.setdefault(spec["key"] or object(), f"j{len(self.ids) + 1}") for spec in specs]
        return Answered({"id": f"g{len(self.groups)}", "name": group["name"]}, ids, known)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    """The controller that commands find; the working folder has a program."""
    made = FakeClient()
    for module in (submission, submitting):
        monkeypatch.setattr(module, "client", lambda state_dir: made)
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("HOSTLER_URL", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("train").write_text("#!/bin/sh\n")
    Path("train").chmod(0o755)
    Path("requirements.txt").write_text("numpy\n")
    return made


def test_a_grid_is_one_request_with_the_parameters_of_each_job(fake: FakeClient, hostler: Hostler) -> None:
    said = hostler("submit", *GRID, "--max-running", "3", "--max-failures", "0", "--env", "S=a=b{lr}", *COMMAND)
    assert (said.status, said.out) == (0, "g1\n")
    assert said.err.splitlines() == ["files: 2 files, 16 B (nothing new to send)", "g1: 4 jobs, j1 to j4"]
    (group,) = fake.groups
    assert group == {"name": "./train --lr {lr} --bs {bs}", "max_running": 3, "max_failures": 0}
    assert [spec["parameters"] for spec in fake.specs] == [
        {"lr": lr, "bs": bs} for lr in ("0.1", "0.03") for bs in ("16", "32")
    ]
    assert fake.specs[1]["payload"]["argv"] == ["./train", "--lr", "0.1", "--bs", "32"]
    assert fake.specs[1]["payload"]["env"] == {"S": "a=b0.1"}
    assert fake.specs[1]["name"] == "./train --lr 0.1 --bs 32"
    assert {spec["payload"]["snapshot"] for spec in fake.specs} == set(fake.sent)


def test_without_group_options_braces_are_sent_as_they_are(fake: FakeClient, hostler: Hostler) -> None:
    assert hostler("submit", "--own-dir", "--name", "{n}", "--env", "A={lr}", "--", "p", "{lr}", "{{lr}}").out == "j1\n"
    (spec,) = fake.specs
    assert (spec["payload"]["argv"], spec["payload"]["env"]) == (["p", "{lr}", "{{lr}}"], {"A": "{lr}"})
    assert (spec["name"], "parameters" in spec, fake.groups) == ("{n}", False, [])


def test_an_array_states_its_index_and_how_many_run_at_once(fake: FakeClient, hostler: Hostler) -> None:
    assert hostler("submit", "--own-dir", "--array", "0-99%8", "--name", "part", "--", "p").out == "g1\n"
    assert fake.groups == [{"name": "part", "max_running": 8, "max_failures": None}]
    assert len(fake.specs) == 100
    assert (fake.specs[99]["payload"]["env"], fake.specs[99]["name"]) == ({"HOSTLER_INDEX": "99"}, "part index=99")


def test_each_line_reads_a_file_or_standard_input(
    fake: FakeClient, hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("lines").write_text("one two\r\n\nthree")
    said = hostler("submit", "--own-dir", "--each-line", "lines", "--", "p", "x{line}")
    assert (said.status, said.out) == (0, "g1\n")
    assert [spec["payload"]["argv"][1] for spec in fake.specs] == ["xone two", "xthree"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("é\n".encode())))
    assert hostler("submit", "--own-dir", "--each-line", "-", "--repeat", "2", "--", "p", "{line}").out == "g2\n"
    assert [spec["parameters"] for spec in fake.specs] == [{"line": "é", "repeat": "0"}, {"line": "é", "repeat": "1"}]
    assert fake.specs[1]["payload"]["env"] == {"HOSTLER_REPEAT": "1"}


def test_a_larger_grid_under_the_same_key_adds_the_new_jobs(fake: FakeClient, hostler: Hostler) -> None:
    hostler("submit", "--own-dir", "--grid", "a=1,2", "--key", "K", "--", "p", "{a}")
    said = hostler("submit", "--own-dir", "--grid", "a=1,2,3,4", "--key", "K", "--", "p", "{a}")
    assert "g2: 2 new jobs, j3 to j4; 2 were submitted before under their keys, in g1\n" in said.err
    assert [spec["key"] for spec in fake.specs] == [f"K a={a}" for a in "1234"]
    said = hostler("submit", "--own-dir", "--grid", "a=4,5", "--key", "K", "--", "p", "{a}")
    assert "g3: 1 new job, j5; 1 was submitted before under its key, in g1\n" in said.err
    said = hostler("submit", "--own-dir", "--grid", "a=1,2", "--key", "K", "--", "p", "{a}")
    assert "g4: no new jobs; 2 were submitted before under their keys, in g1\n" in said.err


def test_a_group_as_json_is_one_document(fake: FakeClient, hostler: Hostler) -> None:
    said = hostler("submit", "--own-dir", *GRID, "--json", *COMMAND)
    assert said.json == {
        "group": {"id": "g1", "name": "./train --lr {lr} --bs {bs}"},
        "ids": ["j1", "j2", "j3", "j4"],
    }


def test_wait_is_for_the_group_and_the_jobs_known_before(
    fake: FakeClient, hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, Any]] = []

    def wait_for_groups(client: Any, jobs: Any, groups: Any, timeout_s: float | None = None) -> int:
        asked.append(([job["id"] for job in jobs], [group["id"] for group in groups]))
        return 1

    monkeypatch.setattr(waiting, "wait_for_groups", wait_for_groups, raising=False)
    words = ["submit", "--own-dir", "--wait", "--key", "K"]
    assert hostler(*words, "--grid", "a=1,2", "--", "p", "{a}").status == 1
    assert hostler(*words, "--grid", "a=2,3", "--", "p", "{a}").status == 1
    assert asked == [([], ["g1"]), (["j2"], ["g2"])]


def test_a_file_of_several_jobs_is_a_group_and_prints_their_ids(fake: FakeClient, hostler: Hostler) -> None:
    Path("jobs.json").write_text(json.dumps([{"name": "a", "argv": ["p"]}, {"name": "b", "argv": ["p"]}]))
    said = hostler("submit", "--jobs-file", "jobs.json", "--max-failures", "2")
    assert (said.status, said.out) == (0, "j1\nj2\n")
    assert "g1: 2 jobs, j1 to j2\n" in said.err
    assert fake.groups == [{"name": "jobs.json", "max_running": None, "max_failures": 2}]
    assert hostler("submit", "--jobs-file", "jobs.json", "--json").json["ids"] == ["j1", "j2"]
    Path("jobs.json").write_text(json.dumps([{"name": "a", "argv": ["p"]}]))
    assert hostler("submit", "--jobs-file", "jobs.json").out == "j1\n"
    assert len(fake.groups) == 2


def test_a_thousand_jobs_read_files_and_programs_once(
    fake: FakeClient, hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def counted(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **options: Any) -> Any:
            calls.append(what)
            return function(*words, **options)

        return call

    monkeypatch.setattr(folders, "hashed", counted("hashed", folders.hashed))
    monkeypatch.setattr(snapshots, "_environment", counted("environment", snapshots._environment))
    monkeypatch.setattr(shutil, "which", counted("which", shutil.which))
    monkeypatch.setattr(notes, "_exists", counted("exists", notes._exists))
    counts = []
    for number in (2, 1000):
        calls.clear()
        values = ",".join(map(str, range(number)))
        said = hostler("submit", "--grid", f"a={values}", "--", "sh", "train.sh", "{a}")
        assert said.err.count("note: ") == 1
        counts.append({name: calls.count(name) for name in calls})
    assert len(fake.specs) == 1000
    assert len(fake.sent) == 2
    assert counts[1] == counts[0]
    assert counts[0]["hashed"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--grid", "a=1", "--array", "0-1", "--", "p"],
            "--grid, --array and --each-line exclude each other; give one",
        ),
        (["--array", "", "--", "p"], "--array '': '' is neither an index nor a range."),
        (["--grid", "", "--", "p"], "--grid '': there are no values."),
        (["--each-line", "", "--", "p", "{line}"], "--each-line '' cannot be read: Is a directory. Correct the path"),
        (
            ["--each-line", "no", "--", "p"],
            "--each-line 'no' cannot be read: No such file or directory. Correct the path",
        ),
        (["--array", "0-9%2", "--max-running", "2", "--", "p"], "--array 0-9%2 and --max-running both limit the jobs"),
        (["--repeat", "0", "--", "p"], "--repeat: 0 is less than 1"),
        (["--repeat", "x", "--", "p"], "--repeat: 'x' is not an integer"),
        (["--repeat", "99999999999", "--", "p"], "--repeat 99999999999 makes 99,999,999,999 jobs: a group has at most"),
        (
            ["--max-running", "0", "--array", "1", "--", "p"],
            "--max-running: 0 is less than 1",
        ),
        (
            ["--max-failures", "-1", "--array", "1", "--", "p"],
            "--max-failures: -1 is less than 0",
        ),
        (
            ["--max-running", "2", "--", "p"],
            "--max-running limits the jobs of a group, and this is one job; give --grid",
        ),
        (["--max-failures", "2", "--", "p"], "--max-failures limits the jobs of a group, and this is one job; give"),
        (["--follow", "--array", "1", "--", "p"], "--follow prints the output of one job; use --wait for a group"),
        (["--array", "1", "--jobs-file", "f"], "--array multiplies one command; leave it out and write each job into"),
        (["--array", "1"], "give either a command (after `--`) or --jobs-file FILE"),
        (["--grid", "lr=1,2", "--", "p"], "--grid lr=1,2: no text has the placeholder {lr}, so its jobs would be the"),
        (
            ["--grid", "lr=1,2", "--", "p", "{lr}", "{x}"],
            "the command has the placeholder {x}, which is not a parameter",
        ),
        (["--grid", "lr=1", "--output", "{x}", "--", "p", "{lr}"], "--output has the placeholder {x}, which is not"),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, list) else "",
)
def test_invalid_group_options_are_one_error(
    fake: FakeClient, hostler: Hostler, words: list[str], message: str
) -> None:
    said = hostler("submit", *words)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith(f"hostler: error: {message}")
    assert (fake.groups, fake.specs, fake.sent) == ([], [], [])


@pytest.mark.parametrize("sweep", [("sweep",), ("sweep", "submit")], ids=" ".join)
def test_sweep_of_values_is_answered_with_the_command_of_a_grid(
    fake: FakeClient, hostler: Hostler, sweep: tuple[str, ...]
) -> None:
    said = hostler(*sweep, "lr=0.1,0.03")
    assert (said.status, said.out) == (2, "")
    assert said.err.endswith(": hostler submit --grid lr=0.1,0.03 -- COMMAND --lr {lr}\n")
    said = hostler(*sweep, "lr=0.1,0.03", "bs=16", "--", "python", "train.py")
    assert said.err.endswith(
        ": hostler submit --grid lr=0.1,0.03 --grid bs=16 -- python train.py --lr {lr} --bs {bs}\n"
    )


def test_sweep_refuses_words_after_its_name(fake: FakeClient, hostler: Hostler) -> None:
    said = hostler("sweep", "submit", "primes", "more")
    assert (said.status, said.err) == (
        2, "hostler: error: unexpected words after the name 'primes': more. Leave them out\n"
    )  # fmt: skip
