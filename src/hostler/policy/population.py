"""What should be queued? Which stages of one training config's loop should run next, and which kind of work.

The order of need: a model to begin with; the verdict on a candidate; training on what is there; a dataset of what was
played; a rating for the current model; and self-play with all that is left. A stage that rests is passed over. Once
a config is as strong as it is meant to be, it goes on with one job now and then: a trickle of exploration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from hostler.model.record import record
from hostler.model.work import WorkKind

EXPLORATION_SHARE = 0.05
"""Of a device's time, for a config that has reached its Elo target."""
EXPLORING = (WorkKind.TRAINING, WorkKind.EXPORT, WorkKind.SELFPLAY)
"""The stages that are done but now and then once the target is met; verdicts and ratings are always wanted."""
ROUNDING = 1e-12
"""A kind whose share of the queue is this close to what it has is not below it: 0.1 · 10 is 1."""


@record
class Standing:
    """Where a config stands, in numbers. `waiting` and `running` count its jobs by stage."""

    has_model: bool
    candidate: str | None
    test_groups: int
    dataset_waits: bool
    """Whether there is a dataset that no training has used, or failed on too often."""
    steps: int
    """What training may take of it; 0 where that does not do for all of its positions."""
    fresh_games: int
    promising_games: int
    """Games of the window that were accepted or not judged yet."""
    fresh_needed: int
    min_games: int
    rating: str | None
    """Why the current model should be rated better; `None` where it is rated well enough, or as well as can be."""
    ahead: str | None
    """Why self-play should wait; see `pacing`."""
    refused_generator: str | None
    """Why games of self-play would all be refused, whoever plays them now; they are not worth a device then."""
    finishing: bool
    """Whether its goal needs no more promotions: the current model is rated, and that is all."""
    jobs: Mapping[WorkKind, int]
    resting: Mapping[WorkKind, str]
    target_met: bool = False
    """Whether its current model is as strong as it is meant to be; see `target_reached`."""
    trickle: bool = False
    """Whether a job of exploration is due once the target is met; see `trickle_due`."""


@record
class Want:
    """A job that should be queued, and why."""

    stage: WorkKind
    why: str


def wanted(standing: Standing) -> list[Want]:
    """The jobs to queue now, most needed first; self-play, of which there may be many, at most once.

    Once the target is met, one job of exploration at most, and self-play means a single job too.
    """
    wants = [want for want in _needs(standing) if want.stage not in standing.resting and _has_room(standing, want)]
    if not standing.target_met or not standing.has_model:
        return wants
    exploring = [want for want in wants if want.stage in EXPLORING]
    explores = standing.trickle and not any(standing.jobs.get(stage, 0) for stage in EXPLORING)
    return [want for want in wants if want not in exploring] + (exploring[:1] if explores else [])


def waits(standing: Standing) -> str:
    """What the config is waiting for, in words."""
    needs = list(_needs(standing))
    if needs:
        first = needs[0]
        if standing.target_met and not standing.trickle and first.stage in EXPLORING and standing.has_model:
            return "the Elo target is met: the next job of exploration is not due yet"
        rest = standing.resting.get(first.stage)
        return f"{first.stage}: {first.why}" + ("" if rest is None else f"; resting: {rest}")
    return standing.refused_generator or standing.ahead or "nothing"


def is_stuck(standing: Standing) -> bool:
    """Whether only games could help, and these would all be refused: nothing runs, and nothing will."""
    if standing.target_met:
        return False
    return standing.refused_generator is not None and not any(standing.jobs.values()) and not list(_needs(standing))


def target_reached(elo_low: float | None, target_elo: float | None) -> bool:
    """Whether a config is as strong as it is meant to be: the low end of the current model's interval says so.

    Not its best rating ever, and not the middle of one: both are reached by chance. Without a rating, or a target: no.
    """
    return elo_low is not None and target_elo is not None and elo_low >= target_elo


