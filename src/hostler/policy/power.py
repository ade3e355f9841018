"""How fast is a device? Measured throughput first, the ranking table only as a prior.

A rate belongs to one kernel or training config on one model of device. Models that were never measured at it are
scaled from those that were by their ratio in the table; what was measured a few times is still drawn towards that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal, TypeAlias

from hostler.model.record import record

RANKING: Mapping[str, float] = {
    "H200": 2500,
    "H100": 2000,
    "A100": 624,
    "5090": 419,
    "L40": 362,
    "4090": 330,
    "5080": 300,
    "A10": 250,
    "4080": 242,
    "5070": 200,
    "4070": 184,
    "3090": 142,
    "V100": 125,
    "4060": 120,
    "3080": 119,
    "3070": 81,
    "3060": 51,
    "Apple": 15,
    # Ours, for models of the first fleet that the table does not know, placed between their neighbours.
    "GH200": 2200,
    "A40": 300,
    "2080 Ti": 107,
    "T4": 65,
    "Apple M3 Max": 30,
    "Apple M3 Ultra": 30,
}
"""Power of a GPU by what its model's name contains; only ratios mean anything."""
UNKNOWN_POWER = 10.0
"""A GPU that the table does not know."""
CPU_POWER = 1.0
"""One CPU slot, where nothing but CPU slots was measured and GPUs must be compared with them. Ours, and a guess."""

PRIOR_SAMPLES = 0.25
"""Samples that the scaled prior is worth beside measured ones: it may be off by a factor 2, a sample by a fifth."""
UNKNOWN_RELATIVE = 0.02
"""What a device of unknown speed is taken for beside the fastest one: slow, so that nothing relies on it."""


@record
class Measured:
    """Measured throughput of one model of device at one kernel or config, in units per second."""

    per_s: float
    samples: int


Source: TypeAlias = Literal["measured", "scaled", "prior", "unknown"]


@record
class Rate:
    """How fast a model of device is taken to be. With source `prior` only ratios of `per_s` mean anything."""

    per_s: float | None
    source: Source
    samples: int


UNKNOWN = Rate(per_s=None, source="unknown", samples=0)


@cache
def prior(model: str | None) -> float | None:
    """The table's power for a model, by the longest name that it contains; `None` for a CPU slot.

    A digit next to a name makes it another one (`A10` is not in `A100`), and so does a letter before a name that starts
    with a letter (`H200` is not in `GH200`); what follows it may be a variant (`L40S`, `4070Ti`).
    """
    if model is None or _CPU.search(model):
        return None
    for name, pattern in _PATTERNS:
        if pattern.search(model):
            return RANKING[name]
    return UNKNOWN_POWER


def rates(measured: Mapping[str, Measured], models: Iterable[str]) -> dict[str, Rate]:
    """How fast each of the models is at one kernel or config, given what was measured at it by model."""
    per_power = _per_power(measured)
    return {model: _rate(model, measured.get(model), per_power) for model in models}


def relative(known: Mapping[str, Rate]) -> dict[str, float]:
    """Speeds as shares of the fastest one's, which is 1; unknown ones are taken for slow, or for equal if all are."""
    best = max((rate.per_s for rate in known.values() if rate.per_s is not None), default=None)
    if best is None:
        return dict.fromkeys(known, 1.0)
    return {model: UNKNOWN_RELATIVE if rate.per_s is None else rate.per_s / best for model, rate in known.items()}


def _per_power(measured: Mapping[str, Measured]) -> float | None:
    """Units per second for each point of the table, as a geometric mean; `None`: nothing measured."""
    powers = {model: prior(model) for model in measured}
    logs = [math.log(measured[model].per_s / power) for model, power in powers.items() if power is not None]
    if not logs:
        logs = [math.log(each.per_s / CPU_POWER) for each in measured.values()]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _rate(model: str, measured: Measured | None, per_power: float | None) -> Rate:
    power = prior(model)
    expected = None if power is None or per_power is None else power * per_power
    if measured is not None:
        return Rate(per_s=_blended(measured, expected), source="measured", samples=measured.samples)
    if power is None:
        return UNKNOWN
    return Rate(per_s=expected or power, source="scaled" if expected else "prior", samples=0)


def _blended(measured: Measured, expected: float | None) -> float:
    """What was measured, drawn towards what was expected while samples are few."""
    if expected is None:
        return measured.per_s
    weight = measured.samples / (measured.samples + PRIOR_SAMPLES)
    return math.exp(weight * math.log(measured.per_s) + (1 - weight) * math.log(expected))


def _pattern(name: str) -> re.Pattern[str]:
    before = r"(?<!\d)" if name[0].isdigit() else r"(?<![a-z0-9])"
    return re.compile(before + re.escape(name).replace(r"\ ", r"\s*") + r"(?!\d)", re.IGNORECASE)


_PATTERNS = tuple((name, _pattern(name)) for name in sorted(RANKING, key=len, reverse=True))
_CPU = re.compile(r"(?<![a-z])cpu(?![a-z])", re.IGNORECASE)
