"""Counts of what happened: each thing once, through restarts, and by the hour."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from hostler.core import tally
from hostler.core.kinds import Kinds
from hostler.core.readings import readings
from hostler.core.tally import Step, Tally
from hostler.model.fleet import Link
from hostler.model.inputs import Begin, Cancel, LinkDown, Returned, Started
from hostler.model.readings import Readings
from hostler.model.work import JobState, WorkKind
from tests.core.builders import Driver, ended, fleet, link_up, replayed, script, snapshot, sweep


def read(driver: Driver, now: float | None = None) -> Readings:
    return readings(driver.state, driver.core.index, now or driver.now, "test", "test")


def attempts(driver: Driver) -> dict[str, int]:
    (made,) = (each for each in read(driver).gist.works if each.work is WorkKind.SCRIPT)
    return {outcome: times for outcome, times in made.attempts.items() if times}


def test_attempts_are_counted_by_how_they_ended() -> None:
    driver = fleet(devices=3)
    driver.submit(script("good"), script("bad"), script("unwanted"))
    driver.tell(*(Started(attempt=f"j{n}.1", pid=n, pid_start=n) for n in (1, 2, 3)))
    driver.tell(ended("j1.1"), ended("j2.1", exit_code=3), Cancel(job="j3", reason="enough"))
    driver.tell(ended("j3.1", signal=15))
    assert attempts(driver) == {"done": 1, "exit": 1, "cancelled": 1}


def test_an_attempt_that_is_told_twice_counts_once() -> None:
    driver = fleet()
    driver.submit(script())
    driver.tell(ended("j1.1"))
    driver.tell(ended("j1.1"))
    assert attempts(driver) == {"done": 1}
    assert read(driver).refused == 1


def test_items_count_when_they_are_accepted_whoever_searched_them() -> None:
    driver = fleet()
    driver.submit(sweep("all", stop=1000))
    chunk, start, stop = driver.chunk("j1")
    driver.tell(driver.searched(chunk, hits=[{"at": start}]))
    made = read(driver).sweeps
    assert (made.items, made.hits, made.left) == (stop - start, 1, 1000 - (stop - start))
    assert made.chunks == {"done": 1, "taken": 0, "returned": 0, "failed": 0}
    chunk, second, _ = driver.chunk("j1")
    driver.tell(driver.returned(chunk, reason="worker_died", position=second + 1, hits=()))
    assert read(driver).sweeps.items == stop - start + 1
    assert read(driver).sweeps.chunks["failed"] == 1


def test_whether_a_node_can_be_reached_is_not_known_before_somebody_has_tried() -> None:
    driver = fleet()
    driver.tell(Begin(version="test", epoch=2))
    assert read(driver).nodes[0].link is None
    driver.tell(LinkDown(node="n", why="no route"))
    assert read(driver).nodes[0].link is Link.DOWN
    driver.tell(link_up())
    assert read(driver).nodes[0].link is Link.UP


def test_counts_outlive_a_restart_and_are_the_same_from_the_journal_alone() -> None:
    driver = fleet(devices=2)
    driver.submit(script("a"), script("b"))
    driver.tell(ended("j1.1"), ended("j2.1", exit_code=1))
    assert replayed(driver.entries).state.tally == driver.state.tally
    assert snapshot(driver.state).tally == driver.state.tally
    assert driver.state.tally.totals == {"attempts script done": 1, "attempts script exit": 1}


def test_a_rate_is_not_told_of_no_time_and_fades_when_nothing_ends() -> None:
    driver = fleet()
    driver.submit(script())
    driver.tell(ended("j1.1"))
    assert read(driver).gist.pace.attempts_per_h is None
    driver.tell(after_s=1800.0)
    rate = read(driver).gist.pace.attempts_per_h
    assert rate == pytest.approx(3600 / (driver.now - driver.state.tally.since), rel=0.01)  # type: ignore[operator]
    assert read(driver, driver.now + 4 * 3600).gist.pace.attempts_per_h == 0.0


def test_the_oldest_wait_is_that_of_the_job_submitted_first() -> None:
    driver = fleet()
    driver.submit(script("runs"))
    driver.submit(script("first"))
    driver.tell(after_s=100.0)
    driver.submit(script("second"))

    def oldest_at() -> float | None:
        return next(each.oldest_at for each in read(driver).gist.works if each.work is WorkKind.SCRIPT)

    assert oldest_at() == driver.state.jobs["j2"].submitted_at
    driver.tell(Cancel(job="j2", reason="enough"))
    assert oldest_at() == driver.state.jobs["j3"].submitted_at
    driver.tell(Cancel(job="j3", reason="enough"))
    assert oldest_at() is None


def test_only_nodes_of_the_fleet_are_read() -> None:
    driver = fleet(devices=2)
    driver.tell(LinkDown(node="n", why="cable"))
    assert [node.name for node in read(driver).nodes] == ["n"]
    none = readings(driver.state, driver.core.index, driver.now, "test", "test", nodes=())
    assert (none.nodes, none.devices) == ((), ())


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 10 * 86_400), st.integers(1, 5)), max_size=60))
def test_windows_hold_what_happened_in_them(happened: list[tuple[float, int]]) -> None:
    """To whole steps; and no more is kept than a day of them."""
    counted = Tally(since=0.0)
    state = type("Any", (), {"tally": counted, "at": 0.0})()
    for at, times in sorted(happened):
        state.at = at
        tally._add(state, "things", times)
    now = max((at for at, _ in happened), default=0.0)
    first = (now - 3600.0) // tally.STEP_S * tally.STEP_S
    assert tally.window(counted, now, 3600.0).count("things") == sum(n for at, n in happened if at >= first)
    assert counted.totals.get("things", 0) == sum(times for _, times in happened)
    assert len(counted.steps) <= tally.KEPT_S / tally.STEP_S + 1
    assert [step.begins for step in counted.steps] == sorted({step.begins for step in counted.steps})


def test_names_that_begin_alike_are_not_the_same() -> None:
    counted = Tally(since=0.0, steps=[Step(begins=0.0, counts={"games hex8": 1, "games hex8_2p": 2, "items": 4})])
    made = tally.window(counted, 3600.0, 3600.0)
    assert (made.count("games hex8"), made.count("games "), made.count("items")) == (1, 3, 4)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 8), st.sampled_from([JobState.PENDING, JobState.RUNNING])), max_size=50))
def test_kinds_know_who_waits(moves: list[tuple[int, JobState]]) -> None:
    kinds, states = Kinds(), dict[int, JobState]()
    for number, new in moves:
        kinds.move(WorkKind.SCRIPT, number, states.get(number), new)
        states[number] = new
        waiting = {each for each, state in states.items() if state is JobState.PENDING}
        assert kinds.oldest(WorkKind.SCRIPT) == min(waiting, default=None)
        assert kinds.counts[WorkKind.SCRIPT, JobState.PENDING] == len(waiting)


def test_a_chunk_that_comes_back_in_good_order_is_no_failure() -> None:
    driver = fleet()
    driver.submit(sweep("all", stop=1000))
    chunk, _, _ = driver.chunk("j1")
    given_back = driver.returned(chunk, reason="recalled")
    assert isinstance(given_back, Returned)
    driver.tell(given_back)
    assert read(driver).sweeps.chunks["returned"] == 1
