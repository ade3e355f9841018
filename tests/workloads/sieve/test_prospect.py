"""What a search will be worth, in numbers and in words; its control."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.prospect import BELOW, prospect, shuffled, told

from .support import draws

DICE = {"kind": "range", "min": 1, "max": 100}


def asked(count: int, **how: Any) -> dict[str, Any]:
    return {"schema": 2, "generator": "php8", "calls": [DICE], "draws": draws("php8", DICE, 5, count), **how}


def test_few_draws_settle_nothing_and_it_says_how_many_would() -> None:
    search = spec.parse(asked(4))
    found = prospect(search, 1 << 32)
    assert found.expected == pytest.approx(2**32 / 100**4)
    assert (found.settles, found.needed) == (False, 6)
    lines = list(told(search, found))
    assert lines[0] == "php-mt_rand, mt_rand(1, 100): 4 known draws, 4294967296 seeds"
    assert "6 known draws would do" in lines[-1]


@given(skips=st.integers(0, 50), share=st.sampled_from([1.0, 0.7, 0.5]))
@settings(max_examples=20)
def test_as_many_draws_as_are_needed_settle_it(skips: int, share: float) -> None:
    few = prospect(spec.parse(asked(3, skip=[0, skips], share=share)), 1 << 32)
    assert few.needed is not None
    enough = prospect(spec.parse(asked(few.needed, skip=[0, skips], share=share)), 1 << 32)
    assert enough.expected < BELOW
    assert len(list(told(spec.parse(asked(few.needed, skip=[0, skips], share=share)), enough))) == 2


def test_a_control_has_the_same_draws_in_another_order_and_is_the_same_each_time() -> None:
    params = spec.canonical(spec.parse(asked(12)))
    params["draws"][5] = None
    control = shuffled(params)
    assert control["draws"] != params["draws"]
    assert control["draws"][5] is None
    assert sorted(filter(None, control["draws"])) == sorted(filter(None, params["draws"]))
    assert shuffled(params) == control


def test_draws_of_a_control_stay_with_their_calls() -> None:
    calls = [DICE, {"kind": "range", "min": 1, "max": 6}]
    params = {"schema": 2, "generator": "php8", "calls": calls, "draws": [70, 1, 80, 2, 90, 3, 99, 4]}
    control = shuffled(params)
    assert spec.parse(control).draws != spec.parse(params).draws
    assert sorted(control["draws"][::2]) == [70, 80, 90, 99]


@pytest.mark.parametrize("found", [[7, 8], [7, 8, 9], [7, None, 7, 7, 7], [7]])
def test_a_control_never_asks_the_question_itself(found: list[int | None]) -> None:
    for first in range(1, 50):
        params: dict[str, Any] = {"schema": 2, "generator": "php8", "calls": [DICE]}
        params["draws"] = [*found, *[None] * first]
        control = shuffled(params)
        assert control["draws"] != params["draws"]
        assert [draw is None for draw in control["draws"]] == [draw is None for draw in params["draws"]]
        spec.parse(control)
