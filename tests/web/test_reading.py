"""What can be looked up, over HTTP, from a real core."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.model import codec
from hostler.model.inputs import LinkDown, Submit
from hostler.model.views import JobDetail, LedgerView, Status
from tests.core.builders import ended, script, sweep
from tests.web.core_desk import Window, walk

API = "/api/v1"
READERS = [
    "status",
    "jobs",
    "jobs/j1",
    "jobs/j1/story",
    "jobs/j1/explain",
    "sweeps",
    "sweeps/j2",
    "sweeps/j2/ledger",
    "sweeps/j2/proof",
    "sweeps/j2/hits",
    "sweeps/j2/intervals",
    "queue",
    "queue/status",
    "daemons/health",
    "fleet",
    "nodes",
    "nodes/n",
    "devices",
    "devices/n%2Fcpu0",
    "devices/n%2Fcpu0/explain",
    "quotas",
    "durations",
    "costs",
    "usage",
    "usage?per=hour&by=device&by=work",
    "bans",
    "models",
    "datasets",
    "configs",
    "entries",
    "audit",
    "tokens",
    "attempts/j1.1/log",
    "artifacts",
    "replication",
]


@pytest.fixture
def busy(served: Window) -> Window:
    """Two scripts and a sweep submitted; the first script has failed and written something."""
    served.tell(Submit(specs=(script("first", key="k/1 ü"), sweep("all", stop=2**200), script("third"))))
    served.tell(ended("j1.1", exit_code=3))
    served.desk.logs["j1.1", "out"] = bytes(range(256)) * 4
    return served


@pytest.mark.parametrize("path", READERS)
def test_reading_changes_nothing(busy: Window, path: str) -> None:
    before = codec.adapter(Any).dump_json(busy.desk.driver.state), len(busy.desk.driver.entries)
    assert busy.get(f"{API}/{path}").status == 200
    assert before == (codec.adapter(Any).dump_json(busy.desk.driver.state), len(busy.desk.driver.entries))


@pytest.mark.parametrize("path", READERS)
def test_readers_cannot_be_posted_to(busy: Window, path: str) -> None:
    if path not in ("jobs", "tokens"):
        assert busy.post(f"{API}/{path}").status == 405


def test_status_is_the_view_and_has_a_short_path(busy: Window) -> None:
    assert codec.adapter(Status).validate_json(busy.get("/status").body) == busy.desk.status()
    assert busy.get("/status").json == busy.get(f"{API}/status").json


def test_a_job_is_found_by_id_and_by_key(busy: Window) -> None:
    by_id, by_key = busy.get(f"{API}/jobs/j1"), busy.get(f"{API}/jobs/k%2F1%20%C3%BC")
    assert by_id.body == by_key.body
    assert codec.adapter(JobDetail).validate_json(by_id.body) == busy.desk.job("j1")
    assert busy.get(f"{API}/jobs/k%2F1%20%C3%BC/story").json == busy.get(f"{API}/jobs/j1/story").json


@pytest.mark.parametrize(
    "path", ["jobs/j99", "jobs/%2e%2e", "sweeps/j99", "sweeps/j1", "sweeps/j1/ledger", "jobs/x/story"]
)
def test_what_is_not_there_is_not_found(busy: Window, path: str) -> None:
    reply = busy.get(f"{API}/{path}")
    assert (reply.status, reply.json["error"]) == (404, "NotFound")
    assert "job" in reply.json["message"]


def test_an_unknown_path_is_no_unknown_job(busy: Window) -> None:
    reply = busy.get(f"{API}/jbos")
    assert (reply.status, reply.json["error"]) == (404, "NoSuchPath")


def test_pages_hold_every_job_once_in_order(served: Window) -> None:
    served.tell(Submit(specs=tuple(script(f"n{n}") for n in range(25))))
    for limit in (1, 7, 25, 1000):
        assert [job["id"] for job in walk(served, f"{API}/jobs?limit={limit}")] == [f"j{n}" for n in range(1, 26)]


def test_pages_of_some_states(busy: Window) -> None:
    states = {job["id"]: job["state"] for job in walk(busy, f"{API}/jobs?limit=1")}
    wanted = walk(busy, f"{API}/jobs?limit=1&state={states['j1']}&state={states['j3']}")
    assert {"j1", "j3"} <= {job["id"] for job in wanted}
    assert all(job["state"] in (states["j1"], states["j3"]) for job in wanted)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "after=-1", "after=j1", "state=lost", "after=1e3"]
)
def test_bad_parameters_are_named(busy: Window, query: str) -> None:
    reply = busy.get(f"{API}/jobs?{query}")
    assert (reply.status, reply.json["error"]) == (422, "UsageError")
    assert query.partition("=")[0] in reply.json["message"]


def test_big_integers_survive(busy: Window) -> None:
    ledger = busy.get(f"{API}/sweeps/j2/ledger")
    assert ledger.json["sweep"]["stop"] == 2**200
    assert codec.adapter(LedgerView).validate_json(ledger.body) == busy.desk.ledger("j2")


def test_hits_come_in_pages_of_exact_items(busy: Window) -> None:
    driver = busy.desk.driver
    chunk, start, _ = driver.chunk("j2")
    hits = [{"at": start + n, "note": f"h{n}"} for n in range(5)]
    busy.call(lambda: driver.tell(driver.searched(chunk, hits=hits)))
    assert [hit["data"] for hit in walk(busy, f"{API}/sweeps/j2/hits?limit=2")] == hits


def test_the_queue_and_explanations_tell_why(busy: Window) -> None:
    busy.tell(Submit(specs=(script("waits", after=("j3",)),)))
    row = next(row for row in busy.get(f"{API}/queue").json if row["job"] == "j4")
    assert "j3" in row["waits_for"]
    assert set(busy.get(f"{API}/jobs/j4/explain").json["devices"]) == {"n/cpu0", "n/cpu1"}


def test_a_lost_node_is_shown_with_its_trouble(busy: Window) -> None:
    busy.tell(LinkDown(node="n", why="cable\x1b[31m"))
    (node,) = busy.get(f"{API}/nodes").json
    assert (node["link"], node["trouble"]) == ("down", "cable\x1b[31m")


@pytest.mark.parametrize(
    ("query", "begin", "end"), [("", 0, 1024), ("&offset=1000", 1000, 1024), ("&offset=-4", 1020, 1024)]
)
def test_output_is_bytes_and_says_where_it_begins(busy: Window, query: str, begin: int, end: int) -> None:
    reply = busy.get(f"{API}/attempts/j1.1/log?stream=out{query}")
    assert reply.body == busy.desk.logs["j1.1", "out"][begin:end]
    assert reply.headers["hostler-log-offset"] == str(begin)
    assert (reply.headers["hostler-log-size"], reply.headers["hostler-log-ended"]) == ("1024", "false")


def test_output_of_an_unreachable_node_is_unavailable_not_empty(busy: Window) -> None:
    reply = busy.get(f"{API}/attempts/unreachable.1/log")
    assert (reply.status, reply.json["error"]) == (503, "LinkLost")
    assert busy.get(f"{API}/attempts/j1.1/log?stream=both").status == 422


def test_a_failure_of_our_own_is_answered_and_put_on_record(served: Window) -> None:
    served.desk.broken = ZeroDivisionError("of a test")
    reply = served.get("/status")
    assert (reply.status, reply.json["error"]) == (500, "InternalError")
    served.desk.broken = None
    assert served.get("/status").json["troubles"] == 1
    assert "ZeroDivisionError: of a test" in str(served.desk.driver.entries[-1].event)
