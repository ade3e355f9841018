"""The checks of a town's campaign see what they are for: each fault, planted in what was right, is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.model.events import (
    AttemptEnded,
    AttemptLeased,
    AttemptLost,
    ChunkDone,
    ChunkLeased,
    ControllerStarted,
    Entry,
    Event,
    FilesFetched,
    JobDone,
    JobSubmitted,
    NodeLinked,
    NodeUnreachable,
)
from hostler.model.files import FileRef
from hostler.model.work import JobSpec, ScriptPayload
from tests.lab.town import verdict
from tests.lab.town.load import Order, Orders
from tests.lab.town.plan import Blow, plan
from tests.lab.town.task import content
from tests.lab.town.verdict import Note, Row

LEASE_S = 10.0
SPEC = JobSpec(name="one", payload=ScriptPayload(schema=1, argv=("true",)))
ORDER = Order("one", {}, files=1)
RIGHT = verdict._hash(content("one", 0))
LEASED = AttemptLeased(job="j1", attempt="j1.1", device="rig-0/cpu0", why="")
AGAIN = AttemptLeased(job="j1", attempt="j1.2", device="rig-1/cpu0", why="")
DONE = JobDone(job="j1", attempt="j1.1", result="one")
FETCHED = FilesFetched(attempt="j1.1", files=(FileRef(path="j1.1/out/0.bin", size=1, sha256=RIGHT),))


def entries(*events: Event, at: Sequence[float] = ()) -> list[Entry]:
    moments = [*at, *[0.0] * len(events)]
    return [Entry(seq=seq, at=moments[seq - 1], event=event) for seq, event in enumerate(events, 1)]


def rows(*epochs: int | None) -> list[Row]:
    started = ControllerStarted(version="1", epoch=1)
    return [Row(Entry(seq=seq, at=0.0, event=started), epoch) for seq, epoch in enumerate(epochs, 1)]


def test_writers() -> None:
    assert list(verdict.writers(rows(1, 1))) == []
    assert "after one of 2" in "".join(verdict.writers(rows(2, 1)))
    assert "of epoch None" in "".join(verdict.writers(rows(1, None)))
    assert "controller 1 begins in entry 2, of epoch 2" in "".join(verdict.writers(rows(1, 2)))
    gap = rows(1, 1, 1)[:1] + rows(1, 1, 1)[2:]
    assert list(verdict.writers(gap)) == ["entry 3 stands where 2 should"]


@pytest.mark.parametrize(
    ("events", "orders", "told"),
    [
        ([JobSubmitted(job="j1", spec=SPEC), DONE], Orders(confirmed={"j1": ORDER}), None),
        ([JobSubmitted(job="j1", spec=SPEC), DONE], Orders(unsure=[ORDER]), None),
        ([], Orders(unsure=[ORDER]), None),
        ([], Orders(confirmed={"j1": ORDER}), "confirmed as j1, which is None"),
        ([JobSubmitted(job="j1", spec=SPEC)], Orders(confirmed={"j1": ORDER}), "done 0 times"),
        ([JobSubmitted(job="j1", spec=SPEC), DONE, DONE], Orders(confirmed={"j1": ORDER}), "done 2 times"),
        ([JobSubmitted(job="j1", spec=SPEC), DONE, DONE], Orders(unsure=[ORDER]), "done 2 times"),
        (
            [JobSubmitted(job="j1", spec=SPEC), JobSubmitted(job="j2", spec=SPEC), DONE],
            Orders(confirmed={"j1": ORDER}),
            "one was submitted 2 times",
        ),
        ([JobSubmitted(job="j1", spec=SPEC), DONE], Orders(), "never asked for"),
    ],
)
def test_acceptances(events: list[Event], orders: Orders, told: str | None) -> None:
    said = list(verdict.acceptances(entries(*events), orders))
    assert said == [] if told is None else told in "\n".join(said)


def test_results() -> None:
    ended = AttemptEnded(
        attempt="j1.1",
        started_at=None,
        ended_at=0.0,
        exit_code=0,
        signal=None,
        reason=None,
        error=None,
        cpu_s=None,
        max_rss_bytes=None,
    )
    submitted = JobSubmitted(job="j1", spec=SPEC)
    assert list(verdict.results(entries(submitted, ended, DONE))) == []
    assert "has the result 'two'" in "".join(verdict.results(entries(submitted, ended, replace(DONE, result="two"))))
    assert "has not ended" in "".join(verdict.results(entries(submitted, DONE)))


def test_ledgers() -> None:
    order = Order("one", {}, stop=10, planted=(3,))
    lease = ChunkLeased(job="j1", chunk="j1.c1", device="d", start=0, stop=10, expected_s=None)
    done = ChunkDone(chunk="j1.c1", hits=(), elapsed_s=1.0)
    whole = entries(lease, done)
    assert list(verdict.ledgers(whole, {"j1": order}, {"j1": [3]})) == []
    assert "hits [3, 3]" in "".join(verdict.ledgers(whole, {"j1": order}, {"j1": [3, 3]}))
    assert "hits []" in "".join(verdict.ledgers(whole, {"j1": order}, {"j1": []}))
    assert "complete=False" in "".join(verdict.ledgers(whole[:1], {"j1": order}, {"j1": [3]}))
    twice = entries(lease, done, replace(lease, chunk="j1.c2"), replace(done, chunk="j1.c2"))
    assert "fault='" in "".join(verdict.ledgers(twice, {"j1": order}, {"j1": [3]}))


def test_files(tmp_path: Path) -> None:
    story, orders = entries(FETCHED, DONE), {"j1": ORDER}
    places = [tmp_path / "a", tmp_path / "b"]
    assert "lies nowhere" in "".join(verdict.files(story, orders, places))
    file = tmp_path / "b" / "j1.1" / "out" / "0.bin"
    file.parent.mkdir(parents=True)
    file.write_bytes(content("one", 0))
    assert list(verdict.files(story, orders, places)) == []
    file.write_bytes(content("one", 0)[:-1])
    assert "lies nowhere" in "".join(verdict.files(story, orders, places))
    assert "should have left" in "".join(verdict.files(entries(DONE), orders, places))


def test_executions() -> None:
    first = Note("rig-0", "one", "j1.1", 0.0, 100.0, ended=False)
    second = Note("rig-1", "one", "j1.2", 60.0, 61.0, ended=True)
    lost = AttemptLost(attempt="j1.1", evidence="")
    away, back = (
        NodeUnreachable(node="rig-0", why=""),
        NodeLinked(node="rig-0", agent="a", incarnation=1, boot=None, attempts=(), chunks=()),
    )
    after = replace(second, began=100.0, alive=101.0)
    assert list(verdict.executions([first, after], entries(LEASED, AGAIN), LEASE_S)) == []
    at_once = [first, second]
    assert "ran at the same time" in "".join(verdict.executions(at_once, entries(LEASED, AGAIN), LEASE_S))
    outlasted = entries(LEASED, away, lost, AGAIN, at=(0.0, 10.0, 50.0, 51.0))
    assert list(verdict.executions(at_once, outlasted, LEASE_S)) == []
    too_soon = entries(LEASED, away, lost, AGAIN, at=(0.0, 10.0, 15.0, 51.0))
    assert "ran at the same time" in "".join(verdict.executions(at_once, too_soon, LEASE_S))
    in_reach = entries(LEASED, away, back, lost, AGAIN, at=(0.0, 10.0, 12.0, 50.0, 51.0))
    assert "ran at the same time" in "".join(verdict.executions(at_once, in_reach, LEASE_S))
    twice = [second, replace(second, host="rig-2", began=70.0, alive=71.0)]
    assert "j1.2 ran 2 times" in "".join(verdict.executions(twice, entries(AGAIN), LEASE_S))
    assert "nobody said so" in "".join(verdict.executions([second], [], LEASE_S))


def test_notes(tmp_path: Path) -> None:
    said = {"job": "one", "attempt": "j1.1", "began": 1.0, "alive": 2.0, "ended": True}
    (tmp_path / "j1.1.77").write_text(json.dumps(said).ljust(512))
    (tmp_path / "j1.2.78").write_text(" " * 512)
    assert verdict.notes_of(tmp_path, "rig-0") == [Note(host="rig-0", **said)]  # type: ignore[arg-type]


def test_a_plan_follows_from_its_seed_and_has_every_kind() -> None:
    hosts = ["rig-0", "rig-1"]
    made = plan(3, 200.0, hosts)
    assert made == plan(3, 200.0, hosts)
    assert made != plan(4, 200.0, hosts)
    assert {blow.kind for blow in made} == {"kill", "stop", "cut", "restart", "fill", "reboot"}
    assert {blow.how for blow in made if blow.kind == "restart"} == {"fast", "immediate", "kill"}
    assert all(isinstance(blow, Blow) and 0.0 <= blow.seconds <= 15.0 for blow in made)
    assert max(blow.seconds for blow in plan(3, 2000.0, hosts, 90.0)) >= 90.0
