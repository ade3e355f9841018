"""What is known of allocations, without any."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hostler.agent.protocol import ALLOCATION_ENDS
from hostler.backends.slurm.berths import (
    MARGIN_S,
    Batch,
    Berth,
    Holdings,
    from_journal,
    has_run_out,
    is_held_back,
    reason_of,
)
from hostler.backends.slurm.desk import News
from hostler.backends.slurm.states import Outcome
from hostler.model import pools
from hostler.model.inputs import Ended
from hostler.model.pools import BatchTask, Span

from .stage import order

HOUR = Span(seconds=3600.0, longest=False, saves=False)


def berth(task: int = 0, slot: str = "cuda0", *attempts: str) -> Berth:
    return Berth(token="t", task=task, slot=slot, orders={name: order(name) for name in attempts})


def batch(*berths: Berth, token: str = "t", job: str | None = "820", **more: object) -> Batch:
    given: dict[str, object] = {"mode": "array", "ask": None, "wants": "", "time": HOUR, "stays": False, **more}
    return Batch(token=token, job=job, berths=list(berths), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "time", "reason"),
    [
        (Outcome.PREEMPTED, HOUR, "stopped"),
        (Outcome.TIMEOUT, HOUR, "short"),
        (Outcome.TIMEOUT, Span(seconds=60.0, longest=True, saves=False), "walltime"),
        (Outcome.TIMEOUT, Span(seconds=60.0, longest=True, saves=True), "stopped"),
        (Outcome.OUT_OF_MEMORY, HOUR, "memory"),
        (Outcome.NODE_FAIL, HOUR, "lost"),
        (Outcome.CANCELLED, HOUR, "lost"),
        (None, HOUR, "lost"),
    ],
)
def test_end_reason_of_an_allocation(outcome: Outcome | None, time: Span, reason: str) -> None:
    assert reason_of(outcome, time) == reason


def test_every_outcome_has_a_reason() -> None:
    assert {reason_of(each, HOUR) for each in Outcome} <= {"stopped", "lost", "memory", "walltime", "short"}


def test_an_end_that_the_allocation_brought_about_is_held_back() -> None:
    ended = Ended(attempt="j1.1", ended_at=1.0, reason="stopped", error=f"{ALLOCATION_ENDS}: SIGTERM")
    assert is_held_back(ended)
    assert not is_held_back(Ended(attempt="j1.1", ended_at=1.0, reason="stopped", error="cancelled"))


def test_names_are_those_of_tasks_of_an_array() -> None:
    first, second = berth(0), berth(1)
    array = batch(first, second)
    assert [array.name_of(each) for each in (first, second)] == ["820_0", "820_1"]
    assert batch(first, mode="job").name_of(first) == "820"
    assert batch(first, job=None).name_of(first) is None


def test_nothing_is_begun_where_too_little_is_left() -> None:
    it = berth()
    assert it.lasts(1e9, now=0.0), "nobody knows when it ends before it has begun"
    it.begin(0, {"host": "h"}, now=100.0, time_s=1000.0)
    assert it.lasts(1000.0 - MARGIN_S, now=100.0)
    assert not it.lasts(1000.0 - MARGIN_S, now=101.0)
    it.end({"why": "idle"})
    assert not it.lasts(0.0, now=101.0)


def test_the_end_is_counted_by_the_clock_of_its_host() -> None:
    it = berth()
    it.begin(0, {"host": "h", "at": 5000.0, "ends_at": 5600.0}, now=100.0, time_s=1e6)
    assert it.ends_at == 700.0


def test_who_was_told_to_end_at_the_end_of_its_time_has_had_it() -> None:
    it = berth()
    own = batch(it)
    it.begin(0, {"host": "h"}, now=0.0, time_s=3600.0)
    it.end({"why": "signal"})
    assert not has_run_out(own, it, now=100.0)
    assert has_run_out(own, it, now=3500.0)


@pytest.mark.parametrize("told", [{"ends_at": 5600.0}, {}])
def test_of_what_began_long_ago_less_is_left(told: dict[str, float]) -> None:
    """As who begins hears of it: its host has told that once."""
    it = berth()
    it.begin(0, {"host": "h", "at": 5000.0, **told}, now=5500.0, time_s=600.0)
    assert it.ends_at == 5600.0
    assert not it.lasts(60.0, now=5500.0)


@pytest.mark.parametrize(("ended_at", "out"), [(8500.0, True), (6000.0, False)])
def test_whether_it_had_its_time_is_told_by_one_clock_however_late(ended_at: float, out: bool) -> None:
    it = berth()
    it.begin(0, {"host": "h", "at": 5000.0, "ends_at": 8600.0}, now=20000.0, time_s=3600.0)
    it.end({"why": "signal", "at": ended_at})
    assert has_run_out(batch(it), it, now=20001.0) is out


def test_what_a_later_run_has_is_not_lost_with_the_one_before() -> None:
    it = berth(0, "cuda0", "j1.1", "j2.1")
    it.begin(0, {"host": "h"}, now=0.0, time_s=60.0)
    it.coming.append(News(token="t", task=0, run=1, what="began", told={}))
    it.adopt("j1.1", 1), it.adopt("j3.1", 1), it.adopt("j4.1", 0), it.adopt("j5.1", 7)
    assert (list(it.orders), it.has("j3.1"), it.has("j5.1")) == (["j2.1", "j4.1"], True, False)
    it.forget_all()
    it.begin(1, {"host": "h"}, now=0.0, time_s=60.0)
    assert (sorted(it.orders), it.adopted) == (["j1.1", "j3.1"], {})


def test_an_end_that_was_heard_before_the_beginning_counts() -> None:
    it = berth()
    it.ends[0] = {"why": "done"}
    it.begin(0, {"host": "h"}, now=0.0, time_s=60.0)
    assert it.ended == {"why": "done"}
    assert it.has_ended.is_set()


@given(st.lists(st.lists(st.sampled_from([f"j{at}.1" for at in range(9)]), max_size=3), max_size=4))
def test_what_was_put_somewhere_is_found_there_until_it_has_come_back(names: list[list[str]]) -> None:
    holdings, where = Holdings(), {}
    for number, attempts in enumerate(names):
        fresh = [name for name in dict.fromkeys(attempts) if name not in where]
        it = berth(0, "cuda0", *fresh)
        made = batch(it, token=f"t{number}")
        holdings.add(made)
        where.update(dict.fromkeys(fresh, (made, it)))
    for name, (made, it) in where.items():
        found = holdings.of(name)
        assert found is not None
        assert (found[0] is made, found[1] is it) == (True, True)
        it.forget(Ended(attempt=name, ended_at=0.0))
        assert holdings.of(name) is None
    holdings.sweep()
    assert holdings.places == {}


def test_nothing_is_in_a_batch_that_is_gone() -> None:
    holdings, made = Holdings(), batch(berth(0, "cuda0", "j1.1"))
    holdings.add(made)
    assert holdings.remove(made)
    assert not holdings.remove(made)
    assert holdings.of("j1.1") is None


def test_a_slot_shows_what_runs_before_what_waits() -> None:
    waits, runs = berth(0, "cuda0"), berth(0, "cuda0")
    runs.begin(0, {"host": "h"}, now=0.0, time_s=60.0)
    holdings = Holdings()
    for number, each in enumerate((waits, runs, berth(0, "cuda1+cuda2"))):
        holdings.add(batch(each, token=f"t{number}"))
    slots = holdings.slots()
    assert sorted(slots) == ["cuda0", "cuda1", "cuda2"]
    assert slots["cuda0"].phase is pools.SlotPhase.UP


def test_a_batch_of_a_journal_is_known_by_its_names() -> None:
    known = pools.Batch(
        token="t", node="n", mode="pilot", tasks=(BatchTask(slot="cuda0", attempts=("j1.1",)),), wants="1 GPU",
        time=HOUR, requested_at=5.0, job="820",
    )  # fmt: skip
    made = from_journal(known)
    assert (made.own, made.stays, made.job, made.berths[0].orders) == (False, True, "820", {"j1.1": None})
