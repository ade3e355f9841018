"""The planner: the cheapest method that finds every item, and what the others said."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.methods.choosing import WAYS, choose, offer_of
from hostler.workloads.sieve.search import Searcher
from tests.workloads.sieve.support import draws

BOUND = {"kind": "bound", "bound": 1000}


def asked(name: str, call: dict[str, Any], count: int, **how: Any) -> spec.Spec:
    made = draws(name, call, 4711, count)
    return spec.parse({"schema": 2, "generator": name, "calls": [call], "draws": made, **how})


@pytest.mark.parametrize(
    ("name", "call", "count", "method"),
    [
        ("java", BOUND, 10, "low-bits"),
        ("java", {"kind": "bound", "bound": 999}, 10, "halves"),
        ("java", {"kind": "double"}, 4, "lattice"),
        ("xorshift128", {"kind": "mod", "modulus": 1000}, 60, "gf2"),
        ("lcg:1103515245,12345,2147483647,0", {"kind": "mod", "modulus": 1000}, 6, "line"),
        ("glibc", {"kind": "mod", "modulus": 1000}, 6, "lanes"),
    ],
)
def test_algebra_goes_before_brute_force_where_there_is_some(name: str, call: Any, count: int, method: str) -> None:
    search = asked(name, call, count)
    chosen = choose(search, search.size)
    assert chosen.name == method
    assert chosen.others.keys() == WAYS.keys() - {method}
    assert all(isinstance(said, float) or said for said in chosen.others.values())


def test_too_little_to_go_on_is_left_to_those_that_search_an_interval() -> None:
    search = asked("java", BOUND, 2)
    assert choose(search, 1000).name == "lanes"
    assert "by chance" in str(offer_of("low-bits", search))
    assert Searcher(search).search(4700, 4720).items == [4711]


def test_a_method_that_is_named_is_taken_or_refused() -> None:
    assert choose(asked("java", BOUND, 10, method="lanes"), 1 << 48).name == "lanes"
    with pytest.raises(SpecError, match=r"no method searches for this.*gf2: "):
        choose(asked("java", BOUND, 10, method="gf2"), 1 << 48)
