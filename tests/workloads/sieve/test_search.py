"""Searches against the recorded vectors and the oracles: the generators that have kernels of their own, or algebra."""

import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.generators import GENERATORS
from hostler.workloads.sieve.search import FIRST_SLICE, Intervals, Pace, Searcher, search_parallel, slices

from .support import Output, draws, params, vectors

SEARCHABLE = ("php-mt_rand", "python-random", "java-random", "xorshift32")

kernel_settings = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def search(given: dict[str, Any], start: int, stop: int) -> list[int]:
    return Searcher(spec.parse(given), stop - start).search(start, stop).items


def survivors(given: dict[str, Any], start: int, stop: int) -> list[int]:
    """What the oracle says: every seed of the interval, one after another."""
    checked = spec.parse(given)
    name, output, count = checked.generator.name, given["output"], len(checked.draws)

    def passes(seed: int) -> bool:
        made = draws(name, output, seed, count, checked.skip[0])
        return all(want in (None, draw) for want, draw in zip(checked.draws, made, strict=True))

    return [seed for seed in range(start, stop) if passes(seed)]


@st.composite
def outputs(draw: st.DrawFn, name: str) -> Output:
    sizes = st.one_of(st.integers(2, 2000), st.integers(2, 2**31 - 1), st.integers(1, 30).map(lambda k: 2**k))
    size = draw(sizes)
    if name == "php-mt_rand":
        low = draw(st.integers(-(2**40), 2**40))
        size = draw(st.one_of(st.just(size), st.integers(2**31, 2**32)))
        return draw(st.sampled_from([{"kind": "exact"}, {"kind": "range", "min": low, "max": low + size - 1}]))
    if name == "java-random":
        return draw(st.sampled_from([{"kind": "int"}, {"kind": "bound", "bound": size}]))
    if name == "python-random":
        return draw(st.sampled_from([{"kind": "random"}, {"kind": "randrange", "stop": size}]))
    return draw(st.sampled_from([{"kind": "exact"}, {"kind": "mod", "modulus": size}]))


@st.composite
def planted(draw: st.DrawFn, name: str) -> tuple[dict[str, Any], int]:
    """Parameters that a seed was planted in, and the seed."""
    seed = draw(st.integers(0, GENERATORS[name].seeds - 1))
    output = draw(outputs(name))
    skip = draw(st.one_of(st.just(0), st.integers(0, 5), st.integers(0, 1300)))
    made = draws(name, output, seed, draw(st.integers(1, 30)), skip)
    known = draw(st.lists(st.booleans(), min_size=len(made), max_size=len(made)))
    values = [value if keep or not any(known) else None for value, keep in zip(made, known, strict=True)]
    return params(name, output, values, skip), seed


@pytest.mark.parametrize("name", SEARCHABLE)
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


@pytest.mark.parametrize("name", SEARCHABLE)
@given(data=st.data())
@kernel_settings
def test_a_planted_seed_is_found_wherever_it_lies_in_the_interval(name: str, data: st.DataObject) -> None:
    wanted, seed = data.draw(planted(name))
    size = data.draw(st.integers(1, 1500))
    start = max(0, seed - data.draw(st.one_of(st.sampled_from([0, size - 1]), st.integers(0, size - 1))))
    stop = min(start + size, GENERATORS[name].seeds)
    assert seed in search(wanted, start, stop)


@pytest.mark.parametrize("name", SEARCHABLE)
@given(data=st.data())
@settings(kernel_settings, max_examples=25)
def test_kernels_and_oracle_agree_on_every_seed(name: str, data: st.DataObject) -> None:
    wanted, seed = data.draw(planted(name))
    # Few values and few draws, so that chance survivors come along.
    known = [i for i, value in enumerate(wanted["draws"]) if value is not None]
    wanted["draws"] = wanted["draws"][: known[0] + 1]
    start = max(0, seed - data.draw(st.integers(0, 40)))
    stop = min(start + data.draw(st.integers(1, 60)), GENERATORS[name].seeds)
    assert search(wanted, start, stop) == survivors(wanted, start, stop)


@pytest.mark.parametrize("name", SEARCHABLE)
@pytest.mark.parametrize("size", [2, 3, 1000])
def test_many_survivors_are_all_found(name: str, size: int) -> None:
    output: Output = {
        "php-mt_rand": {"kind": "range", "min": 0, "max": size - 1},
        "java-random": {"kind": "bound", "bound": size},
        "python-random": {"kind": "randrange", "stop": size},
        "xorshift32": {"kind": "mod", "modulus": size},
    }[name]
    wanted = params(name, output, [1, None, 1], skip=1)
    assert search(wanted, 100, 900) == survivors(wanted, 100, 900)


@pytest.mark.parametrize("name", SEARCHABLE)
def test_hits_on_the_borders_of_blocks_and_intervals(name: str) -> None:
    output: Output = {
        "php-mt_rand": {"kind": "exact"},
        "java-random": {"kind": "int"},
        "python-random": {"kind": "random"},
        "xorshift32": {"kind": "exact"},
    }[name]
    for lanes in (128, 256, 384):
        for seed in (0, 1, lanes - 1, lanes, 2**32 - lanes, 2**32 - 1, *((2**32,) if name[0] in "jp" else ())):
            if seed >= GENERATORS[name].seeds:
                continue
            wanted = params(name, output, draws(name, output, seed, 3))
            top = min(GENERATORS[name].seeds, seed + lanes + 1)
            assert search(wanted, seed, seed + 1) == [seed]
            assert search(wanted, max(0, seed - lanes), top) == [seed]
            assert search(wanted, max(0, seed - lanes), seed) == []
            assert search(wanted, seed + 1, top) == []


def test_a_word_that_only_fits_modulo_2_to_the_32_is_no_hit() -> None:
    modulus, target = 3_000_000_000, 2_900_000_000
    word = target + modulus - 2**32
    (seed,) = search(params("xorshift32", {"kind": "exact"}, [word]), 0, 2**32)
    assert search(params("xorshift32", {"kind": "mod", "modulus": modulus}, [target]), seed, seed + 1) == []
    assert search(params("xorshift32", {"kind": "mod", "modulus": modulus}, [word]), seed, seed + 1) == [seed]


def test_an_interval_over_a_change_of_the_key_length_is_searched_whole() -> None:
    output = {"kind": "randrange", "stop": 6}
    for border in (2**32, 2**33, 2**63):
        wanted = params("python-random", output, [5, 3])
        assert search(wanted, border - 40, border + 40) == survivors(wanted, border - 40, border + 40)


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


def test_an_error_in_a_thread_reaches_the_caller() -> None:
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
