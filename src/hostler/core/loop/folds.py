"""Folding the facts of the loops into the state: one small function for each event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from typing import Any

from hostler.core import nearness
from hostler.core.index import Index
from hostler.core.loop import closing, matches, pausing, spawning
from hostler.core.loop.state import (
    Config,
    Dataset,
    Judgement,
    Model,
    Rated,
    Rest,
    Segment,
    Switch,
    Trial,
)
from hostler.core.state import Job, State, stage_of
from hostler.learning.matches import scores
from hostler.model import events
from hostler.model.errors import IllegalTransition
from hostler.model.learning import Match, ModelStatus, SegmentRef, SegmentVerdict
from hostler.model.work import FailureClass, JobState, WorkKind
from hostler.policy.population import EXPLORATION_GAP_S, EXPLORING

FAULTS_OF_NODES = frozenset({FailureClass.LOST, FailureClass.SPAWN, FailureClass.IMPORT, FailureClass.DEVICE})
"""Failures that say nothing of what a job was ordered to do."""
HISTORY_KEPT = 1000
"""Points of a config's rating history; older ones are thinned to every second."""


def job_queued(state: State, index: Index, job: Job) -> None:
    """A stage's job was submitted."""
    payload = stage_of(job)
    config = state.configs[payload.config]
    config.ordered += 1
    config.jobs[job.id] = WorkKind(payload.kind)
    if job.spec.work in EXPLORING and config.spec.target_elo is not None:
        config.explored_at = state.at
        index.wake_loop(payload.config, state.at + EXPLORATION_GAP_S)
    index.loops_due.add(payload.config)


def job_leased(state: State, index: Index, job: Job) -> None:
    """A stage's job got a device."""
    if job.spec.work is WorkKind.SELFPLAY:
        config = state.configs[stage_of(job).config]
        config.served_at = index.selfplay_at = state.at
        index.selfplaying += 1
    index.loops_due.add(stage_of(job).config)


def job_released(state: State, index: Index, job: Job, held_s: float) -> None:
    """A stage's job has its device no more, which it held that long."""
    if job.spec.work is WorkKind.SELFPLAY:
        state.configs[stage_of(job).config].served_at = state.at
        index.selfplaying -= 1
        index.selfplay_at, index.selfplay_turn_s = state.at, held_s
    index.loops_due.add(stage_of(job).config)


def job_over(state: State, index: Index, job: Job, done: bool) -> None:
    """A stage's job ended."""
    config = state.configs[stage_of(job).config]
    stage = config.jobs.pop(job.id)
    config.spawned.pop(job.id, None)
    if done:
        config.rests.pop(stage, None)
    if done or (job.state is JobState.FAILED and job.failure not in FAULTS_OF_NODES):
        _count_failure(config, job, failed=not done)
    index.loops_due.add(config.spec.name)


def config_declared(state: State, index: Index, event: events.ConfigDeclared) -> None:
    """A config appears or changes, or is tried again. A test goes on, unless its players are others now."""
    config = state.configs.setdefault(event.config, Config(spec=event.spec))
    if config.trial is not None and config.spec.evaluation.simulations != event.spec.evaluation.simulations:
        config.trial = Trial(candidate=config.trial.candidate, against=config.trial.against)
    config.spec, config.retired = event.spec, False
    config.rests.clear()
    for dataset in config.datasets.values():
        dataset.failures = 0
    if config.trial is not None:
        config.trial.failures = 0
    index.aims.clear()
    index.loops_due.add(event.config)


def config_retired(state: State, index: Index, event: events.ConfigRetired) -> None:
    """A config is no longer asked for."""
    state.configs[event.config].retired = True
    index.aims.clear()
    index.loops_due.add(event.config)


def segments_made(state: State, index: Index, event: events.SegmentsMade) -> None:
    """Games came in; each segment once."""
    config = state.configs[event.config]
    games = sum(segment.games for segment in event.segments)
    for segment in event.segments:
        _expect(segment.sha256 not in config.segments, event, f"{segment.sha256} is known already")
        cpu_s = None if event.cpu_s is None else event.cpu_s * segment.games / games
        config.segments[segment.sha256] = _segment(segment, event, state.at, cpu_s)
        config.fresh_games += segment.games
    _have_come(config, event)
    index.loops_due.add(event.config)


