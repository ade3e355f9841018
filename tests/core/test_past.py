"""Jobs that are long over leave the state; nothing that is still asked for does, and what is asked for comes back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.core import Core, past, shown
from hostler.core.past import PIECE, beside
from hostler.core.views import job_detail, job_views, status_view
from hostler.model import inputs
from hostler.model.errors import Conflict, NotFound, Outdated
from hostler.model.events import JobCameBack, JobsLeft
from hostler.model.inputs import Input
from hostler.model.past import Looked, PastJob
from hostler.model.rules import PastRules, Rules
from hostler.model.work import FailureClass, JobState, Retry, WorkKind
from tests.core.builders import Driver, ended, link_up, node, replayed, script, snapshot, sweep

DAY_S = 86_400.0
ONCE = Retry(max_attempts={FailureClass.EXIT: 1})


class Keeper(Driver):
    """A driver with the store that its jobs leave into."""

    def __init__(self, keep: int = 0, keep_s: float = 10.0, devices: int = 2) -> None:
        super().__init__()
        self.kept: dict[str, PastJob] = {}
        rules = Rules(past=PastRules(keep_finished=keep, keep_finished_s=keep_s))
        self.tell(inputs.Begin(version="test", epoch=1), inputs.NodeFound(node=node(devices=devices)), link_up())
        self.tell(inputs.Configure(rules=rules))

    def tell(self, *given: Input, after_s: float = 1.0) -> Any:
        self.now += after_s
        outcome = self.core.handle(self.now, *given)
        self.core.validate()
        self.entries.extend(outcome.entries)
        self.events = [entry.event for entry in outcome.entries]
        self.commands, self.answers = list(outcome.commands), list(outcome.answers)
        self.kept |= {job.id: job for job in outcome.left}
        return self.events

    def ask(self, given: Any) -> Any:
        """Ask as a controller does: with what the store knows. Raises what is refused."""
        by_name = {name: job for job in self.kept.values() for name in (job.id, job.key)}
        found: dict[str, PastJob] = {}
        wanted = past.unknown(self.state, past.named(given))
        while more := {by_name[name].id: by_name[name] for name in wanted if name in by_name}:
            found |= more
            wanted = past.needed(self.state, found.values())
        self.tell(inputs.Knowing(given=given, looked=Looked(at=self.state.past.seq, jobs=tuple(found.values()))))
        if isinstance(self.answers[0], Exception):
            raise self.answers[0]
        return self.answers[0]

    def finish(self, exit_code: int = 0) -> None:
        """End everything that runs or waits."""
        while attempts := [job.attempt.id for job in self.state.jobs.values() if job.attempt is not None]:
            self.tell(*(ended(name, exit_code=exit_code, result={"of": name}) for name in attempts))

    def search(self, name: str) -> None:
        """Search a sweep to its end."""
        while not self.job_state(name).final:
            self.tell(self.searched(self.chunk(name)[0]))

    def rest(self, seconds: float = 100.0) -> None:
        """Let time pass as a shell does: by the timers."""
        until = self.now + seconds
        while (due := self.core.wake_at()) is not None and due <= until:
            self.tell(inputs.Tick(), after_s=max(due - self.now, 0.0))
        self.tell(inputs.Tick(), after_s=until - self.now)


def test_what_is_long_over_leaves_and_sums_stay() -> None:
    driver = Keeper()
    driver.submit(script("a"), script("b"), script("c"))
    driver.finish()
    before = status_view(driver.state, driver.core.index, "v", "f").jobs, shown.costs(driver.state)
    kinds = Counter(driver.core.index.kinds.counts)
    driver.rest()
    assert driver.state.jobs == {}
    assert sorted(driver.kept) == ["j1", "j2", "j3"]
    assert (status_view(driver.state, driver.core.index, "v", "f").jobs, shown.costs(driver.state)) == before
    assert driver.core.index.kinds.counts == kinds
    assert driver.submit(script("d")) == ("j4",)
    assert replayed(driver.entries).state == driver.state
    assert snapshot(driver.state) == driver.state
    assert Core(snapshot(driver.state)).index.counts == driver.core.index.counts


def test_what_has_left_is_shown_as_it_was() -> None:
    driver = Keeper(keep_s=500.0)
    driver.submit(script("a", key="ka"), sweep("s", start=0, stop=10))
    driver.finish()
    driver.tell(driver.searched(driver.chunk("j2")[0], hits=[{"at": 0}]))
    driver.search("j2")
    was = {name: job_detail(driver.state, driver.core.index, job) for name, job in driver.state.jobs.items()}
    driver.rest(1000.0)
    assert driver.state.jobs == {}
    there = beside(driver.state, list(driver.kept.values()))
    assert {name: job_detail(there, driver.core.index, job) for name, job in there.jobs.items()} == was
    assert there.keys == {"ka": "j1"}


def test_the_newest_stay_however_old_they_are() -> None:
    driver = Keeper(keep=2)
    for name in "abcd":
        driver.submit(script(name))
        driver.finish()
    driver.rest(DAY_S)
    assert list(driver.state.jobs) == ["j3", "j4"]


def test_all_stay_for_a_while_however_many_they_are() -> None:
    driver = Keeper(keep_s=1000.0)
    driver.submit(*(script(f"s{n}") for n in range(5)))
    driver.finish()
    driver.rest(900.0)
    assert len(driver.state.jobs) == 5
    driver.rest(300.0)
    assert not driver.state.jobs


def test_they_leave_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PIECE >= 100
    monkeypatch.setattr(past, "PIECE", 3)
    driver = Keeper(devices=8)
    driver.submit(*(script(f"s{n}") for n in range(8)))
    driver.finish()
    driver.rest()
    pieces = [len(entry.event.jobs) for entry in driver.entries if isinstance(entry.event, JobsLeft)]
    assert pieces == [3, 3, 2]


def test_what_another_comes_after_stays_until_that_is_done() -> None:
    driver = Keeper(devices=1)
    driver.submit(script("a", key="a"))
    driver.finish()
    driver.submit(script("long"), script("b", after=("a",)))
    driver.rest()
    assert "j1" in driver.state.jobs
    driver.finish()
    driver.rest(200.0)
    assert driver.state.jobs == {}


def test_what_failed_keeps_what_it_came_after_for_it_may_be_tried_again() -> None:
    driver = Keeper(keep_s=50.0)
    driver.submit(script("a", key="a"), script("b", "false", after=("a",), retry=ONCE))
    driver.tell(ended("j1.1", result=1), after_s=1.0)
    driver.tell(ended("j2.1", exit_code=1), after_s=45.0)
    assert driver.job_state("j2") is JobState.FAILED
    driver.rest(20.0)
    assert sorted(driver.state.jobs) == ["j1", "j2"]
    driver.rest(300.0)
    assert driver.state.jobs == {}
    driver.ask(inputs.Retry(job="j2"))
    assert sorted(driver.state.jobs) == ["j1", "j2"]
    assert driver.job_state("j2").held
    driver.finish()
    assert driver.job_state("j2") is JobState.DONE


def test_what_failed_in_vain_is_revived_with_what_it_came_after() -> None:
    driver = Keeper(keep_s=50.0)
    driver.submit(
        script("a", "false", key="a", retry=ONCE), script("b", key="b", after=("a",)), script("c", after=("b",))
    )
    driver.tell(ended("j1.1", exit_code=1))
    driver.rest(500.0)
    assert driver.state.jobs == {}
    driver.ask(inputs.Retry(job="a"))
    assert sorted(driver.state.jobs) == ["j1", "j2", "j3"]
    driver.finish()
    assert [driver.job_state(name) for name in ("j1", "j2", "j3")] == [JobState.DONE] * 3


def test_a_key_is_that_of_its_job_for_ever() -> None:
    driver = Keeper()
    driver.submit(script("a", key="once"))
    driver.finish()
    driver.rest()
    assert driver.state.keys == {}
    assert driver.ask(inputs.Submit(specs=(script("a", key="once"), script("new", key="new")))) == ("j1", "j2")
    assert [event.job for event in driver.of(JobCameBack)] == ["j1"]
    with pytest.raises(Conflict, match="submitted with other values"):
        driver.ask(inputs.Submit(specs=(script("other", key="once"),)))
    driver.finish()
    driver.rest(300.0)
    assert driver.state.jobs == {}


def test_a_job_may_come_after_one_that_has_left() -> None:
    driver = Keeper()
    driver.submit(script("a", key="a"))
    driver.finish()
    driver.rest()
    assert driver.ask(inputs.Submit(specs=(script("b", after=("a", "j1")),))) == ("j2",)
    assert driver.job_state("j2").held
    with pytest.raises(Exception, match="which is no job's id, key or name"):
        driver.ask(inputs.Submit(specs=(script("b", after=("j77",)),)))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (inputs.Cancel(job="j1", reason="no"), "j1 is done already; there is nothing to cancel"),
        (inputs.SetPriority(job="a", priority=3), "j1 is done already; its priority means nothing any more"),
        (inputs.Retry(job="j1"), "j1 is done; only a failed or a cancelled job can be tried again"),
    ],
)
def test_what_is_over_cannot_be_changed(asked: Any, says: str) -> None:
    driver = Keeper()
    driver.submit(script("a", key="a"))
    driver.finish()
    driver.rest()
    with pytest.raises(Conflict, match=says):
        driver.ask(asked)
    assert driver.events == []
    with pytest.raises(NotFound, match="no job 'j9'"):
        driver.ask(inputs.Cancel(job="j9", reason="no"))


def test_who_looked_before_others_left_looks_again() -> None:
    driver = Keeper()
    driver.submit(script("a", key="a"))
    driver.finish()
    stale = inputs.Knowing(given=inputs.Submit(specs=(script("a", key="a"),)), looked=Looked(at=driver.state.past.seq))
    driver.rest()
    driver.tell(stale)
    assert isinstance(driver.answers[0], Outdated)
    assert driver.events == []


def test_sweeps_leave_with_what_they_cost_summed_up() -> None:
    driver = Keeper(keep_s=100.0)
    for number in range(2):
        driver.submit(sweep(f"s{number}", start=0, stop=10))
        driver.search(f"j{number + 1}")
    before = shown.costs(driver.state)
    driver.rest(1000.0)
    assert not driver.state.sweeps
    after = shown.costs(driver.state)
    assert (after.device_s, after.cost) == (before.device_s, before.cost)
    (row,) = after.rows
    assert (row.of, row.device_s) == ("earlier", before.kinds[0].device_s)
    assert {unit.unit: unit.count for unit in row.units}["chunk"] == sum(
        {unit.unit: unit.count for unit in each.units}["chunk"] for each in before.rows
    )


def test_a_sweep_stays_while_a_node_out_of_reach_may_have_a_worker_of_it() -> None:
    driver = Keeper(keep_s=100.0)
    driver.submit(sweep("s", start=0, stop=10))
    driver.search("j1")
    driver.tell(inputs.LinkDown(node="n", why="gone"))
    driver.rest(1000.0)
    assert "j1" in driver.state.jobs
    driver.tell(link_up())
    driver.rest(1000.0)
    assert driver.state.jobs == {}


def test_lists_go_on_over_what_has_left() -> None:
    driver = Keeper(keep=1, devices=3)
    driver.submit(script("a"), script("b"), script("c"))
    driver.finish()
    driver.rest()
    (stays,) = driver.state.jobs
    assert [each.id for each in job_views(driver.state, driver.core.index, None, 0, 9)] == [stays]
    assert job_views(driver.state, driver.core.index, None, 0, 9, WorkKind.SWEEP) == []
    assert job_views(driver.state, driver.core.index, None, 3, 9) == []


def test_entries_that_lie_deep_in_the_queue_go_too() -> None:
    driver = Keeper(devices=1)
    driver.submit(*(script(f"s{n}", key=f"s{n}") for n in range(6)))
    for name in ("j4", "j5"):
        driver.tell(inputs.Cancel(job=name, reason="no"))
    driver.rest()
    assert "j4" in driver.kept
    assert "j4" not in {entry[2] for heap in driver.core.index.ready.values() for entry in heap}
    driver.finish()
    assert driver.core.index.counts[JobState.DONE] == 4


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(0, 5), st.lists(st.integers(0, 5), max_size=2)),
        st.tuples(st.just("end"), st.booleans()),
        st.tuples(st.just("rest"), st.sampled_from([1.0, 30.0, 200.0])),
        st.tuples(st.just("retry"), st.integers(0, 5)),
        st.tuples(st.just("cancel"), st.integers(0, 5)),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_nobody_can_tell_whether_jobs_leave(steps: list[Any]) -> None:
    """Two fleets are asked for the same; in one of them jobs leave. Whatever is answered is the same."""
    leaves, stays = Keeper(keep=0, keep_s=20.0), Keeper(keep=10**6, keep_s=1e9)
    for step in steps:
        assert play(leaves, step) == play(stays, step)
    all_of = [
        *leaves.state.jobs.values(),
        *beside(leaves.state, [job for job in leaves.kept.values() if job.id not in leaves.state.jobs]).jobs.values(),
    ]
    told = {job.id: (job.state, job.result, job.attempts, job.why, job.spec.key) for job in all_of}
    assert told == {
        job.id: (job.state, job.result, job.attempts, job.why, job.spec.key) for job in stays.state.jobs.values()
    }
    assert leaves.core.index.counts == stays.core.index.counts
    assert leaves.core.index.kinds.counts == stays.core.index.kinds.counts
    assert shown.costs(leaves.state) == shown.costs(stays.state)
    assert replayed(leaves.entries).state == leaves.state


def play(driver: Keeper, step: Any) -> Any:
    """Do a step; what is answered, or refused with."""
    kind, *how = step
    if kind == "rest":
        return driver.rest(how[0])
    if kind == "end":
        attempts = [job.attempt.id for job in driver.state.jobs.values() if job.attempt is not None]
        for name in sorted(attempts)[:1]:
            driver.tell(ended(name, exit_code=0 if how[0] else 1, result={"of": name}))
        return sorted(attempts)
    wish: Any = None
    if kind == "submit":
        number, after = how
        spec = script(
            f"s{number}",
            key=f"k{number}",
            after=tuple(sorted({f"k{each}" for each in after if each < number})),
            retry=ONCE,
        )
        wish = inputs.Submit(specs=(spec,))
    else:
        wish = inputs.Retry(job=f"k{how[0]}") if kind == "retry" else inputs.Cancel(job=f"k{how[0]}", reason="no")
    try:
        return driver.ask(wish)
    except Conflict as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - what both say is compared
        return type(error).__name__
