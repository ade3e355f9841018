"""From what stages and settings tell to facts of the loops."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from hostler.core.index import Index
from hostler.core.loop import closing, results
from hostler.core.loop.decide import call_off_stale, call_off_waiting, drop_unplayable, hopeless_stage, judge_trial
from hostler.core.loop.stages import WINDOW_SEGMENTS
from hostler.core.loop.state import RECORDED, Config
from hostler.core.state import Job, State, stage_of
from hostler.model import events, inputs
from hostler.model.codec import record_fault
from hostler.model.errors import Conflict, NotFound, SpecError
from hostler.model.events import Event
from hostler.model.learning import (
    ConfigSpec,
    EvaluationResult,
    ExportResult,
    ModelStatus,
    SegmentRef,
    SelfplayResult,
    TrainingResult,
)
from hostler.model.work import FailureClass, WorkKind

Emit: TypeAlias = Callable[[Event], None]
Failure: TypeAlias = tuple[FailureClass, str]

REST_S = 30.0
REST_DOUBLINGS = 7
REST_MAX_S = 3600.0
CANCELLED_REST_S = 300.0


def declare(state: State, index: Index, given: inputs.Declare, emit: Emit) -> None:
    """Bring the configs to what the settings say.

    A config that was given up because of a stage that failed is tried again. Raises `Conflict` where a known name means
    another game now, and `SpecError` for a config that could never work.
    """
    _refuse_doubles(given)
    for spec in given.configs:
        _refuse_nonsense(spec)
        _refuse_other_game(state, spec)
    for spec in given.configs:
        known = state.configs.get(spec.name)
        if known is None or known.spec != spec or known.retired or hopeless_stage(known) is not None:
            emit(events.ConfigDeclared(config=spec.name, spec=spec))
            _begin_anew(state, state.configs[spec.name], emit)
    asked = {spec.name for spec in given.configs}
    for name, config in state.configs.items():
        if name not in asked and not config.retired:
            emit(events.ConfigRetired(config=name))


def fitted(state: State, index: Index, given: inputs.Fitted, emit: Emit) -> None:
    """Ratings came back; those of fewer matches than the newest known come too late.

    So does a failure where there are more matches by now: another fit is under way.
    """
    config = find_config(state, given.config)
    newest = config.played
    missing = config.rated_matches < given.matches or (config.unrated_why is not None and given.matches == newest)
    if not missing or given.matches > newest or (given.error is not None and given.matches < newest):
        return
    if given.error is not None:
        emit(events.RatingFailed(config=given.config, matches=given.matches, why=given.error))
        return
    emit(events.ConfigRated(config=given.config, matches=given.matches, ratings=given.ratings))


def roll_back(state: State, index: Index, given: inputs.RollBack, emit: Emit) -> str:
    """Make an earlier model current; returns its SHA-256."""
    config = find_config(state, given.config)
    if config.current is None:
        raise Conflict(f"{given.config} has no model yet; there is nothing to roll back to")
    model = _before(config) if given.model is None else _find_model(config, given.model)
    if model == config.current:
        raise Conflict(f"{model[:12]} is the current model of {given.config} already")
    emit(events.ModelRolledBack(config=given.config, model=model, was=config.current, why=given.why))
    call_off_stale(state, config, emit)
    return model


def find_config(state: State, name: str) -> Config:
    """The config of this name. Raises `NotFound` naming those there are."""
    config = state.configs.get(name)
    if config is None:
        known = ", ".join(sorted(state.configs)) or "none; `configs:` in the fleet file makes some"
        raise NotFound(f"there is no training config {name!r} (there are: {known})")
    return config


def stage_failure(state: State, job: Job, failure: Failure | None, result: Any) -> Failure | None:
    """What became of a stage's attempt, its contract included; `failure` is what its process and node say."""
    complaint = results.complaint(result)
    if failure is not None:
        class_, why = failure
        if class_ is FailureClass.EXIT and complaint is not None:
            return FailureClass.RESULT, complaint
        return class_, why if complaint is None else f"{why}: {complaint}"
    payload = stage_of(job)
    read = results.read(payload.kind, result)
    if isinstance(read, str):
        return FailureClass.RESULT, read
    config = state.configs[payload.config]
    broken = complaint or results.fault(config, job.id, payload, read) or closing.played_again(config, job, read)
    return None if broken is None else (FailureClass.RESULT, broken)


