"""A journal that goes on from a backup: no id is given twice, and what was done since counts for nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from hostler.core.views import job_views
from hostler.model import events, inputs
from hostler.model.commands import Launch, Recall, Stop
from hostler.model.errors import UsageError
from hostler.model.events import AttemptLeased, ChunkLeased, Entry, JobSubmitted
from hostler.model.work import JobState
from tests.core.builders import Driver, ended, fleet, link_up, replayed, script, sweep

RESTORED = inputs.Restored(made_at=500.0, jobs=100, parts=1000)


def ids(entries: Sequence[Entry]) -> set[str]:
    """What these entries have given away."""
    found = set()
    for entry in entries:
        match entry.event:
            case JobSubmitted(job=name) | AttemptLeased(attempt=name) | ChunkLeased(chunk=name):
                found.add(name)
    return found


def gone_back(driver: Driver, at: int) -> Driver:
    """A core that has these entries of the journal alone, and was told so."""
    again = Driver(replayed(driver.entries[:at]), driver.now)
    again.entries = list(driver.entries[:at])
    again.tell(RESTORED)
    return again


def test_numbers_go_on_where_nobody_can_have_come_to() -> None:
    driver = fleet(devices=2)
    driver.submit(script("a"), sweep("s"))
    backup = len(driver.entries)
    driver.submit(script("lost"))
    again = gone_back(driver, backup)
    again.tell(link_up())
    assert again.submit(script("b")) == ("j103",)
    assert [view.id for view in job_views(again.state, again.core.index, None, 0, 10)] == ["j1", "j2", "j103"]
    assert [view.id for view in job_views(again.state, again.core.index, None, 2, 10)] == ["j103"]
    assert [view.id for view in job_views(again.state, again.core.index, None, 50, 10)] == ["j103"]
    assert [view.id for view in job_views(again.state, again.core.index, None, 103, 10)] == []
    twice = gone_back(again, len(again.entries))
    twice.tell(link_up())
    assert twice.submit(script("c"), script("d")) == ("j204", "j205")
    assert [view.id for view in job_views(twice.state, twice.core.index, None, 0, 10)] == [
        "j1",
        "j2",
        "j103",
        "j204",
        "j205",
    ]


def test_what_was_on_its_way_and_is_not_there_is_begun_anew_under_another_id() -> None:
    driver = fleet(devices=3)
    driver.submit(script("a"), script("b"), script("c"))
    driver.tell(inputs.Launched(attempts=("j1.1", "j2.1")), inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    again = gone_back(driver, len(driver.entries))
    assert [again.job_state(name) for name in ("j1", "j2", "j3")] == ["running", "launching", "leased"]
    again.tell(link_up(attempts=("j1.1",)))
    assert again.job_state("j1") is JobState.RUNNING, "it is found again"
    assert {event.attempt for event in again.of(events.AttemptLost)} == {"j2.1", "j3.1"}
    assert again.state.jobs["j2"].failures == {}, "nobody has failed"
    assert {lease.attempt for lease in again.of(AttemptLeased)} == {"j2.1002", "j3.1002"}
    assert {each.order.id for each in again.commands if isinstance(each, Launch)} == {"j2.1002", "j3.1002"}
    again.tell(ended("j2.1"), ended("j1.1"))
    assert (again.job_state("j1"), again.job_state("j2")) == (JobState.DONE, JobState.LEASED)
    again.tell(ended("j2.1002"), ended("j3.1002"))
    assert [again.job_state(name) for name in ("j2", "j3")] == [JobState.DONE, JobState.DONE]


def test_what_was_on_its_way_and_has_come_there_is_found_again() -> None:
    driver = fleet(devices=2)
    driver.submit(script("a"), script("b"))
    driver.tell(inputs.Launched(attempts=("j1.1",)))
    again = gone_back(driver, len(driver.entries))
    again.tell(link_up(attempts=("j1.1", "j2.1")))
    assert [each for each in again.commands if isinstance(each, Launch | Stop)] == []
    again.tell(ended("j1.1"), ended("j2.1"))
    assert [again.job_state(name) for name in ("j1", "j2")] == [JobState.DONE, JobState.DONE]


def test_what_is_put_there_after_the_restore_is_sent_again_as_ever() -> None:
    driver = gone_back(fleet(), 3)
    driver.tell(link_up())
    driver.submit(script("a"))
    driver.tell(inputs.LinkDown(node="n", why="cut"))
    driver.tell(link_up())
    assert [each.order.id for each in driver.commands if isinstance(each, Launch)] == ["j101.1001"]


def test_one_that_was_being_cancelled_is_not_begun_anew() -> None:
    driver = fleet()
    driver.submit(script("a"))
    driver.tell(inputs.Cancel(job="j1"))
    again = gone_back(driver, len(driver.entries))
    again.tell(link_up())
    assert again.job_state("j1") is JobState.CANCELLED


def test_a_chunk_of_another_life_is_recalled_and_proves_nothing() -> None:
    driver = fleet(devices=1)
    driver.submit(sweep("s", stop=100, min_chunk=10, max_chunk=10))
    known = list(driver.state.sweeps["j1"].leases)
    backup = len(driver.entries)
    driver.tell(*(driver.searched(name) for name in known))
    lost = list(driver.state.sweeps["j1"].leases)
    assert lost
    words = [driver.searched(name) for name in lost]
    again = gone_back(driver, backup)
    again.tell(link_up(chunks=lost))
    assert {each.chunk for each in again.commands if isinstance(each, Recall)} == set(lost)
    again.tell(*words)
    assert again.state.sweeps["j1"].ledger.done == []
    assert again.state.refused == len(lost)
    while again.job_state("j1") is not JobState.DONE:
        again.tell(*(again.searched(name) for name in list(again.state.sweeps["j1"].leases)))
    assert again.state.sweeps["j1"].ledger.done == [(0, 100)]


def test_leaving_nothing_out_is_refused() -> None:
    driver = fleet()
    driver.tell(inputs.Restored(made_at=1.0, jobs=0, parts=1))
    assert isinstance(driver.answers[0], UsageError)
    assert driver.events == []


STEPS = st.lists(st.sampled_from(["submit", "sweep", "launch", "end", "fail", "search", "link", "cut"]), max_size=25)


def live(driver: Driver, steps: Sequence[str]) -> None:
    """What the world may say, of whatever there is."""
    for step in steps:
        held = [job.attempt.id for job in driver.state.jobs.values() if job.attempt is not None]
        chunks = [name for each in driver.state.sweeps.values() for name in each.leases]
        match step:
            case "submit":
                driver.submit(script())
            case "sweep":
                driver.submit(sweep(stop=60, min_chunk=10, max_chunk=20))
            case "launch":
                driver.tell(
                    inputs.Launched(attempts=tuple(held)),
                    *(inputs.Started(attempt=name, pid=1, pid_start=1) for name in held[:1]),
                )
            case "end":
                driver.tell(*map(ended, held[:1]))
            case "fail":
                driver.tell(*(ended(name, exit_code=1) for name in held[-1:]), after_s=100.0)
            case "search":
                driver.tell(*(driver.searched(name) for name in chunks[:1]))
            case "link":
                driver.tell(link_up(attempts=held, chunks=chunks))
            case "cut":
                driver.tell(inputs.LinkDown(node="n", why="cut"))


def finish(driver: Driver) -> None:
    """Let everything come to its end."""
    driver.tell(link_up())
    for _ in range(200):
        if all(job.state.final for job in driver.state.jobs.values()):
            return
        held = [job.attempt.id for job in driver.state.jobs.values() if job.attempt is not None]
        chunks = [name for each in driver.state.sweeps.values() for name in each.leases]
        driver.tell(*map(ended, held), *(driver.searched(name) for name in chunks), after_s=200.0)
    raise AssertionError({name: job.state for name, job in driver.state.jobs.items()})


@settings(deadline=None, max_examples=20)
@given(before=STEPS, since=STEPS, after=STEPS, data=st.data())
def test_two_lives_have_no_id_in_common(
    before: list[str], since: list[str], after: list[str], data: st.DataObject
) -> None:
    driver = fleet(devices=2)
    live(driver, before)
    backup = len(driver.entries)
    live(driver, since)
    lost = ids(driver.entries[backup:])
    again = gone_back(driver, backup)
    strays = sorted(lost)
    again.tell(link_up(attempts=[name for name in strays if "." in name]))
    told = data.draw(st.permutations(strays)) if strays else []
    for name in told:
        if "." in name:  # whatever the node has of it, and says only now
            was_done = sum(job.state is JobState.DONE for job in again.state.jobs.values())
            again.tell(ended(name))
            assert sum(job.state is JobState.DONE for job in again.state.jobs.values()) == was_done
    live(again, after)
    finish(again)
    assert not ids(again.entries[backup:]) & lost
    replayed(again.entries)


def test_many_numbers_left_out_cost_nothing() -> None:
    driver = fleet()
    driver.submit(script("a"))
    driver.tell(inputs.Restored(made_at=1.0, jobs=10**12, parts=10**12))
    driver.submit(script("b"))
    assert [view.id for view in job_views(driver.state, driver.core.index, None, 0, 10)] == ["j1", f"j{10**12 + 2}"]


@pytest.mark.parametrize("after", [0, 1, 5, 101])
def test_a_listing_goes_on_from_any_number(after: int) -> None:
    driver = fleet()
    driver.submit(script("a"))
    driver.tell(RESTORED)
    driver.submit(script("b"))
    numbers = [1, 102]
    assert [int(view.id[1:]) for view in job_views(driver.state, driver.core.index, None, after, 10)] == [
        number for number in numbers if number > after
    ]
