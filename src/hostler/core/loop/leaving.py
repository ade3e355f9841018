"""Segments leave the state with the jobs that made them, once no stage of their loop can come to look at them.

The journal and the catalogue of artifacts keep what they were; here sums stay (`played`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice, takewhile

from hostler.core.loop import played
from hostler.core.loop.folds import fresh_segments
from hostler.core.loop.stages import WINDOW_SEGMENTS
from hostler.core.loop.state import Config, Segment
from hostler.core.state import Job, State
from hostler.model.work import StagePayload, WorkKind

PLAYING = frozenset({WorkKind.SELFPLAY, WorkKind.EVALUATION})
"""Whose games become segments."""
UNTRAINED = 10 * WINDOW_SEGMENTS
"""Segments that no training has had, of which not even the longest training would want more."""


def needed(state: State) -> set[str]:
    """Jobs whose segments a stage may still be ordered to look at, or be counted by."""
    return {segment.job for config in state.configs.values() for segment in _needed(state, config)}


def leave(state: State, jobs: Collection[Job]) -> None:
    """These jobs have left, and what they made does, too."""
    left = {
        job.id: job.spec.payload.config
        for job in jobs
        if job.spec.work in PLAYING and isinstance(job.spec.payload, StagePayload)
    }
    for name in set(left.values()):
        config = state.configs[name]
        gone = [each for each in config.segments.values() if each.job in left]
        for each in gone:
            del config.segments[each.sha256]
        played.keep_sums(config, gone)
        config.fresh_games = sum(each.games for each in fresh_segments(config))


def _needed(state: State, config: Config) -> Iterator[Segment]:
    promising = (each for each in reversed(config.segments.values()) if each.refused is None)
    yield from islice(promising, WINDOW_SEGMENTS)
    yield from _untrained(config)
    yield from played.lately(config, state.at)
    for name in config.jobs:
        yield from _ordered(config, state.jobs[name])


def _untrained(config: Config) -> Iterator[Segment]:
    """Those that no training has had, and the last ones of datasets: by those, what was trained is told apart."""
    last_trained = None
    for dataset in reversed(config.datasets.values()):
        if dataset.newest in config.segments:
            yield config.segments[dataset.newest]
        if dataset.trained:
            last_trained = dataset.newest
            break
    newest = islice(reversed(config.segments.values()), UNTRAINED)
    yield from takewhile(lambda each: each.sha256 != last_trained, newest)


def _ordered(config: Config, job: Job) -> Iterator[Segment]:
    """What an export that is not over was told to choose from."""
    payload = job.spec.payload
    if job.spec.work is WorkKind.EXPORT and isinstance(payload, StagePayload):
        named = (config.segments.get(each["sha256"]) for each in payload.order["segments"])
        yield from (each for each in named if each is not None)
