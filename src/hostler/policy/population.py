"""What should be queued? Which stages of one training config's loop should run next.

The order of need: a model to begin with; the verdict on a candidate; training on what is there; a dataset of what was
played; a rating for the current model; and self-play with all that is left. A stage that rests is passed over. Once
a config is as strong as it is meant to be, it goes on with one job now and then: a trickle of exploration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hostler.model.record import record
from hostler.model.work import WorkKind

EXPLORATION_GAP_S = 12_000.0
"""Between two jobs of exploration of a config that has reached its Elo target: one of 10 minutes has 5 % of a GPU."""
EXPLORING = (WorkKind.TRAINING, WorkKind.EXPORT, WorkKind.SELFPLAY)
"""The stages that are done but now and then once the target is met; verdicts and ratings are always wanted."""


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
    """Whether a job of exploration is due once the target is met."""


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
