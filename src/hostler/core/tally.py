"""What has happened, counted: since counting began, and by steps of the last day for rates.

Part of the state, and folded like all of it: a restart loses no count, and a replay counts the same again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from hostler.core.loop.state import RECORDED
from hostler.model import events
from hostler.model.record import entity, record
from hostler.model.work import FailureClass

if TYPE_CHECKING:
    from hostler.core.state import Job, State

    Note: TypeAlias = Callable[[State, Any], None]

STEP_S = 300.0
KEPT_S = 86_400.0
"""For how long steps are kept."""
LEAST_SPAN_S = 60.0
"""A rate is not told of less time than this."""

ATTEMPTS, CHUNKS, ITEMS, HITS = "attempts", "chunks", "items", "hits"
GAMES, DATASETS, MODELS, PROMOTIONS, REJECTIONS = "games", "datasets", "models", "promotions", "rejections"
DONE, CANCELLED, YIELDED, CALLED_BACK = "done", "cancelled", "yielded", "called_back"
"""Outcomes of attempts beside the classes of failures."""
OUTCOMES = (DONE, CANCELLED, YIELDED, CALLED_BACK, *(each.value for each in FailureClass))
SEARCHED, TAKEN, RETURNED, FAILED = "done", "taken", "returned", "failed"
"""Outcomes of chunks: given back in good order is `returned`, by a worker that failed `failed`."""


@entity
class Step:
    """What happened in one step of time."""

    begins: float
    counts: dict[str, int] = field(default_factory=dict)


@entity
class Tally:
    """Names of counts are words: what, and of whom. `since` is when counting began; `None`: nothing was counted."""

    since: float | None = None
    totals: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    """Oldest first."""
    node_games: dict[str, int] = field(default_factory=dict)
    """Games of self-play by node; only in all, there may be a thousand nodes."""


@record
class Window:
    """What happened of late; `span_s` is `None` while there is too little time to tell a rate of."""

    counts: Counter[str]
    span_s: float | None

    def per_h(self, *names: str) -> float | None:
        """How often in an hour; of a name that ends in a blank, everything that begins so."""
        if self.span_s is None:
            return None
        return self.count(*names) * 3600 / self.span_s

    def count(self, *names: str) -> int:
        """How often in the window."""
        return sum(times for each, times in self.counts.items() if _is_of(each, names))


def window(tally: Tally, now: float, last_s: float) -> Window:
    """What happened within about the last `last_s`, to whole steps, or since counting began."""
    first = _floor(now - last_s)
    counts: Counter[str] = Counter()
    for step in reversed(tally.steps):
        if step.begins < first:
            break
        counts.update(step.counts)
    span_s = 0.0 if tally.since is None else now - max(first, tally.since)
    return Window(counts=counts, span_s=span_s if span_s >= LEAST_SPAN_S else None)


def below(tally: Tally, beginning: str, expected: Iterable[str] = ()) -> dict[str, int]:
    """All totals whose names begin so, by what comes after it; of what is `expected`, those that are 0, too."""
    return dict.fromkeys(expected, 0) | {
        name.removeprefix(beginning): times for name, times in tally.totals.items() if name.startswith(beginning)
    }


def note(state: State, event: events.Event) -> None:
    """Count an event that is about to be folded, while an attempt still has its devices."""
    if state.tally.since is None:
        state.tally.since = state.at
    count = NOTES.get(type(event))
    if count is not None:
        count(state, event)


def _job_done(state: State, event: events.JobDone) -> None:
    _over(state, state.jobs[event.job], DONE)


def _job_requeued(state: State, event: events.JobRequeued) -> None:
    job = state.jobs[event.job]
    asked = job.attempt is not None and job.attempt.yielding is not None
    _over(state, job, event.failure or (YIELDED if asked else CALLED_BACK))


def _job_failed(state: State, event: events.JobFailed) -> None:
    _over(state, state.jobs[event.job], event.failure)


def _job_cancelled(state: State, event: events.JobCancelled) -> None:
    _over(state, state.jobs[event.job], CANCELLED)


def _over(state: State, job: Job, outcome: str) -> None:
    if job.attempt is not None:
        _add(state, f"{ATTEMPTS} {job.spec.work} {outcome}", 1)


def _chunk_done(state: State, event: events.ChunkDone) -> None:
    start, stop = _lent(state, event.chunk)
    _searched(state, SEARCHED, stop - start, len(event.hits))


def _chunk_taken(state: State, event: events.ChunkTaken) -> None:
    _searched(state, TAKEN, event.position - _lent(state, event.chunk)[0], len(event.hits))


def _chunk_returned(state: State, event: events.ChunkReturned) -> None:
    outcome = FAILED if event.blame else RETURNED
    _searched(state, outcome, event.position - _lent(state, event.chunk)[0], len(event.hits))


def _lent(state: State, chunk: str) -> tuple[int, int]:
    return state.sweeps[events.job_of(chunk)].ledger.leased[chunk]


def _searched(state: State, outcome: str, items: int, hits: int) -> None:
    _add(state, f"{CHUNKS} {outcome}", 1)
    _add(state, ITEMS, items)
    _add(state, HITS, hits)


def _segments_made(state: State, event: events.SegmentsMade) -> None:
    if event.player == RECORDED:
        return
    games = sum(segment.games for segment in event.segments)
    _add(state, f"{GAMES} {event.config}", games)
    device = state.jobs[event.job].last_device
    if device is not None:
        node = state.devices[device].spec.node
        state.tally.node_games[node] = state.tally.node_games.get(node, 0) + games


def _of_config(what: str) -> Note:
    def count(state: State, event: Any) -> None:
        _add(state, f"{what} {event.config}", 1)

    return count


NOTES: dict[type, Note] = {
    events.JobDone: _job_done,
    events.JobRequeued: _job_requeued,
    events.JobFailed: _job_failed,
    events.JobCancelled: _job_cancelled,
    events.ChunkDone: _chunk_done,
    events.ChunkTaken: _chunk_taken,
    events.ChunkReturned: _chunk_returned,
    events.SegmentsMade: _segments_made,
    events.DatasetMade: _of_config(DATASETS),
    events.ModelMade: _of_config(MODELS),
    events.ModelPromoted: _of_config(PROMOTIONS),
    events.ModelRejected: _of_config(REJECTIONS),
}


def _add(state: State, name: str, times: int) -> None:
    if not times:
        return
    tally, begins = state.tally, _floor(state.at)
    tally.totals[name] = tally.totals.get(name, 0) + times
    if not tally.steps or tally.steps[-1].begins < begins:
        tally.steps.append(Step(begins=begins))
        while tally.steps[0].begins < begins - KEPT_S:
            del tally.steps[0]
    counts = tally.steps[-1].counts
    counts[name] = counts.get(name, 0) + times


def _floor(at: float) -> float:
    return at // STEP_S * STEP_S


def _is_of(name: str, wanted: tuple[str, ...]) -> bool:
    return any(name.startswith(each) if each.endswith(" ") else name == each for each in wanted)
