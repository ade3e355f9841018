"""``lattice`` finds every planted state."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.sieve.generators import generator
from hostler.workloads.sieve.methods.lattice import Lattice

from .questions import LCG64, LCG128, end, found, question, survives

CASES: list[tuple[str, dict[str, Any], int]] = [
    ("java", {"kind": "double"}, 2),
    ("java", {"kind": "int"}, 3),
    ("java", {"kind": "long"}, 1),
    ("java", {"kind": "float"}, 4),
    ("java", {"kind": "floor", "n": 1000}, 8),
    ("java", {"kind": "bound", "bound": 1 << 16}, 5),
    ("java", {"kind": "bound", "bound": 32}, 14),
    ("msvc", {"kind": "exact"}, 4),
    ("msvc", {"kind": "floor", "n": 10}, 12),
    ("minstd", {"kind": "exact"}, 2),
    ("minstd0", {"kind": "floor", "n": 10}, 14),
    ("glibc-type0", {"kind": "float"}, 2),
    (LCG64, {"kind": "float"}, 4),
    (LCG128, {"kind": "floor", "n": 100_000}, 12),
]
QUICK = ("double", "exact", "long")


@pytest.mark.parametrize(
    ("name", "call", "count"),
    [pytest.param(*case, marks=() if case[1]["kind"] in QUICK else pytest.mark.long) for case in CASES],
)
@given(
    planted=st.integers(0, (1 << 128) - 1),
    at=st.tuples(st.integers(0, 3), st.integers(0, 1)),
    items=st.sampled_from(["seeds", "states"]),
)
@settings(max_examples=5, deadline=None)
def test_planted_items_are_found(
    name: str, call: dict[str, object], count: int, planted: int, at: tuple[int, int], items: str
) -> None:
    planted %= generator(name).engine.states
    spec = question(name, call, count, planted, at=at, skip=(0, 3), gap=(0, 1), items=items)
    made = found(Lattice(), spec)
    assert planted in made
    assert all(survives(spec, item) for item in made if item % (1 << 31))


def test_a_whole_range_is_searched_like_one_by_one() -> None:
    spec = question("lcg:5,3,4096,2", {"kind": "floor", "n": 9}, 3, 777, at=(1, 1), skip=(0, 1), gap=(0, 1))
    assert found(Lattice(), spec) == [item for item in range(4096) if survives(spec, item)]
    odd = question("lcg:75,74,4099,0", {"kind": "floor", "n": 9}, 3, 777)
    assert found(Lattice(), odd) == [item for item in range(4099) if survives(odd, item)]


def test_calls_in_turn_hidden_draws_and_ends() -> None:
    calls = [{"kind": "bound", "bound": 64}, {"kind": "double"}]
    assert 77 in found(Lattice(), question("java", calls, 8, 77, at=(2, 0), hide=[1, 4]))
    spec = question("java", {"kind": "float"}, 5, 77, at=(0, 2), items="ends")
    assert end(spec, 77, 2) in found(Lattice(), spec)


def test_a_draw_that_never_comes_excludes_all() -> None:
    spec = question("msvc", {"kind": "floor", "n": 100_000}, 4, 5)
    values = {(word * 100_000) >> 15 for word in range(1 << 15)}
    never = next(value for value in range(100_000) if value not in values)
    impossible = type(spec)(spec.generator, spec.calls, (*spec.draws[:3], never))
    assert found(Lattice(), impossible) == []


@pytest.mark.parametrize(
    ("name", "call", "count", "why"),
    [
        ("java", {"kind": "bound", "bound": 1000}, 8, "draws again"),
        ("msvc", {"kind": "mod", "modulus": 10}, 8, "no draw bounds"),
        ("java", {"kind": "boolean"}, 60, "leave 2^"),
        ("java", {"kind": "double"}, 0, ""),
        ("xorshift32", {"kind": "float"}, 8, "no linear congruential"),
    ],
)
def test_why_it_does_not_apply(name: str, call: dict[str, object], count: int, why: str) -> None:
    answer = Lattice().offer(question(name, call, max(count, 1), 1, share=1.0 if count else 0.5, hide=[]))
    if count:
        assert isinstance(answer, str)
        assert why in answer
