"""``low-bits`` finds every planted state, also where words are drawn again, and says when it does not apply."""

import random

import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.sieve.generators import generator, java_random
from hostler.workloads.sieve.methods.low_bits import LowBits

from .questions import LCG64, end, found, offered, question, survives

BOUND = {"kind": "bound", "bound": 1000}


@pytest.mark.parametrize("count", [6, pytest.param(8, marks=pytest.mark.long), 12])
def test_all_states_of_java_are_searched(count: int) -> None:
    seed = 0x1234_5678_9ABC + count
    spec = question("java", BOUND, count, seed)
    assert offered(LowBits(), spec).fixed_s < 1
    assert [item for item in found(LowBits(), spec) if survives(spec, item)] == [seed]


@pytest.mark.long
@given(
    st.integers(0, (1 << 48) - 1),
    st.integers(200, 4000),
    st.tuples(st.integers(0, 5), st.integers(0, 2)),
    st.booleans(),
)
@settings(max_examples=6, deadline=None)
def test_planted_seeds_of_java_are_found(seed: int, half: int, at: tuple[int, int], hides: bool) -> None:
    call = {"kind": "bound", "bound": 2 * half + 2 * (half & (half - 1) == 0)}
    spec = question("java", call, 24, seed, at=at, hide=[1, 23] if hides else [], skip=(0, 5), gap=(0, 2))
    assert seed in found(LowBits(), spec)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("msvc", {"kind": "mod", "modulus": 100}),
        ("glibc-type0", {"kind": "mod", "modulus": 60}),
        ("glibc-type0", {"kind": "exact"}),
        ("lcg:1103515245,12345,2147483648,0", {"kind": "mod", "modulus": 1200}),
        ("lcg:1664525,1013904223,4294967296,10", {"kind": "mod", "modulus": 1 << 20}),
        ("lcg:5,3,65536,4", {"kind": "mod", "modulus": 10}),
    ],
)
@given(planted=st.integers(0, 1 << 20), skip=st.integers(0, 3), items=st.sampled_from(["seeds", "states"]))
@settings(max_examples=3, deadline=None)
def test_planted_items_are_found(name: str, call: dict[str, object], planted: int, skip: int, items: str) -> None:
    planted %= generator(name).engine.states
    spec = question(name, call, 40, planted, at=(skip, 0), skip=(0, 3), items=items)
    assert planted in found(LowBits(), spec)


def test_nothing_is_lost_and_little_is_added_over_a_whole_range() -> None:
    spec = question("lcg:5,3,8192,4", {"kind": "mod", "modulus": 10}, 3, 777, at=(1, 1), skip=(0, 1), gap=(0, 1))
    everything = found(LowBits(), spec)
    assert everything == [item for item in range(8192) if survives(spec, item)]
    assert found(LowBits(), spec, 700, 800) == [item for item in everything if 700 <= item < 800]


def test_what_is_drawn_again_is_followed() -> None:
    bound, source = 8 * 8191, random.Random(1)
    limit = 2**31 - 2**31 % bound - 1
    for place in range(1, 5):
        for _ in range(2):
            # The state of a word that is thrown away, and back from there to the seed.
            state = source.randint(limit + 1, 2**31 - 1) << 17 | source.getrandbits(17)
            for _ in range(place + 1):
                state = java_random.back(state)
            seed = state ^ java_random.MULTIPLIER
            spec = question("java", {"kind": "bound", "bound": bound}, 7, seed)
            words = spec.generator.words(seed)
            assert [next(words) >> 1 > limit for _ in range(place + 1)][-1]
            assert seed in found(LowBits(), spec)


@pytest.mark.long
def test_calls_of_several_kinds_in_turn() -> None:
    calls = [BOUND, {"kind": "double"}, {"kind": "boolean"}]
    spec = question("java", calls, 18, 987654321, at=(2, 0))
    assert 987654321 in found(LowBits(), spec)


def test_many_draws_are_no_more_trouble_than_few() -> None:
    assert 123 in found(LowBits(), question("java", BOUND, 5000, 123, at=(1, 0), skip=(0, 2)))


def test_ends_are_the_states_of_the_last_draw() -> None:
    spec = question("java", BOUND, 8, 4242, at=(0, 1), items="ends")
    assert end(spec, 4242, 1) in found(LowBits(), spec)


@pytest.mark.parametrize(
    ("name", "call", "why"),
    [
        ("java", {"kind": "bound", "bound": 999}, "even number"),
        ("java", {"kind": "bound", "bound": 2**30 + 2}, "draws again too often"),
        ("minstd", {"kind": "mod", "modulus": 10}, "modulo 2^k"),
        ("xorshift32", {"kind": "mod", "modulus": 10}, "no linear congruential"),
        (LCG64 + "", {"kind": "bits", "shift": 20, "bits": 3}, "lower parts to sieve"),
    ],
)
def test_why_it_does_not_apply(name: str, call: dict[str, object], why: str) -> None:
    answer = LowBits().offer(question(name, call, 40, 1))
    assert isinstance(answer, str)
    assert why in answer


def test_it_wants_all_draws() -> None:
    for how in ({"share": 0.5}, {"missing": 1}):
        assert isinstance(LowBits().offer(question("java", BOUND, 12, 1, **how)), str)
    assert "by chance" in str(LowBits().offer(question("java", BOUND, 2, 1)))
    # The lower bits of these states go round without the upper ones.
    low = question("glibc-type0", {"kind": "bits", "shift": 2, "bits": 5}, 40, 1)
    assert "by chance" in str(LowBits().offer(low))