def salvage(state: State, job: Job, ended: inputs.Ended, emit: Emit) -> None:
    """Of an attempt that came to nothing: segments closed before its end are games, and a judgement stands.

    A stage that says it was done, and was not, is believed nothing; but an export that found nothing new did its work.
    """
    payload = stage_of(job)
    config, read = state.configs[payload.config], results.read(payload.kind, ended.result)
    done = ended.exit_code == 0 and ended.reason is None
    match read:
        case SelfplayResult() if not done and results.partial_fault(config, job.id, payload.order, read) is None:
            _tell_segments(state, job, read, emit)
        case ExportResult() if (not done or results.is_known(config, read)) and results.judged(payload.order, read):
            _tell_judgement(job, read, emit)


def accept(state: State, job: Job, result: Any, emit: Emit) -> dict[str, Any]:
    """Turn a result that keeps its contract into facts; returns what stays with the job."""
    read = results.read(stage_of(job).kind, result)
    assert not isinstance(read, str), "it was checked before"
    return dict(ACCEPTS[type(read)](state, job, read, emit))


def after_done(state: State, job: Job, emit: Emit) -> None:
    """What is decided once a stage is done."""
    payload = stage_of(job)
    config = state.configs[payload.config]
    if job.spec.work is WorkKind.TRAINING and config.current is None:
        _take_first_model(config, emit)
    if job.spec.work is WorkKind.EVALUATION:
        judge_trial(state, config, emit)


def after_failed(state: State, index: Index, job: Job, why: str, emit: Emit) -> None:
    """A stage's job is given up: its stage rests, longer each time, and then tries again with another order.

    What was ordered before the rest began is no further failure in a row: it may have the same cause.
    """
    payload = stage_of(job)
    stage, config = WorkKind(payload.kind), state.configs[payload.config]
    known = config.rests.get(stage)
    if known is not None and known.failures and job.submitted_at <= known.since:
        return
    failures = 1 if known is None else known.failures + 1
    rest_s = min(REST_S * 2.0 ** min(failures - 1, REST_DOUBLINGS), REST_MAX_S)
    until = max(index.now + rest_s, 0.0 if known is None else known.until)
    emit(events.StageResting(config=payload.config, stage=stage, failures=failures, until=until, why=why))
    drop_unplayable(state, config, why, emit)


def after_cancelled(state: State, index: Index, job: Job, emit: Emit) -> None:
    """Somebody cancelled a job: without a rest the loop would queue the same again at once. A longer one stays."""
    payload = stage_of(job)
    stage = WorkKind(payload.kind)
    known = state.configs[payload.config].rests.get(stage)
    failures = 0 if known is None else known.failures
    until = max(index.now + CANCELLED_REST_S, 0.0 if known is None else known.until)
    why = f"{job.id} was cancelled: {job.cancelling}"
    emit(events.StageResting(config=payload.config, stage=stage, failures=failures, until=until, why=why))


def _refuse_doubles(given: inputs.Declare) -> None:
    twice = [name for name, count in Counter(spec.name for spec in given.configs).items() if count > 1]
    if twice:
        raise SpecError(f"the training config {min(twice)} is described twice; give one of them another name")


def _refuse_nonsense(spec: ConfigSpec) -> None:
    """What the field types cannot say, whoever declares it."""
    fault = record_fault(spec)
    if fault is not None:
        raise SpecError(f"training config {spec.name}: it could not be read back from the journal: {fault}")
    test, (least, most) = spec.promotion, spec.training.reuse
    ordered = {
        "promotion: elo0 must be below elo1": test.elo0 < test.elo1,
        "promotion: min_groups must not be above max_groups": test.min_groups <= test.max_groups,
        "training: reuse has its least above its most": least <= most,
        "export: min_games must not be above window_games": spec.export.min_games <= spec.export.window_games,
        f"export: min_games: {spec.export.min_games} games are more than the {WINDOW_SEGMENTS} segments of a window "
        "hold; raise segment_games of self-play": spec.export.min_games <= WINDOW_SEGMENTS * _games_per_segment(spec),
    }
    for what, fits in ordered.items():
        if not fits:
            raise SpecError(f"training config {spec.name}: {what}")


def _games_per_segment(spec: ConfigSpec) -> float:
    """On the average: the last segment of a job may hold fewer."""
    games, segment_games = spec.selfplay.games, spec.selfplay.segment_games
    return games / math.ceil(games / segment_games)


def _begin_anew(state: State, config: Config, emit: Emit) -> None:
    """Other settings make other orders, and may decide a test."""
    call_off_waiting(state, config, "the settings of its training config have changed", emit)
    judge_trial(state, config, emit)


