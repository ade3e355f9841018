"""What the loops should do next: verdicts on candidates, and the jobs to queue. Each decision carries its values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from hostler.core.care import effects as care
from hostler.core.index import Index
from hostler.core.loop import pausing, spawning
from hostler.core.loop.claims import score_of
from hostler.core.loop.stages import (
    generator_refused,
    job_for,
    pace,
    promising,
    selfplay_player,
    steps_for,
    untrained_positions,
    waiting_dataset,
)
from hostler.core.loop.state import Config, Rest
from hostler.core.state import Job, State
from hostler.learning import sprt
from hostler.model.events import (
    CancelRequested,
    Event,
    JobCancelled,
    JobSubmitted,
    ModelPromoted,
    ModelRejected,
)
from hostler.model.learning import Rating
from hostler.model.work import JobState, StagePayload, WorkKind
from hostler.policy import pacing, population
from hostler.policy.population import Standing

Emit: TypeAlias = Callable[[Event], None]

TEST_FAILURES_MAX = 5
"""Evaluations that may fail in a row for one candidate."""


def populate(state: State, index: Index, emit: Emit) -> None:
    """Queue what the configs need about which something has changed, and self-play of those that want it."""
    if index.draining or not index.loops_due:
        return
    due = sorted(index.loops_due)
    for name in due:
        _look_at(state, index, state.configs[name], emit)
    _queue_selfplay(state, index, due, emit)
    index.loops_due.clear()


def judge_trial(state: State, config: Config, emit: Emit) -> None:
    """Promote or reject the candidate as soon as its test says so."""
    trial = config.trial
    if trial is None:
        return
    verdict = trial_verdict(config)
    if verdict.decision is None:
        return
    made = ModelPromoted if verdict.decision == "promote" else ModelRejected
    emit(
        made(
            config=config.spec.name,
            model=trial.candidate,
            over=trial.against,
            groups=trial.evidence.groups,
            llr=verdict.llr,
            why=verdict.why,
        )
    )
    call_off_stale(state, config, emit)


def drop_unplayable(state: State, config: Config, why: str, emit: Emit) -> None:
    """Reject the candidate whose test fails again and again, so that the loop goes on with another."""
    trial = config.trial
    if trial is None or trial.failures < TEST_FAILURES_MAX:
        return
    emit(
        ModelRejected(
            config=config.spec.name,
            model=trial.candidate,
            over=trial.against,
            groups=trial.evidence.groups,
            llr=trial_verdict(config).llr,
            why=f"its test could not be played: {why}, {trial.failures} times in a row",
        )
    )
    call_off_stale(state, config, emit)


def call_off_stale(state: State, config: Config, emit: Emit) -> None:
    """The current model has changed: what waits and was ordered of another is ordered anew."""
    stale = [name for name in config.jobs if not _is_of_now(config, state.jobs[name])]
    _order_anew(state, config, stale, "the current model has changed", emit)


def call_off_waiting(state: State, config: Config, why: str, emit: Emit) -> None:
    """Cancel what waits of a config, so that it is ordered anew; what runs may end."""
    _order_anew(state, config, list(config.jobs), why, emit)


def trial_verdict(config: Config) -> sprt.Verdict:
    """Where the candidate's test stands."""
    assert config.trial is not None
    terms = config.spec.promotion
    hypotheses = sprt.Hypotheses(elo0=terms.elo0, elo1=terms.elo1, alpha=terms.alpha, beta=terms.beta)
    return sprt.verdict(config.trial.evidence, hypotheses, min_groups=terms.min_groups, max_groups=terms.max_groups)


def over(config: Config) -> tuple[str, str] | None:
    """`(state, why)` of a config that wants nothing more; `None` while it goes on."""
    if config.retired:
        return "retired", "the settings name it no more"
    goal = config.spec.goal
    if goal is None:
        return None
    if config.promotions >= goal.promotions and rating_wanted(config) is None:
        return "reached", f"{config.promotions} promotions"
    failing = hopeless_stage(config)
    if failing is not None:
        stage, rest = failing
        return "missed", f"{stage} failed {rest.failures} times in a row: {rest.why}"
    if config.candidates >= goal.candidates and config.trial is None and config.promotions < goal.promotions:
        return "missed", f"{config.promotions} promotions after {config.candidates} candidates"
    refused = refused_generator(config)
    if refused is not None and population.is_stuck(standing(config, math.inf)):
        return "missed", refused
    return None


