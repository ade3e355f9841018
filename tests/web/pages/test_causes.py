"""What led to what, as entries of real cores tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hostler.model import inputs
from hostler.model.alerts import USUAL_ALERTS
from hostler.model.events import Entry
from hostler.model.rules import USUAL
from hostler.web.pages.causes import after, before, causes
from tests.core.builders import Driver, ended, fleet, link_up, script, sweep


def asked(given: inputs.Wish) -> inputs.Asked:
    return inputs.Asked(who="ann", what="something", key=None, fingerprint=None, given=given)


def led_to(driver: Driver, kind: str) -> list[str]:
    """The chain that led to the newest entry of a kind, the nearest last."""
    entry = newest(driver.entries, kind)
    return [kind_of(driver.entries, seq) for seq in before(entry.seq, causes(driver.entries))]


def newest(entries: Sequence[Entry], kind: str) -> Entry:
    return next(entry for entry in reversed(entries) if entry.event.kind == kind)


def kind_of(entries: Sequence[Entry], seq: int) -> str:
    return next(entry.event.kind for entry in entries if entry.seq == seq)


def test_a_job_from_the_wish_to_the_end() -> None:
    driver = fleet()
    driver.tell(asked(inputs.Submit(specs=(script(),))))
    driver.tell(inputs.Launched(attempts=("j1.1",)), inputs.Started(attempt="j1.1", pid=7, pid_start=1))
    driver.tell(ended("j1.1"))
    assert led_to(driver, "job.done") == [
        "request.accepted",
        "job.submitted",
        "attempt.leased",
        "attempt.launching",
        "attempt.started",
        "attempt.ended",
    ]


def test_causes_of_a_cancelled_job_begin_with_its_request() -> None:
    driver = fleet()
    driver.tell(inputs.Submit(specs=(script(),)))
    driver.tell(inputs.Launched(attempts=("j1.1",)), inputs.Started(attempt="j1.1", pid=7, pid_start=1))
    driver.tell(asked(inputs.Cancel(job="j1", reason="wrong data")))
    driver.tell(ended("j1.1", signal=15))
    assert led_to(driver, "job.cancelled") == ["request.accepted", "job.cancel_requested", "attempt.ended"]


def test_a_node_that_lost_its_work_sends_it_elsewhere() -> None:
    driver = fleet()
    driver.tell(inputs.Submit(specs=(script(),)))
    driver.tell(inputs.Launched(attempts=("j1.1",)), inputs.Started(attempt="j1.1", pid=7, pid_start=1))
    driver.tell(inputs.LinkDown(node="n", why="no route"))
    driver.tell(link_up(incarnation=2))
    driver.tell(inputs.Tick(), after_s=600.0)
    assert led_to(driver, "attempt.leased") == ["node.unreachable", "attempt.lost", "job.requeued"]


def test_what_came_after_waits_for_what_came_before() -> None:
    driver = fleet()
    driver.tell(inputs.Submit(specs=(script(key="one"), script(after=("one",)))))
    driver.tell(inputs.Launched(attempts=("j1.1",)), inputs.Started(attempt="j1.1", pid=7, pid_start=1))
    driver.tell(ended("j1.1"))
    assert led_to(driver, "attempt.leased")[-2:] == ["attempt.ended", "job.done"]


def test_an_alert_follows_from_what_went_wrong_and_leads_to_what_was_done() -> None:
    driver = fleet()
    driver.tell(inputs.Configure(rules=replace(USUAL, alerts=USUAL_ALERTS)))
    driver.tell(inputs.LinkDown(node="n", why="no route"))
    driver.tell(inputs.Tick(), after_s=600.0)
    driver.tell(asked(inputs.AcknowledgeAlert(alert="a1", who="ann", note=None)))
    driver.tell(link_up())
    driver.tell(inputs.Tick(), after_s=600.0)
    assert led_to(driver, "alert.fired") == ["node.unreachable"]
    entries, because = driver.entries, causes(driver.entries)
    fired = newest(entries, "node.unreachable").seq
    assert "alert.ended" in [kind_of(entries, seq) for seq, _ in after(fired, because)]
    assert led_to(driver, "alert.ended") == [
        "node.unreachable",
        "alert.fired",
        "request.accepted",
        "alert.acknowledged",
    ]


def test_chunks_follow_from_their_sweep() -> None:
    driver = fleet()
    driver.tell(asked(inputs.Submit(specs=(sweep(),))))
    chunk, _, _ = driver.chunk("j1")
    driver.tell(driver.searched(chunk))
    assert led_to(driver, "chunk.done") == ["request.accepted", "job.submitted", "chunk.leased"]


def test_no_cause_is_made_up() -> None:
    driver = fleet()
    driver.tell(inputs.Submit(specs=(script(),)))
    alone = [newest(driver.entries, "attempt.leased")]
    assert causes(alone) == {}


def test_every_cause_is_another_entry_and_no_story_goes_in_a_circle() -> None:
    driver = fleet(devices=2)
    driver.tell(asked(inputs.Submit(specs=(script(), sweep(), script()))))
    for chunk in list(driver.state.sweeps["j2"].leases):
        driver.tell(driver.searched(chunk))
    because = causes(driver.entries)
    for entry in driver.entries:
        assert entry.seq not in before(entry.seq, because)
        assert entry.seq not in dict(after(entry.seq, because))
