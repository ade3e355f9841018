"""The judge: alignments, mistakes, missing outputs, states, ends; and what comes next."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators import generator, oracle
from hostler.workloads.sieve.judge import NEXT, judge
from hostler.workloads.sieve.spec import Spec

from .support import draws

MOD = {"kind": "mod", "modulus": 1000}


def asked(name: str, calls: list[dict[str, Any]], values: list[int | None], **how: Any) -> Spec:
    return spec.parse({"schema": 2, "generator": name, "calls": calls, "draws": values, **how})


def test_the_best_alignment_is_told_and_the_draws_after_it() -> None:
    made = draws("xorshift32", MOD, 77, 200)
    search = asked("xorshift32", [MOD], made[5 + 3 : 90 : 4], skip=[0, 9], gap=[0, 4])
    found = judge(search, 77)
    assert found is not None
    assert (found.skip, found.gap, found.fitting, found.dropped) == (5, 3, search.known, None)
    assert found.following == tuple(made[8 + 4 * len(search.draws) :: 4][:NEXT])
    assert judge(search, 78) is None


def test_a_round_of_calls_goes_on_where_it_was() -> None:
    dice, coin = {"kind": "range", "min": 1, "max": 6}, {"kind": "range", "min": 0, "max": 1}
    made_by = generator("php8")
    words, calls = made_by.words(9), [spec.parse_output(made_by, each) for each in (dice, coin)]
    made = [calls[i % 2].take(words) for i in range(60)]
    search = asked("php8", [dice, coin], [*made[4:33]], skip=[0, 3])
    found = judge(search, 9)
    assert found is not None
    assert found.skip == 2, "rounds of two calls"
    assert found.following == tuple(made[33:38])


@given(wrong=st.sets(st.integers(0, 19), max_size=8))
@settings(max_examples=30)
def test_as_many_mistakes_as_are_allowed_are_forgiven(wrong: set[int]) -> None:
    made = draws("java", {"kind": "bound", "bound": 1000}, 5, 20)
    values: list[int | None] = [(value + 1) % 1000 if i in wrong else value for i, value in enumerate(made)]
    found = judge(asked("java", [{"kind": "bound", "bound": 1000}], values, share=0.75), 5)
    assert (found is not None) == (len(wrong) <= 5)
    assert found is None or found.fitting == 20 - len(wrong)


@given(dropped=st.lists(st.integers(0, 3), min_size=12, max_size=12), hole=st.integers(0, 11))
@settings(max_examples=30)
def test_missing_outputs_are_found_where_they_are_missing(dropped: list[int], hole: int) -> None:
    made = iter(draws("xorshift32", {"kind": "exact"}, 1234, 80))
    values: list[int | None] = [next(islice(made, more, None)) for more in dropped]
    values[hole] = None
    after = tuple(islice(made, NEXT))
    found = judge(asked("xorshift32", [{"kind": "exact"}], values, missing=3), 1234)
    assert found is not None
    assert found.dropped is not None
    assert sum(found.dropped) <= sum(dropped)
    if hole < 11:
        assert found.following == after


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("java", {"kind": "bound", "bound": 1000}),
        ("java", {"kind": "bound", "bound": (1 << 30) + 1}),  # every second word is drawn again
        ("java", {"kind": "double"}),
        ("xorshift64", MOD),
        ("pcg32", MOD),
        ("minstd", MOD),
    ],
)
def test_the_state_after_the_last_draw_leads_back_through_all_of_them(name: str, call: dict[str, Any]) -> None:
    made_by = generator(name)
    output = spec.parse_output(made_by, call)
    state, engine = made_by.engine.seed(99), made_by.engine
    words = made_by.words(99)
    taken = 0

    def counted() -> Any:
        nonlocal taken
        for word in words:
            taken += 1
            yield word

    source = counted()
    made = [output.take(source) for _ in range(15)]
    for _ in range(taken):
        state = engine.step(state)
    search = asked(name, [call], list(made), items="ends")
    found = judge(search, state)
    assert found is not None
    assert found.following == tuple(output.show(draw) for draw in islice(oracle(made_by, output, 99, skip=15), NEXT))
    assert judge(search, state ^ 4) is None


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ({"gap": [3, 1]}, "ends before it starts"),
        ({"items": "ends", "skip": [0, 4]}, "before an end nothing is skipped"),
        ({"share": 0.0}, "share"),
        ({"share": 1.5}, "share"),
        ({"miss": 0.1}, "miss"),
        ({"missing": 2, "share": 0.5}, "missing: all draws"),
        ({"items": "words"}, "items"),
        ({"method": "guessing"}, "method"),
        ({"skip": [0, 10**6], "gap": [0, 10]}, "alignments"),
    ],
)
def test_what_makes_no_sense_is_refused(how: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        asked("xorshift32", [MOD], [1, 2, 3], **how)


def test_calls_that_split_words_differently_are_refused() -> None:
    with pytest.raises(SpecError, match="half a word"):
        asked("numpy", [{"kind": "below", "n": 10}, {"kind": "float"}], [1, 0.5, 2, 0.25])


def test_states_that_are_no_numbers_cannot_be_counted_through() -> None:
    with pytest.raises(SpecError, match="no single numbers"):
        asked("php8", [{"kind": "exact"}], [1, 2, 3], items="states")