def segments_judged(state: State, index: Index, event: events.SegmentsJudged) -> None:
    """The quality gate has looked at a window."""
    config = state.configs[event.config]
    for verdict in event.segments:
        _judge(config, verdict)
    config.fresh_games = sum(each.games for each in fresh_segments(config))
    config.lengths = event.lengths or config.lengths
    rejected: Counter[str] = Counter()
    for verdict in event.segments:
        rejected.update(_rejections(verdict))
    config.judgements.append(
        Judgement(
            at=state.at,
            job=event.job,
            offered=sum(verdict.games for verdict in event.segments),
            accepted=sum(verdict.accepted for verdict in event.segments),
            rejected=dict(rejected),
            quality=event.quality,
            bootstrap=event.bootstrap,
        )
    )
    index.loops_due.add(event.config)


def fresh_segments(config: Config) -> Iterator[Segment]:
    """Segments that came after every judged one, newest first; what slipped out of the window unjudged is not fresh."""
    return takewhile(lambda each: each.accepted is None, reversed(config.segments.values()))


def dataset_made(state: State, index: Index, event: events.DatasetMade) -> None:
    """A dataset is published; it follows the judgement it rests on."""
    config = state.configs[event.config]
    _expect(bool(config.judgements) and config.judgements[-1].job == event.job, event, "nothing was judged for it")
    config.datasets[event.dataset.sha256] = Dataset(
        ref=event.dataset,
        at=state.at,
        segments=len(event.segments),
        newest=event.segments[-1],
        judgement=config.judgements[-1],
    )
    nearness.made(state, state.jobs[event.job], event.dataset.sha256)
    index.loops_due.add(event.config)


def model_made(state: State, index: Index, event: events.ModelMade) -> None:
    """A model is published. The first of a config waits for nobody, every other for its test."""
    config = state.configs[event.config]
    model = Model(number=len(config.models), made_at=state.at, training=event.training, status=ModelStatus.CANDIDATE)
    _expect(model.sha256 not in config.models, event, "the model is known already")
    config.models[model.sha256] = model
    nearness.made(state, state.jobs[event.job], model.sha256)
    if event.training.dataset is not None:
        config.datasets[event.training.dataset].trained = True
    if config.current is not None:
        config.trial = Trial(candidate=model.sha256, against=config.current)
    index.loops_due.add(event.config)


def matches_played(state: State, index: Index, event: events.MatchesPlayed) -> None:
    """Games were played; those of the test count for it."""
    config = state.configs[event.config]
    for match in event.matches:
        config.matches.append(match)
        if not _count_for_trial(config, match):
            _count_for_ladder(config, match)
    matches.leave_out(config)
    config.unrated_why = None
    index.loops_due.add(event.config)


def config_rated(state: State, index: Index, event: events.ConfigRated) -> None:
    """Ratings were fitted."""
    config = state.configs[event.config]
    config.rated_matches, config.unrated_why = event.matches, None
    known = {name: rating for name, rating in event.ratings.items() if rating is not None}
    config.ratings = {**dict.fromkeys(event.ratings), **config.ratings, **known}
    if config.current is not None:
        player = config.evaluated_as(config.current)
        rating = config.ratings.get(player)
        if rating is not None:
            _thinned(config.rating_history).append(Rated(at=state.at, player=player, rating=rating))
    index.loops_due.add(event.config)


def rating_failed(state: State, index: Index, event: events.RatingFailed) -> None:
    """Ratings stay as they were."""
    config = state.configs[event.config]
    config.rated_matches, config.unrated_why = event.matches, event.why
    state.troubles += 1
    index.loops_due.add(event.config)


def model_promoted(state: State, index: Index, event: events.ModelPromoted) -> None:
    """The candidate is the current model."""
    config = state.configs[event.config]
    _expect(config.current == event.over, event, f"the current model is {config.current}")
    _expect(event.over is None or event.groups > 0, event, "no game was played")
    _decide(state, config, event.model, ModelStatus.PROMOTED, event.why)
    config.switches.append(Switch(at=state.at, model=event.model, why=event.why))
    config.trial = None
    index.loops_due.add(event.config)


def model_rejected(state: State, index: Index, event: events.ModelRejected) -> None:
    """The candidate goes; the current model stays."""
    config = state.configs[event.config]
    _decide(state, config, event.model, ModelStatus.REJECTED, event.why)
    config.trial = None
    index.loops_due.add(event.config)


def model_rolled_back(state: State, index: Index, event: events.ModelRolledBack) -> None:
    """An earlier model is current again; a test against the other is void."""
    config = state.configs[event.config]
    _expect(config.current == event.was, event, f"the current model is {config.current}")
    config.switches.append(Switch(at=state.at, model=event.model, why=event.why))
    left, back = config.models[event.was], config.models[event.model]
    left.status, left.decided_at, left.why = ModelStatus.ROLLED_BACK, state.at, f"rolled back: {event.why}"
    if back.status is ModelStatus.ROLLED_BACK:
        back.status, back.decided_at, back.why = ModelStatus.PROMOTED, state.at, f"rolled back to: {event.why}"
    if config.trial is not None:
        _decide(state, config, config.trial.candidate, ModelStatus.DROPPED, f"rolled back meanwhile: {event.why}")
        config.trial = None
    index.loops_due.add(event.config)


