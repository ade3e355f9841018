"""Searches against the recorded vectors and the oracles: the generators that have kernels of their own, or algebra."""

import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.workloads.sieve import search as search_, spec
from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.generators import GENERATORS
from hostler.workloads.sieve.search import FIRST_SLICE, Intervals, Pace, Searcher, search_parallel, slices

from .support import params, tiers, vectors

SEARCHABLE = ("php-mt_rand", "python-random", "java-random", "xorshift32")


def search(given: dict[str, Any], start: int, stop: int) -> list[int]:
    return Searcher(spec.parse(given), stop - start).search(start, stop).items


@pytest.mark.parametrize("name", tiers(SEARCHABLE, {"xorshift32"}))
def test_kernels_find_the_seed_of_every_vector(name: str) -> None:
    for made_by, vector in vectors():
        if made_by != name or vector["output"]["kind"] in ("shuffle", "perm"):
            continue
        if not isinstance(vector["seed"], int) or not 0 <= vector["seed"] < GENERATORS[name].seeds:
            continue
        if len(set(vector["draws"])) == 1:  # outputs of one value, and the dead seed of xorshift32
            continue
        seed, seeds = vector["seed"], GENERATORS[name].seeds
        wanted = params(name, vector["output"], vector["draws"], vector["skip"])
        found = search(wanted, max(0, seed - 3), min(seeds, seed + 4))
        assert seed in found, vector


def test_too_many_hits_are_an_error_that_says_what_to_do() -> None:
    wanted = params("xorshift32", {"kind": "mod", "modulus": 2}, [1])
    with pytest.raises(TooManyHits, match="give more known draws"):
        search(wanted, 0, 20_000)


def test_threads_search_every_seed_once() -> None:
    wanted = spec.parse(params("java-random", {"kind": "bound", "bound": 1000}, [130, 763, 248, 884]))
    parts = sorted(search_parallel(wanted, 0, 100_001, 3, time.monotonic), key=lambda part: part.start)
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == 100_001
    assert [seed for part in parts for seed in part.items] == [42]


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_, "MAX_HITS", 100)
    wanted = spec.parse(params("xorshift32", {"kind": "mod", "modulus": 2}, [1]))
    with pytest.raises(TooManyHits):
        list(search_parallel(wanted, 0, 10**9, 2, time.monotonic))


def test_slices_cover_the_interval_in_order() -> None:
    searcher = Searcher(spec.parse(params("xorshift32", {"kind": "exact"}, [1])))
    ticks = iter(range(10**6))
    parts = list(slices(searcher, Intervals(5, 50_000), lambda: next(ticks) * 1e-3))
    assert parts[0].start == 5
    assert all(before.stop == after.start for before, after in pairwise(parts))
    assert parts[-1].stop == 50_000


@given(seconds=st.lists(st.floats(0, 100), max_size=40))
def test_pace_moves_by_bounded_steps_and_stays_positive(seconds: list[float]) -> None:
    pace = Pace()
    for took in seconds:
        before = pace.size
        pace.took(pace.size, took)
        assert 1 <= pace.size <= before * 8
        pace.took(pace.size - 1, 1e-9)
    assert seconds or pace.size == FIRST_SLICE
