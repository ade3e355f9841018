"""What a stage reports must be what it was ordered: else the job fails, in numbers, and nothing of it counts."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hostler.model import events, inputs
from hostler.model.learning import Goal
from hostler.model.work import FailureClass, JobState, WorkKind
from tests.core.builders import ended, replayed
from tests.core.loop.builders import Loop, loop, match_result, order_of, small

S, X, T, E = WorkKind.SELFPLAY, WorkKind.EXPORT, WorkKind.TRAINING, WorkKind.EVALUATION
Change = Callable[[dict[str, Any], Any], Any]


def put(path: str, value: Any) -> Change:
    """A report with another value in it."""

    def change(result: dict[str, Any], order: Any) -> Any:
        *way, last = path.split(".")
        place: Any = result
        for step in way:
            place = place[int(step) if step.isdigit() else step]
        place[int(last) if last.isdigit() else last] = value
        return result

    return change


def add(path: str, more: int) -> Change:
    """A report with a number that is not right."""

    def change(result: dict[str, Any], order: Any) -> Any:
        place: Any = result
        *way, last = path.split(".")
        for step in way:
            place = place[int(step) if step.isdigit() else step]
        place[last] += more
        return result

    return change


def twice(result: dict[str, Any], order: Any) -> Any:
    result["segments"][1] = result["segments"][0]
    return result


def drop(path: str) -> Change:
    def change(result: dict[str, Any], order: Any) -> Any:
        del result[path]
        return result

    return change


def other_groups(result: dict[str, Any], order: Any) -> Any:
    result["matches"][0]["groups"] = result["matches"][0]["groups"][:-1]
    result["games"] -= 2
    return result


def no_groups(result: dict[str, Any], order: Any) -> Any:
    for match in result["matches"]:
        match["groups"] = []
    return {**result, "games": 0}


def recorded(result: dict[str, Any], order: Any) -> Any:
    segment = {"sha256": "ab" * 32, "bytes": 1, "games": result["games"], "positions": 100}
    return {**result, "segments": [segment]}


def told_twice(result: dict[str, Any], order: Any) -> Any:
    half = {"sha256": "ab" * 32, "bytes": 1, "games": result["games"] // 2, "positions": 100}
    return {**result, "segments": [half, half]}


BREACHES: dict[str, tuple[WorkKind, Change, str]] = {
    "no result": (S, lambda result, order: None, "left no result"),
    "a number": (S, lambda result, order: 7, "not what selfplay reports"),
    "another stage's": (S, lambda result, order: {"schema": 1, "matches": [], "games": 0}, "segments"),
    "another schema": (S, put("schema", 2), "schema"),
    "unknown field": (S, put("colour", "red"), "colour"),
    "field missing": (S, drop("positions"), "positions"),
    "negative": (S, put("games", -1), "games"),
    "beyond 64 bits": (S, put("games", 2**70), "games"),
    "NaN": (S, put("cpu_s", math.nan), "unusable: .*NaN"),
    "half a surrogate": (S, put("error", "\ud800"), "unusable"),
    "too deep": (S, put("error", [[[[]]] * 2]), "error"),
    "it says so itself": (S, put("error", "the disk is full"), "the disk is full"),
    "too few games": (S, add("games", -1), "played 31 games, 32 were ordered"),
    "too many games": (S, add("games", 1), "played 33 games"),
    "sums of games": (S, add("segments.0.games", 1), "segments hold 33 games and 1920 positions, it says 32 and 1920"),
    "sums of positions": (S, add("positions", 5), "1920 positions, it says 32 and 1925"),
    "a segment twice": (S, twice, "names segment [0-9a-f]{64} twice"),
    "no segments": (S, put("segments", []), "hold 0 games"),
    "empty segment": (S, put("segments.0.games", 0), "games"),
    "no hash": (S, put("segments.0.sha256", "abc"), "sha256"),
    "export: none and no word": (X, put("dataset", None), "made no dataset and does not say why"),
    "export: games of the dataset": (X, add("dataset.games", 1), "accepted 56 games, the dataset holds 57"),
    "export: another segment": (X, put("segments.0.sha256", "ab" * 32), "given 8 segments and tells of 8, or of other"),
    "export: segment missing": (
        X,
        lambda r, o: {**r, "segments": r["segments"][1:]},
        "given 8 segments and tells of 7",
    ),
    "export: segment twice": (X, twice, "tells of 8, or of other"),
    "export: games of a segment": (X, add("segments.0.games", 1), "or of other games in them"),
    "export: more than there are": (X, add("segments.0.accepted", 5), "accepted and rejected more"),
    "export: refused and accepted": (
        X,
        put("segments.0.refused", "bad"),
        "is refused, yet 7 of its games are accepted",
    ),
    "export: share": (X, put("quality", {"replay": 1.5}), "quality.replay"),
    "export: NaN": (X, put("lengths.mean", math.nan), "unusable: .*NaN"),
    "training: base": (T, put("base", "ab" * 32), "went on from abab"),
    "training: from nothing": (T, put("base", None), "went on from None"),
    "training: dataset": (T, put("dataset", "cd" * 32), "used dataset cdcd"),
    "training: no dataset": (T, put("dataset", None), "used dataset None"),
    "training: read less": (T, add("positions_in", -1), "holds 3360 positions, it read 3359 and used 3360"),
    "training: used less": (T, add("positions_used", -1), "read 3360 and used 3359"),
    "training: steps": (T, add("steps", -1), "took 399 steps, 400 were ordered"),
    "training: too many steps": (T, add("steps", 1), "took 401 steps"),
    "training: nothing": (T, lambda r, o: {**r, "steps": 0, "stopped": "early"}, "trained nothing"),
    "training: not measured": (T, put("after", None), "did not measure"),
    "training: NaN": (T, put("after.policy", math.nan), "unusable: .*NaN"),
    "training: the base itself": (T, lambda r, o: put("model.sha256", o["base"])(r, o), "was there before"),
    "evaluation: less": (E, other_groups, "ordered was"),
    "evaluation: none": (E, no_groups, "ordered was"),
    "evaluation: no match": (E, lambda r, o: {**r, "matches": [], "games": 0}, "ordered was"),
    "evaluation: another player": (E, put("matches.0.b", "mc-8"), "ordered was"),
    "evaluation: count": (E, add("games", 1), "says 25 games and tells of 24"),
    "evaluation: tie": (E, put("matches.0.groups.0", [[0, 0], [1, 0]]), "not one game from each of 2 seats"),
    "evaluation: places": (E, put("matches.0.groups.0", [[0, 2], [1, 0]]), "places 0..1"),
    "evaluation: one seat": (E, put("matches.0.groups.0", [[0, 1]]), "1 games; a group is one from each"),
    "evaluation: three seats": (E, put("matches.0.groups", [[[0, 1, 2]] * 3] * 6), "not one game from each of 2"),
    "evaluation: unordered segments": (E, recorded, "recorded 24 of its 24 games, ordered were none"),
}


def facts(world: Loop) -> Any:
    """What is known of the config, but for its jobs, and for rests and other counts of failures."""
    config = copy.deepcopy(world.config())
    for counted in (*config.datasets.values(), *filter(None, [config.trial])):
        counted.failures = 0
    config.jobs, config.rests, config.ordered, config.served_at = {}, {}, 0, None
    return config


@pytest.mark.parametrize(("stage", "change", "why"), BREACHES.values(), ids=BREACHES)
def test_a_breach_fails_the_job_and_nothing_of_it_counts(stage: WorkKind, change: Change, why: str) -> None:
    world = loop(devices=2)
    job = world.until_running(stage)
    before = facts(world)
    said = change(copy.deepcopy(world.report(job)), order_of(job))
    world.end(job, said, exit_code=0)
    (failed,) = world.of(events.JobFailed)
    assert (failed.job, failed.failure) == (job.id, FailureClass.RESULT)
    assert re.search(why, failed.why), failed.why
    assert len(failed.why) < 3000
    assert facts(world) == before
    (resting,) = world.of(events.StageResting)
    assert (resting.stage, resting.failures, resting.until) == (stage, 1, world.now + 30.0)
    assert resting.why == failed.why
    assert world.state.jobs[job.id].result is None
    assert replayed(world.entries).state == world.state


FIRST = {stage: next(name for name, each in BREACHES.items() if each[0] is stage) for stage in (S, X, T, E)}
"""One breach of each stage: what follows a breach does not depend on which one it was."""


@pytest.mark.parametrize(
    "name", [name if name in FIRST.values() else pytest.param(name, marks=pytest.mark.long) for name in BREACHES]
)
def test_a_breach_is_followed_by_another_try_and_the_loop_goes_on(name: str) -> None:
    stage, change, _ = BREACHES[name]
    world = loop(devices=2)
    job = world.until_running(stage)
    world.end(job, change(copy.deepcopy(world.report(job)), order_of(job)), exit_code=0)
    assert world.of(events.JobFailed)
    world.until(lambda: any(each.id != job.id for each in world.running(stage)))
    world.until(lambda: world.config().promotions)
    assert replayed(world.entries).state == world.state


def test_segments_told_twice_by_an_evaluation_are_a_breach_too() -> None:
    world = loop(small(export__include_evaluation=True))
    job = world.until_running(E)
    assert order_of(job)["record"] is True
    world.end(job, told_twice(match_result(job, a_wins=True), None), exit_code=0)
    assert world.job_state(job.id) is JobState.FAILED
    assert "twice" in (world.state.jobs[job.id].why or "")
    again = world.until_running(E)
    world.end(again, recorded(match_result(again, a_wins=True), None), exit_code=0)
    assert world.job_state(again.id) is JobState.DONE
    assert world.config().segments["ab" * 32].player == "evaluation"


def test_the_same_games_again_are_no_games() -> None:
    """Self-play that ignores its seed would spin for ever: nothing is new in what it makes."""
    world = loop()
    first = world.until_running(S)
    said = world.report(first)
    world.end(first)
    second = world.until_running(S)
    world.end(second, said, exit_code=0)
    (failed,) = world.of(events.JobFailed)
    assert f"was made by {first.id} before" in failed.why
    assert world.config().fresh_games == 32


def test_a_dataset_made_before_is_a_failure_but_its_judgement_stands() -> None:
    world = loop()
    first = world.until_running(X)
    made = world.report(first)["dataset"]
    world.end(first)
    second = world.until_running(X)
    said = world.report(second)
    lost = said["dataset"]["games"] - made["games"]
    for verdict in said["segments"][-2:]:
        lost -= verdict["accepted"]
        verdict |= {"accepted": 0, "rejected": {}, "refused": "it does not replay"}
    said["dataset"] = {**made, "games": made["games"] + lost}
    world.end(second, said, exit_code=0)
    assert "was made before: nothing is new in it" in (world.state.jobs[second.id].why or "")
    assert world.config().judgements[-1].job == second.id
    assert world.config().fresh_games == 0
    assert len(world.config().datasets) == 1


def test_what_the_gate_refused_is_not_offered_again() -> None:
    world = loop(devices=2)
    export = world.until_running(X)
    said = world.report(export)
    for verdict in said["segments"][:6]:
        verdict |= {"accepted": 0, "rejected": {"replay": 8}, "refused": "it does not replay"}
    said |= {"dataset": None, "error": "14 games accepted, 40 needed"}
    world.end(export, said, exit_code=1)
    (failed,) = world.of(events.JobFailed)
    assert failed.failure is FailureClass.RESULT, "the same order would end the same way"
    assert failed.why.startswith("14 games accepted, 40 needed")
    (judged,) = world.of(events.SegmentsJudged)
    assert judged.job == export.id
    bad = {verdict["sha256"] for verdict in said["segments"][:6]}
    assert world.config().judgements[-1].rejected == {"duplicate": 2, "replay": 48}
    world.tell(inputs.Tick(), after_s=30.0)
    second = world.until_running(X)
    offered = {each["sha256"] for each in order_of(second)["segments"]}
    assert not bad & offered
    assert {verdict["sha256"] for verdict in said["segments"][6:]} <= offered
    assert not world.config().datasets


def test_an_unbelievable_judgement_is_not_kept_whatever_the_exit_status() -> None:
    world = loop()
    export = world.until_running(X)
    before = facts(world)
    said = world.report(export)
    said["segments"][0]["accepted"] = 100
    world.end(export, {**said, "dataset": None, "error": "no luck"}, exit_code=1)
    assert facts(world) == before


class TestPartialSelfplay:
    """What was closed before a kill are games, once."""

    @staticmethod
    def part(world: Loop, job: Any, segments: int) -> dict[str, Any]:
        closed = world.report(job)["segments"][:segments]
        games = sum(segment["games"] for segment in closed)
        return {"schema": 1, "segments": closed, "games": games, "positions": 60 * games}

    @staticmethod
    def games_of(world: Loop, job: Any) -> int:
        return sum(segment.games for segment in world.config().segments.values() if segment.job == job.id)

    @pytest.mark.parametrize(
        "how",
        [
            {"signal": 9},
            {"exit_code": 1},
            {"signal": 9, "reason": "memory"},
            {"signal": 15, "reason": "walltime"},
            {"exit_code": None, "reason": "lost"},
            {"exit_code": None, "reason": "stopped"},
        ],
        ids=str,
    )
    def test_it_is_kept_and_the_retry_does_not_double_it(self, how: dict[str, Any]) -> None:
        world = loop()
        job = world.until_running(S)
        whole = world.report(job)
        world.end(job, self.part(world, job, 3), **how)
        (made,) = world.of(events.SegmentsMade)
        assert len(made.segments) == 3
        assert self.games_of(world, job) == 24
        if world.job_state(job.id) is JobState.FAILED:
            return
        world.until(lambda: world.state.jobs[job.id].attempt is not None or not world.waiting(S))
        assert world.state.jobs[job.id].attempts == 2
        world.end(world.state.jobs[job.id], whole, exit_code=0)
        (made,) = world.of(events.SegmentsMade)
        assert len(made.segments) == 1
        assert self.games_of(world, job) == 32
        assert world.job_state(job.id) is JobState.DONE

    def test_processor_time_told_twice_counts_once(self) -> None:
        world = loop()
        job = world.until_running(S)
        whole = world.report(job)
        world.end(job, {**self.part(world, job, 3), "cpu_s": 30.0}, signal=9)
        world.until(lambda: world.state.jobs[job.id].attempt is not None)
        world.end(world.state.jobs[job.id], {**whole, "cpu_s": 40.0}, exit_code=0)
        mine = [segment for segment in world.config().segments.values() if segment.job == job.id]
        assert [segment.cpu_s for segment in mine] == [10.0] * 4

    def test_a_part_that_cannot_be_is_not_kept(self) -> None:
        world = loop()
        job = world.until_running(S)
        part = self.part(world, job, 3)
        wrong = [
            {**part, "games": 25},
            {**part, "positions": 1},
            {**part, "games": 24 + 8, "segments": [*part["segments"], part["segments"][0]], "positions": 60 * 32},
            {**part, "segments": [{**part["segments"][0], "games": 33}], "games": 33, "positions": 480},
            {**part, "segments": "all of them"},
        ]
        for said in wrong:
            before = facts(world)
            world.end(job, said, signal=9)
            assert facts(world) == before, said
            job = world.until_running(S)

    def test_an_empty_part_is_nothing(self) -> None:
        world = loop()
        job = world.until_running(S)
        world.end(job, self.part(world, job, 0), signal=9)
        assert not world.of(events.SegmentsMade)

    def test_told_again_it_is_refused(self) -> None:
        world = loop()
        job = world.until_running(S)
        assert job.attempt is not None
        fact = ended(job.attempt.id, result=self.part(world, job, 2), signal=9)
        world.tell(fact, fact)
        assert len(world.of(events.SegmentsMade)) == 1
        assert len(world.of(events.ResultRefused)) == 1


class TestRests:
    """A stage that fails rests, longer each time; the others go on."""

    def fail(self, world: Loop, stage: WorkKind, times: int) -> list[events.StageResting]:
        rests = []
        for _ in range(times):
            world.until(lambda: world.running(stage))
            world.end(world.running(stage)[0], {"schema": 1, "error": "disk full"}, exit_code=1)
            rests += world.of(events.StageResting)
        return rests

    def test_it_rests_longer_each_time_and_wakes_by_itself(self) -> None:
        world = loop(small(selfplay__games=8))
        world.step_s = 120.0
        told = []
        for _ in range(8):
            (rest,) = self.fail(world, E, 1)
            told.append((rest.failures, round(rest.until - world.now)))
        assert told == [(n + 1, min(30 * 2**n, 3600)) for n in range(8)]
        assert world.config().fresh_games + len(world.config().judgements) > 0, "the other stages went on"
        world.end(world.until_running(E))
        assert E not in world.config().rests, "a success ends it"

    def test_years_of_failures_are_not_too_many(self) -> None:
        world = loop()
        self.fail(world, E, 1)
        world.state.configs["tiny_2p"].rests[E] = replace(world.config().rests[E], failures=5000)
        (rest,) = self.fail(world, E, 1)
        assert (rest.failures, rest.until - world.now) == (5001, 3600.0)

    def test_while_everything_rests_the_core_asks_to_be_woken(self) -> None:
        world = loop()
        (rest,) = self.fail(world, T, 1)
        assert not world.config().jobs
        wake = world.core.wake_at()
        assert wake is not None
        assert wake >= rest.until
        world.tell(inputs.Tick(), after_s=29.0)
        assert not world.config().jobs
        world.tell(inputs.Tick(), after_s=1.1)
        assert world.running(T)

    def test_rests_survive_a_restart(self) -> None:
        world = loop()
        (rest,) = self.fail(world, T, 1)
        again = replayed(world.entries)
        again.handle(world.now + 1.0, inputs.Begin(version="test", epoch=2))
        assert again.wake_at() == pytest.approx(rest.until)
        assert not again.state.configs["tiny_2p"].jobs
        again.handle(rest.until + 0.1, inputs.Tick())
        assert again.state.configs["tiny_2p"].jobs

    def test_a_goal_is_missed_by_failures_and_declaring_again_tries_again(self) -> None:
        spec = small(goal=Goal(failures=3))
        world = loop(spec)
        self.fail(world, E, 3)
        assert "tiny_2p" not in world.core.index.open_configs
        world.until(lambda: not world.config().jobs)
        world.tell(inputs.Tick(), after_s=10_000.0)
        assert not world.config().jobs
        world.tell(inputs.Declare(configs=(spec,)))
        assert not world.config().rests
        assert "tiny_2p" in world.core.index.open_configs
        world.until(lambda: world.config().promotions)

    def test_a_goal_is_missed_by_candidates(self) -> None:
        world = loop(small(goal=Goal(candidates=2)))
        world.decide(a_wins=False)
        world.decide(a_wins=False)
        assert "tiny_2p" not in world.core.index.open_configs
        world.until(lambda: not world.config().jobs)
        assert world.config().candidates == 2
        world.tell(inputs.Declare(configs=(small(goal=Goal(candidates=3)),)))
        assert world.config().jobs


def test_no_game_no_promotion_whatever_is_said() -> None:
    world = loop()
    candidate = world.until_trial()
    for change in (no_groups, lambda r, o: {**r, "matches": [], "games": 0}, lambda r, o: None):
        test = world.test_of()
        assert test is not None
        world.end(test, change(match_result(test, a_wins=True), None), exit_code=0)
        assert not world.of(events.ModelPromoted)
        assert world.config().trial is not None
        world.until_trial()
    assert world.config().models[candidate].status == "candidate"
