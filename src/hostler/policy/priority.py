"""Which training config deserves the next self-play?

Who starves goes first; then shares count; and among equals the score decides. Every factor of it lies in 0..1 and is
unknown (`None`) where nobody can say; an unknown factor counts as the middle. The score is their weighted mean, so
that no factor can drown the others, and the decision is logged with all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hostler.model.learning import INTERVAL_SD
from hostler.model.record import record
from hostler.model.rules import PriorityWeights

TURN_S = 60.0
"""Configs whose attained device time differs by less, per unit of weight, are equals."""
STARVED_S = 4 * 3600.0
STALE_S = 4 * 3600.0
"""Age at which data counts as half stale."""
FAST_ELO_PER_DAY = 100.0
"""What counts as fast; and as the standard error of a velocity of which none is known."""
USUAL_WEIGHTS = PriorityWeights()
UNKNOWN = 0.5


@record
class Claim:
    """What speaks for a config."""

    name: str
    weight: float
    heaviest: float
    """The largest weight of all configs."""
    served: float
    """Device seconds of its self-play for each unit of weight: of late, and expected of what it holds or waits for."""
    idle_s: float | None
    """Since it was last given self-play, or began to want it; `None`: it never was given any."""
    data_age_s: float | None
    velocity: float | None
    """Elo per day; negative where it gets worse."""
    velocity_low: float | None = None
    velocity_high: float | None = None
    """The 95 % interval of the velocity."""
    quality: float | None = None
    """Of its newest games or dataset, 0..1."""


@record
class Score:
    """A config's score with the value of each factor, and what that contributes to the score."""

    total: float
    parts: Mapping[str, float | None]
    weights: Mapping[str, float]
    """Of each factor; they sum to 1."""

    @property
    def contributions(self) -> Mapping[str, float]:
        """What each factor adds to the total."""
        return {name: self.weights[name] * _known(part) for name, part in self.parts.items()}

    def __str__(self) -> str:
        parts = ", ".join(
            f"{name} {'?' if part is None else f'{part:.2f}'}·{self.weights[name]:.2f}"
            for name, part in self.parts.items()
        )
        return f"{self.total:.3f} ({parts})"


def score(claim: Claim, weights: PriorityWeights = USUAL_WEIGHTS, starve_after_s: float = STARVED_S) -> Score:
    """How much a config deserves self-play, 0..1. Where nothing has a weight, all are equals."""
    parts: dict[str, float | None] = {
        "curriculum": min(claim.weight / claim.heaviest, 1.0) if claim.heaviest > 0 else 1.0,
        "starvation": starvation(claim.idle_s, starve_after_s),
        "data age": None if claim.data_age_s is None else _grown(claim.data_age_s / STALE_S),
        "velocity": progress(claim),
        "quality": None if claim.quality is None else min(max(claim.quality, 0.0), 1.0),
    }
    shares = _shares(weights)
    total = math.fsum(shares[name] * _known(part) for name, part in parts.items())
    return Score(total=total, parts=parts, weights=shares)


def starvation(idle_s: float | None, after_s: float = STARVED_S) -> float:
    """0 until a config has waited so long; then 1/2 at twice that, 2/3 at three times, and so on; 1 if never served."""
    return 1.0 if idle_s is None else _grown(max(idle_s / after_s - 1, 0.0))


def progress(claim: Claim) -> float | None:
    """How much its velocity speaks for a config: 1/2 where it stands still, more the faster it improves.

    A config that gets worse has less than 1/2, as low as its velocity is certain: device time does not become Elo
    there; what is wrong with it is for alerts and for a person, and shares and starvation see that it goes on. It is
    the expectation of `Φ(v / fast)` over a velocity as uncertain as its interval says, `Φ(v / √(fast² + se²))`: who
    knows little comes close to the middle (normal integrals, Owen 1980, 10,010.8).
    """
    if claim.velocity is None:
        return None
    error = FAST_ELO_PER_DAY
    if claim.velocity_low is not None and claim.velocity_high is not None:
        error = (claim.velocity_high - claim.velocity_low) / 2 / INTERVAL_SD
    deviations = claim.velocity / math.hypot(FAST_ELO_PER_DAY, error)
    return (1 + math.erf(deviations / math.sqrt(2))) / 2


class Place(NamedTuple):
    """What decides before the score: see `Claim`."""

    name: str
    served: float
    idle_s: float | None


def contenders(places: Sequence[Place], starve_after_s: float | None = None, turn_s: float = TURN_S) -> list[str]:
    """Among whom the score decides: those that have starved longest or else, of all, those that had least.

    Equals are those that had no more than `turn_s` above the least.
    """
    starved: list[Place] = []
    if starve_after_s is not None:
        starved = [place for place in places if place.idle_s is None or place.idle_s > starve_after_s]
    eligible = _longest(starved) or places
    least = min(place.served for place in eligible)
    return [place.name for place in eligible if place.served <= least + turn_s]


def first(
    claims: list[Claim],
    weights: PriorityWeights = USUAL_WEIGHTS,
    starve_after_s: float | None = None,
    turn_s: float = TURN_S,
) -> tuple[Claim, Score]:
    """The config that comes next: who starves, the longest first; else, of those that had least, the best score.

    Shares come before the score, because a score alone would give everything to one config. `starve_after_s` puts who
    has waited that long before all others, once: a config that was given a job has to be told as idle no longer.
    """
    after_s = STARVED_S if starve_after_s is None else starve_after_s
    places = [Place(claim.name, claim.served, claim.idle_s) for claim in claims]
    equals = set(contenders(places, starve_after_s, turn_s))
    scored = [(claim, score(claim, weights, after_s)) for claim in claims if claim.name in equals]
    return max(scored, key=lambda pair: (pair[1].total, pair[0].name))


def _longest(starved: list[Place]) -> list[Place]:
    """Those that have starved longest; who never had anything has starved longer than anybody."""
    longest = max((_idle(place) for place in starved), default=math.inf)
    return [place for place in starved if _idle(place) >= longest]


def _idle(place: Place) -> float:
    return math.inf if place.idle_s is None else place.idle_s


def _shares(weights: PriorityWeights) -> dict[str, float]:
    """The weights by factor, as parts of 1."""
    named = {
        "curriculum": weights.curriculum,
        "starvation": weights.starvation,
        "data age": weights.data_age,
        "velocity": weights.velocity,
        "quality": weights.quality,
    }
    whole = math.fsum(named.values())
    return {name: weight / whole if whole > 0 else 0.0 for name, weight in named.items()}


def _known(part: float | None) -> float:
    return UNKNOWN if part is None else part


def _grown(ratio: float) -> float:
    """0 at 0, 1/2 at 1, and always growing towards 1."""
    return ratio / (1 + ratio)
