"""The page of a job: how long it took, and for a failed one its reason and the end of its output first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hostler.model.errors import LinkLost
from hostler.model.inputs import Started, Submit
from hostler.model.work import FailureClass, Retry
from hostler.web.pages import endings
from hostler.web.pages.endings import Endings, last_lines
from tests.core.builders import ended, script
from tests.web.core_desk import CoreDesk, Window, window
from tests.web.pages.test_pages import HARM, page

ONCE = Retry(max_attempts={FailureClass.EXIT: 1})


def fail(served: Window, **logs: bytes) -> None:
    """A job fails with exit status 3, having written this."""
    served.tell(Submit(specs=(script("train", retry=ONCE),)))
    served.tell(Started(attempt="j1.1", pid=7, pid_start=1))
    served.desk.logs |= {("j1.1", stream): logs.get(stream, b"") for stream in ("out", "err")}
    served.desk.ended.add("j1.1")
    served.tell(ended("j1.1", exit_code=3))


def failure_of(text: str) -> str:
    """The part that stands first on the page of a failed job."""
    return text.partition('<div id="failed"')[2].partition("</div>\n")[0]


def test_failed_job_shows_its_reason_and_the_end_of_its_output_first() -> None:
    with window() as served:
        fail(served, out=b"epoch 1\n", err=b"Traceback:\n\x1b[31mValueError\x1b[0m: <b>no data</b>\n")
        text = page(served, "jobs/j1")
    assert text.index('id="failed"') < text.index('id="head"')
    first = failure_of(text)
    assert "exit 3, attempt 1 of 1" in first
    assert "Traceback:\nValueError: &lt;b&gt;no data&lt;/b&gt;" in first
    assert "standard error of j1.1" in first
    assert "epoch 1" not in first


def test_failed_job_without_errors_shows_its_standard_output() -> None:
    with window() as served:
        fail(served, out=b"\n".join(b"line %d" % n for n in range(100)))
        first = failure_of(page(served, "jobs/j1"))
    assert "standard output of j1.1" in first
    assert "line 99" in first
    assert "line 79" not in first


def test_failed_job_without_output_says_so() -> None:
    with window() as served:
        fail(served)
        assert "j1.1 wrote no output" in failure_of(page(served, "jobs/j1"))


def test_output_that_cannot_be_read_does_not_hold_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: Any) -> Any:
        raise LinkLost("the node does not answer <i>")

    async def slow(*_: Any) -> Any:
        await asyncio.sleep(1000)

    monkeypatch.setattr(endings, "PATIENCE_S", 0.05)
    for log, why in ((lost, "does not answer &lt;i&gt;"), (slow, "no answer within")):
        with window() as served:
            fail(served)
            monkeypatch.setattr(served.desk, "log", log)
            assert why in failure_of(page(served, "jobs/j1"))


def test_hostile_output_is_but_text() -> None:
    with window() as served:
        fail(served, err=HARM.encode() + b"\x00\xff\x02123.000 ago\x03\n")
        assert "<img src=x" not in page(served, "jobs/j1")


def test_job_that_has_not_failed_shows_no_failure() -> None:
    with window() as served:
        served.tell(Submit(specs=(script("a"), script("b"))))
        served.tell(ended("j1.1", exit_code=0))
        assert "Why it failed" not in page(served, "jobs/j1")
        assert "Why it failed" not in page(served, "jobs/j2")


def test_end_of_an_output_is_read_once() -> None:
    desk, asked = CoreDesk(), []
    desk.logs = {("j1.1", "err"): b"no\n"}
    desk.ended.add("j1.1")
    log = desk.log

    async def counted(*given: Any) -> Any:
        asked.append(given)
        return await log(*given)

    desk.log = counted  # type: ignore[method-assign,assignment]

    async def read() -> None:
        kept = Endings()
        assert [(await kept.of(desk, "j1.1")).lines for _ in range(3)] == [("no",)] * 3

    asyncio.run(read())
    assert len(asked) == 1


def test_last_lines_are_whole_and_of_progress_bars_the_last_state() -> None:
    assert last_lines(b"half a line\nwhole\n", is_cut=True) == ("whole",)
    assert last_lines(b"10 %\r50 %\r100 %\ndone\r\n", is_cut=False) == ("100 %", "done")
    assert last_lines(b" \n\n", is_cut=False) == ()
    assert len(last_lines(b"x" * 100_000, is_cut=False)[0]) == endings.LINE_SHOWN


def test_job_shows_its_duration() -> None:
    def shown(served: Window) -> str:
        return page(served, "jobs/j1").partition("<dt>Duration</dt><dd>")[2].partition("</dd>")[0]

    with window() as served:
        served.tell(Submit(specs=(script("a"),)))
        assert 'title="unknown"' in shown(served)
        served.tell(Started(attempt="j1.1", pid=7, pid_start=1))
        assert 'data-how="since"' in shown(served)
        end = ended("j1.1", exit_code=0, started_at=1.0, ended_at=201.0)
        served.call(lambda: served.desk.driver.tell(end, after_s=300.0))
        assert shown(served) == "3m 20s"
        answer = served.get("/api/v1/jobs/j1").json
        assert answer["job"]["duration_s"] == 200.0