def hopeless_stage(config: Config) -> tuple[WorkKind, Rest] | None:
    """The stage that has failed so often in a row that the goal counts as missed."""
    goal = config.spec.goal
    if goal is None:
        return None
    return next(((stage, rest) for stage, rest in config.rests.items() if rest.failures >= goal.failures), None)


def rating_wanted(config: Config) -> str | None:
    """Why the current model should be rated better; `None` where it is well enough, or as well as it can be."""
    if config.current is None or config.unrated_why is not None or not config.spec.game.anchors:
        return None
    player, spec = config.evaluated_as(config.current), config.spec.evaluation
    spent = config.ladder_groups.get(player, 0)
    rating = config.ratings.get(player)
    if spent >= spec.max_groups or (rating is not None and _half_width(rating) <= spec.precision_elo):
        return None
    known = "not rated yet" if rating is None else f"known to ±{_half_width(rating):.0f} Elo only"
    return f"the current model is {known} (±{spec.precision_elo:g} wanted), {spent} groups spent"


def refused_generator(config: Config) -> str | None:
    """Why all games of self-play would be refused; `None` where they would not be, or a rating may tell better yet."""
    if _is_fitting(config) or rating_wanted(config) is not None:
        return None
    return generator_refused(config)


def standing(config: Config, now: float) -> Standing:
    """Where a config stands, for the policy."""
    accepted, unseen = untrained_positions(config)
    trial = config.trial
    return Standing(
        has_model=config.current is not None,
        candidate=None if trial is None else trial.candidate,
        test_groups=0 if trial is None else trial.evidence.groups,
        dataset_waits=waiting_dataset(config) is not None,
        steps=steps_for(config),
        fresh_games=config.fresh_games,
        promising_games=sum(each.games if each.accepted is None else each.accepted for each in promising(config)),
        fresh_needed=config.spec.export.fresh_games,
        min_games=config.spec.export.min_games,
        rating=None if _is_fitting(config) else rating_wanted(config),
        ahead=pacing.ahead(pace(config), accepted + unseen),
        refused_generator=refused_generator(config),
        finishing=config.spec.goal is not None and config.promotions >= config.spec.goal.promotions,
        jobs=Counter(config.jobs.values()),
        resting={stage: _told(rest) for stage, rest in config.rests.items() if rest.until > now},
        target_met=_has_met_target(config),
        trickle=config.explored_at is None or now >= config.explored_at + population.EXPLORATION_GAP_S,
    )


def _has_met_target(config: Config) -> bool:
    """Whether the current model is as strong as the config is meant to become, beyond doubt."""
    rating = None if config.current is None else config.ratings.get(config.evaluated_as(config.current))
    return population.target_reached(None if rating is None else rating.low, config.spec.target_elo)


def _half_width(rating: Rating) -> float:
    return (rating.high - rating.low) / 2


def _told(rest: Rest) -> str:
    if rest.failures < 2:
        return f"1 failure; {rest.why}" if rest.failures else rest.why
    return f"{rest.failures} failures in a row; the last: {rest.why}"


def _is_fitting(config: Config) -> bool:
    """Whether ratings of the newest matches are still to come; what to play next is decided with them."""
    return config.rated_matches < config.played and config.unrated_why is None


def _look_at(state: State, index: Index, config: Config, emit: Emit) -> None:
    name = config.spec.name
    index.eager.pop(name, None)
    pausing.expire(config, index.now, emit)
    if over(config) is not None:
        index.open_configs.discard(name)
        _call_off(state, config, emit)
        return
    index.open_configs.add(name)
    if config.paused is not None:
        _cancel_unbegun(state, config, pausing.words(config.paused, index.now), emit)
        return
    why = _queue_stages(state, index, config, emit)
    if why is not None:
        index.eager[name] = why


