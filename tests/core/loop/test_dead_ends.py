"""What would stop a loop for ever, or make it spin: each way into such a corner, and the way out of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hostler.core.loop import stages
from hostler.core.loop.decide import standing
from hostler.core.loop.stages import promising, window
from hostler.core.loop.state import Segment
from hostler.core.loop.views import config_view
from hostler.model import events, inputs
from hostler.model.errors import SpecError
from hostler.model.learning import (
    ConfigSpec,
    ExportSpec,
    GameRef,
    Goal,
    ModelStatus,
    SelfplaySpec,
    TrainingSpec,
)
from hostler.model.work import JobState, WorkKind
from hostler.sim.lab import Lab
from tests.core.builders import replayed, snapshot
from tests.core.loop.builders import ANCHORS, NAME, Loop, loop, match_result, order_of, small

S, X, T, E = WorkKind.SELFPLAY, WorkKind.EXPORT, WorkKind.TRAINING, WorkKind.EVALUATION
BROKEN = {"schema": 1, "error": "it cannot be done"}


def usual(**fields: Any) -> ConfigSpec:
    """A small config with the sizes that settings have by default."""
    spec = small(**fields)
    stage = spec.selfplay.stage
    parts = {"selfplay": SelfplaySpec(stage=stage), "export": ExportSpec(stage=stage)}
    return replace(spec, **parts, training=TrainingSpec(stage=stage))


def fail(world: Loop, stage: WorkKind, times: int) -> None:
    """The next jobs of this stage fail, and are given up; of training, those with a dataset."""
    for _ in range(times):
        world.end(world.until_running(stage), BROKEN, exit_code=1)


def fail_test(world: Loop, times: int) -> None:
    """The next jobs that test the candidate fail, and are given up."""
    for _ in range(times):
        world.until_trial()
        test = world.test_of()
        assert test is not None
        world.end(test, BROKEN, exit_code=1)


def fail_selfplay(world: Loop, times: int) -> None:
    """All self-play fails, until so many jobs have that were ordered after the last rest was over."""
    while times:
        if not world.running(S):
            world.step()
            continue
        (job, *_), rest = world.running(S), world.config().rests.get(S)
        times -= rest is None or job.submitted_at > rest.since
        world.end(job, BROKEN, exit_code=1)


def check(world: Loop) -> None:
    assert replayed(world.entries).state == world.state
    assert snapshot(world.state) == world.state
    world.core.validate()


class TestWindow:
    @pytest.mark.parametrize("plies", [469, *(pytest.param(plies, marks=pytest.mark.long) for plies in (361, 61))])
    def test_a_dataset_is_never_more_than_a_training_can_use(self, plies: int) -> None:
        """2000 steps of 256 are 512 000 positions; 500 games of 2 × 469 plies are more."""
        world = loop(usual(), lab=Lab(ANCHORS, plies=plies, lenient=True))
        for _ in range(3):
            world.until_running(T)
            (training,) = world.running(T)
            assert order_of(training)["dataset"]["positions"] <= 2000 * 256
            assert order_of(training)["dataset"]["games"] >= 1000
            world.end(training)
            world.decide(a_wins=False)
        assert T not in world.config().rests
        check(world)

    def test_where_fewest_games_are_more_than_that_the_stage_has_to_say_so(self) -> None:
        world = loop(small(training__max_steps=10), lab=Lab(ANCHORS, lenient=True))
        training = world.until_running(T)
        assert order_of(training)["dataset"]["games"] >= 40
        world.end(training)
        assert "10 steps do not visit all" in world.config().rests[T].why

    def test_a_result_can_hold_the_verdicts_on_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stages, "WINDOW_SEGMENTS", 6)
        world = loop(small(export__min_games=30))
        world.until(lambda: len(world.config().segments) > 6)
        assert [each.sha256 for each in window(world.config())] == list(world.config().segments)[-6:]

    def test_fewest_games_must_fit_in_it(self) -> None:
        world = loop(devices=0)
        spec = small("wrong_2p", selfplay__segment_games=1, export__min_games=5000, export__window_games=9000)
        with pytest.raises(SpecError, match=r"5000 games .* more than the 2000 segments"):
            raise world.refused(inputs.Declare(configs=(spec,)))


class TestFreshGames:
    def test_games_that_slipped_out_of_the_window_are_passed_over(self) -> None:
        world = loop(small(export__window_games=100), devices=4)
        export = world.until_running(X)
        while len(world.config().segments) < 24:
            world.end(world.until_running(S))
        late = 192 - 8 * len(order_of(export)["segments"])
        world.end(export)
        assert world.config().fresh_games == late
        world.until(lambda: world.config().trial is not None)
        world.decide(a_wins=False)
        export = world.until_running(X)
        unjudged = [each for each in world.config().segments.values() if each.accepted is None]
        left_out = {each.sha256 for each in unjudged} - {each["sha256"] for each in order_of(export)["segments"]}
        assert left_out, "more games came than the window holds"
        newest = order_of(export)["segments"][-1]["sha256"]
        world.end(export)
        names = list(world.config().segments)
        after = names[names.index(newest) + 1 :]
        assert world.config().fresh_games == sum(world.config().segments[name].games for name in after)
        check(world)

    @pytest.mark.parametrize("devices", [pytest.param(2, marks=pytest.mark.long), 4])
    def test_no_window_is_exported_twice(self, devices: int) -> None:
        """Self-play is far ahead, then slow, while the other stages go on: what is there is exported once."""
        world = loop(small(export__window_games=200, training__reuse=(0.01, 8.0)), devices=devices)
        for _ in range(160):
            world.step()
        for _ in range(40):
            world.answer_fits()
            others = [job for stage in (X, T, E) for job in world.running(stage)]
            wake = world.core.wake_at()
            if others:
                world.end(others[0])
            elif wake is not None:
                world.tell(inputs.Tick(), after_s=max(wake - world.now, 0.0) + 0.001)
        submitted = [entry.event for entry in world.entries if isinstance(entry.event, events.JobSubmitted)]
        orders = [event.spec.payload.order for event in submitted if event.spec.work is X]  # type: ignore[union-attr]
        windows = [tuple(each["sha256"] for each in order["segments"]) for order in orders]
        assert len(windows) > 2
        assert len(set(windows)) == len(windows)

    @pytest.mark.parametrize(
        ("reuse", "devices"),
        [
            ((0.1, 0.5), 1),
            ((0.25, 2.0), 1),
            ((0.1, 1.0), 6),
            *(
                pytest.param(reuse, devices, marks=pytest.mark.long)
                for reuse, devices in (((0.1, 1.0), 1), ((0.1, 0.5), 6), ((0.25, 2.0), 6))
            ),
        ],
        ids=str,
    )
    def test_sparing_configs_come_to_their_trainings(self, reuse: tuple[float, float], devices: int) -> None:
        """Where a position may be used once or less, what a dataset leaves out must not stop the next training."""
        world = loop(small(training__reuse=reuse, export__window_games=200), devices=devices, lab=Lab(ANCHORS))
        world.until(lambda: world.config().candidates >= 2, steps=600)


class TestTraining:
    def test_a_dataset_that_cannot_be_trained_on_is_spent_after_two_tries(self) -> None:
        world = loop()
        first = world.until_running(T)
        dataset, seed = order_of(first)["dataset"]["sha256"], order_of(first)["seed"]
        world.end(first, BROKEN, exit_code=1)
        second = world.until_running(T)
        assert order_of(second)["dataset"]["sha256"] == dataset
        assert order_of(second)["seed"] != seed
        world.end(second, BROKEN, exit_code=1)
        assert world.config().datasets[dataset].failures == 2
        third = world.until_running(T)
        assert order_of(third)["dataset"]["sha256"] != dataset
        world.end(third)
        assert world.config().candidates == 1
        check(world)

    def test_trouble_of_a_node_says_nothing_against_a_dataset(self) -> None:
        world = loop()
        while not world.config().rests.get(T):
            world.end(world.until_running(T), exit_code=None, reason="lost")
        (dataset,) = world.config().datasets.values()
        assert dataset.failures == 0

    def test_other_settings_give_it_another_chance(self) -> None:
        world = loop()
        fail(world, T, 2)
        (dataset,) = world.config().datasets
        world.tell(inputs.Declare(configs=(small(training__channels=8),)))
        assert order_of(world.until_running(T))["dataset"]["sha256"] == dataset


class TestUntestable:
    def test_a_candidate_that_cannot_be_tested_goes(self) -> None:
        world = loop()
        candidate = world.until_trial()
        fail_test(world, 4)
        assert world.config().trial is not None
        fail_test(world, 1)
        (lost,) = world.of(events.ModelRejected)
        assert (lost.model, lost.groups, lost.llr) == (candidate, 0, None)
        assert lost.why.startswith("its test could not be played: it cannot be done")
        assert world.config().trial is None
        assert not world.of(events.ModelPromoted)
        world.until(lambda: world.config().candidates == 2)
        world.decide(a_wins=True)
        check(world)

    def test_only_failures_in_a_row_count(self) -> None:
        world = loop()
        world.until_trial()
        fail_test(world, 4)
        world.until_trial()
        test = world.test_of()
        assert test is not None
        world.end(test, match_result(test, a_wins=True))
        trial = world.config().trial
        assert trial is not None
        assert (trial.failures, trial.evidence.groups) == (0, 12)
        fail_test(world, 4)
        assert world.config().trial is not None
        fail_test(world, 1)
        (lost,) = world.of(events.ModelRejected)
        assert lost.groups == 12
        assert lost.llr is not None

    def test_trouble_of_a_node_and_of_the_ladder_do_not_count(self) -> None:
        world = loop()
        fail(world, E, 1)
        world.until_trial()
        test = world.test_of()
        assert test is not None
        while not test.state.final:
            world.end(world.until_running(E), exit_code=None, reason="lost")
        assert test.state is JobState.FAILED
        trial = world.config().trial
        assert trial is not None
        assert trial.failures == 0


class TestRefusedGenerator:
    HEURISTIC = {"selfplay__engine": "heuristic"}

    def weak(self, goal: Goal | None = None) -> Loop:
        """A loop whose self-play is by the fast engine, with a current model that beats it by far."""
        world = loop(small(**self.HEURISTIC, export__max_gap_elo=50.0, goal=goal))
        world.until(lambda: world.config().current)
        world.decide(a_wins=True)
        world.until(lambda: standing(world.config(), world.now).refused_generator)
        return world

    def test_games_that_would_be_refused_are_not_played(self) -> None:
        world = self.weak()
        world.until(lambda: not world.config().jobs)
        games = len(world.config().segments)
        world.tell(inputs.Tick(), after_s=10_000.0)
        assert not world.config().jobs
        assert len(world.config().segments) == games
        view = config_view(world.config(), world.now)
        assert view.state == "open"
        assert "self-play by heuristic is too weak for the current model" in view.next
        assert "its games would be refused" in view.next
        check(world)

    def test_other_settings_end_it(self) -> None:
        world = self.weak()
        world.until(lambda: not world.config().jobs)
        world.tell(inputs.Declare(configs=(small(export__max_gap_elo=50.0),)))
        assert world.running(S)

    def test_with_a_goal_it_is_missed_once_nothing_runs(self) -> None:
        world = self.weak(Goal(promotions=5))
        world.until(lambda: not world.config().jobs)
        view = config_view(world.config(), world.now)
        assert view.state == "missed"
        assert "too weak for the current model" in view.next
        assert NAME not in world.core.index.open_configs

    def test_a_model_that_is_not_rated_yet_is_no_reason(self) -> None:
        world = loop(small(**self.HEURISTIC))
        world.answer_fits = lambda: None  # type: ignore[method-assign]
        world.decide(a_wins=True)
        assert standing(world.config(), world.now).refused_generator is None
        assert world.running(S) or world.waiting(S)

    def test_where_it_can_never_be_rated_an_engine_without_a_rating_is_refused(self) -> None:
        game = GameRef(factory="virtual:game", params={"players": 2}, players=2, anchors={})
        world = loop(replace(small(**self.HEURISTIC), game=game))
        world.decide(a_wins=True)
        world.answer_fits()
        assert "has no rating" in (standing(world.config(), world.now).refused_generator or "")

    def test_the_current_model_is_never_refused(self) -> None:
        world = loop()
        world.answer_fits = lambda: None  # type: ignore[method-assign]
        world.decide(a_wins=True)
        assert standing(world.config(), world.now).refused_generator is None

    def test_a_rating_of_the_engine_itself_goes_first(self) -> None:
        """`greedy` stands in for the fast engine only where nobody has measured that."""
        game = replace(small().game, anchors={**ANCHORS, "heuristic": 3000.0})
        world = loop(replace(small(**self.HEURISTIC, export__max_gap_elo=50.0), game=game))
        world.lab = Lab({**ANCHORS, "heuristic": 3000.0})
        world.decide(a_wins=True)
        world.until(lambda: world.config().ratings.get(world.config().evaluated_as(world.config().current or "")))
        assert standing(world.config(), world.now).refused_generator is None


class TestRolledBack:
    def test_the_model_left_is_welcome_no_more_and_does_not_count(self) -> None:
        world = loop(small(goal=Goal(promotions=2)))
        world.until(lambda: world.config().current)
        one = world.decide(a_wins=True)
        world.tell(inputs.RollBack(config=NAME, why="it plays badly"))
        model = world.config().models[one]
        assert model.status is ModelStatus.ROLLED_BACK
        assert model.why == "rolled back: it plays badly"
        assert world.config().promotions == 0
        player = world.config().evaluated_as(one)
        export = world.until_running(X)
        assert order_of(export)["strength"] is not None, "the bootstrap is over"
        assert player not in order_of(export)["strength"]["players"]
        world.until(lambda: world.config().trial)
        world.decide(a_wins=True)
        world.until(lambda: world.running(E) and world.config().trial is None)
        (ladder,) = world.running(E)
        assert player not in {match["b"] for match in order_of(ladder)["matches"]}
        assert world.config().promotions == 1
        check(world)

    def test_by_name_it_may_come_back(self) -> None:
        world = loop()
        world.until(lambda: world.config().current)
        zero = world.config().current
        one = world.decide(a_wins=True)
        world.tell(inputs.RollBack(config=NAME))
        world.tell(inputs.RollBack(config=NAME, model=one[:12], why="it was not that bad"))
        assert world.config().current == one
        assert world.config().models[one].status is ModelStatus.PROMOTED
        assert world.config().models[one].why == "rolled back to: it was not that bad"
        assert zero is not None
        assert world.config().models[zero].status is ModelStatus.ROLLED_BACK
        assert world.config().promotions == 1
        check(world)

    def test_games_of_its_void_test_do_not_count_for_the_ladder(self) -> None:
        world = loop(devices=2)
        world.decide(a_wins=True)
        two = world.until_trial()
        test = world.test_of()
        assert test is not None
        spent = dict(world.config().ladder_groups)
        world.tell(inputs.RollBack(config=NAME))
        world.end(test, match_result(test, a_wins=True))
        assert world.config().evaluated_as(two) in {match.a for match in world.config().matches}
        assert world.config().ladder_groups == spent
        check(world)


class TestRests:
    def test_failures_of_one_time_are_one(self) -> None:
        world = loop(devices=8)
        world.until(lambda: len(world.running(S)) >= 7)
        for job in world.running(S):
            world.end(job, BROKEN, exit_code=1)
        rest = world.config().rests[S]
        assert (rest.failures, round(rest.until - rest.since)) == (1, 30)
        fail_selfplay(world, 1)
        rest = world.config().rests[S]
        assert (rest.failures, round(rest.until - rest.since)) == (2, 60)
        check(world)

    def test_a_cancel_does_not_shorten_a_rest(self) -> None:
        world = loop(devices=8)
        world.until(lambda: world.running(S))
        fail_selfplay(world, 6)
        until = world.config().rests[S].until
        assert until > world.now + 600.0
        (job, *_) = (job for job in world.state.jobs.values() if job.spec.work is S and not job.state.final)
        world.tell(inputs.Cancel(job=job.id, reason="not now"))
        assert world.config().rests[S].until == until
        assert "6 failures in a row; the last: " in standing(world.config(), world.now).resting[S]

    def test_a_rest_is_told_as_it_is(self) -> None:
        world = loop()
        job = world.until_running(E)
        world.tell(inputs.Cancel(job=job.id, reason="not now"))
        assert standing(world.config(), world.now).resting[E] == f"{job.id} was cancelled: not now"
        world = loop()
        world.end(world.until_running(E), BROKEN, exit_code=1)
        assert standing(world.config(), world.now).resting[E].startswith("1 failure; it cannot be done")


def test_recorded_matches_are_promising_where_they_may_enter() -> None:
    world = loop()
    world.decide(a_wins=True)
    config = world.config()
    world.until(lambda: config.ratings.get(config.evaluated_as(config.current or "")))
    config.segments["ab" * 32] = Segment(
        sha256="ab" * 32, games=8, positions=480, player="evaluation", job="j1", at=world.now
    )
    assert "ab" * 32 not in {each.sha256 for each in promising(config)}
    config.spec = replace(config.spec, export=replace(config.spec.export, include_evaluation=True))
    assert "ab" * 32 in {each.sha256 for each in promising(config)}


def test_once_the_promotions_of_the_goal_are_there_only_the_rating_is_awaited() -> None:
    world = loop(small(goal=Goal(promotions=1)), devices=2)
    world.decide(a_wins=True)
    world.answer_fits = lambda: None  # type: ignore[method-assign]  # the rating takes its time
    for _ in range(60):
        if not [job for job in world.state.jobs.values() if job.attempt is not None]:
            break
        world.step()
    assert world.config().candidates == 1
