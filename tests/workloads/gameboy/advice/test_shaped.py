"""Potentials: whatever was done in between, an episode is paid the difference of its ends, within the cap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hostler.workloads.gameboy.advice.settings import Shaping
from hostler.workloads.gameboy.advice.shaped import Shaped

MICRO = 1_000_000
PROMISE = st.one_of(st.none(), st.just(0.0), st.floats(0, 1))
STEPS = st.lists(st.tuples(PROMISE, st.integers(0, 12)), min_size=1, max_size=80)
SHAPINGS = st.builds(
    lambda weight, more, decay: Shaping(weight, weight + more, decay),
    st.integers(0, 3 * MICRO),
    st.integers(0, 5 * MICRO),
    st.integers(1, 10),
)


@dataclass
class Played:
    """An episode of one machine."""

    paid: list[int]
    first: int
    """Potential of its first state."""
    spent: int


def played(
    shaping: Shaping, discount: float, first: float | None, steps: list[tuple[float | None, int]], *, ended: bool
) -> Played:
    """By what states promise, and how often the policy was updated when they were come to."""
    shaped = Shaped(shaping, discount, 1)
    shaped.begin(0, first)
    paid = []
    for number, (promise, updates) in enumerate(steps):
        shaped.learnt(updates)
        is_last = ended and number == len(steps) - 1
        found = shaped.step([promise], np.array([is_last]))
        paid.append(0 if found is None else int(found[0]))
    return Played(paid, round(shaping.weight * (first or 0)), int(shaped.spent[0]))


@given(SHAPINGS, st.floats(0.5, 1), PROMISE, STEPS)
def test_an_episode_that_ends_takes_back_what_was_promised_at_its_beginning(
    shaping: Shaping, discount: float, first: float | None, steps: list[tuple[float | None, int]]
) -> None:
    """So which policy is best does not depend on what was paid, whatever came when: also where the cap was come to."""
    done = played(shaping, discount, first, steps, ended=True)
    whole = sum(discount**step * paid for step, paid in enumerate(done.paid))
    assert whole == pytest.approx(-done.first, abs=0.5 * len(steps) + 1e-3), "half a millionth a step for rounding"


@given(SHAPINGS, st.floats(0.5, 1), PROMISE, STEPS)
def test_what_is_paid_and_taken_is_never_more_than_the_cap(
    shaping: Shaping, discount: float, first: float | None, steps: list[tuple[float | None, int]]
) -> None:
    for ended in (True, False):
        done = played(shaping, discount, first, steps, ended=ended)
        assert done.spent == sum(map(abs, done.paid)) <= shaping.cap


def test_a_better_state_is_paid_and_a_worse_one_costs() -> None:
    shaping = Shaping(weight=MICRO, cap=100 * MICRO, decay_updates=10)
    done = played(shaping, 0.9, 0.0, [(0.5, 0), (1.0, 0), (0.0, 0), (0.0, 0)], ended=False)
    assert done.paid == [450_000, 400_000, -1_000_000, 0]


def test_what_the_cap_has_closed_stays_closed_until_the_next_episode() -> None:
    shaped = Shaped(Shaping(weight=MICRO, cap=MICRO, decay_updates=10), 1.0, 2)
    nobody = np.zeros(2, np.bool_)

    def step(*promises: float) -> list[int]:
        found = shaped.step(promises, nobody)
        return [0, 0] if found is None else found.tolist()

    assert step(0.5, 0.2) == [500_000, 200_000]
    assert step(0.8, 0.2) == [-500_000, 0], "0.3 more, and 0.8 to take back, would be too much"
    assert step(1.0, 0.4) == [0, 200_000]
    shaped.begin(0, 0.0)
    assert step(0.4, 0.4) == [400_000, 0]


def test_what_nobody_promised_costs_nothing() -> None:
    shaped = Shaped(Shaping(weight=MICRO, cap=MICRO, decay_updates=10), 0.9, 3)
    assert shaped.step([None] * 3, np.zeros(3, np.bool_)) is None


def test_a_state_that_nobody_knows_counts_as_the_one_before() -> None:
    shaping = Shaping(weight=MICRO, cap=100 * MICRO, decay_updates=10)
    assert played(shaping, 1.0, None, [(0.5, 0), (None, 0), (0.7, 0)], ended=False).paid == [500_000, 0, 200_000]


def test_an_episode_that_is_only_cut_off_keeps_its_potential() -> None:
    """What is ahead of it is thought to be there, less what was paid for it already."""
    shaping = Shaping(weight=MICRO, cap=10 * MICRO, decay_updates=10)
    assert played(shaping, 1.0, 0.0, [(1.0, 0)], ended=False).paid == [MICRO]
    assert played(shaping, 1.0, 0.0, [(1.0, 0)], ended=True).paid == [0]
