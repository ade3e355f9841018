"""Function calls of `hostler.Executor` are shown as calls on every page that has jobs, and not as sweeps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

import pytest

from hostler.client import executor
from hostler.client.call_batches import params_of
from hostler.model.calls import WORKER
from hostler.model.inputs import Submit
from hostler.model.views import HitView
from hostler.web.pages import calls
from tests.core.builders import Driver, fleet, script, sweep
from tests.web.core_desk import CoreDesk, Window, window
from tests.web.pages.batches import batch
from tests.web.pages.test_groups import rows
from tests.web.pages.test_pages import HARM, page

TRACEBACK = f"Traceback (most recent call last):\nValueError: {HARM}\n"
ENDS: tuple[Mapping[str, Any], ...] = (
    {"value": json.dumps({"loss": 0.25})},
    {"pickle": "AAAA"},
    {"error": {"type": "ValueError", "text": HARM, "args": None, "traceback": TRACEBACK}},
    {"died": "signal 11 (SIGSEGV)"},
    {"unfit": "it has a value of type torch.Tensor"},
    {"unloadable": "ModuleNotFoundError: torch"},
    {"harm": HARM},
)
"""What a worker tells of a call, and something that no worker of ours tells."""


@pytest.fixture
def called() -> Iterator[Window]:
    """A batch with a result of each kind and more calls to come, and a sweep beside it."""
    driver: Driver = fleet(devices=2)
    driver.tell(Submit(specs=(batch("train", 200), sweep("seeds", stop=200))))
    chunk, start, _ = driver.chunk("j1")
    driver.tell(driver.searched(chunk, hits=[{"at": start + n, **data} for n, data in enumerate(ENDS[:1])]))
    with window(CoreDesk(driver)) as served:
        yield served


def test_batch_of_an_executor_is_known_by_its_worker() -> None:
    made = executor.Executor(name="n")._spec([], params_of(3, False, "b"), "s")
    assert made["payload"]["worker"][-1] == WORKER


def test_calls_have_a_page_in_their_own_words(called: Window) -> None:
    text = page(called, "calls/j1")
    assert "<h1>Calls of train</h1>" in text
    assert "Calls with a result" in text
    assert "of 200" in text
    main = text.partition("<main")[2].partition("</main>")[0]
    for word in ("sweep", "ledger", "hits", "by chance"):
        assert word not in main.lower(), word
    assert '{"loss": 0.25}' in unescape(text)


def test_batches_are_listed_apart_from_sweeps(called: Window) -> None:
    assert [row[0] for row in rows(page(called, "calls"), "batches")] == ["j1 train"]
    sweeps = page(called, "sweeps")
    assert [row[0] for row in rows(sweeps, "sweeps")] == ["j2 seeds"]
    assert '<a href="/pages/calls">1 batch of function calls</a>' in sweeps


def test_batches_come_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "LISTED", 2)
    with window() as served:
        served.tell(Submit(specs=tuple(batch(f"f{n}", 2) for n in range(3))))
        first = page(served, "calls")
        assert [row[0] for row in rows(first, "batches")] == ["j3 f2", "j2 f1"]
        assert 'href="/pages/calls?before=2"' in first
        assert [row[0] for row in rows(page(served, "calls?before=2"), "batches")] == ["j1 f0"]
        assert len(rows(page(served, "calls?before=x"), "batches")) == 2


def test_kind_of_calls_is_calls_wherever_jobs_are_listed(called: Window) -> None:
    assert [row[1] for row in rows(page(called, "jobs"), "jobs")] == ["calls", "sweep"]
    queue = page(called, "queue")
    assert {(row[0].split()[0], row[1]) for row in rows(queue, "running")} == {("j1", "calls"), ("j2", "sweep")}
    tiles = page(called, "fleet")
    assert "calls <span" in tiles
    assert "1 sweep, 1 batch of calls at work" in tiles
    head = page(called, "jobs/j1")
    assert 'batch of <a href="/pages/calls/j1">200 function calls</a>' in head
    assert "Its ledger" not in head
    assert [job["calls"] for job in called.get("/api/v1/jobs").json] == [True, False]


def test_no_word_of_sweeps_is_said_of_calls() -> None:
    with window(CoreDesk(fleet(devices=1))) as served:
        served.tell(Submit(specs=(batch("train", 200),)))
        told = {}
        for path in ("jobs/j1", "calls/j1", "nodes/n"):
            main = page(served, path).partition("<main")[2].partition("As it was asked for")[0].partition("</main>")[0]
            told[path] = re.findall(r"(?i).*(?:sweep|ledger|\bhits?\b).*", re.sub(r"<[^>]+>", " ", main))
        assert told == {"jobs/j1": [], "calls/j1": [], "nodes/n": []}
        assert "0 of 200 calls have a result" in page(served, "jobs/j1")


def test_waiting_calls_are_calls_in_the_queue() -> None:
    with window(CoreDesk(fleet(devices=1))) as served:
        served.tell(Submit(specs=(script("first"), batch("train", 5))))
        assert [row[2] for row in rows(page(served, "queue"), "waiting")] == ["calls"]


def test_sweep_has_no_page_of_calls(called: Window) -> None:
    reply = called.get("/pages/calls/j2")
    assert (reply.status, b"is a sweep" in reply.body) == (404, True)


def test_each_end_of_a_call_has_its_words() -> None:
    shown = [calls.result(HitView(job="j1", at=at, data={"at": at, **data})) for at, data in enumerate(ENDS)]
    assert [each["how"] for each in shown] == [
        "returned",
        "returned",
        "raised",
        "ended its process",
        "result not sent",
        "could not be loaded",
        "unknown",
    ]
    assert [each["good"] for each in shown] == [True, True, False, False, False, False, False]
    assert shown[2]["traceback"] == TRACEBACK
    odd: list[dict[str, Any]] = [
        {"error": "text"},
        {"error": {"type": 3, "traceback": 4}},
        {"value": ["x"] * 10_000},
        {"died": None},
    ]
    for data in odd:
        assert len(calls.result(HitView(job="j1", at=1, data=data))["says"]) <= calls.TEXT_SHOWN


def test_hostile_results_of_calls_are_but_text() -> None:
    driver: Driver = fleet(devices=1)
    driver.tell(Submit(specs=(batch(HARM, 10**9),)))
    for data in ENDS:
        chunk, start, _ = driver.chunk("j1")
        driver.tell(driver.searched(chunk, hits=[{"at": start, **data}]))
    with window(CoreDesk(driver)) as served:
        text = page(served, "calls/j1")
        assert "<img src=x" not in page(served, "calls")
    assert "<img src=x" not in text
    assert f"ValueError: {HARM}" in unescape(text)
