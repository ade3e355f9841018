"""Chances of real generators, against counts of all their states."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from math import exp, log
from typing import Any

import pytest

from hostler.workloads.sieve import chances, spec
from hostler.workloads.sieve.generators import generator, oracle
from hostler.workloads.sieve.prospect import prospect, told

from .support import draws

SMALL = "lcg:1229,351,65536"


def asked(name: str, call: dict[str, Any], count: int, seed: int = 12345, **how: Any) -> spec.Spec:
    made = draws(name, call, seed, count)
    return spec.parse({"schema": 2, "generator": name, "calls": [call], "draws": made, **how})


def survivors(name: str, call: dict[str, Any], count: int, *seeds: int) -> list[int]:
    """Wrong seeds that make the draws of each of these, all counted."""
    made_by = generator(name)
    output = spec.parse_output(made_by, call)
    every = [tuple(islice(oracle(made_by, output, seed), count)) for seed in range(made_by.seeds)]
    often = Counter(every)
    return [often[every[seed]] - 1 for seed in seeds]


@pytest.mark.parametrize("modulus", [*(pytest.param(each, marks=pytest.mark.long) for each in (24, 40)), 112])
def test_low_bits_that_agree_once_always_do(modulus: int) -> None:
    call = {"kind": "mod", "modulus": modulus}
    found = survivors(SMALL, call, 2, 1, 12345, 60001)
    foretold = exp(spec.log_chance(asked(SMALL, call, 2))) * 65536
    assert sum(found) / 3 == pytest.approx(foretold, rel=0.25)
    assert foretold > 4 * 65536 / modulus**2


def test_a_search_that_low_bits_leave_open_is_not_called_settled() -> None:
    search = asked("lcg:1664525,1013904223,4294967296", {"kind": "mod", "modulus": 1000}, 4)
    found = prospect(search, 1 << 32)
    assert found.expected == pytest.approx(2**32 * (1e-12 + 125**-4 / 8))
    assert (found.settles, found.needed) == (False, 6)


def test_with_a_share_low_bits_count_as_well() -> None:
    name, call = "lcg:1664525,1013904223,4294967296", {"kind": "mod", "modulus": 1000}
    search = asked(name, call, 10, share=0.5)
    assert spec.log_chance(search) > log(252 / 8 * 125**-5 * 0.9)


def test_seeds_that_no_draw_tells_apart_are_told_and_are_no_wrong_ones() -> None:
    search = asked("glibc-type0", {"kind": "mod", "modulus": 8}, 30)
    found = prospect(search, 1 << 32)
    assert found.settles
    assert found.same == pytest.approx(2**29, rel=1e-6)
    assert "make the same draws for ever" in list(told(search, found))[-1]
    assert prospect(asked("java", {"kind": "bound", "bound": 8}, 30), 1 << 48).same == 0


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("msvc", {"kind": "mod", "modulus": 20000}),
        pytest.param("msvc", {"kind": "floor", "n": 40000}, marks=pytest.mark.long),
        ("msvc", {"kind": "mod", "modulus": 1000}),
        ("lcg:5,3,50000", {"kind": "bits", "shift": 4, "bits": 12}),
        ("lcg:5,3,50000", {"kind": "bits", "shift": 3, "bits": 10}),
        ("lcg:5,3,50000,2", {"kind": "mod", "modulus": 700}),
    ],
)
def test_how_often_values_come(name: str, call: dict[str, Any]) -> None:
    made_by = generator(name)
    output = spec.parse_output(made_by, call)
    likely = chances.likelihood(made_by, output)
    states = range(50_000) if name.startswith("lcg") else [word << 16 for word in range(1 << 15)]
    values = [output.take(iter([made_by.engine.word(state)])) for state in states]
    for value in {*values[:20], *values[-5:]}:
        assert exp(likely(value)) == pytest.approx(values.count(value) / len(values))
    assert sum(exp(likely(value)) for value in range(output.lowest, output.lowest + output.size)) == pytest.approx(1)


def test_a_value_that_never_comes_has_no_chance() -> None:
    call = {"kind": "floor", "n": 40000}
    search = spec.parse({"schema": 2, "generator": "msvc", "calls": [call], "draws": [1, 2, 3, 4, 5]})
    never = next(v for v in range(40000) if chances.likelihood(search.generator, search.calls[0])(v) == float("-inf"))
    params = spec.canonical(search) | {"draws": [never]}
    assert 0 < spec.chance(params) < 1e-300
    assert prospect(spec.parse(params), 1 << 32).needed == 3
    never_any = spec.parse({"schema": 2, "generator": "msvc", "calls": [call], "draws": [never] * 4, "share": 0.5})
    assert prospect(never_any, 1 << 32).expected == 0
