"""What speaks for a training config, for the policy that ranks them."""

from __future__ import annotations

from hostler.core.index import Index
from hostler.core.loop.state import Config
from hostler.core.state import State
from hostler.learning.velocity import Point, Velocity, gain, velocity
from hostler.policy import priority
from hostler.policy.priority import Claim, Score

FRESH_S = 60.0
"""A claim is looked at anew after that: it changes by the hour, and is asked for at every decision."""


def score_of(state: State, index: Index, config: Config) -> Score:
    """The config's score now, with what it consists of."""
    rules = state.rules
    return priority.score(claim_of(state, index, config), rules.priority, rules.placement.starve_after_s)


def claim_of(state: State, index: Index, config: Config) -> Claim:
    """What speaks for the config, as of a minute ago at most, whatever tier it is about."""
    known = index.claims.get(config.spec.name)
    if known is None or index.now - known[0] >= FRESH_S:
        known = index.claims[config.spec.name] = index.now, _claim_now(state, index, config)
    return known[1]


def idle_s(index: Index, config: Config) -> float | None:
    """Since when no device has done self-play of the config, in seconds; `None`: none ever did."""
    if index.playing.get(config.spec.name):
        return 0.0
    return None if config.served_at is None else max(index.now - config.served_at, 0.0)


def velocity_of(config: Config) -> Velocity | None:
    """How fast the current model's rating moves; `None` while nobody can say.

    A model counts whenever it became current, by what is known of it now: fits of the same games are no news.
    """
    rated = ((switch.at, config.ratings.get(config.evaluated_as(switch.model))) for switch in config.switches)
    return velocity([Point(at_s=at, rating=rating) for at, rating in rated if rating is not None])


def gain_of(config: Config, since: float, now: float) -> Velocity | None:
    """What the current model is better by than the one that was current at `since`, per day until `now`.

    By what is known of both now. Without another model nothing was gained, and that for certain; `None` where there was
    no model then, or one of them is not rated.
    """
    before = next((switch.model for switch in reversed(config.switches) if switch.at <= since), None)
    if before is None or config.current is None:
        return None
    if before == config.current:
        return gain(None, since, now)
    then, today = (config.ratings.get(config.evaluated_as(model)) for model in (before, config.current))
    if then is None or today is None:
        return None
    return gain((then, today), since, now)


def _claim_now(state: State, index: Index, config: Config) -> Claim:
    newest = next(reversed(config.datasets.values()), None)
    judged = None if newest is None else newest.judgement
    moving = velocity_of(config)
    return Claim(
        name=config.spec.name,
        weight=config.spec.weight,
        heaviest=max((state.configs[name].spec.weight for name in index.open_configs), default=0.0),
        served=0.0,
        idle_s=idle_s(index, config),
        data_age_s=None if newest is None else index.now - newest.at,
        velocity=None if moving is None else moving.elo_per_day,
        velocity_low=None if moving is None else moving.low,
        velocity_high=None if moving is None else moving.high,
        quality=judged.accepted / judged.offered if judged and judged.offered else None,
    )
