"""Analysis and tests of draws as programs: their parameters, their worker over its pipes, their command line."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.settings.programs import Program
from hostler.workloads.sieve import itemwise, jobs, spec
from hostler.workloads.sieve.errors import SpecError

from .support import DRAWS, environment

XORSHIFT = str(DRAWS / "xorshift32.json")
ONE = {"generator": "xorshift32", "calls": "next() % 1000"}
COMMAND = [sys.executable, "-m", "hostler.workloads.sieve.jobs"]
PATIENCE_S = 120.0


def run(*arguments: str, given: str = "", cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """The command line, to its end."""
    command = [*COMMAND, *arguments]
    return subprocess.run(
        command, env=environment(), cwd=cwd, input=given, capture_output=True, text=True, timeout=PATIENCE_S
    )


# ---- parameters ------------------------------------------------------------------------------------------------------


def test_analysis_and_correlation_are_sweep_programs() -> None:
    assert isinstance(jobs.ANALYSIS, Program)
    assert isinstance(jobs.CORRELATION, Program)
    assert jobs.ANALYSIS.worker[-2:] == ("worker", "analysis")
    assert jobs.CORRELATION.chance({}) is None


def test_pairs_are_counted_file_by_file() -> None:
    given = {"data": ["php.json", "php.json"], "candidates": [ONE, {**ONE, "shift": 1}, ONE], "skip": [0, 4]}
    prepared = jobs.ANALYSIS.prepare(given, DRAWS)
    assert jobs.ANALYSIS.bounds(prepared) == (0, 6)
    checked = jobs.parse_analysis(json.loads(json.dumps(prepared)))
    assert checked.skip == (0, 4)
    entry, candidate = checked.pair(4)
    assert (entry.name, candidate.shift) == ("php.json", 1)


def test_all_generators_by_what_the_file_says() -> None:
    prepared = jobs.ANALYSIS.prepare({"data": "php.json"}, DRAWS)
    assert {"generator": "java-random", "calls": [{"kind": "bound", "bound": 1000}], "shift": 1} in prepared[
        "candidates"
    ]


def test_draws_of_any_kind_are_tested_as_integers() -> None:
    prepared = jobs.CORRELATION.prepare({"data": "python-random.json"}, DRAWS)
    (entry,) = prepared["data"]
    assert all(type(draw) is int for draw in entry["draws"])
    assert jobs.CORRELATION.bounds(prepared) == (0, 1)


@pytest.mark.parametrize("program", [jobs.ANALYSIS, jobs.CORRELATION])
def test_filters_of_all_files_and_of_one(program: jobs.Program, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("draw,session\n" + "".join(f"{i % 6},{'ab'[i % 2]}\n" for i in range(20)))
    files = ["a.csv", {"path": "a.csv", "filters": {"window": [2, 4]}}]
    prepared = program.prepare({"data": files, "values": [0, 5], "filters": {"sessions": ["b"]}}, tmp_path)
    assert [len(entry["draws"]) for entry in prepared["data"]] == [10, 4]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "data: is missing"),
        ({"data": []}, "data: must be a list that is not empty"),
        ({"data": "none.json"}, "cannot be read"),
        ({"data": XORSHIFT, "value": 1}, "unknown value"),
        ({"data": XORSHIFT, "schema": 2}, "schema: 2 is not supported"),
        ({"data": XORSHIFT, "calls": "next()"}, "generator with calls"),
        ({"data": XORSHIFT, "values": [0, 9], "candidates": [ONE]}, "give one of"),
        ({"data": XORSHIFT, "values": [9, 0]}, r"write \[LOW, HIGH\]"),
        ({"data": XORSHIFT, "skip": [3, 1]}, "skip"),
        ({"data": XORSHIFT, "budget_s": -1}, "budget_s"),
        (
            {"data": XORSHIFT, "gap": [0, 2], "candidates": [{**ONE, "calls": "next(); next()"}]},
            "gap: only with one",
        ),
        ({"data": [XORSHIFT, str(DRAWS / "php.json")]}, "different values"),
        ({"data": str(DRAWS / "python-random.json")}, "no generator|no integers"),
    ],
)
def test_wrong_parameters_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jobs.ANALYSIS.prepare(given, Path("/"))


def test_draws_outside_their_values_are_refused() -> None:
    with pytest.raises(ValueError, match="is no integer of 0"):
        jobs.CORRELATION.prepare({"data": XORSHIFT, "values": [0, 99]}, Path("/"))


def test_the_controller_needs_no_numpy() -> None:
    code = "import sys, hostler.workloads.sieve.jobs; print('numpy' in sys.modules or 'numba' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60)
    assert said.stdout.strip() == "False"


# ---- the worker ------------------------------------------------------------------------------------------------------


class Process:
    """A worker and its two pipes."""

    def __init__(self, program: str) -> None:
        self.popen = subprocess.Popen(
            [*COMMAND, "worker", program], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self, **request: Any) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(json.dumps(request) + "\n")
        self.popen.stdin.flush()

    def answers(self, until: str) -> Iterator[dict[str, Any]]:
        """All answers up to the first of this type."""
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            answer = json.loads(line)
            yield answer
            if answer["type"] == until:
                return

    def end(self) -> int:
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.popen.stdin.close()
        status = self.popen.wait(PATIENCE_S)
        self.popen.stdout.close()
        return status


def test_a_worker_answers_item_by_item() -> None:
    params = jobs.ANALYSIS.prepare(
        {"data": XORSHIFT, "candidates": [ONE, {**ONE, "calls": "floor(float() * 1000)"}]}, Path()
    )
    worker, own = Process("analysis"), spec.digest(params)
    worker.send(type="open", digest=own, params=params)
    assert list(worker.answers("opened")) == [{"type": "opened", "digest": own, "trims": True}]
    worker.send(type="chunk", id="a", start=0, stop=2)
    *checkpoints, done = worker.answers("done")
    assert (done["id"], done["digest"], done["start"], done["stop"]) == ("a", own, 0, 2)
    assert [(hit["at"], hit["verdict"]) for hit in done["hits"]] == [(0, "found"), (1, "excluded")]
    assert {each["position"] for each in checkpoints} == {0, 1}
    worker.send(type="chunk", id="b", start=1, stop=3)
    (failed,) = worker.answers("failed")
    assert "[0, 2)" in failed["error"]
    worker.send(type="chunk", id="c", start=1, stop=2)
    assert next(each for each in worker.answers("done") if each["type"] == "done")["hits"] == done["hits"][1:]
    assert worker.end() == 0


def test_a_worker_refuses_what_is_not_canonical() -> None:
    worker, params = Process("correlation"), {"data": "x.json"}
    worker.send(type="open", digest=spec.digest(params), params=params)
    (failed,) = worker.answers("failed")
    assert "exactly data, most_lag, schema" in failed["error"]
    assert worker.end() == 1


def test_results_are_json_and_not_too_long() -> None:
    hit = itemwise.told(3, {"a": [float("inf"), {"b": float("nan")}], "c": 1.5})
    assert hit == {"at": 3, "a": [None, {"b": None}], "c": 1.5}
    with pytest.raises(SpecError, match="item 3: its result has"):
        itemwise.told(3, {"a": "x" * itemwise.MOST_BYTES})


# ---- corrections and the command line --------------------------------------------------------------------------------


def test_results_are_corrected_together() -> None:
    test = {"test": "frequency", "part": "values", "statistic": 1.0, "n": 50, "note": ""}
    hits = [
        {"at": 1, "source": "b", "tests": [{**test, "p": 0.02}]},
        {"at": 0, "source": "a", "tests": [{**test, "p": 0.001}]},
    ]
    first, second = jobs.corrected(hits)
    assert (first["source"], first["holm"]) == ("a", 0.002)
    assert (second["holm"], second["says"][:7]) == (0.02, "nothing")


@pytest.mark.long
def test_analyse_by_hand() -> None:
    said = run("analyse", XORSHIFT, "--generator", "xorshift32", "--calls", "next() % 1000", "--skip", "0:2")
    assert said.returncode == 0, said.stderr
    assert "seed 2715789338" in said.stdout
    assert max(map(len, said.stdout.splitlines())) <= 80
    lines = run("analyse", XORSHIFT, "--generator", "xorshift32", "--calls", "next() % 1000", "--json").stdout
    assert json.loads(lines)["survivors"][0]["seed"] == 2715789338


def test_count_and_refusals_by_hand() -> None:
    assert int(run("analyse", XORSHIFT, "--count").stdout) > 50
    refused = run("analyse", XORSHIFT, "--generator", "xorshift32")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "generator with calls" in refused.stderr


def test_correlate_and_correct_by_hand(tmp_path: Path) -> None:
    (tmp_path / "steps.txt").write_text("\n".join(str(i % 10) for i in range(300)))
    # By its name alone: files are told of as they were given, however long their paths are.
    said = run("correlate", "steps.txt", "--values", "0:9", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "a draw depends on the one before it" in said.stdout
    assert max(map(len, said.stdout.splitlines())) <= 80
    params = jobs.CORRELATION.prepare({"data": str(tmp_path / "steps.txt"), "values": [0, 9]}, Path())
    hit = itemwise.told(0, jobs.parse_correlation(params).result(0))
    told = [{"job": "j1", "at": 0, "data": hit}]
    assert (
        run("correct", "--json", given=json.dumps(told)).stdout
        == run("correlate", str(tmp_path / "steps.txt"), "--values", "0:9", "--json").stdout
    )
    assert "is no hit" in run("correct", given="[5]").stderr
