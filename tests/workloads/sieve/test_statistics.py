"""What chance would find, against exact sums, against what was measured of others, and against draws by chance."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hostler.workloads.sieve.statistics import (
    Exits,
    Question,
    draws_looked_at,
    draws_needed,
    e_value,
    exits,
    expected,
    log_chance,
    log_tail,
    needed,
)

SEEDS = 1 << 32


def exact_tail(draws: int, least: int, probability: Fraction) -> Fraction:
    return sum(
        (
            math.comb(draws, fit) * probability**fit * (1 - probability) ** (draws - fit)
            for fit in range(max(least, 0), draws + 1)
        ),
        Fraction(0),
    )


@given(st.integers(1, 60), st.integers(-1, 61), st.integers(2, 1000))
def test_the_tail_is_the_exact_sum(draws: int, least: int, size: int) -> None:
    exact = exact_tail(draws, least, Fraction(1, size))
    if exact == 0:
        assert log_tail(draws, least, 1 / size) == -math.inf
    else:
        logarithm = math.log(exact.numerator) - math.log(exact.denominator)
        assert log_tail(draws, least, 1 / size) == pytest.approx(logarithm, rel=1e-9, abs=1e-12)


def test_alignments_are_tried_one_after_the_other() -> None:
    once = exact_tail(8, 4, Fraction(1, 1000))
    several = 1 - (1 - once) ** 52
    assert math.exp(log_chance(Question(1000, 8, 4, 52))) == pytest.approx(float(several), rel=1e-9)


@pytest.mark.parametrize(
    ("question", "seeds", "found"),
    [
        (Question(1000, 512, 6, 21), SEEDS, 1.42e6),
        (Question(1000, 8, 4, 52), SEEDS, 15.6),
        (Question(1000, 2, 1, 57), 10_000_000, 1.077e6),
    ],
)
def test_searches_that_others_made_find_what_chance_gives(question: Question, seeds: int, found: float) -> None:
    """Windows, thresholds and skips of a real system that took such counts for discoveries."""
    assert expected(question, seeds) == pytest.approx(found, rel=0.01)


def test_what_no_float_can_hold_is_still_compared() -> None:
    assert log_chance(Question(1000, 512, 512)) == pytest.approx(-512 * math.log(1000))
    assert expected(Question(1000, 512, 512), SEEDS) == 0.0
    assert expected(Question(1000, 512, 512), 0) == 0.0


def test_a_survivor_that_fits_more_is_worth_more() -> None:
    question = Question(1000, 512, 6, 21)
    values = [e_value(question, SEEDS, fitting) for fitting in (0, 6, 7, 20)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 1e-13


@given(
    st.integers(5, 1000),
    st.integers(1, 2**64),
    st.sampled_from([1.0, 0.9, 0.51, 0.3]),
    st.integers(1, 200),
)
def test_the_draws_that_are_needed_are_the_least_that_do(size: int, seeds: int, share: float, alignments: int) -> None:
    found = draws_needed(size, seeds, share=share, alignments=alignments)
    assert found is not None
    chances = [
        expected(Question(size, draws, needed(draws, share), alignments), seeds)
        for draws in range(max(1, found - 20), found + 1)
    ]
    assert chances[-1] < 0.01
    assert all(chance >= 0.01 for chance in chances[:-1])


@pytest.mark.long
def test_more_draws_do_not_help_where_chance_fits_as_many() -> None:
    assert draws_needed(1000, SEEDS, share=0.001) is None
    assert draws_needed(2, SEEDS, share=0.501) is None, "far more than ten thousand"


def test_nothing_can_be_asked_of_outputs_with_one_value() -> None:
    with pytest.raises(ValueError, match="two values"):
        Question(1, 5, 5)


def test_a_record_without_mistakes_gives_a_seed_up_at_its_first() -> None:
    plan = exits(8, 8)
    assert plan == Exits((1, 2, 3, 4, 5, 6, 7, 8), 0.0)
    assert draws_looked_at(plan, 1000) == pytest.approx(1.001, abs=1e-4)


def test_without_a_miss_only_hopeless_seeds_are_given_up() -> None:
    assert exits(6, 3, rate=0.9) == Exits((0, 0, 0, 1, 2, 3), 0.0)


@given(st.integers(5, 80), st.floats(0.55, 1.0), st.floats(0.0, 0.2), st.floats(0.5, 0.9))
def test_the_true_seed_is_missed_as_rarely_as_was_asked(draws: int, rate: float, miss: float, part: float) -> None:
    need = needed(draws, rate * part)
    plan = exits(draws, need, rate=rate, miss=miss)
    assert plan.missed <= miss
    assert plan.least[-1] >= need
    assert all(later >= former for former, later in zip(plan.least, plan.least[1:], strict=False))


def test_what_is_missed_and_looked_at_is_what_a_trial_by_chance_shows() -> None:
    plan = exits(100, 70, rate=0.9, miss=0.05)
    chance = np.random.default_rng(7)
    fits = (chance.random((20_000, 100)) < 0.9).cumsum(axis=1)
    given_up = (fits < np.array(plan.least)).any(axis=1) & (fits[:, -1] >= 70)
    assert given_up.mean() == pytest.approx(plan.missed, abs=0.01)
    wrong = (chance.random((20_000, 100)) < 0.1).cumsum(axis=1) < np.array(plan.least)
    looked_at = np.where(wrong.any(axis=1), wrong.argmax(axis=1) + 1, 100)
    assert looked_at.mean() == pytest.approx(draws_looked_at(plan, 10), rel=0.05)
