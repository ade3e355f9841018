"""What somebody may ask of a loop: a pause, the end of one, one more job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hostler.core.index import Index
from hostler.core.loop import pausing, spawning
from hostler.core.loop.decide import over, refused_generator, standing
from hostler.core.loop.intake import find_config
from hostler.core.loop.stages import WINDOW_SEGMENTS
from hostler.core.loop.state import Config, Spawned
from hostler.core.state import State
from hostler.model import events, inputs
from hostler.model.codec import record_fault
from hostler.model.errors import Conflict, NotFound, SpecError
from hostler.model.events import Event
from hostler.model.work import JOB_ID, StagePayload, WorkKind

Emit: TypeAlias = Callable[[Event], None]

SOMEBODY = "operator"
PAUSE_S = 86_400.0
PAUSE_LEAST_S, PAUSE_MOST_S = 1.0, 30 * 86_400.0
STAGES = (WorkKind.SELFPLAY, WorkKind.TRAINING, WorkKind.EVALUATION, WorkKind.EXPORT)


def pause(state: State, index: Index, given: inputs.PauseConfig, emit: Emit) -> None:
    """Order nothing new for a config until its time is over; once more replaces reason and time.

    Raises `NotFound`, and `SpecError` for a pause without a reason or of more than `PAUSE_MOST_S`.
    """
    config = find_config(state, given.config)
    _check_record(given, f"the training config {given.config} cannot be paused so")
    if not given.why.strip():
        raise SpecError(f"why should {given.config} be paused? Whoever finds it paused will ask")
    for_s = PAUSE_S if given.for_s is None else given.for_s
    if for_s < PAUSE_LEAST_S:
        raise SpecError(f"{given.config} cannot be paused so: {for_s:g} s are no time; a second is the least")
    if for_s > PAUSE_MOST_S:
        raise SpecError(
            f"{given.config} can be paused for {PAUSE_MOST_S:.0f} s at most, {for_s:.0f} s were asked for; "
            "one that is not wanted any more is taken out of the fleet file"
        )
    if config.retired:
        raise Conflict(f"{given.config} is retired: nothing is ordered for it anyway")
    until = index.now + for_s
    emit(events.ConfigPaused(config=given.config, who=given.who or SOMEBODY, why=given.why, until=until))


def resume(state: State, index: Index, given: inputs.ResumeConfig, emit: Emit) -> None:
    """Order for a config again; of one that is not paused, nothing is to be done. Raises `NotFound`."""
    if find_config(state, given.config).paused is not None:
        emit(events.ConfigResumed(config=given.config, who=given.who or SOMEBODY))


def spawn(state: State, index: Index, given: inputs.Spawn, emit: Emit) -> str:
    """Order one more job of a stage of a config; returns its id, under a key that is known that of the first.

    Raises `NotFound`, `SpecError` for what can never be ordered, and `Conflict` where it cannot be now.
    """
    config = find_config(state, given.config)
    _check_record(given, f"nothing of {given.config} can be ordered so")
    _check_order(config, given)
    for name in given.nodes:
        if name not in state.nodes:
            raise NotFound(f"there is no node {name!r} in the fleet; `hostler node list` lists them")
    known = None if given.key is None else state.keys.get(given.key)
    if known is not None:
        _check_same(state, given, known)
        return known
    _check_wanted(state, index, config, given.stage)
    asked = Spawned(who=given.who or SOMEBODY, why=given.why or "no reason was given", games=given.games)
    return spawning.order(state, config, given.stage, asked, index.now, emit, given.key, given.nodes)


def _check_record(given: inputs.PauseConfig | inputs.Spawn, what: str) -> None:
    fault = record_fault(given)
    if fault is not None:
        raise SpecError(f"{what}: {fault}")


def _check_order(config: Config, given: inputs.Spawn) -> None:
    if given.stage not in STAGES:
        raise SpecError(f"{given.stage} is no stage of a loop; there are {', '.join(STAGES)}")
    if given.key is not None and JOB_ID.fullmatch(given.key):
        raise SpecError(f"the key {given.key!r} looks like an id; give it another key")
    if given.games is None:
        return
    most = WINDOW_SEGMENTS * config.spec.selfplay.segment_games
    if given.stage is not WorkKind.SELFPLAY:
        raise SpecError(f"games are asked of self-play, not of {given.stage}")
    if not 1 <= given.games <= most:
        raise SpecError(f"{given.games} games: a job of {given.config} plays 1 to {most}, as many as a window may hold")


def _check_same(state: State, given: inputs.Spawn, known: str) -> None:
    spec = state.jobs[known].spec
    payload = spec.payload
    same = isinstance(payload, StagePayload) and (payload.config, spec.work) == (given.config, given.stage)
    if not same or (given.games is not None and payload.order["games"] != given.games):  # type: ignore[union-attr]
        raise Conflict(f"the key {given.key!r} belongs to {known}, which is another job; choose another key")
    if given.nodes and spec.resources.nodes != given.nodes:
        raise Conflict(f"the key {given.key!r} belongs to {known}, which may run on other nodes; choose another key")


def _check_wanted(state: State, index: Index, config: Config, stage: WorkKind) -> None:
    name = config.spec.name
    ended = over(config)
    if ended is not None:
        raise Conflict(f"{name} is over, nothing is ordered for it: {', '.join(ended)}")
    if config.paused is not None:
        words = pausing.words(config.paused, index.now)
        raise Conflict(f"{name} is {words}; end that first with `hostler train resume {name}`")
    if len(config.spawned) >= spawning.SPAWNED_MOST:
        raise Conflict(
            f"{len(config.spawned)} jobs of {name} are there that were asked for, the most there may be; "
            "wait for some of them to end, or cancel one"
        )
    lacking = _lacking(config, stage, index.now)
    if lacking is not None:
        raise Conflict(f"no {stage} of {name} can be ordered now: {lacking}")


def _lacking(config: Config, stage: WorkKind, now: float) -> str | None:
    """Why a job of the stage would come to nothing; `None` where it would do something."""
    stands = standing(config, now)
    if stage is not WorkKind.SELFPLAY and stands.jobs.get(stage):
        return "there is one already, and there is never more than one"
    if not stands.has_model and stage is not WorkKind.TRAINING:
        return "there is no model yet"
    match stage:
        case WorkKind.SELFPLAY:
            return refused_generator(config)
        case WorkKind.TRAINING if stands.has_model and (stands.candidate is not None or not stands.steps):
            return "a candidate is being tested" if stands.candidate else "no dataset waits that it could be taken of"
        case WorkKind.EXPORT if stands.promising_games < stands.min_games:
            return f"{stands.promising_games} games may be good enough, a dataset wants {stands.min_games}"
        case WorkKind.EVALUATION if stands.candidate is None and not config.spec.game.anchors:
            return "there is no candidate to test, and no anchor to rate the current model against"
    return None
