"""`hostler wait` against a served core: lines, exit statuses, bad input."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from hostler.cli.outcomes import outcome_line
from hostler.client.calls import NAMES, TARGET_BYTES
from hostler.client.outcomes import outcome
from hostler.model.inputs import Cancel, Started, Submit
from hostler.model.work import FailureClass, Resources, Retry
from tests.cli.conftest import Hostler
from tests.cli.fake_groups import FakeController
from tests.core.builders import ended, script
from tests.patience import PATIENCE_S
from tests.web.core_desk import Window

AT_MOST = ("--timeout", str(PATIENCE_S))
ONCE = Retry(max_attempts={FailureClass.EXIT: 1})


def requests(served: Window) -> int:
    """Lists of jobs that were asked for so far."""
    head = 'hostler_http_request_duration_seconds_count{method="GET",route="/api/v1/jobs"} '
    found = [line for line in served.get("/metrics").body.decode().splitlines() if line.startswith(head)]
    return int(float(found[0].removeprefix(head))) if found else 0


def later(work: Callable[[], object]) -> threading.Thread:
    """Work for another thread, soon."""
    thread = threading.Thread(target=lambda: (time.sleep(0.3), work()))
    thread.start()
    return thread


def test_wait_ends_with_the_exit_status_of_the_job(served: Window, hostler: Hostler) -> None:
    served.tell(Submit(specs=(script("good"), script("bad", retry=ONCE))))
    served.tell(Started(attempt="j1.1", pid=1, pid_start=1))
    served.tell(ended("j1.1"))
    served.tell(ended("j2.1", exit_code=3, evidence="ValueError: no data"))
    said = hostler("wait", "good", *AT_MOST)
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith("j1 done in ")
    said = hostler("wait", "j2", *AT_MOST)
    assert (said.status, said.out) == (3, "j2 failed: exit 3, attempt 1 of 1: ValueError: no data\n")


def test_wait_for_several_jobs_fails_if_one_of_them_does(served: Window, hostler: Hostler) -> None:
    served.tell(Submit(specs=(script("good"), script("bad", retry=ONCE))))
    served.tell(ended("j1.1"))
    served.tell(ended("j2.1", exit_code=3))
    assert hostler("wait", "j1", "j2", *AT_MOST).status == 1
    assert hostler("wait", "j1", "good", "j1", *AT_MOST).status == 0


def test_wait_of_a_job_that_was_cancelled_or_signalled(served: Window, hostler: Hostler) -> None:
    retry = Retry(max_attempts={FailureClass.SIGNAL: 1})
    served.tell(Submit(specs=(script("killed", retry=retry), script("b", key="b"), script("unwanted", after=("b",)))))
    served.tell(ended("j1.1", signal=9))
    served.tell(Cancel(job="unwanted", reason="wrong data"))
    assert hostler("wait", "killed", *AT_MOST).status == 137
    said = hostler("wait", "unwanted", *AT_MOST)
    assert (said.status, said.out) == (1, "j3 cancelled: wrong data\n")


def test_wait_prints_each_job_when_it_ends(served: Window, hostler: Hostler) -> None:
    served.tell(Submit(specs=(script("a"), script("b"))))
    ends = [later(lambda: served.tell(ended("j2.1"))), later(lambda: (time.sleep(0.5), served.tell(ended("j1.1"))))]
    said = hostler("wait", "a", "b", *AT_MOST)
    for each in ends:
        each.join()
    assert (said.status, [line.split()[0] for line in said.out.splitlines()]) == (0, ["j2", "j1"])


def test_wait_that_times_out_names_what_still_runs(served: Window, hostler: Hostler) -> None:
    served.tell(Submit(specs=(script("a"), script("b"), script("c"))))
    served.tell(ended("j1.1"))
    said = hostler("wait", "a", "b", "c", "--timeout", "0.2")
    assert said.status == 124
    assert said.out.startswith("j1 done")
    assert said.err == "hostler: 2 jobs have not ended after 0.2 s: j2 (leased), j3 (leased)\n"


def test_wait_asks_for_a_thousand_jobs_in_few_requests(served: Window, hostler: Hostler) -> None:
    served.tell(Submit(specs=tuple(script(f"job-{number}") for number in range(1000))))
    before = requests(served)
    said = hostler("wait", *(f"j{number + 1}" for number in range(1000)), "--timeout", "0")
    assert said.status == 124
    assert requests(served) - before <= 1000 // NAMES + 1000 * len("name=j1000&") // TARGET_BYTES + 1


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["nothing"], 2, "there is no job 'nothing'; `hostler jobs` lists them"),
        (["twin"], 2, "2 jobs are named 'twin': j2 (leased), j1 (leased). Name one of them by its id"),
        (["j1", "--timeout", "-1"], 2, "--timeout is -1; give a number of seconds, 0 or more"),
        (["j1", "--timeout", "nan"], 2, "--timeout: 'nan' is not a finite number"),
        (["j1", "--timeout", "soon"], 2, "--timeout: 'soon' is not a number"),
        ([], 2, "ID is missing"),
    ],
)
def test_wait_refuses_bad_input_in_one_message(
    served: Window, hostler: Hostler, words: list[str], status: int, message: str
) -> None:
    served.tell(Submit(specs=(script("twin"), script("twin"))))
    said = hostler("wait", *words)
    assert (said.status, said.out) == (status, "")
    assert message in said.err
    assert said.err.count("\n") == 1


def test_wait_without_a_controller(hostler: Hostler, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTLER_STATE_DIR", f"{tmp_path}/none")
    said = hostler("wait", "j1", *AT_MOST)
    assert (said.status, said.out) == (3, "")
    assert "hostler up" in said.err


@pytest.mark.parametrize(
    ("why", "line"),
    [
        ("exit status 3: E: x (exit: 2 of 2 allowed attempts used)", "j9 failed: exit 3, attempt 2 of 2: E: x"),
        ("exit status 3 (exit: 2 of 2 allowed attempts used)", "j9 failed: exit 3, attempt 2 of 2"),
        ("ended by signal 9 (signal: 3 of 3 allowed attempts used)", "j9 failed: attempt 3 of 3: ended by signal 9"),
        ("it comes after j1, which will not be done", "j9 failed: it comes after j1, which will not be done"),
        ("a\x1b[2J (exit: 1 of 1 allowed attempts used)", "j9 failed: attempt 1 of 1: a\\x1b[2J"),
        (None, "j9 failed"),
    ],
)
def test_outcome_of_a_failed_job_is_one_harmless_line(why: str | None, line: str) -> None:
    job = {"id": "j9", "state": "failed", "why": why, "started_at": 1.0, "ended_at": 2.0, "duration_s": 1.0}
    assert outcome_line(job) == line


def test_retry_of_a_job_that_waits_ends_with_the_status_of_wrong_usage(served: Window, hostler: Hostler) -> None:
    served.tell(Submit(specs=(script("a"), script("b", key="b"), script("c", after=("b",)))))
    said = hostler("retry", "c")
    assert (said.status, said.out) == (2, "")
    assert "j3 is pending; only a failed or a cancelled job can be tried again" in said.err


def test_explain_names_the_device_whose_memory_is_unknown(served: Window, hostler: Hostler) -> None:
    served.tell(Submit(specs=(script("a", resources=Resources(vram_gb=24)),)))
    said = hostler("explain", "j1")
    assert "that of n/cpu0 is unknown" in said.out.replace("\n", " ")
    assert "that of  is" not in said.out


UNFETCHED = "1 file of 1.2 GB is new or changed. The largest: big (1.2 GB). It is in /w/j1.1 on the node"


def test_end_of_a_job_names_outputs_that_were_refused() -> None:
    assert outcome({"id": "j1", "state": "done", "duration_s": 2.0, "unfetched": UNFETCHED}) == (
        f"j1 done in 2.0 s; not all outputs were kept: {UNFETCHED}"
    )


def test_list_and_explanation_of_jobs_name_outputs_that_were_refused(fake: FakeController, hostler: Hostler) -> None:
    job = fake.add("done")
    fake.jobs_by_id[job]["unfetched"] = UNFETCHED
    assert "not all outputs were kept: 1 file of 1.2 GB" in " ".join(hostler("jobs").out.split())
