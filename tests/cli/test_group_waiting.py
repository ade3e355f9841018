"""`hostler wait` for job groups: lines, exit statuses, few requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from hostler.cli.waiting import wait_for_groups
from hostler.model.errors import LinkLost
from tests.cli.conftest import Hostler
from tests.cli.fake_groups import FakeController


@pytest.fixture
def at_rest(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Any]]:
    """What happens in the rests between two questions, one after the other."""
    acts: list[Callable[[], Any]] = []
    monkeypatch.setattr(time, "sleep", lambda _: acts.pop(0)() if acts else None)
    return acts


def test_wait_for_a_group_that_is_done_prints_one_line(fake: FakeController, hostler: Hostler) -> None:
    for _ in range(4):
        fake.add()
    said = hostler("wait", "g1")
    assert (said.status, said.out, said.err) == (0, "g1 done: 4 of 4 jobs in 12 s\n", "")


def test_wait_for_a_group_prints_reasons_of_failed_jobs(fake: FakeController, hostler: Hostler) -> None:
    for state in ("done", "done", "done", "failed"):
        fake.add(state)
    said = hostler("wait", "g1")
    assert said.status == 1
    assert said.out.splitlines() == [
        "g1 ended: 3 done, 1 failed of 4 in 12 s; hostler results g1",
        "  j4 failed: exit 3, attempt 1 of 1: no data",
    ]


def test_wait_for_a_group_prints_at_most_five_failed_jobs(fake: FakeController, hostler: Hostler) -> None:
    for _ in range(7):
        fake.add("failed")
    fake.add("cancelled")
    lines = hostler("wait", "g1").out.splitlines()
    assert lines[0].startswith("g1 ended: 7 failed, 1 cancelled of 8")
    assert [line.split()[0] for line in lines[1:6]] == ["j1", "j2", "j3", "j4", "j5"]
    assert lines[6:] == ["  and 2 more; `hostler jobs --group g1 --state failed` lists them"]


def test_wait_for_jobs_and_groups_prints_each_as_it_ends(
    fake: FakeController, hostler: Hostler, at_rest: list[Callable[[], Any]]
) -> None:
    fake.add("running")
    fake.add("running", "g2")
    fake.add("running", None)
    at_rest += [lambda: fake.end("j2"), lambda: fake.end("j3"), lambda: fake.end("j1")]
    said = hostler("wait", "j3", "g1", "g2", "g1")
    assert (said.status, [line.split()[0] for line in said.out.splitlines()]) == (0, ["g2", "j3", "g1"])


def test_wait_for_a_group_asks_for_the_group_and_for_no_job(
    fake: FakeController, hostler: Hostler, at_rest: list[Callable[[], Any]]
) -> None:
    for _ in range(100):
        fake.add("running")
    at_rest += [lambda: None, lambda: [fake.end(job) for job in fake.jobs_by_id]]
    assert hostler("wait", "g1").status == 0
    assert fake.asked == ["g1"] * 3


def test_wait_for_a_group_keeps_waiting_without_a_controller(
    fake: FakeController, hostler: Hostler, at_rest: list[Callable[[], Any]]
) -> None:
    fake.add("running")
    at_rest += [lambda: fake.absent.append(LinkLost("gone")), lambda: fake.end("j1")]
    said = hostler("wait", "g1")
    assert (said.status, said.out) == (0, "g1 done: 1 of 1 job in 12 s\n")
    assert "the controller cannot be reached, and the command keeps waiting: gone" in said.err


def test_wait_for_a_group_that_times_out_names_what_is_open(fake: FakeController, hostler: Hostler) -> None:
    for state in ("done", "running", "pending"):
        fake.add(state)
    fake.add("running", None)
    said = hostler("wait", "g1", "j4", "--timeout", "0")
    assert (said.status, said.out) == (124, "")
    assert said.err == ("hostler: 1 job and 1 group have not ended after 0.0 s: j4 (running), g1 (1 of 3 jobs ended)\n")
    assert hostler("wait", "g1", "--timeout", "0").err.startswith("hostler: 1 group has not ended after 0.0 s: g1 (")


def test_wait_for_a_group_that_is_interrupted_tells_how_to_cancel_it(
    fake: FakeController, capsys: pytest.CaptureFixture[str], at_rest: list[Callable[[], Any]]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    fake.add("running")
    at_rest.append(interrupt)
    with pytest.raises(KeyboardInterrupt):
        wait_for_groups(fake, (), [fake.group("g1")])
    assert "interrupted; g1 continues, `hostler cancel g1` would end it" in capsys.readouterr().err


def test_wait_for_a_group_that_is_not_there_is_wrong_usage(fake: FakeController, hostler: Hostler) -> None:
    said = hostler("wait", "g7")
    assert (said.status, said.err) == (2, "hostler: error: there is no job group 'g7'\n")
