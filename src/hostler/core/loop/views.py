"""What is shown of the loops, made from the very facts that decisions are based on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hostler.core.loop import pausing, played
from hostler.core.loop.claims import velocity_of
from hostler.core.loop.decide import over, standing, trial_verdict
from hostler.core.loop.state import Config, Dataset, Model
from hostler.model.learning import ModelStatus, Rating
from hostler.model.views import (
    ConfigHistory,
    ConfigView,
    DatasetView,
    ModelView,
    RatingPoint,
    RestView,
    TrialView,
    VelocityView,
)
from hostler.policy import population


def config_view(config: Config, now: float) -> ConfigView:
    """A config in numbers."""
    ended = over(config)
    newest = next(reversed(config.datasets.values()), None)
    return ConfigView(
        name=config.spec.name,
        game={"factory": config.spec.game.factory, "params": dict(config.spec.game.params)},
        players=config.spec.game.players,
        weight=config.spec.weight,
        retired=config.retired,
        state="open" if ended is None else ended[0],
        next=_next(config, now) if ended is None else ended[1],
        current=config.current,
        generation=None if config.current is None else config.models[config.current].number,
        since=config.switches[-1].at if config.switches else None,
        player=_current_player(config),
        rating=_rating(config, config.current),
        velocity=_velocity(config),
        trial=_trial(config),
        games=played.games(config),
        games_per_h=played.games_per_h(config, now),
        fresh_games=config.fresh_games,
        data_age_s=None if newest is None else now - newest.at,
        accepted_share=_accepted_share(config),
        duplicate_share=_duplicate_share(config),
        datasets=len(config.datasets),
        models=len(config.models),
        promotions=config.promotions,
        rejections=sum(model.status is ModelStatus.REJECTED for model in config.models.values()),
        stages=dict(Counter(config.jobs.values())),
        resting=tuple(_rests(config, now)),
        goal=config.spec.goal,
        paused=pausing.view(config),
        spawned=len(config.spawned),
    )


def model_views(config: Config) -> Sequence[ModelView]:
    """All models of a config, oldest first."""
    return [_model(config, model) for model in config.models.values()]


def dataset_views(config: Config) -> Sequence[DatasetView]:
    """All datasets of a config, oldest first."""
    return [_dataset(config, dataset) for dataset in config.datasets.values()]


def history_view(config: Config, now: float) -> ConfigHistory:
    """How a config came to where it is."""
    return ConfigHistory(
        config=config_view(config, now),
        models=tuple(model_views(config)),
        datasets=tuple(dataset_views(config)),
        ratings=tuple(
            RatingPoint(at=each.at, player=each.player, rating=each.rating) for each in config.rating_history
        ),
        players={**config.ratings},
        hours=tuple(played.hours(config)),
    )


def _next(config: Config, now: float) -> str:
    waits = population.waits(standing(config, now))
    return waits if config.paused is None else f"{pausing.words(config.paused, now)}; then {waits}"


def _current_player(config: Config) -> str | None:
    return None if config.current is None else config.evaluated_as(config.current)


def _rating(config: Config, model: str | None) -> Rating | None:
    return None if model is None else config.ratings.get(config.evaluated_as(model))


def _velocity(config: Config) -> VelocityView | None:
    found = velocity_of(config)
    return None if found is None else VelocityView(per_day=found.elo_per_day, low=found.low, high=found.high)


def _trial(config: Config) -> TrialView | None:
    trial = config.trial
    if trial is None:
        return None
    verdict, evidence = trial_verdict(config), trial.evidence
    return TrialView(
        candidate=trial.candidate,
        against=trial.against,
        groups=evidence.groups,
        score=evidence.total / evidence.groups if evidence.groups else None,
        llr=verdict.llr,
        lower=verdict.lower,
        upper=verdict.upper,
    )


def _accepted_share(config: Config) -> float | None:
    last = config.judgements[-1] if config.judgements else None
    return None if last is None or not last.offered else last.accepted / last.offered


def _duplicate_share(config: Config) -> float | None:
    last = config.judgements[-1] if config.judgements else None
    return None if last is None or not last.offered else last.rejected.get("duplicate", 0) / last.offered


def _rests(config: Config, now: float) -> Iterator[RestView]:
    for stage, rest in config.rests.items():
        if rest.until > now:
            yield RestView(stage=stage, failures=rest.failures, until=rest.until, why=rest.why)


def _model(config: Config, model: Model) -> ModelView:
    training = model.training
    return ModelView(
        config=config.spec.name,
        number=model.number,
        sha256=model.sha256,
        bytes=training.model.bytes,
        made_at=model.made_at,
        base=training.base,
        dataset=training.dataset,
        steps=training.steps,
        status=model.status,
        current=model.sha256 == config.current,
        decided_at=model.decided_at,
        why=model.why,
        rating=_rating(config, model.sha256),
        before=training.before,
        after=training.after,
        curve=training.curve,
    )


def _dataset(config: Config, dataset: Dataset) -> DatasetView:
    return DatasetView(
        config=config.spec.name,
        sha256=dataset.ref.sha256,
        made_at=dataset.at,
        games=dataset.ref.games,
        positions=dataset.ref.positions,
        segments=dataset.segments,
        offered=dataset.judgement.offered,
        rejected=dataset.judgement.rejected,
        quality=dataset.judgement.quality,
        bootstrap=dataset.judgement.bootstrap,
    )
