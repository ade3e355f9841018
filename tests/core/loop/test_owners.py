"""What owners may do to a loop: declare, change, retire, roll back, cancel; and what they may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.model import commands, events, inputs
from hostler.model.errors import Conflict, HostlerError, NotFound, SpecError
from hostler.model.learning import GameRef, Goal, ModelStatus
from hostler.model.work import JobState, Resources, Retry, WorkKind
from tests.core.builders import replayed, snapshot
from tests.core.loop.builders import ANCHORS, NAME, Loop, loop, match_result, order_of, small

S, X, T, E = WorkKind.SELFPLAY, WorkKind.EXPORT, WorkKind.TRAINING, WorkKind.EVALUATION


def refuses(world: Loop, given: inputs.Input, error: type[HostlerError], match: str) -> None:
    with pytest.raises(error, match=match):
        raise world.refused(given)


class TestDeclare:
    def test_the_same_again_is_nothing_new(self) -> None:
        world = loop()
        assert world.tell(inputs.Declare(configs=(small(),))) == []

    def test_what_is_not_named_is_retired_and_comes_back_as_it_was(self) -> None:
        world = loop(small(), small("other_2p"))
        world.until(lambda: world.config("other_2p").segments)
        world.tell(inputs.Declare(configs=(small(),)))
        assert [event.config for event in world.of(events.ConfigRetired)] == ["other_2p"]
        assert not world.waiting(S, "other_2p")
        for job in [job for stage in WorkKind for job in world.running(stage, "other_2p")]:
            world.end(job)
        assert not world.config("other_2p").jobs, "what ran counts, and nothing more is queued"
        known = set(world.config("other_2p").segments)
        world.tell(inputs.Declare(configs=(small(), small("other_2p"))))
        assert [event.config for event in world.of(events.ConfigDeclared)] == ["other_2p"]
        assert "other_2p" in world.core.index.open_configs
        world.until(lambda: len(world.config("other_2p").segments) > len(known))
        assert known <= set(world.config("other_2p").segments)

    def test_a_change_reaches_what_waits(self) -> None:
        world = loop(devices=2)
        world.until(lambda: world.waiting(S) and world.running(S))
        old, running = world.waiting(S), world.running(S)
        world.tell(inputs.Declare(configs=(small(selfplay__games=16),)))
        assert all(world.job_state(job.id) is JobState.CANCELLED for job in old)
        assert all(world.state.jobs[job.id].attempt is not None for job in running), "what runs may end"
        assert {order_of(job)["games"] for job in world.waiting(S)} == {16}

    def test_a_change_ends_rests(self) -> None:
        world = loop()
        world.end(world.running(T)[0], {"schema": 1, "error": "no such program"}, exit_code=1)
        assert not world.config().jobs
        world.tell(inputs.Declare(configs=(small(training__channels=8),)))
        assert not world.config().rests
        assert world.running(T)

    def test_another_game_under_an_old_name_is_refused(self) -> None:
        world = loop()
        for changed in (
            GameRef(factory="virtual:other", params={"players": 2}, players=2, anchors=ANCHORS),
            GameRef(factory="virtual:game", params={"players": 2, "size": 9}, players=2, anchors=ANCHORS),
            GameRef(factory="virtual:game", params={"players": 2}, players=3, anchors=ANCHORS),
        ):
            declared = inputs.Declare(configs=(small("fresh_2p"), replace(small(), game=changed)))
            refuses(world, declared, Conflict, "another game before")
        assert "fresh_2p" not in world.state.configs, "all or nothing"

    def test_other_anchors_are_no_other_game(self) -> None:
        world = loop()
        game = replace(small().game, anchors={**ANCHORS, "mc-8": 200.0})
        world.tell(inputs.Declare(configs=(replace(small(), game=game),)))
        world.until_running(E)
        assert {match["b"] for match in order_of(world.running(E)[0])["matches"]} == {"random", "greedy", "mc-8"}

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            ({"promotion__elo0": 100.0}, "elo0 must be below elo1"),
            ({"promotion__min_groups": 500}, "min_groups must not be above"),
            ({"training__reuse": (3.0, 2.0)}, "reuse"),
            ({"export__min_games": 500}, "min_games must not be above window_games"),
            ({"weight": float("nan")}, "weight"),
            ({"priority": 2**31}, "priority"),
            ({"name": "a b"}, "name"),
        ],
        ids=str,
    )
    def test_what_could_never_work_is_refused(self, wrong: dict[str, object], why: str) -> None:
        world = loop(devices=0)
        name = str(wrong.pop("name", "wrong_2p"))
        refuses(world, inputs.Declare(configs=(small(name, **wrong),)), SpecError, why)

    def test_a_name_given_twice_is_refused(self) -> None:
        world = loop()
        refuses(world, inputs.Declare(configs=(small(), small(seed=5))), SpecError, "described twice")

    def test_another_budget_begins_a_test_anew(self) -> None:
        """A test is of one budget: groups of another do not count for it."""
        world = loop()
        candidate = world.until_trial()
        test = world.test_of()
        assert test is not None
        world.end(test, match_result(test, a_wins=True))
        trial = world.config().trial
        assert trial is not None
        assert trial.evidence.groups == 12
        running = world.test_of()
        assert running is not None
        world.tell(inputs.Declare(configs=(small(evaluation__simulations=8),)))
        trial = world.config().trial
        assert trial is not None
        assert (trial.candidate, trial.evidence.groups) == (candidate, 0)
        world.end(running, match_result(running, a_wins=True))
        assert trial.evidence.groups == 0
        assert len(world.config().matches) == 2 + sum(
            "random" in m.b or "greedy" in m.b for m in world.config().matches
        )

    def test_a_change_may_decide_a_test(self) -> None:
        world = loop()
        candidate = world.until_trial()
        test = world.test_of()
        assert test is not None
        world.end(test, match_result(test, a_wins=True))
        world.tell(inputs.Declare(configs=(small(promotion__max_groups=10),)))
        (lost,) = world.of(events.ModelRejected)
        assert (lost.model, lost.groups) == (candidate, 12)
        for job in world.running(E):
            assert all(match["groups"] > 0 for match in order_of(job)["matches"])

    def test_priorities_at_the_edge_stay_within_it(self) -> None:
        world = loop(small(priority=2**31 - 1))
        assert world.running(T)[0].priority == 2**31 - 1
        assert replayed(world.entries).state == world.state


class TestRollBack:
    def test_there_is_nothing_before_the_first_model(self) -> None:
        world = loop(small(), small("other_2p"))
        refuses(world, inputs.RollBack(config=NAME), Conflict, "no model yet")
        world.until(lambda: world.config().current)
        refuses(world, inputs.RollBack(config=NAME), Conflict, "no other model")
        refuses(world, inputs.RollBack(config="no_2p"), NotFound, "other_2p, tiny_2p")

    def test_to_the_model_before(self) -> None:
        world = loop(devices=3)
        world.until(lambda: world.config().current)
        zero = world.config().current
        one = world.decide(a_wins=True)
        stale = world.waiting(S)
        assert stale
        world.tell(inputs.RollBack(config=NAME, why="it plays badly"))
        assert world.answers == [zero]
        (back,) = world.of(events.ModelRolledBack)
        assert (back.model, back.was, back.why) == (zero, one, "it plays badly")
        assert world.config().current == zero
        assert all(world.job_state(job.id) is JobState.CANCELLED for job in stale)
        assert {order_of(job)["player"] for job in world.waiting(S)} == {f"gumbel-64@{zero}"}
        world.tell(inputs.RollBack(config=NAME))
        assert world.answers == [one], "the one before is the one that was left"
        assert replayed(world.entries).state == world.state
        assert snapshot(world.state) == world.state

    def test_by_name(self) -> None:
        world = loop()
        world.until(lambda: world.config().current)
        zero = world.config().current
        assert zero is not None
        lost = world.decide(a_wins=False)
        one = world.decide(a_wins=True)
        refuses(world, inputs.RollBack(config=NAME, model="xyz"), NotFound, "no model begins with 'xyz'")
        refuses(world, inputs.RollBack(config=NAME, model=""), NotFound, "more than one model begins")
        refuses(world, inputs.RollBack(config=NAME, model=lost[:12]), Conflict, "is rejected; only a promoted")
        refuses(world, inputs.RollBack(config=NAME, model=one[:12]), Conflict, "the current model .* already")
        world.tell(inputs.RollBack(config=NAME, model=zero[:12]))
        assert world.config().current == zero

    def test_while_a_candidate_is_tested_its_test_is_void_but_its_games_rate(self) -> None:
        world = loop(devices=2)
        world.until(lambda: world.config().current)
        zero = world.config().current
        one = world.decide(a_wins=True)
        two = world.until_trial()
        assert world.config().models[two].training.base == one
        test = world.test_of()
        assert test is not None
        refuses(world, inputs.RollBack(config=NAME, model=two[:12]), Conflict, "candidate")
        world.tell(inputs.RollBack(config=NAME))
        assert world.config().trial is None
        assert world.config().models[two].status is ModelStatus.DROPPED
        assert "rolled back meanwhile" in (world.config().models[two].why or "")
        matches = len(world.config().matches)
        world.end(test, match_result(test, a_wins=True))
        assert len(world.config().matches) == matches + 1
        assert not world.of(events.ModelPromoted)
        assert any(isinstance(command, commands.Fit) for command in world.commands)
        three = world.until_trial()
        trial = world.config().trial
        assert trial is not None
        assert (trial.candidate, trial.against, trial.evidence.groups) == (three, zero, 0)

    def test_a_training_that_waits_goes_on_from_what_is_current_then(self) -> None:
        world = loop()
        world.decide(a_wins=True)
        training = world.until_running(T)
        world.end(training, signal=9)
        assert world.job_state(training.id) is JobState.PENDING
        world.tell(inputs.RollBack(config=NAME))
        assert world.job_state(training.id) is JobState.CANCELLED
        again = world.until_running(T)
        assert order_of(again)["base"] == world.config().current

    def test_a_training_that_runs_may_end_and_is_tested_against_what_is_current(self) -> None:
        world = loop()
        world.decide(a_wins=True)
        training = world.until_running(T)
        world.tell(inputs.RollBack(config=NAME))
        world.end(training)
        trial = world.config().trial
        assert trial is not None
        assert trial.against == world.config().current


class TestJobs:
    def test_stages_are_not_submitted_by_hand(self) -> None:
        world = loop()
        spec = world.running(T)[0].spec
        refuses(world, inputs.Submit(specs=(spec,)), SpecError, "declare the config")

    def test_a_cancelled_stage_rests_and_comes_back(self) -> None:
        world = loop()
        job = world.until_running(E)
        world.tell(inputs.Cancel(job=job.id, reason="not now"))
        assert any(isinstance(command, commands.Stop) for command in world.commands)
        (rest,) = world.of(events.StageResting)
        assert (rest.stage, rest.failures, rest.until) == (E, 0, world.now + 300.0)
        assert rest.why == f"{job.id} was cancelled: not now"
        world.end(job, exit_code=None, signal=15, reason="stopped")
        assert world.job_state(job.id) is JobState.CANCELLED
        refuses(world, inputs.Retry(job=job.id), Conflict, "belongs to the loop of tiny_2p")
        assert not world.running(E)
        assert world.running(S), "the others go on"
        world.tell(inputs.Tick(), after_s=300.0)
        for job in world.running(S):
            world.end(job)
        world.until_running(E)

    def test_a_cancelled_stage_that_waits_rests_too(self) -> None:
        world = loop()
        world.until(lambda: world.waiting(S))
        (job, *_) = world.waiting(S)
        world.tell(inputs.Cancel(job=job.id))
        assert world.job_state(job.id) is JobState.CANCELLED
        (rest,) = world.of(events.StageResting)
        assert rest.why == f"{job.id} was cancelled: cancelled by its owner"
        assert not world.waiting(S)

    def test_what_had_ended_well_before_it_was_stopped_counts(self) -> None:
        world = loop()
        job = world.until_running(S)
        world.tell(inputs.Cancel(job=job.id))
        world.end(job)
        assert world.job_state(job.id) is JobState.DONE
        assert world.config().fresh_games == 32
        assert S not in world.config().rests

    def test_a_drain_queues_nothing(self) -> None:
        world = loop(devices=3)
        world.until(lambda: world.running(S))
        before = len(world.state.jobs)
        world.tell(inputs.Drain())
        for _ in range(5):
            for stage in WorkKind:
                for job in world.running(stage):
                    world.end(job)
        assert len(world.state.jobs) == before
        assert not any(world.running(stage) for stage in WorkKind)
        again = replayed(world.entries)
        assert again.state == world.state

    def test_explain_says_why_the_loop_wanted_it(self) -> None:
        from hostler.core.explain import explain_job

        world = loop()
        job = world.until_running(S)
        told = explain_job(world.state, world.core.index, job)
        assert f"wanted by its loop: {job.wanted}" in told.reasons
        assert "to the next dataset; score 0." in (job.wanted or "")
        assert "curriculum" in (job.wanted or "")


class TestGoal:
    def test_without_one_the_loop_goes_on(self) -> None:
        world = loop()
        for _ in range(3):
            world.decide(a_wins=True)
        assert NAME in world.core.index.open_configs
        assert world.config().promotions == 3

    def test_it_waits_for_the_rating_of_what_it_promoted(self) -> None:
        world = loop(small(goal=Goal(promotions=1)))
        world.decide(a_wins=True)
        assert NAME in world.core.index.open_configs
        world.until(lambda: NAME not in world.core.index.open_configs)
        current = world.config().current
        assert current is not None
        assert world.config().ratings[world.config().evaluated_as(current)] is not None

    def test_a_game_without_anchors_cannot_be_rated_and_does_not_wait_for_it(self) -> None:
        game = GameRef(factory="virtual:game", params={"players": 2}, players=2, anchors={})
        world = loop(replace(small(goal=Goal(promotions=1)), game=game))
        world.decide(a_wins=True)
        assert NAME not in world.core.index.open_configs
        assert not any(job.spec.work is E and not order_of(job)["matches"] for job in world.state.jobs.values())


def test_orders_carry_what_the_settings_say() -> None:
    stage = replace(
        small().selfplay.stage,
        command=("{python}", "-m", "mine"),
        env={"A": "b"},
        cwd="/somewhere",
        resources=Resources(memory_gb=1.0),
        retry=Retry(backoff_s=7.0),
        walltime_s=60.0,
        options={"considered": 4},
    )
    world = loop(small(selfplay__stage=stage))
    job = world.until_running(S)
    (launch,) = (
        each for each in world.commands if isinstance(each, commands.Launch) and each.order.id.startswith(job.id)
    )
    assert (launch.order.argv[1:], launch.order.env["A"], launch.order.cwd) == (("-m", "mine"), "b", "/somewhere")
    assert (launch.order.walltime_s, launch.order.memory_bytes) == (60.0, 2**30)
    assert order_of(job)["options"] == {"considered": 4}
    assert job.spec.retry.backoff_s == 7.0