def _queue_stages(state: State, index: Index, config: Config, emit: Emit) -> str | None:
    """Queue every stage but self-play, for which the configs compete. Returns why self-play is wanted, if it is."""
    eager, stands = None, standing(config, index.now)
    if stands.refused_generator is not None:
        useless = [name for name, stage in config.jobs.items() if stage is WorkKind.SELFPLAY]
        _cancel_waiting(state, useless, stands.refused_generator, emit)
    for want in population.wanted(stands):
        if want.stage is WorkKind.SELFPLAY:
            eager = want.why
        else:
            _submit(state, config, want.stage, want.why, index.now, emit)
    return eager


def _queue_selfplay(state: State, index: Index, due: list[str], emit: Emit) -> None:
    """Keep a job of self-play ready for each config that wants it: which of them gets a device is decided there.

    Of those that are `due`: for the others nothing has changed, and they have theirs.
    """
    if care.queue_blocked(state) is not None:
        return
    for name in (each for each in due if each in index.eager):
        why, config = index.eager[name], state.configs[name]
        if not _has_selfplay_waiting(state, index, config):
            score = score_of(state, index, config)
            _submit(state, config, WorkKind.SELFPLAY, f"{why}; score {score}", index.now, emit)


def _has_selfplay_waiting(state: State, index: Index, config: Config) -> bool:
    """Whether a job is ready, or so many rest after a failure that others of their kind would only join them."""
    ordered = config.jobs.keys() - config.spawned.keys()
    mine = [state.jobs[name] for name in ordered if config.jobs[name] is WorkKind.SELFPLAY]
    waiting = [job for job in mine if job.state is JobState.PENDING]
    resting = sum(job.not_before > index.now for job in waiting)
    return resting < len(waiting) or resting > len(mine) - len(waiting)


def _submit(state: State, config: Config, stage: WorkKind, why: str, now: float, emit: Emit) -> None:
    emit(JobSubmitted(job=f"j{state.next_job}", spec=job_for(config, stage, now), why=why))


def _call_off(state: State, config: Config, emit: Emit) -> None:
    """The config wants nothing more: what waits is cancelled, what runs may end."""
    ended = over(config)
    assert ended is not None
    _cancel_waiting(state, list(config.jobs), f"{config.spec.name}: {': '.join(ended)}", emit)


def _is_of_now(config: Config, job: Job) -> bool:
    """Whether a job was ordered of the models that count now."""
    payload = job.spec.payload
    assert isinstance(payload, StagePayload)
    match job.spec.work:
        case WorkKind.SELFPLAY:
            return bool(payload.order["player"] == selfplay_player(config))
        case WorkKind.TRAINING:
            return bool(payload.order["base"] == config.current)
        case WorkKind.EVALUATION:
            subject = config.current if config.trial is None else config.trial.candidate
            matches = payload.order["matches"]
            return subject is not None and all(match["a"] == config.evaluated_as(subject) for match in matches)
    return True


def _order_anew(state: State, config: Config, names: list[str], why: str, emit: Emit) -> None:
    """Cancel what waits of these jobs; what somebody asked for is ordered again as things are now."""
    asked = {name: each for name, each in spawning.waiting(state, config).items() if name in names}
    _cancel_waiting(state, names, why, emit)
    spawning.order_anew(state, config, asked, state.at, emit)


def _cancel_unbegun(state: State, config: Config, why: str, emit: Emit) -> None:
    """Cancel what has never had a device. What had to leave one goes on: it has work that would be lost."""
    _cancel_waiting(state, [name for name in config.jobs if not state.jobs[name].attempts], why, emit)


def _cancel_waiting(state: State, names: list[str], why: str, emit: Emit) -> None:
    for name in names:
        if state.jobs[name].state is JobState.PENDING:
            emit(CancelRequested(job=name, reason=why))
            emit(JobCancelled(job=name))
