"""store.py and peers/clients.py: what is counted, and what is held against what. Nothing here depends on speed."""

from __future__ import annotations

import asyncio
import threading
import time

import clients
import pytest
from clients import WARM_UP_JOBS, Asked

import store
from store import IN_PROCESS, JOURNAL, ONE, POSTGRESQL, SQLITE, THROUGH, Case, Result, System


class Queue:
    """A queue that is done with each job some looks after it was submitted."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.lock = threading.Lock()
        self.takes_s = takes_s
        self.submitted: list[tuple[int, int]] = []
        self.finished = 0

    def submit(self, client: int, jobs: int) -> None:
        time.sleep(self.takes_s)
        self.note(client, jobs)

    def note(self, client: int, jobs: int) -> None:
        with self.lock:
            self.submitted.append((client, jobs))

    def done(self) -> int:
        with self.lock:
            self.finished = min(self.finished + 70, sum(jobs for _, jobs in self.submitted))
            return self.finished

    async def submit_async(self, client: int, jobs: int) -> None:
        await asyncio.sleep(self.takes_s)
        self.note(client, jobs)

    async def done_async(self) -> int:
        return self.done()


def test_shares_and_parts_lose_nothing() -> None:
    assert clients.shares(10, 4) == [3, 3, 2, 2]
    assert clients.parts(250, 100) == [100, 100, 50]
    assert clients.parts(0, 100) == []


def test_quantiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert clients.quantile(values, 0.5) == 51.0
    assert clients.quantile(values, 0.99) == 100.0
    assert clients.quantile([7.0], 0.99) == 7.0


@pytest.mark.parametrize("threads", [False, True], ids=["tasks", "threads"])
def test_through_ends_when_all_are_done_and_counts_only_its_own(threads: bool) -> None:
    queue, what = Queue(), _asked(THROUGH, clients=3, jobs=500)
    if threads:
        made = clients.through_by_threads(what, queue.submit, queue.done, 100)
    else:
        made = asyncio.run(clients.through(what, queue.submit_async, queue.done_async, 100))
    assert made.jobs == 500
    assert queue.finished == 500 + WARM_UP_JOBS
    assert sum(jobs for client, jobs in queue.submitted if client == 2) == 166
    assert len(made.times) == 6
    line = made.line("1.2", states=3)
    assert (line["version"], line["jobs"], line["states"]) == ("1.2", 500, 3)
    assert line["per_s"] > 0


@pytest.mark.parametrize("threads", [False, True], ids=["tasks", "threads"])
def test_submissions_of_the_warm_up_do_not_count(threads: bool) -> None:
    for seconds in (0.5, 5.0, 50.0):  # on a busy machine a client may submit nothing in a short time
        queue, what = Queue(takes_s=0.01), _asked("batch", clients=2, jobs=0, seconds=seconds)
        if threads:
            made = clients.submitted_by_threads(what, queue.submit)
        else:
            made = asyncio.run(clients.submitted(what, queue.submit_async))
        everything = sum(jobs for _, jobs in queue.submitted)
        if 0 < made.jobs < everything and {client for client, _ in queue.submitted} == {0, 1}:
            break
    assert made.jobs == clients.BATCH * len(made.times)
    assert 0 < made.jobs < everything
    assert {client for client, _ in queue.submitted} == {0, 1}


def test_an_error_of_a_client_ends_the_measurement() -> None:
    def refuse(_client: int, _jobs: int) -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        clients.submitted_by_threads(_asked(ONE, clients=2, jobs=0), refuse)


def test_a_peer_is_held_against_hostler_on_its_own_database() -> None:
    theirs = _result("pgqueuer", POSTGRESQL, Case(ONE, 8), 100.0)
    ours = _result(IN_PROCESS, POSTGRESQL, Case(ONE, 8), 300.0)
    others = [
        _result(IN_PROCESS, SQLITE, Case(ONE, 8), 7.0),
        _result(IN_PROCESS, POSTGRESQL, Case(ONE, 1), 7.0),
        _result(JOURNAL, POSTGRESQL, Case(ONE, 8), 90.0),
    ]
    results = [*others, ours, theirs]
    shown = next(row for row in store.rows(results) if row["system"] == "pgqueuer")
    assert shown["Hostler in process / it"] == 3.0
    made = {bar.name: (bar.value, bar.target, bar.met) for bar in store.bars(results)}
    assert made == {
        "jobs/s, one, in process, 8 clients: Hostler > pgqueuer, PostgreSQL": (300.0, 100.0, True),
        "jobs/s, one, HTTP, 8 clients: Hostler > pgqueuer, PostgreSQL": (None, 100.0, None),
        "events/s, one, 8 clients: Hostler > pgqueuer, PostgreSQL": (90.0, 100.0, False),
    }


def test_events_of_jobs_through_are_their_changes_of_state() -> None:
    assert _result("huey", SQLITE, Case(THROUGH, 1), 50.0, states=3).events_per_s == 150.0
    assert _result("huey", SQLITE, Case(ONE, 1), 50.0, states=3).events_per_s == 50.0
    assert _result("Hostler, chunks", SQLITE, Case(THROUGH, 1), 50.0).events_per_s is None


def test_the_median_of_all_rounds_counts() -> None:
    system = System("huey", SQLITE, (), (ONE,), 1)
    lines = [{"per_s": rate} for rate in (1.0, 90.0, 3.0)]
    assert Result(system, Case(ONE, 1), lines).of("per_s") == 3.0
    assert Result(system, Case(ONE, 1), lines).of("p99_ms") is None


def _asked(case: str, clients: int, jobs: int, seconds: float = 0.05) -> Asked:
    return Asked(case=case, clients=clients, seconds=seconds, jobs=jobs, store="", server=None)


def _result(name: str, database: str, case: Case, per_s: float, **more: float) -> Result:
    return Result(System(name, database, (), (case.kind,), 1), case, [{"per_s": per_s, **more}])