def _refuse_other_game(state: State, spec: ConfigSpec) -> None:
    known = state.configs.get(spec.name)
    if known is None:
        return
    before, now = known.spec.game, spec.game
    if (before.factory, before.params, before.players) != (now.factory, now.params, now.players):
        raise Conflict(
            f"the training config {spec.name} was of another game before ({before.factory} {dict(before.params)}); "
            "its games and models would not fit: give the new one another name"
        )


def _before(config: Config) -> str:
    for switch in reversed(config.switches):
        if switch.model != config.current:
            return switch.model
    raise Conflict(f"{config.spec.name} has had no other model than {config.current}")


def _find_model(config: Config, wrote: str) -> str:
    """The model whose name begins so, if it was ever fit to be current."""
    found = [name for name in config.models if name.startswith(wrote)]
    if len(found) != 1:
        known = ", ".join(name[:12] for name in config.models)
        what = "more than one model begins" if found else "no model begins"
        raise NotFound(f"{what} with {wrote!r} in {config.spec.name} (there are: {known})")
    status = config.models[found[0]].status
    if status not in (ModelStatus.PROMOTED, ModelStatus.ROLLED_BACK):
        raise Conflict(f"{found[0][:12]} is {status}; only a promoted model can be current")
    return found[0]


def _accept_selfplay(state: State, job: Job, result: SelfplayResult, emit: Emit) -> Iterable[tuple[str, Any]]:
    _tell_segments(state, job, result, emit)
    return {"segments": len(result.segments), "games": result.games, "positions": result.positions}.items()


def _accept_export(state: State, job: Job, result: ExportResult, emit: Emit) -> Iterable[tuple[str, Any]]:
    assert result.dataset is not None
    _tell_judgement(job, result, emit)
    payload = stage_of(job)
    config, names = payload.config, tuple(segment["sha256"] for segment in payload.order["segments"])
    emit(events.DatasetMade(config=config, job=job.id, dataset=result.dataset, segments=names, unread=True))
    return {"dataset": result.dataset.sha256, "games": result.dataset.games}.items()


def _accept_training(state: State, job: Job, result: TrainingResult, emit: Emit) -> Iterable[tuple[str, Any]]:
    emit(events.ModelMade(config=stage_of(job).config, job=job.id, training=result, unread=True))
    return {"model": result.model.sha256, "steps": result.steps}.items()


def _accept_evaluation(state: State, job: Job, result: EvaluationResult, emit: Emit) -> Iterable[tuple[str, Any]]:
    config = stage_of(job).config
    if result.segments:
        _emit_segments(state, job, RECORDED, result.segments, result.cpu_s, emit)
    emit(events.MatchesPlayed(config=config, job=job.id, matches=result.matches))
    return {"matches": len(result.matches), "games": result.games}.items()


ACCEPTS: dict[type[Any], Callable[[State, Job, Any, Emit], Iterable[tuple[str, Any]]]] = {
    SelfplayResult: _accept_selfplay,
    ExportResult: _accept_export,
    TrainingResult: _accept_training,
    EvaluationResult: _accept_evaluation,
}


def _tell_segments(state: State, job: Job, result: SelfplayResult, emit: Emit) -> None:
    player = str(stage_of(job).order["player"])
    _emit_segments(state, job, player, result.segments, result.cpu_s, emit)


def _emit_segments(
    state: State, job: Job, player: str, segments: tuple[SegmentRef, ...], cpu_s: float | None, emit: Emit
) -> None:
    """Each segment once: what a first life had closed, its second tells again, and the processor time of both."""
    config = stage_of(job).config
    known = state.configs[config].segments
    fresh = tuple(segment for segment in segments if segment.sha256 not in known)
    if not fresh:
        return
    if cpu_s is not None:
        cpu_s *= _games(fresh) / _games(segments)
    emit(events.SegmentsMade(config=config, job=job.id, player=player, segments=fresh, cpu_s=cpu_s, unread=True))


def _games(segments: Iterable[SegmentRef]) -> int:
    return sum(segment.games for segment in segments)


def _tell_judgement(job: Job, result: ExportResult, emit: Emit) -> None:
    emit(
        events.SegmentsJudged(
            config=stage_of(job).config,
            job=job.id,
            segments=result.segments,
            quality=result.quality,
            lengths=result.lengths,
            bootstrap=result.bootstrap,
        )
    )


def _take_first_model(config: Config, emit: Emit) -> None:
    """The untrained model is current because there is none to test it against, and is said to be so."""
    (first,) = [model for model in config.models.values() if model.status is ModelStatus.CANDIDATE]
    why = "generation 0, untrained: made from the seed, there was no model before"
    emit(events.ModelPromoted(config=config.spec.name, model=first.sha256, over=None, groups=0, llr=None, why=why))
