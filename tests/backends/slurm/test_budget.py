"""Looks keep to the budget in any minute whatsoever, and rest after failures."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given, strategies as st

from hostler.backends.slurm.budget import REST_MAX_S, REST_S, WINDOW_S, Budget

from .running import Wound


@given(
    per_minute=st.integers(1, 10),
    gaps=st.lists(st.floats(0, 90, allow_subnormal=False), min_size=1, max_size=40),
)
@example(per_minute=1, gaps=[1.1, 0.0, 0.0])
def test_in_no_minute_are_there_more_looks_than_allowed(per_minute: int, gaps: list[float]) -> None:
    clock = Wound()
    budget = Budget(clock, per_minute, lambda: 0.0)
    made: list[float] = []

    async def look() -> None:
        for gap in gaps:
            clock.time += gap
            await budget.turn("squeue")
            made.append(clock.time)

    asyncio.run(look())
    for first, later in zip(made, made[per_minute:], strict=False):
        assert later - first >= WINDOW_S - 1e-6
    assert budget.counts == {"squeue": len(gaps)}


def test_within_the_budget_nobody_waits() -> None:
    clock = Wound()
    budget = Budget(clock, 3, lambda: 0.0)

    async def look() -> None:
        for _ in range(3):
            await budget.turn("squeue")

    asyncio.run(look())
    assert clock.slept == []
    assert budget.wait_s() == WINDOW_S
    clock.time += 25.0
    assert budget.wait_s() == WINDOW_S - 25.0


def test_failures_make_looks_rest_longer_and_longer_until_one_succeeds() -> None:
    clock = Wound()
    budget = Budget(clock, 1000, lambda: 0.5)
    rests = []
    for _ in range(9):
        budget.failed()
        rests.append(budget.wait_s())
    assert rests[:4] == [REST_S, 2 * REST_S, 4 * REST_S, 8 * REST_S]
    assert rests[-1] == REST_MAX_S
    assert budget.failures == 9
    budget.succeeded()
    assert (budget.wait_s(), budget.failures) == (0.0, 0)
    budget.failed()
    assert budget.wait_s() == REST_S


@pytest.mark.parametrize(("chance", "rest"), [(0.0, REST_S / 2), (0.999, REST_S * 1.499)])
def test_rests_are_spread(chance: float, rest: float) -> None:
    budget = Budget(Wound(), 1, lambda: chance)
    budget.failed()
    assert budget.wait_s() == pytest.approx(rest)


def test_who_waits_first_goes_first() -> None:
    clock = Wound()
    budget = Budget(clock, 1, lambda: 0.0)
    order: list[str] = []

    async def look(name: str) -> None:
        await budget.turn(name)
        order.append(name)

    async def together() -> None:
        await asyncio.gather(*(look(name) for name in "abc"))

    asyncio.run(together())
    assert order == ["a", "b", "c"]


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="give at least 1"):
        Budget(Wound(), 0, lambda: 0.0)