def stage_resting(state: State, index: Index, event: events.StageResting) -> None:
    """A stage rests."""
    config = state.configs[event.config]
    config.rests[event.stage] = Rest(failures=event.failures, since=state.at, until=event.until, why=event.why)
    index.rest_loop(event.config, event.until)


FOLDS: dict[type, Callable[[State, Index, Any], None]] = {
    events.ConfigDeclared: config_declared,
    events.ConfigRetired: config_retired,
    events.SegmentsMade: segments_made,
    events.SegmentsJudged: segments_judged,
    events.DatasetMade: dataset_made,
    events.ModelMade: model_made,
    events.MatchesPlayed: matches_played,
    events.ConfigRated: config_rated,
    events.RatingFailed: rating_failed,
    events.ModelPromoted: model_promoted,
    events.ModelRejected: model_rejected,
    events.ModelRolledBack: model_rolled_back,
    events.StageResting: stage_resting,
    **closing.FOLDS,
    **pausing.FOLDS,
    **spawning.FOLDS,
}


def _segment(ref: SegmentRef, made: events.SegmentsMade, at: float, cpu_s: float | None) -> Segment:
    return Segment(
        sha256=ref.sha256,
        games=ref.games,
        positions=ref.positions,
        player=made.player,
        job=made.job,
        at=at,
        cpu_s=cpu_s,
        bytes=ref.bytes,
        numbers=ref.numbers,
    )


def _have_come(config: Config, event: events.SegmentsMade) -> None:
    """What is here is awaited no more."""
    for attempt in [name for name in config.closing if events.job_of(name) == event.job]:
        told = config.closing[attempt]
        games = sum(each.games for each in told.segments.values())
        for segment in event.segments:
            told.segments.pop(segment.sha256, None)
        if not told.segments:
            del config.closing[attempt]
        elif told.cpu_s is not None:
            told.cpu_s *= sum(each.games for each in told.segments.values()) / games


def _judge(config: Config, verdict: SegmentVerdict) -> None:
    segment = config.segments[verdict.sha256]
    segment.accepted, segment.refused = verdict.accepted, verdict.refused


def _rejections(verdict: SegmentVerdict) -> Mapping[str, int]:
    """Games that did not pass, by reason; a refused segment's other games count for the reason of the whole."""
    if verdict.refused is None:
        return verdict.rejected
    rest = verdict.games - verdict.accepted - sum(verdict.rejected.values())
    return {**verdict.rejected, "refused with their segment": rest} if rest > 0 else verdict.rejected


def _count_for_trial(config: Config, match: Match) -> bool:
    trial = config.trial
    if trial is None or (match.a, match.b) != (
        config.evaluated_as(trial.candidate),
        config.evaluated_as(trial.against),
    ):
        return False
    for score in scores(match):
        trial.evidence = trial.evidence.add(score)
    return True


def _count_for_ladder(config: Config, match: Match) -> None:
    """The groups of a ladder are spent on the current model alone; those of a test that is void are on nobody."""
    if config.current is not None and match.a == config.evaluated_as(config.current):
        config.ladder_groups[match.a] = config.ladder_groups.get(match.a, 0) + len(match.groups)


def _count_failure(config: Config, job: Job, failed: bool) -> None:
    """Keep count of what fails on one dataset, and in one test, so that neither is tried for ever."""
    order, trial = stage_of(job).order, config.trial
    dataset = order.get("dataset")
    if dataset is not None:
        config.datasets[dataset["sha256"]].failures += failed
    if trial is not None and _is_test(config, trial, order):
        trial.failures = trial.failures + 1 if failed else 0


def _is_test(config: Config, trial: Trial, order: Mapping[str, Any]) -> bool:
    players = (config.evaluated_as(trial.candidate), config.evaluated_as(trial.against))
    return any((match["a"], match["b"]) == players for match in order.get("matches", ()))


def _decide(state: State, config: Config, name: str, status: ModelStatus, why: str) -> None:
    model = config.models[name]
    if model.status is not ModelStatus.CANDIDATE:
        raise IllegalTransition(f"model {name} of {config.spec.name} is {model.status} already")
    model.status, model.decided_at, model.why = status, state.at, why


def _thinned(history: list[Rated]) -> list[Rated]:
    if len(history) >= HISTORY_KEPT:
        del history[1:-1:2]
    return history


def _expect(fits: bool, event: object, why: str) -> None:
    if not fits:
        raise IllegalTransition(f"{event} does not fit: {why}")