def trickle_due(last_s: float | None, share: float, turn_s: float) -> bool:
    """Whether a job of exploration that takes `turn_s` is due, so that these get `share` of a device's time.

    `last_s`: how long ago the last one was queued; `None`: there was none. Without a share none is ever due.
    """
    if share <= 0:
        return False
    return last_s is None or last_s >= turn_s / share


def mix(counts: Mapping[WorkKind, int], shares: Mapping[WorkKind, float]) -> WorkKind:
    """The kind of job to queue next, so that the queue keeps to the shares as it stands.

    `counts` is what really waits and runs, all of it; kinds without a share do not count. Of the kinds that would be
    below their share of one job more, the one whose next job is due first: counts that came about so differ from
    `share · n` by less than 1 for every n (the quota method, Balinski & Young 1975). Nothing is rounded.
    ValueError: no kind has a share.
    """
    whole = math.fsum(share for share in shares.values() if share > 0)
    if whole <= 0:
        raise ValueError("no kind of work has a share of the queue")
    parts = {kind: share / whole for kind, share in shares.items() if share > 0}
    after = 1 + sum(counts.get(kind, 0) for kind in parts)
    lack = {kind: parts[kind] * after - counts.get(kind, 0) for kind in parts}
    below = [kind for kind in WorkKind if lack.get(kind, 0.0) > ROUNDING * after]
    return min(below, key=lambda kind: ((counts.get(kind, 0) + 1) / parts[kind], -lack[kind]))


def top_up(counts: Mapping[WorkKind, int], shares: Mapping[WorkKind, float], depth: int) -> list[WorkKind]:
    """The kinds of the jobs that fill the queue up to so many, in the order to queue them."""
    standing, added = dict(counts), list[WorkKind]()
    for _ in range(depth - sum(counts.get(kind, 0) for kind, share in shares.items() if share > 0)):
        added.append(mix(standing, shares))
        standing[added[-1]] = standing.get(added[-1], 0) + 1
    return added


def _needs(standing: Standing) -> Iterator[Want]:
    if not standing.has_model:
        yield Want(stage=WorkKind.TRAINING, why="there is no model yet: an untrained one is made from the seed")
        return
    if standing.candidate is not None:
        why = f"candidate {standing.candidate[:12]} is being tested, {standing.test_groups} groups so far"
        yield Want(stage=WorkKind.EVALUATION, why=why)
    elif standing.finishing:
        pass
    elif standing.dataset_waits and standing.steps > 0:
        yield Want(stage=WorkKind.TRAINING, why=f"a dataset waits that allows {standing.steps} steps")
    elif _can_export(standing):
        yield Want(stage=WorkKind.EXPORT, why=f"{standing.fresh_games} games since the last export")
    if standing.rating is not None and standing.candidate is None:
        yield Want(stage=WorkKind.EVALUATION, why=standing.rating)
    if standing.finishing:
        return
    if standing.refused_generator is None and (standing.ahead is None or _is_short(standing)):
        yield Want(stage=WorkKind.SELFPLAY, why=_lacking(standing))


def _can_export(standing: Standing) -> bool:
    enough = standing.promising_games >= standing.min_games
    return enough and standing.fresh_games >= standing.fresh_needed


def _is_short(standing: Standing) -> bool:
    """Whether nothing but more games brings the next training: to wait for that would be to wait for ever."""
    trains = standing.dataset_waits and standing.steps > 0
    return standing.candidate is None and not trains and not _can_export(standing)


def _has_room(standing: Standing, want: Want) -> bool:
    """One job of a stage at a time, but for self-play; and no self-play while there is no training to come of it."""
    return want.stage is WorkKind.SELFPLAY or not standing.jobs.get(want.stage, 0)


def _lacking(standing: Standing) -> str:
    lacking = max(standing.min_games - standing.promising_games, standing.fresh_needed - standing.fresh_games)
    return f"{lacking} games to the next dataset" if lacking > 0 else "devices are free; more games make better data"
