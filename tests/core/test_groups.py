"""Job groups: submitted whole, limited, stopped, cancelled, tried again and depended on as one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.core import Core, groups, past
from hostler.core.explain import explain_job
from hostler.core.orders import _inputs
from hostler.core.views import queue_rows
from hostler.model import inputs
from hostler.model.commands import Launch, Stop
from hostler.model.errors import Conflict, NotFound, SpecError
from hostler.model.events import AttemptLeased, GroupSubmitted, JobSubmitted
from hostler.model.groups import JOBS_MAX, CancelGroup, GroupSpec, GroupView, RetryGroup, SubmitGroup
from hostler.model.inputs import NodeFound
from hostler.model.past import Looked, PastJob
from hostler.model.work import FailureClass, JobSpec, JobState, Retry
from tests.core.builders import Driver, ended, fleet, link_up, node, replayed, script, snapshot, sweep
from tests.core.test_past import Keeper

ONCE = Retry(max_attempts={FailureClass.EXIT: 1})


def grid(count: int, **fields: Any) -> list[JobSpec]:
    return [script(f"train {n}", retry=ONCE, parameters={"n": str(n)}, **fields) for n in range(count)]


def submit(driver: Driver, *specs: JobSpec, **limits: Any) -> str:
    driver.tell(SubmitGroup(spec=GroupSpec(name="a grid", **limits), jobs=specs))
    if isinstance(driver.answers[0], Exception):
        raise driver.answers[0]
    return str(driver.answers[0][0])


def ask(driver: Driver, given: Any) -> None:
    driver.tell(given)
    if isinstance(driver.answers[0], Exception):
        raise driver.answers[0]


def view(driver: Driver, group: str) -> GroupView:
    return groups.view(driver.core.index, groups.find(driver.state, group))


def held(driver: Driver) -> list[str]:
    return [job.id for job in driver.state.jobs.values() if job.attempt is not None]


def end(driver: Driver, job: str, exit_code: int = 0, **fields: Any) -> None:
    attempt = driver.state.jobs[job].attempt
    assert attempt is not None
    driver.tell(ended(attempt.id, exit_code=exit_code, **fields))


def test_group_is_one_event_and_its_jobs_in_one_step() -> None:
    driver = fleet(2)
    driver.submit(script())
    assert submit(driver, *grid(3)) == "g1"
    (made,) = driver.of(GroupSubmitted)
    assert (made.group, made.first, made.size) == ("g1", 2, 3)
    assert [(event.job, event.group) for event in driver.of(JobSubmitted)] == [(f"j{n}", "g1") for n in (2, 3, 4)]
    assert [driver.state.jobs[name].spec.parameters for name in ("j2", "j4")] == [{"n": "0"}, {"n": "2"}]
    assert submit(driver, *grid(1)) == "g2"
    assert replayed(driver.entries).state == driver.state
    assert snapshot(driver.state) == driver.state


def test_group_with_a_job_that_cannot_be_leaves_nothing() -> None:
    driver = fleet(1)
    with pytest.raises(SpecError, match="first word"):
        submit(driver, script(), script("bad", ""))
    assert not driver.events
    assert not driver.state.groups
    assert submit(driver, script()) == "g1"


@pytest.mark.parametrize(
    ("specs", "limits", "says"),
    [
        ((), {}, "has no jobs"),
        ((script(),) * (JOBS_MAX + 1), {}, f"at most {JOBS_MAX}"),
        ((script(),), {"max_running": 0}, "max_running"),
        ((script(),), {"max_failures": -1}, "max_failures"),
        ((script("x", after=("g1",)),), {}, "'g1'"),
        ((script("x", key="g7"),), {}, "looks like an id"),
        ((script("x", parameters={"a b": "1"}),), {}, "parameters"),
    ],
)
def test_group_that_cannot_be_is_refused(specs: tuple[JobSpec, ...], limits: dict[str, Any], says: str) -> None:
    driver = fleet(1)
    with pytest.raises(SpecError, match=says):
        submit(driver, *specs, **limits)
    assert not driver.state.jobs


def test_view_counts_jobs_by_what_became_of_them() -> None:
    driver = fleet(2)
    group = submit(driver, *grid(5))
    end(driver, "j1")
    end(driver, "j2", exit_code=1)
    driver.tell(inputs.Cancel(job="j5"))
    seen = view(driver, group)
    assert (seen.first, seen.last, seen.size, seen.ended_at) == ("j1", "j5", 5, None)
    assert dict(seen.jobs) == {"pending": 0, "running": 2, "done": 1, "failed": 1, "cancelled": 1}
    for job in held(driver):
        end(driver, job)
    assert view(driver, group).jobs["done"] == 3
    assert view(driver, group).ended_at == driver.now


def test_group_runs_no_more_jobs_than_it_may() -> None:
    driver = fleet(4)
    driver.tell(NodeFound(node=node("m", devices=4)), link_up("m"))
    submit(driver, *grid(10), max_running=3)
    assert held(driver) == ["j1", "j2", "j3"]
    for done in range(1, 11):
        end(driver, f"j{done}")
        assert len(held(driver)) == min(3, 10 - done)


def test_limit_of_a_group_holds_up_no_other_work() -> None:
    driver = fleet(3)
    submit(driver, *grid(200), max_running=1)
    (other,) = driver.submit(script("train 1"))
    assert set(held(driver)) == {"j1", other}
    second = submit(driver, *grid(5), max_running=1)
    assert set(held(driver)) == {"j1", other, view(driver, second).first}


def test_limit_of_a_group_is_a_filter_that_explain_names() -> None:
    driver = fleet(2)
    submit(driver, *grid(2), max_running=1)
    told = explain_job(driver.state, driver.core.index, driver.state.jobs["j2"])
    assert "g1 runs at most 1 job at once, and 1 runs now" in str(told)
    assert "one of the jobs of g1 that run now ends" in str(told)
    assert queue_rows(driver.state, driver.core.index, 10)


def test_limit_of_a_group_counts_attempts_whose_node_is_away() -> None:
    driver = fleet(1)
    driver.tell(NodeFound(node=node("m", devices=2)), link_up("m"))
    submit(driver, *grid(4), max_running=1)
    assert held(driver) == ["j1"]
    driver.tell(inputs.LinkDown(node=driver.state.devices[driver.of(AttemptLeased)[0].device].spec.node, why="cut"))
    assert held(driver) == ["j1"]


def test_job_that_is_tried_again_gives_its_place_in_the_group_to_the_next() -> None:
    driver = fleet(2)
    specs = [script(f"train {n}", retry=Retry(backoff_s=100.0)) for n in range(3)]
    submit(driver, *specs, max_running=1)
    end(driver, "j1", exit_code=1)
    assert held(driver) == ["j2"]


def test_group_is_stopped_when_more_jobs_fail_than_may() -> None:
    driver = fleet(3)
    group = submit(driver, *grid(6), max_failures=1)
    end(driver, "j1", exit_code=1)
    assert view(driver, group).jobs["cancelled"] == 0
    end(driver, "j2", exit_code=1)
    stopped = [each.attempt for each in driver.work if isinstance(each, Stop)]
    assert len(stopped) == 2
    for attempt in stopped:
        driver.tell(ended(attempt, exit_code=None, signal=15, reason="stopped"))
    seen = view(driver, group)
    assert (seen.jobs["failed"], seen.jobs["cancelled"]) == (2, 4)
    assert driver.state.jobs["j6"].why == "g1 was stopped: 2 jobs of it have failed, max_failures is 1"
    assert replayed(driver.entries).state == driver.state


def test_job_of_a_stopped_group_that_is_tried_again_runs() -> None:
    driver = fleet(1)
    group = submit(driver, *grid(4), max_failures=0)
    end(driver, "j1", exit_code=1)
    driver.tell(inputs.Retry(job="j3"))
    assert held(driver) == ["j3"], "the failure of j1 has been answered"
    for core in (replayed(driver.entries), Core(snapshot(driver.state))):
        core.handle(driver.now + 1.0, inputs.Tick())
        assert core.state.jobs["j3"].cancelling is None
    end(driver, "j3", exit_code=1)
    driver.tell(RetryGroup(group=group))
    assert held(driver) == ["j1"]
    end(driver, "j1", exit_code=1)
    assert view(driver, group).jobs == {"pending": 0, "running": 0, "done": 0, "failed": 1, "cancelled": 3}


def test_group_of_which_none_may_fail_is_stopped_by_its_first_failure() -> None:
    driver = fleet(1)
    group = submit(driver, *grid(3), max_failures=0)
    end(driver, "j1", exit_code=1)
    assert view(driver, group).jobs == {"pending": 0, "running": 0, "done": 0, "failed": 1, "cancelled": 2}


def test_cancel_of_a_group_ends_all_that_has_not_ended() -> None:
    driver = fleet(1)
    group = submit(driver, *grid(3))
    end(driver, "j1")
    ask(driver, CancelGroup(group=group, reason="wrong data"))
    assert driver.job_state("j3") is JobState.CANCELLED
    attempt = driver.state.jobs["j2"].attempt
    assert attempt is not None
    driver.tell(ended(attempt.id, exit_code=None, signal=15, reason="stopped"))
    assert driver.job_state("j1") is JobState.DONE
    assert [driver.state.jobs[name].why for name in ("j2", "j3")] == ["wrong data"] * 2
    with pytest.raises(Conflict, match="nothing to cancel"):
        ask(driver, CancelGroup(group=group))
    with pytest.raises(NotFound, match="g9"):
        ask(driver, CancelGroup(group="g9"))


def test_retry_of_a_group_takes_failed_and_cancelled_jobs() -> None:
    driver = fleet(3)
    group = submit(driver, *grid(3))
    end(driver, "j1")
    end(driver, "j2", exit_code=1)
    with pytest.raises(NotFound, match="g9"):
        ask(driver, RetryGroup(group="g9"))
    ask(driver, RetryGroup(group=group, only_failed=True))
    assert driver.state.jobs["j2"].attempts == 2
    end(driver, "j2")
    driver.tell(inputs.Cancel(job="j3"))
    attempt = driver.state.jobs["j3"].attempt
    assert attempt is not None
    driver.tell(ended(attempt.id, exit_code=None, signal=15, reason="stopped"))
    with pytest.raises(Conflict, match="no failed jobs"):
        ask(driver, RetryGroup(group=group, only_failed=True))
    ask(driver, RetryGroup(group=group))
    end(driver, "j3")
    assert view(driver, group).jobs["done"] == 3
    with pytest.raises(Conflict, match="no failed or cancelled jobs"):
        ask(driver, RetryGroup(group=group))


def test_retry_revives_jobs_of_the_group_that_come_after_others() -> None:
    driver = fleet(2)
    first, second = grid(2)
    specs = (
        JobSpec(name="a", payload=first.payload, key="a", retry=ONCE),
        JobSpec(name="b", payload=second.payload, after=("a",)),
    )
    group = submit(driver, *specs)
    end(driver, "j1", exit_code=1)
    assert view(driver, group).jobs["failed"] == 2
    ask(driver, RetryGroup(group=group))
    end(driver, "j1")
    end(driver, "j2")
    assert view(driver, group).jobs["done"] == 2


def test_job_after_a_group_starts_when_all_of_its_jobs_are_done() -> None:
    driver = fleet(3)
    group = submit(driver, *grid(2))
    (after,) = driver.submit(script("sum", after=(group,)))
    assert driver.state.jobs[after].after == (group,), "one dependency, however many jobs"
    told = str(explain_job(driver.state, driver.core.index, driver.state.jobs[after]))
    assert "it comes after g1, not done yet" in told
    assert "g1 is done (0 of 2 jobs now)" in told
    end(driver, "j1", result={"loss": 1})
    assert driver.job_state(after) is JobState.PENDING
    end(driver, "j2", result={"loss": 2})
    assert after in held(driver)
    (launch,) = [each for each in driver.work if isinstance(each, Launch)]
    assert launch.order.inputs == {
        group: [
            {"job": "j1", "parameters": {"n": "0"}, "result": {"loss": 1}},
            {"job": "j2", "parameters": {"n": "1"}, "result": {"loss": 2}},
        ]
    }
    assert replayed(driver.entries).state == driver.state


def test_job_after_a_group_that_is_done_starts_at_once() -> None:
    driver = fleet(1)
    group = submit(driver, *grid(1))
    end(driver, "j1")
    (after,) = driver.submit(script("sum", after=(group,)))
    assert held(driver) == [after]


def test_job_after_a_group_fails_with_it_and_is_revived_with_it() -> None:
    driver = fleet(3)
    group = submit(driver, *grid(2))
    (after,) = driver.submit(script("sum", after=(group,)))
    (last,) = driver.submit(script("report", after=(after,)))
    end(driver, "j1", exit_code=1)
    assert [driver.state.jobs[name].failure for name in (after, last)] == [FailureClass.DEPENDENCY] * 2
    assert f"hostler retry {group}" in (driver.state.jobs[after].why or "")
    end(driver, "j2", exit_code=1)
    driver.tell(inputs.Retry(job="j1"))
    assert driver.job_state(after) is JobState.FAILED, "j2 has failed, too"
    driver.tell(inputs.Retry(job="j2"))
    assert driver.job_state(after) is JobState.PENDING
    end(driver, "j1")
    end(driver, "j2")
    assert held(driver) == [after]


def test_groups_depend_on_groups() -> None:
    driver = fleet(2)
    first = submit(driver, *grid(2))
    second = submit(driver, *grid(2, after=(first,)))
    third = submit(driver, *grid(1, after=(second,)))
    for name in ("j1", "j2", "j3", "j4", "j5"):
        assert set(held(driver)) <= {"j1", "j2"} or view(driver, first).jobs["done"] == 2
        end(driver, name)
    assert view(driver, third).jobs["done"] == 1


def test_keys_make_a_group_grow_and_its_jobs_stay_where_they_are() -> None:
    driver = fleet(1)
    old = [script(f"train {n}", key=f"exp n={n}") for n in range(2)]
    group = submit(driver, *old)
    assert submit(driver, *old) == group
    assert driver.answers[0][2] == ("j1", "j2")
    assert not driver.of(GroupSubmitted)
    more = submit(driver, *old, script("train 2", key="exp n=2"))
    assert (more, view(driver, more).first, view(driver, more).size) == ("g2", "j3", 1)
    assert driver.answers[0][1:] == (("j1", "j2", "j3"), ("j1", "j2"))
    assert submit(driver, *old, script("train 2", key="exp n=2")) == "g2", "the newest"
    driver.submit(script("alone", key="alone"))
    driver.tell(SubmitGroup(spec=GroupSpec(name="a grid"), jobs=(script("alone", key="alone"),)))
    assert driver.answers[0] == (None, ("j4",), ("j4",))


def test_sweep_in_a_group_counts_as_a_job_of_it() -> None:
    driver = fleet(2)
    group = submit(driver, sweep(stop=10), script())
    assert view(driver, group).jobs["running"] == 2
    while driver.state.sweeps["j1"].leases:
        driver.tell(driver.searched(driver.chunk("j1")[0]))
    assert view(driver, group).jobs["done"] == 1


def test_group_keeps_its_counts_when_jobs_leave_and_come_back() -> None:
    keeper = Keeper(devices=3)
    group = submit(keeper, *grid(3))
    end(keeper, "j1")
    end(keeper, "j2")
    end(keeper, "j3", exit_code=1)
    for _ in range(4):
        keeper.tell(inputs.Tick(), after_s=30.0)
    assert not keeper.state.jobs
    assert view(keeper, group).jobs == {"pending": 0, "running": 0, "done": 2, "failed": 1, "cancelled": 0}
    wanted = past.unknown(keeper.state, past.expanded(keeper.state, past.named(RetryGroup(group=group))))
    assert wanted == ("j1", "j2", "j3")
    given = inputs.Knowing(given=RetryGroup(group=group), looked=looked(keeper, wanted))
    ask(keeper, given)
    assert list(keeper.state.jobs) == ["j3"], "only what is tried again comes back"
    end(keeper, "j3")
    assert view(keeper, group).jobs["done"] == 3


def looked(keeper: Keeper, names: tuple[str, ...]) -> Looked:
    found: list[PastJob] = [keeper.kept[name] for name in names]
    return Looked(at=keeper.state.past.seq, jobs=tuple(found))


def test_job_after_a_group_whose_jobs_have_left_is_given_their_results() -> None:
    keeper = Keeper(devices=2)
    group = submit(keeper, *grid(2))
    end(keeper, "j1", result=1)
    end(keeper, "j2", result=2)
    for _ in range(4):
        keeper.tell(inputs.Tick(), after_s=30.0)
    assert not keeper.state.jobs
    asked = inputs.Submit(specs=(script("sum", after=(group,)),))
    wanted = past.unknown(keeper.state, past.expanded(keeper.state, past.named(asked)))
    ask(keeper, inputs.Knowing(given=asked, looked=looked(keeper, wanted)))
    given = _inputs(keeper.state, keeper.state.jobs["j3"])
    assert given is not None
    assert [row["result"] for row in given[group]] == [1, 2]
    for _ in range(4):
        keeper.tell(inputs.Tick(), after_s=30.0)
    assert set(keeper.state.jobs) == {"j1", "j2", "j3"}, "results that a job waits with do not leave"


@pytest.mark.parametrize("retried", [RetryGroup(group="g1"), inputs.Retry(job="j1")])
def test_retry_revives_jobs_after_the_group_that_have_left(retried: RetryGroup | inputs.Retry) -> None:
    keeper = Keeper(devices=2)
    group = submit(keeper, *grid(1))
    keeper.submit(script("sum", after=(group,)))
    end(keeper, "j1", exit_code=1)
    for _ in range(4):
        keeper.tell(inputs.Tick(), after_s=30.0)
    assert not keeper.state.jobs
    found = dict.fromkeys(past.unknown(keeper.state, past.expanded(keeper.state, past.named(retried))))
    while more := past.needed(keeper.state, [keeper.kept[name] for name in found]):
        found |= dict.fromkeys(more)
    assert set(found) == {"j1", "j2"}
    ask(keeper, inputs.Knowing(given=retried, looked=looked(keeper, tuple(found))))
    assert keeper.job_state("j2") is JobState.PENDING
    end(keeper, "j1")
    end(keeper, "j2")
    assert keeper.job_state("j2") is JobState.DONE


def test_restored_journal_gives_groups_new_numbers() -> None:
    driver = fleet(1)
    assert submit(driver, *grid(1)) == "g1"
    driver.tell(inputs.Restored(made_at=driver.now, jobs=100, parts=50))
    assert submit(driver, *grid(1)) == "g52"


class Stormy:
    """Random acts on groups with random limits and dependencies; the driver validates after each of them."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw = data.draw
        self.driver = fleet(4)
        self.groups: list[str] = []

    def act(self) -> None:
        kinds = ["submit", "end", "fail", "cancel", "retry", "one", "down"]
        kind = self.draw(st.sampled_from(kinds))
        driver = self.driver
        if kind == "submit":
            limits = {
                "max_running": self.draw(st.none() | st.integers(1, 3)),
                "max_failures": self.draw(st.none() | st.integers(0, 2)),
            }
            after = self.draw(st.lists(st.sampled_from(self.groups), max_size=1)) if self.groups else []
            specs = grid(self.draw(st.integers(1, 4)), after=tuple(after))
            self.groups.append(submit(driver, *specs, **limits))
        elif kind in ("end", "fail") and held(driver):
            end(driver, self.draw(st.sampled_from(held(driver))), exit_code=int(kind == "fail"))
        elif kind == "cancel" and self.groups:
            driver.tell(CancelGroup(group=self.draw(st.sampled_from(self.groups))))
        elif kind == "retry" and self.groups:
            driver.tell(RetryGroup(group=self.draw(st.sampled_from(self.groups)), only_failed=self.draw(st.booleans())))
        elif kind == "one" and driver.state.jobs:
            name = self.draw(st.sampled_from(sorted(driver.state.jobs)))
            driver.tell(self.draw(st.sampled_from([inputs.Retry(job=name), inputs.Cancel(job=name)])))
        elif kind == "down":
            driver.tell(inputs.LinkDown(node="n", why="cut"), link_up(attempts=[f"{each}.1" for each in held(driver)]))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_groups_hold_their_invariants_whatever_is_asked(data: st.DataObject) -> None:
    storm = Stormy(data)
    for _ in range(data.draw(st.integers(1, 25))):
        storm.act()
    driver = storm.driver
    for _ in range(200):
        if not held(driver):
            break
        end(driver, held(driver)[0])
    assert not held(driver)
    assert all(view(driver, name).jobs["pending"] == 0 for name in storm.groups), "nothing waits for ever"
    assert replayed(driver.entries).state == driver.state


def test_newest_groups_come_first_and_by_owner() -> None:
    driver = fleet(1)
    for number in range(5):
        submit(driver, script(f"job {number}"))
    for group, owner in zip(driver.state.groups.values(), ("anna", "ben", "anna", None, "ben"), strict=True):
        group.owner = owner

    def newest(before: int | None, limit: int, owner: str | None = None) -> list[str]:
        return [each.id for each in groups.newest(driver.state, driver.core.index, before, limit, owner)]

    assert newest(None, 2) == ["g5", "g4"]
    assert newest(4, 10) == ["g3", "g2", "g1"]
    assert newest(None, 10, "anna") == ["g3", "g1"]
    assert newest(10**18, 1) == ["g5"]
    assert newest(1, 10) == newest(0, 10) == newest(None, 10, "carl") == []


def test_newest_groups_are_found_over_numbers_that_a_restored_journal_leaves_out() -> None:
    driver = fleet(1)
    submit(driver, script("a"))
    driver.state.next_group += 10**15
    submit(driver, script("b"))
    found = groups.newest(driver.state, driver.core.index, None, 10)
    assert [each.first for each in found] == ["j2", "j1"]
