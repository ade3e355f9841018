"""Which training config deserves the next self-play?

Every factor lies in 0..1 and is unknown (`None`) where nobody can say; an unknown factor counts as the middle. The
score is their weighted mean, so that no factor can drown the others, and the decision is logged with all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from hostler.model.record import record

HALF_LIFE_S = 3600.0
"""What a config has had counts half after that."""
TURN_S = 60.0
"""Configs whose attained device time differs by less, per unit of weight, are equals."""
STARVED_S = 4 * 3600.0
STALE_S = 4 * 3600.0
FAST_ELO_PER_DAY = 100.0
WEIGHTS: Mapping[str, float] = {"curriculum": 0.4, "starvation": 0.3, "data age": 0.15, "velocity": 0.15}
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
    least_served: float
    idle_s: float | None
    """Since it was last given self-play; `None`: never."""
    data_age_s: float | None
    velocity: float | None
    """Elo per day."""


@record
class Score:
    """A config's score with the contribution of each factor."""

    total: float
    parts: Mapping[str, float | None]

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {'?' if part is None else f'{part:.2f}'}" for name, part in self.parts.items())
        return f"{self.total:.3f} ({parts})"


def score(claim: Claim) -> Score:
    """How much a config deserves self-play, 0..1."""
    parts: dict[str, float | None] = {
        "curriculum": claim.weight / claim.heaviest,
        "starvation": 1.0 if claim.idle_s is None else min(claim.idle_s / STARVED_S, 1.0),
        "data age": None if claim.data_age_s is None else min(claim.data_age_s / STALE_S, 1.0),
        "velocity": None if claim.velocity is None else _clamped(0.5 + claim.velocity / FAST_ELO_PER_DAY / 2),
    }
    total = sum(WEIGHTS[name] * (UNKNOWN if part is None else part) for name, part in parts.items())
    return Score(total=total, parts=parts)


def faded(attained_s: float, after_s: float) -> float:
    """What device time counts so long after it was had."""
    return attained_s * float(0.5 ** (after_s / HALF_LIFE_S))


def first(claims: list[Claim]) -> tuple[Claim, Score]:
    """The config that comes next: among those that had least for their weight, the one with the best score.

    Shares come first, because a score alone would give everything to one config; the score decides among equals.
    """
    least = [claim for claim in claims if claim.served <= claim.least_served + TURN_S]
    scored = [(claim, score(claim)) for claim in least]
    return max(scored, key=lambda pair: (pair[1].total, pair[0].name))


def _clamped(value: float) -> float:
    return min(max(value, 0.0), 1.0)
