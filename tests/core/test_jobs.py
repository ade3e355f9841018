"""The life of script jobs: inputs in, events and commands out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hostler.model import commands, events, inputs
from hostler.model.errors import Conflict, HostlerError, NotFound, SpecError
from hostler.model.fleet import Process
from hostler.model.work import DeviceKind, FailureClass, JobSpec, JobState, Resources, Retry, ScriptPayload
from tests.core.builders import Driver, ended, fleet, link_up, node, replayed, script, sweep


def kinds(given: object) -> list[str]:
    assert isinstance(given, list)
    return [event.kind for event in given]


def refused(world: Driver, given: inputs.Input, error: type[HostlerError], match: str) -> None:
    """The input is answered with this error and leaves no entry."""
    assert world.tell(given) == []
    with pytest.raises(error, match=match):
        raise world.answers[0]


class TestLife:
    def test_from_submission_to_result(self) -> None:
        world = fleet()
        assert kinds(world.tell(inputs.Submit(specs=(script("a", "echo", "x"),)))) == [
            "job.submitted",
            "attempt.leased",
        ]
        (launch,) = world.commands
        assert isinstance(launch, commands.Launch)
        assert (launch.node, launch.order.id, launch.order.queue, launch.order.argv) == (
            "n", "j1.1", "cpu0", ("echo", "x"),
        )  # fmt: skip
        assert world.job_state("j1") is JobState.LEASED
        assert kinds(world.tell(inputs.Launched(attempts=("j1.1",)))) == ["attempt.launching"]
        assert kinds(world.tell(inputs.Started(attempt="j1.1", pid=7, pid_start=8))) == ["attempt.started"]
        attempt = world.state.jobs["j1"].attempt
        assert attempt is not None
        assert (attempt.process, attempt.pid, attempt.pid_start) == (Process.ALIVE, 7, 8)
        assert kinds(world.tell(ended("j1.1", result={"x": 1}))) == ["attempt.ended", "job.done"]
        assert world.state.jobs["j1"].result == {"x": 1}
        assert world.state.devices["n/cpu0"].attempts == []
        assert world.commands == []

    def test_facts_may_skip_steps(self) -> None:
        world = fleet()
        world.submit(script())
        world.tell(ended("j1.1"))
        assert world.job_state("j1") is JobState.DONE

    def test_facts_told_twice_count_once(self) -> None:
        world = fleet()
        world.submit(script())
        started = inputs.Started(attempt="j1.1", pid=1, pid_start=1)
        assert kinds(world.tell(started, started)) == ["attempt.started"]
        assert world.tell(inputs.Launched(attempts=("j1.1", "j9.1"))) == []
        assert kinds(world.tell(ended("j1.1", result=1), ended("j1.1", result=2)))[-1] == "result.refused"
        assert (world.state.jobs["j1"].result, world.state.refused) == (1, 1)
        assert world.tell(started) == []

    def test_results_nobody_asked_for_are_refused_and_counted(self) -> None:
        world = fleet()
        world.submit(script(), sweep())
        given = [ended(name) for name in ("j1.2", "j3.1", "j2.1", "", "nonsense", "j1")]
        assert kinds(world.tell(*given)) == ["result.refused"] * len(given)
        assert world.state.refused == len(given)
        assert "its current attempt is j1.1" in world.of(events.ResultRefused)[0].why

    def test_rank_is_priority_then_age(self) -> None:
        world = fleet()
        world.submit(script("first"), script("low", priority=-1), script("high", priority=1), script("second"))
        order = []
        for _ in range(4):
            (holder,) = world.state.devices["n/cpu0"].attempts
            order.append(holder)
            world.tell(ended(holder, ended_at=100.0))
        assert order == ["j3.1", "j1.1", "j4.1", "j2.1"]

    def test_a_priority_changed_later_counts(self) -> None:
        world = fleet()
        world.submit(script(), script(), script())
        world.tell(inputs.SetPriority(job="j3", priority=5))
        world.tell(inputs.SetPriority(job="j2", priority=7))
        world.tell(inputs.SetPriority(job="j2", priority=5), inputs.SetPriority(job="j2", priority=5))
        assert len(world.events) == 1
        world.tell(ended("j1.1", ended_at=100.0))
        assert world.of(events.AttemptLeased)[0].job == "j2"
        world.tell(inputs.SetPriority(job="j3", priority=-5))
        world.submit(script())
        world.tell(ended("j2.1", ended_at=100.0))
        assert world.of(events.AttemptLeased)[0].job == "j4"

    def test_a_priority_of_a_finished_job_means_nothing(self) -> None:
        world = fleet()
        world.submit(script())
        world.tell(ended("j1.1"))
        refused(world, inputs.SetPriority(job="j1", priority=1), Conflict, "done already")
        refused(world, inputs.SetPriority(job="j9", priority=1), NotFound, "no job 'j9'")


class TestFailure:
    @pytest.mark.parametrize(
        ("fields", "failure"),
        [
            ({"exit_code": 3}, FailureClass.EXIT),
            ({"signal": 9}, FailureClass.SIGNAL),
            ({"signal": 9, "reason": "walltime"}, FailureClass.TIMEOUT),
            ({"signal": 9, "reason": "memory"}, FailureClass.MEMORY),
            ({"exit_code": None, "reason": "spawn", "error": "no such file"}, FailureClass.SPAWN),
            ({"exit_code": None, "reason": "command", "error": "no such file"}, FailureClass.SPAWN),
            ({"exit_code": None, "reason": "refused", "error": "argument list too long"}, FailureClass.SPAWN),
            ({"exit_code": None, "reason": "lost"}, FailureClass.LOST),
            ({"exit_code": None, "reason": "unknown"}, FailureClass.LOST),
            ({"result_error": "not JSON"}, FailureClass.RESULT),
        ],
    )
    def test_the_class_follows_from_how_it_ended(self, fields: dict[str, object], failure: FailureClass) -> None:
        world = fleet()
        world.submit(script(retry=Retry(max_attempts={failure: 1})))
        world.tell(ended("j1.1", **fields))
        assert (world.job_state("j1"), world.state.jobs["j1"].failure) == (JobState.FAILED, failure)

    def test_a_command_that_no_node_has_fails_at_its_first_attempt(self) -> None:
        world = fleet(devices=2)
        world.submit(script())
        world.tell(ended("j1.1", exit_code=None, reason="command", error="cannot start 'trian': no such program"))
        job = world.state.jobs["j1"]
        assert (job.state, job.failure, job.attempts) == (JobState.FAILED, FailureClass.SPAWN, 1)
        assert job.why == (
            "cannot start 'trian': no such program. "
            "Submit a corrected command, or put there what is missing and `hostler retry j1`"
        )
        world.tell(inputs.Retry(job="j1"))
        assert world.job_state("j1") is JobState.LEASED

    def test_a_command_that_one_node_lacks_runs_on_another(self) -> None:
        world = fleet(devices=1)
        world.submit(script())
        world.tell(inputs.NodeFound(node=node("m")), link_up("m"))
        world.tell(ended("j1.1", exit_code=None, reason="command", error="there is no file 'x.py' in /n"))
        for _ in range(30):
            if world.job_state("j1") is not JobState.PENDING:
                break
            world.tell(inputs.Tick())
        attempt = world.state.jobs["j1"].attempt
        assert attempt is not None
        assert attempt.device.startswith("m/")
        world.tell(ended("j1.2", exit_code=None, reason="command", error="there is no file 'x.py' in /m"))
        assert (world.job_state("j1"), world.state.jobs["j1"].attempts) == (JobState.FAILED, 2)

    def test_a_node_that_lacks_the_command_is_not_tried_twice(self) -> None:
        world = fleet(devices=2)
        world.submit(script())
        world.tell(inputs.NodeFound(node=node("m")), link_up("m"))
        world.submit(script("long", resources=Resources(nodes=("m",))))
        world.tell(ended("j1.1", exit_code=None, reason="command", error="cannot start 'x': no such program"))
        for _ in range(10):
            world.tell(inputs.Tick(), after_s=600.0)
        job = world.state.jobs["j1"]
        assert (job.state, job.attempts) == (JobState.PENDING, 1)
        world.tell(ended("j2.1", started_at=world.now, ended_at=world.now))
        attempt = world.state.jobs["j1"].attempt
        assert attempt is not None
        assert attempt.device.startswith("m/")

    @pytest.mark.parametrize(
        ("payload", "remedy"),
        [
            ({}, "Submit a corrected command, or put there what is missing and `hostler retry j1`"),
            ({"snapshot": "0" * 64}, "Each attempt starts from the same files: submit a corrected command or folder"),
        ],
    )
    def test_a_script_that_the_folder_of_the_job_lacks_is_tried_on_no_other_node(
        self, payload: dict[str, Any], remedy: str
    ) -> None:
        world = fleet(devices=1)
        world.tell(inputs.NodeFound(node=node("m")), link_up("m"))
        made = ScriptPayload(schema=1, argv=("./x.py",), require_result=False, **payload)
        world.submit(JobSpec(name="a", payload=made))
        world.tell(ended("j1.1", exit_code=None, reason="script", error="there is no program './x.py' in /n"))
        job = world.state.jobs["j1"]
        assert (job.state, job.failure, job.attempts) == (JobState.FAILED, FailureClass.SPAWN, 1)
        assert job.why == f"there is no program './x.py' in /n. {remedy}"

    def test_job_whose_secret_is_missing_is_tried_on_no_other_node(self) -> None:
        world = fleet(devices=1)
        world.tell(inputs.NodeFound(node=node("m")), link_up("m"))
        made = ScriptPayload(schema=1, argv=("x",), require_result=False, secrets={"A": "a"})
        world.submit(JobSpec(name="a", payload=made))
        world.tell(ended("j1.1", exit_code=None, reason="secret", error="there is no secret 'a'"))
        job = world.state.jobs["j1"]
        assert (job.state, job.failure, job.attempts) == (JobState.FAILED, FailureClass.SPAWN, 1)
        assert job.why == "there is no secret 'a', then run `hostler retry j1`"

    def test_a_missing_folder_that_no_other_node_can_have_fails_at_the_first_attempt(self) -> None:
        world = fleet(devices=2)
        far = (replace(node(name, devices=2), apart=True) for name in ("far", "away"))
        world.tell(*(inputs.NodeFound(node=each) for each in far), link_up("far"), link_up("away"))
        payload = ScriptPayload(schema=1, argv=("ls",), require_result=False, cwd="/gone", in_place=True)
        world.submit(JobSpec(name="a", payload=payload))
        world.tell(ended("j1.1", exit_code=None, reason="command", error="cannot enter the working directory"))
        job = world.state.jobs["j1"]
        assert (job.state, job.failure, job.attempts) == (JobState.FAILED, FailureClass.SPAWN, 1)

    def test_a_job_keeps_away_from_a_node_only_where_another_takes_it(self) -> None:
        world = Driver()
        gpus = node("g", kind=DeviceKind.CUDA, vram_gb=24.0)
        world.tell(inputs.Begin(version="test", epoch=1, nodes=("g", "n")), inputs.NodeFound(node=gpus))
        world.tell(inputs.NodeFound(node=node("n", devices=2)), link_up("g"), link_up("n"))
        world.submit(script())
        world.tell(ended("j1.1", exit_code=1, evidence="ModuleNotFoundError: No module named 'torch'"))
        assert world.of(events.JobRequeued)[0].avoid is None

    def test_an_order_that_no_process_can_be_started_from_fails_the_job_and_speaks_against_no_device(self) -> None:
        world = fleet(devices=1)
        world.submit(script())
        world.tell(ended("j1.1", exit_code=None, reason="refused", error="cannot start 'true': Argument list too long"))
        job = world.state.jobs["j1"]
        assert (job.state, job.failure, job.attempts) == (JobState.FAILED, FailureClass.SPAWN, 1)
        assert job.why == (
            "no process can be started from this job: cannot start 'true': Argument list too long. "
            "Submit it with another command or environment"
        )
        (failed,) = world.of(events.JobFailed)
        assert failed.against == ()

    def test_another_failure_to_start_is_tried_again_on_the_same_node(self) -> None:
        world = fleet(devices=1)
        world.submit(script())
        world.tell(ended("j1.1", exit_code=None, reason="spawn", error="No space left on device"))
        assert world.job_state("j1") is JobState.PENDING

    @pytest.mark.parametrize(
        ("field", "why"),
        [
            ("", "a field with an empty name"),
            ("a\0b", "'a\\x00b' has a control character"),
            ("a\nb", "has a control character"),
            ("x" * 257, "has a name of 257 characters; 256 are the most"),
        ],
    )
    def test_a_result_whose_fields_cannot_be_columns(self, field: str, why: str) -> None:
        world = fleet()
        world.submit(script(retry=Retry(max_attempts={FailureClass.RESULT: 1})))
        world.tell(ended("j1.1", result={"loss": 0.1, field: 1}))
        job = world.state.jobs["j1"]
        assert (job.state, job.failure, job.result) == (JobState.FAILED, FailureClass.RESULT, None)
        assert why in str(job.why)

    def test_fields_within_fields_of_a_result_may_be_called_anything(self) -> None:
        world = fleet()
        world.submit(script())
        world.tell(ended("j1.1", result={"größe 2": 1, "inner": {"": 1, "a\nb": 2}}))
        assert world.job_state("j1") is JobState.DONE

    def test_a_required_result_that_is_missing(self) -> None:
        world = fleet()
        world.submit(script(require_result=True, retry=Retry(max_attempts={FailureClass.RESULT: 1})))
        world.tell(ended("j1.1"))
        assert "$HOSTLER_RESULT" in str(world.state.jobs["j1"].why)

    def test_an_attempt_that_was_called_back_costs_nothing(self) -> None:
        for fields in ({"exit_code": None}, {"signal": 15}, {"exit_code": 0}):
            world = fleet()
            world.submit(script())
            world.tell(ended("j1.1", reason="stopped", **fields))
            assert world.of(events.JobRequeued)[0].failure is None
            assert world.state.jobs["j1"].failures == {}
            assert world.job_state("j1") is JobState.LEASED

    def test_backoff_delays_and_never_lowers_the_rank(self) -> None:
        world = fleet()
        world.submit(script("flaky", retry=Retry(backoff_s=10)), script("later"), script("last"))
        world.tell(ended("j1.1", exit_code=1))
        assert world.of(events.AttemptLeased)[0].job == "j2"
        assert world.core.wake_at() == world.now + 10
        world.tell(inputs.Tick(), after_s=11)
        world.tell(ended("j2.1", ended_at=100.0))
        assert world.of(events.AttemptLeased)[0].job == "j1"

    def test_the_rest_ends_by_itself(self) -> None:
        world = fleet()
        world.submit(script(retry=Retry(backoff_s=10)))
        world.tell(ended("j1.1", exit_code=1))
        assert world.tell(inputs.Tick(), after_s=9) == []
        assert kinds(world.tell(inputs.Tick(), after_s=1)) == ["attempt.leased"]

    def test_a_priority_changed_during_the_rest(self) -> None:
        world = fleet()
        world.submit(script(retry=Retry(backoff_s=10)), script())
        world.tell(ended("j1.1", exit_code=1))
        world.tell(inputs.SetPriority(job="j1", priority=3))
        world.tell(ended("j2.1", exit_code=1))
        assert world.tell(inputs.Tick(), after_s=20) == [world.of(events.AttemptLeased)[0]]
        assert world.of(events.AttemptLeased)[0].job == "j1"

    def test_budgets_are_per_class(self) -> None:
        world = fleet()
        world.submit(script(retry=Retry(max_attempts={FailureClass.EXIT: 2, FailureClass.SIGNAL: 2}, backoff_s=0)))
        world.tell(ended("j1.1", exit_code=1))
        world.tell(ended("j1.2", signal=9))
        assert world.job_state("j1") is JobState.LEASED
        world.tell(ended("j1.3", exit_code=1))
        assert world.job_state("j1") is JobState.FAILED
        assert world.state.jobs["j1"].failures == {FailureClass.EXIT: 2, FailureClass.SIGNAL: 1}


class TestDependencies:
    def test_a_job_waits_for_all_it_comes_after_and_gets_their_results(self) -> None:
        world = fleet(devices=3)
        world.submit(script("a", key="a"), script("b", key="b"))
        world.submit(script("c", after=("a", "b", "j2")))
        world.tell(ended("j1.1", result=1))
        assert world.of(events.AttemptLeased) == []
        world.tell(ended("j2.1", result=2))
        assert [event.job for event in world.of(events.AttemptLeased)] == ["j3"]
        (launch,) = world.commands
        assert isinstance(launch, commands.Launch)
        assert launch.order.inputs == {"j1": 1, "j2": 2, "a": 1, "b": 2}

    def test_failure_goes_down_the_tree(self) -> None:
        world = fleet()
        once = Retry(max_attempts={FailureClass.EXIT: 1})
        world.submit(
            script(key="a", retry=once), script(key="b", after=("a",)), script(after=("b",)), sweep(after=("b",))
        )
        world.tell(ended("j1.1", exit_code=1))
        assert {world.job_state(name) for name in ("j2", "j3", "j4")} == {JobState.FAILED}
        assert world.state.jobs["j4"].failure is FailureClass.DEPENDENCY
        assert "hostler retry j1" in str(world.state.jobs["j2"].why)

    def test_a_job_after_a_failed_one_fails_at_once(self) -> None:
        world = fleet()
        world.submit(script(key="a"))
        world.tell(inputs.Cancel(job="a"), ended("j1.1", signal=15))
        world.submit(script(after=("j1",), key="b"), script(after=("b",)))
        assert [world.job_state(name) for name in ("j2", "j3")] == [JobState.FAILED] * 2

    def test_a_ring_is_refused(self) -> None:
        world = fleet()
        with pytest.raises(SpecError, match="ring"):
            world.submit(script(key="a", after=("b",)), script(key="b", after=("a",)))
        with pytest.raises(SpecError, match="ring"):
            world.submit(script(key="a", after=("a",)))
        assert world.state.jobs == {}

    def test_what_does_not_exist_is_refused_and_nothing_is_submitted(self) -> None:
        world = fleet()
        with pytest.raises(SpecError, match="'x', which is no job"):
            world.submit(script(), script(after=("x",)))
        assert world.state.jobs == {}

    def test_order_of_submission_does_not_matter(self) -> None:
        world = fleet()
        ids = world.submit(script(key="late", after=("early",)), script(key="early"))
        assert ids == ("j1", "j2")
        assert world.state.jobs["j1"].after == ("j2",)
        assert world.job_state("j2") is JobState.LEASED


class TestKeys:
    def test_the_same_key_and_spec_is_the_same_job(self) -> None:
        world = fleet()
        assert world.submit(script(key="k")) == world.submit(script(key="k")) == ("j1",)
        assert world.submit(script(), script(key="k")) == ("j2", "j1")

    def test_the_same_key_with_other_values_is_refused(self) -> None:
        world = fleet()
        world.submit(script(key="k"))
        with pytest.raises(Conflict, match="belongs to j1"):
            world.submit(script("other", key="k"))

    def test_twice_in_one_submission(self) -> None:
        with pytest.raises(SpecError, match="twice"):
            fleet().submit(script(key="k"), script(key="k"))

    @pytest.mark.parametrize("key", ["j1", "j007"])
    def test_a_key_that_looks_like_an_id_is_refused(self, key: str) -> None:
        with pytest.raises(SpecError, match="looks like an id"):
            fleet().submit(script(key=key))
        assert fleet().submit(script(key="j1a"), script(key="J1")) == ("j1", "j2")

    def test_keys_outlive_the_journal(self) -> None:
        world = fleet()
        world.submit(script(key="k"), sweep(key="s", params={"a": [1, {"b": None}], "big": 2**70}))
        again = Driver(replayed(world.entries), now=world.now)
        specs = script(key="k"), sweep(key="s", params={"a": [1, {"b": None}], "big": 2**70})
        assert again.submit(*specs) == ("j1", "j2")


class TestCancel:
    def test_pending(self) -> None:
        world = Driver()
        world.submit(script(), script())
        assert kinds(world.tell(inputs.Cancel(job="j1"))) == ["job.cancel_requested", "job.cancelled"]
        refused(world, inputs.Cancel(job="j1"), Conflict, "cancelled already")

    @pytest.mark.parametrize("steps", [0, 1, 2])
    def test_held(self, steps: int) -> None:
        world = fleet()
        world.submit(script())
        facts = (inputs.Launched(attempts=("j1.1",)), inputs.Started(attempt="j1.1", pid=1, pid_start=1))
        world.tell(*facts[:steps])
        world.tell(inputs.Cancel(job="j1", reason="enough"))
        assert world.commands == [commands.Stop(node="n", attempt="j1.1", reason="cancelled")]
        assert world.tell(inputs.Cancel(job="j1")) == []
        world.tell(ended("j1.1", signal=15, reason="stopped"))
        assert (world.job_state("j1"), world.state.jobs["j1"].why) == (JobState.CANCELLED, "enough")

    def test_a_result_that_came_first_is_kept(self) -> None:
        world = fleet()
        world.submit(script())
        world.tell(inputs.Cancel(job="j1"))
        world.tell(ended("j1.1", result=5))
        assert (world.job_state("j1"), world.state.jobs["j1"].result) == (JobState.DONE, 5)

    def test_while_it_rests(self) -> None:
        world = fleet()
        world.submit(script(retry=Retry(backoff_s=10)))
        world.tell(ended("j1.1", exit_code=1))
        world.tell(inputs.Cancel(job="j1"))
        assert world.job_state("j1") is JobState.CANCELLED
        assert world.tell(inputs.Tick(), after_s=100) == []

    def test_while_its_node_is_lost(self) -> None:
        world = fleet()
        world.submit(script(), script())
        world.tell(inputs.LinkDown(node="n", why="gone"))
        world.tell(inputs.Cancel(job="j1"))
        world.tell(link_up(agent="another"))
        assert world.job_state("j1") is JobState.CANCELLED

    def test_dependents_fail_with_it(self) -> None:
        world = fleet()
        world.submit(script(key="a"), script(after=("a",)))
        world.tell(inputs.Cancel(job="a"))
        world.tell(ended("j1.1", signal=15, reason="stopped"))
        assert world.state.jobs["j2"].failure is FailureClass.DEPENDENCY


class TestRetry:
    def test_budgets_are_fresh_and_ids_are_not_used_again(self) -> None:
        world = fleet()
        world.submit(script(retry=Retry(max_attempts={FailureClass.EXIT: 1})))
        refused(world, inputs.Retry(job="j1"), Conflict, "only a failed")
        world.tell(ended("j1.1", exit_code=1))
        world.tell(inputs.Retry(job="j1"))
        assert world.of(events.AttemptLeased)[0].attempt == "j1.2"
        assert world.state.jobs["j1"].failures == {}
        world.tell(ended("j1.1", exit_code=0))
        assert world.state.refused == 1
        world.tell(ended("j1.2"))
        assert world.job_state("j1") is JobState.DONE

    def test_dependents_are_revived(self) -> None:
        world = fleet()
        world.submit(script(key="a"), script(key="b", after=("a",)), script(key="c", after=("b",)))
        world.tell(inputs.Cancel(job="a"), ended("j1.1", signal=9))
        world.tell(inputs.Retry(job="a"))
        assert world.job_state("j3") is JobState.PENDING
        for name in ("j1.2", "j2.1", "j3.1"):
            world.tell(ended(name, ended_at=100.0))
        assert {job.state for job in world.state.jobs.values()} == {JobState.DONE}

    def test_who_waits_for_another_failed_job_stays_failed(self) -> None:
        world = fleet(devices=2)
        world.submit(script(key="a"), script(key="b"), script(key="both", after=("a", "b")), script(after=("both",)))
        world.tell(inputs.Cancel(job="a"), inputs.Cancel(job="b"), ended("j1.1", signal=9), ended("j2.1", signal=9))
        world.tell(inputs.Retry(job="a"))
        assert [world.job_state(name) for name in ("j3", "j4")] == [JobState.FAILED] * 2
        world.tell(inputs.Retry(job="b"))
        assert [world.job_state(name) for name in ("j3", "j4")] == [JobState.PENDING] * 2

    def test_a_job_cannot_be_revived_before_what_it_waits_for(self) -> None:
        world = fleet()
        world.submit(script(key="a"), script(key="b", after=("a",)), script(key="c", after=("b",)))
        world.tell(inputs.Cancel(job="a"), ended("j1.1", signal=9))
        refused(world, inputs.Retry(job="b"), Conflict, "retry j1")
        assert world.job_state("j3") is JobState.FAILED
