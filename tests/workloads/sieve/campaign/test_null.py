"""Draws by chance: as many items survive them as the null model foretells.

For each set of draws the number of survivors is put on the scale of its own Poisson distribution, where it would be
uniform; the chi-square test is about ten parts of that scale. ``NULL_SETS`` says how many (``make planted``: 200).
"""

import math
import os
import random
from itertools import cycle, islice

import pytest

from hostler.workloads.sieve.correlation.special import chi_square_tail
from hostler.workloads.sieve.generators import GENERATORS
from hostler.workloads.sieve.judge import judge

from .planting import MOST_S, Planted, null_question, offers

SETS = int(os.environ.get("NULL_SETS", "40"))
PARTS = 10
LEAST = 0.001
pytestmark = pytest.mark.long


def test_chance_survivors_are_as_many_as_foretold() -> None:
    parts, total, foretold = [0] * PARTS, 0, 0.0
    for number, name in enumerate(islice(cycle(GENERATORS), SETS)):
        source = random.Random(f"null {number}")
        expected = source.uniform(1, 5)
        asked = null_question(name, number, expected)
        survivors = _survivors(asked)
        total, foretold = total + survivors, foretold + expected
        parts[int(_place(survivors, expected, source.random()) * PARTS)] += 1
    statistic = sum((seen - SETS / PARTS) ** 2 / (SETS / PARTS) for seen in parts)
    p = chi_square_tail(statistic, PARTS - 1)
    print(
        f"{SETS} sets: {total} survivors, {foretold:.1f} foretold; parts {parts}, chi-square {statistic:.2f}, p {p:.3g}"
    )
    assert p > LEAST, (parts, total, foretold)
    assert abs(total - foretold) < 5 * math.sqrt(foretold)


def _survivors(asked: Planted) -> int:
    """How many items survive; all methods that apply say the same."""
    found: dict[str, list[int]] = {}
    for way, offer in offers(asked.spec).items():
        if offer.cpu_s(asked.stop - asked.start) < MOST_S:
            candidates = offer.make().find(asked.start, asked.stop)
            found[way] = [item for item in candidates if judge(asked.spec, item)]
    assert found, f"no method for {asked.told()}"
    first = next(iter(found.values()))
    assert all(items == first for items in found.values()), f"{found}: {asked.told()}"
    return len(first)


def _place(survivors: int, expected: float, within: float) -> float:
    """Where so many survivors lie on the scale of their distribution, anywhere (``within``) in their own step."""
    below = sum(_poisson(count, expected) for count in range(survivors))
    return min(below + within * _poisson(survivors, expected), 1 - 1e-12)


def _poisson(count: int, expected: float) -> float:
    return math.exp(count * math.log(expected) - expected - math.lgamma(count + 1))
