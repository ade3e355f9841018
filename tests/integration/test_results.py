"""What programs give back and should not: each is refused, counted and named, and costs nobody else anything."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from hostler.model.codec import plain
from hostler.settings import sweep_spec
from tests.integration.conftest import PATIENCE_S, WORKER, Fleet, Hostler, View, asked_for

LEAVE = "import os, sys; open(os.environ['HOSTLER_RESULT'], 'wb').write({!r})"
ONCE = {"max_attempts": {"result": 1}}
PLANTED = [3, 500, 1999]
STOP = 2000

RESULTS = {
    "truncated": (LEAVE.format(b'{"a": [1, 2'), "no JSON"),
    "a word": (LEAVE.format(b"done"), "no JSON"),
    "empty": (LEAVE.format(b""), "no JSON"),
    "two values": (LEAVE.format(b"{} {}"), "no JSON"),
    "no UTF-8": (LEAVE.format(b'"\xff\xfe"'), "no JSON"),
    "NaN": (LEAVE.format(b'{"loss": NaN}'), "no JSON"),
    "infinity": (LEAVE.format(b"[1e999]"), "too large"),
    "half a pair": (LEAVE.format(b'"\\ud800"'), "usable"),
    "nested without end": (LEAVE.format(b"[" * 9000 + b"]" * 9000), "usable"),
    "oversized": (LEAVE.format(b'"' + b"x" * 20_000 + b'"'), "longer than its 20000 bytes"),
    "a directory": ("import os; os.mkdir(os.environ['HOSTLER_RESULT'])", "no regular file"),
    "a pipe": ("import os; os.mkfifo(os.environ['HOSTLER_RESULT'])", "no regular file"),
    "a device": ("import os; os.symlink('/dev/zero', os.environ['HOSTLER_RESULT'])", "a symbolic link"),
    "a link to itself": ("import os; r = os.environ['HOSTLER_RESULT']; os.symlink(r, r)", "a symbolic link"),
}


FEW_RESULTS = {"truncated", "no UTF-8", "infinity", "nested without end", "oversized", "a pipe", "a link to itself"}
"""One of each way in which it is found out; those of one way are alike to everybody else."""


@pytest.fixture(scope="module")
def bad_results(request: pytest.FixtureRequest, running: Fleet) -> dict[str, str]:
    """The ids of jobs with bad results that are asked for; all of them run beside each other."""
    names = {"truncated", *asked_for(request, "name", RESULTS)}
    return {name: running.python(RESULTS[name][0], name=name, retry=ONCE) for name in RESULTS if name in names}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in FEW_RESULTS else pytest.mark.long) for each in RESULTS]
)
def test_a_bad_result_fails_the_job_and_is_named(running: Fleet, bad_results: dict[str, str], name: str) -> None:
    detail = running.over(bad_results[name])
    assert (detail["job"]["state"], detail["job"]["failure"]) == ("failed", "result")
    assert RESULTS[name][1] in detail["job"]["why"], detail["job"]["why"]
    assert (detail["result"], detail["failures"]) == (None, {"result": 1})


def test_a_missing_result_fails_only_who_promised_one(running: Fleet) -> None:
    promised = running.script("true", require_result=True, retry=ONCE)
    silent = running.script("true")
    assert running.over(promised)["job"]["failure"] == "result"
    assert "left no result in $HOSTLER_RESULT" in running.over(promised)["job"]["why"]
    assert running.over(silent)["job"]["state"] == "done"


def test_a_failed_program_is_not_judged_by_its_result(running: Fleet) -> None:
    code = LEAVE.format(b"{} {}") + "; sys.exit(7)"
    job = running.over(running.python(code, retry={"max_attempts": {"exit": 1}}))["job"]
    assert job["failure"] == "exit"
    assert "exit status 7" in job["why"]


@pytest.mark.parametrize("text", ["null", "0", "false", '"\\u0000"', str(10**400), '{"a": {"b": [1.5, null]}}'])
def test_any_json_is_a_result(running: Fleet, text: str) -> None:
    detail = running.over(running.python(LEAVE.format(text.encode())))
    assert (detail["job"]["state"], detail["result"]) == ("done", json.loads(text))


def test_the_failure_is_told_on_the_command_line(running: Fleet, bad_results: dict[str, str], hostler: Hostler) -> None:
    job = bad_results["truncated"]
    running.over(job)
    assert "result" in hostler(running, "explain", job).out
    assert job in [each["id"] for each in hostler(running, "jobs", "--state", "failed", "--json").json]


def sweep(running: Fleet, name: str, params: dict[str, Any], **more: Any) -> str:
    """Submit a sweep of `worker.py`; returns its id."""
    asked = {"name": name, "range": [0, STOP], "worker": [sys.executable, str(WORKER)], "params": params, **more}
    (job,) = running.client.submit_jobs(
        [plain(sweep_spec({"target_s": 0.3, "silence_s": PATIENCE_S, **asked}, Path.cwd()))]
    )
    return job


FAULTS = (
    "no JSON",
    "cut off",
    "no object",
    "NaN",
    "too long",
    "another digest",
    "another interval",
    "another chunk",
    "a hit outside",
    "a hit that is none",
    "a position outside",
    "an unknown type",
    "failed",
    "half a line",
    "dies",
    "hangs",
)
FEW_FAULTS = {"no JSON", "another digest", "another interval", "a hit outside", "half a line", "hangs"}
"""What is no message, what is a wrong one, and the ends of a process; tests/agent/test_workers.py has more."""
TWICE = 2


@pytest.fixture(scope="module")
def replaced(request: pytest.FixtureRequest, running: Fleet) -> dict[str, str]:
    """Sweeps whose worker misbehaves twice, and then is good; those that are asked for."""
    asked = asked_for(request, "fault", FAULTS)
    # Only one that hangs is given up for its silence. The good ones after it may be silent for as long on a busy
    # machine, which costs the sweep no more than another try.
    hangs = {"silence_s": 3.0, "retry": {"max_attempts": {"worker": 1000}}}
    more = {"hangs": hangs}
    return {fault: sweep(running, fault, faulty(running, fault, TWICE), **more.get(fault, {})) for fault in asked}


def faulty(running: Fleet, fault: str, times: int) -> dict[str, Any]:
    count = running.path / f"count of {fault} {times}"
    return {"fault": fault, "times": times, "count": str(count), "planted": PLANTED}


@pytest.mark.parametrize(
    "fault", [pytest.param(each, marks=[] if each in FEW_FAULTS else pytest.mark.long) for each in FAULTS]
)
def test_a_bad_worker_is_replaced_and_nothing_is_left_out(running: Fleet, replaced: dict[str, str], fault: str) -> None:
    job = replaced[fault]
    detail = running.over(job)
    assert (detail["job"]["state"], detail["sweep"]["done"]) == ("done", STOP)
    assert sorted(hit["at"] for hit in running.client.hits(job)) == PLANTED
    proof = running.client.proof(job)
    assert (proof["fault"], proof["complete"], proof["hits"]) == (None, True, len(PLANTED))
    assert len(blamed(running, job)) >= TWICE


def blamed(running: Fleet, job: str) -> list[View]:
    """The chunks that came back because of the worker."""
    events = [entry["event"] for entry in running.client.story(job)]
    return [event for event in events if event["kind"] == "chunk.returned" and event["blame"]]


def test_a_worker_that_stays_bad_is_given_up_with_a_reason(running: Fleet, hostler: Hostler) -> None:
    budget = {"max_attempts": {"worker": 3}}
    job = sweep(running, "hopeless", faulty(running, "another digest", 1000), retry=budget)
    after = running.script("true", after=[job])
    failed = running.over(job)["job"]
    assert (failed["state"], failed["failure"]) == ("failed", "worker")
    # Two devices may fail at the same moment: one more than allowed.
    assert re.search(r"its worker failed [34] times", failed["why"])
    assert "its digest is" in " ".join(event["error"] for event in blamed(running, job))
    assert running.over(after)["job"]["failure"] == "dependency"
    assert re.search(r"its worker failed [34] times", hostler(running, "explain", job).out)
    assert running.client.proof(job)["fault"] is None


@pytest.mark.parametrize(
    ("fault", "told"),
    [("refuses", "these parameters suit nobody"), ("opens with another digest", "its digest is")],
)
def test_a_worker_that_does_not_start_is_told(running: Fleet, fault: str, told: str) -> None:
    failed = running.over(sweep(running, fault, {"fault": fault, "planted": PLANTED}))["job"]
    assert (failed["state"], failed["failure"]) == ("failed", "worker")
    assert told in failed["why"]


def test_a_worker_that_is_no_program_is_told(running: Fleet) -> None:
    failed = running.over(sweep(running, "nowhere", {}, worker=["/nonexistent/worker"]))["job"]
    assert (failed["state"], failed["failure"]) == ("failed", "worker")
    assert "/nonexistent/worker" in failed["why"]


def test_a_search_that_finds_everything_has_found_nothing(running: Fleet) -> None:
    failed = running.over(sweep(running, "greedy", {"planted": list(range(100))}, max_hits=50))["job"]
    assert (failed["state"], failed["failure"]) == ("failed", "result")
    assert "max_hits" in failed["why"]
