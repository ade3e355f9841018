"""What must always be true of the loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from hostler.core.loop import pausing, spawning
from hostler.core.loop.folds import fresh_segments
from hostler.core.loop.state import Config
from hostler.core.state import Job, State
from hostler.model.learning import ModelStatus
from hostler.model.work import StagePayload, WorkKind


def loop_faults(state: State, jobs: Collection[Job], known: Counter[str]) -> Iterator[str]:
    """Everything that is wrong with the loops, in words.

    `known` has what each config had when its segments and models were looked at before; it is brought up to date.
    """
    alive = {
        job.id: (job.spec.payload.config, job.spec.work)
        for job in jobs
        if isinstance(job.spec.payload, StagePayload) and not job.state.final
    }
    told = {name: (config.spec.name, stage) for config in state.configs.values() for name, stage in config.jobs.items()}
    if alive != told:
        yield f"jobs of loops are {alive}, the configs say {told}"
    for config in state.configs.values():
        asked = (*pausing.faults(state, config), *spawning.faults(config))
        faults = (*_closing(state, config), *_jobs(config), *_games(config), *asked)
        yield from (f"{config.spec.name}: {fault}" for fault in faults)
        yield from (f"{config.spec.name}: {fault}" for fault in _changed_models(config, known))
        if known[config.spec.name] != len(config.judgements) + 1:
            yield from (f"{config.spec.name}: {fault}" for fault in _segments(config))
            known[config.spec.name] = len(config.judgements) + 1


def _closing(state: State, config: Config) -> Iterator[str]:
    """Only what runs has anything that is still to come, and nothing comes twice."""
    for attempt, told in config.closing.items():
        job = state.jobs.get(attempt.rpartition(".")[0])
        if job is None or job.attempt is None or job.attempt.id != attempt:
            yield f"segments of {attempt} are waited for, which is over"
        if twice := sorted(told.segments.keys() & config.segments.keys()):
            yield f"segments are here, and waited for: {', '.join(twice)}"


def _jobs(config: Config) -> Iterator[str]:
    twice = [
        stage for stage, count in Counter(config.jobs.values()).items() if count > 1 and stage is not WorkKind.SELFPLAY
    ]
    if twice:
        yield f"more than one job at once of {twice}"


def _changed_models(config: Config, known: Counter[str]) -> Iterator[str]:
    """What is wrong with models, of which there may be thousands, where one has come or was decided on."""
    key, mark = f"{config.spec.name} models", 1 + 2 * (len(config.models) + len(config.switches)) + bool(config.trial)
    if known[key] != mark:
        yield from _models(config)
        known[key] = mark


def _models(config: Config) -> Iterator[str]:
    open_ = [name for name, model in config.models.items() if model.status is ModelStatus.CANDIDATE]
    if open_ != ([] if config.trial is None else [config.trial.candidate]):
        yield f"candidates are {open_}, the test is of {config.trial}"
    if config.trial is not None and config.trial.against != config.current:
        yield f"the candidate is tested against {config.trial.against}, current is {config.current}"
    if config.current is not None and config.models[config.current].status is not ModelStatus.PROMOTED:
        yield f"the current model is {config.models[config.current].status}"
    for model in config.models.values():
        dataset, base = model.training.dataset, model.training.base
        if (model.number == 0) != (base is None) or (base is not None and base not in config.models):
            yield f"model {model.sha256} (number {model.number}) comes from {base}"
        if dataset is not None and dataset not in config.datasets:
            yield f"model {model.sha256} was trained on {dataset}, which nobody made"


def _games(config: Config) -> Iterator[str]:
    fresh = sum(segment.games for segment in fresh_segments(config))
    if fresh != config.fresh_games:
        yield f"fresh games are {config.fresh_games}, should be {fresh}"
    if config.rated_matches > config.played:
        yield f"rated by {config.rated_matches} matches of {config.played}"


def _segments(config: Config) -> Iterator[str]:
    """Only a judgement changes what of a segment is accepted."""
    too_many = [each.sha256 for each in config.segments.values() if (each.accepted or 0) > each.games]
    if too_many:
        yield f"more games accepted than played of {too_many}"
