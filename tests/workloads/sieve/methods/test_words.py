"""``words`` finds every planted item, and undoing is the inverse of what the generators do."""

import dataclasses
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.generators import pcg32, splitmix64, xorshift, xoshiro
from hostler.workloads.sieve.generators.rules import Part, Residue, Span, Want
from hostler.workloads.sieve.methods.choices import Choices
from hostler.workloads.sieve.methods.choosing import choose
from hostler.workloads.sieve.methods.matrices import Matrix, inverse
from hostler.workloads.sieve.methods.near import Near
from hostler.workloads.sieve.methods.picks import Single
from hostler.workloads.sieve.methods.words import Words
from hostler.workloads.sieve.search import Searcher

from .questions import Call, end, found, noise, offered, question, survives

WORD = 1 << 64
EXACT, FLOAT = {"kind": "exact"}, {"kind": "float"}
CASES: list[tuple[str, Call, int]] = [
    ("splitmix64", EXACT, 3),
    ("splitmix64", FLOAT, 4),
    ("splitmix64", {"kind": "bits", "shift": 16, "bits": 48}, 4),
    ("splitmix64", {"kind": "bits", "shift": 0, "bits": 48}, 4),
    ("splitmix64", {"kind": "mod", "modulus": (1 << 50) + 3}, 4),
    ("xorshift64star", EXACT, 3),
    ("xorshift64star", FLOAT, 4),
    ("xorshift64star", {"kind": "bits", "shift": 8, "bits": 50}, 4),
    ("pcg32", EXACT, 5),
    ("pcg32", FLOAT, 5),
    ("pcg32", {"kind": "bits", "shift": 5, "bits": 27}, 6),
    ("pcg32", {"kind": "mod", "modulus": 999_999_937}, 6),
    ("pcg32-54", EXACT, 5),
]
SEEDED: list[tuple[str, Call, int]] = [
    ("lua-random", {"kind": "integer"}, 4),
    ("lua-random", FLOAT, 5),
    ("lua-random", {"kind": "below", "n": 1 << 48}, 5),
    ("lua-random", {"kind": "range", "min": -(1 << 63), "max": (1 << 63) - 1}, 4),
]
SEEDS = st.integers(1, WORD - 1)
NUMBERS = st.integers(0, WORD - 1)


@pytest.mark.parametrize(("name", "call", "count"), CASES)
@given(
    planted=SEEDS,
    at=st.tuples(st.integers(0, 9), st.integers(0, 2)),
    items=st.sampled_from(["seeds", "states"]),
    hide=st.sampled_from([[], [0], [1]]),
)
@settings(max_examples=3, deadline=None)
def test_planted_items_are_found(
    name: str, call: Call, count: int, planted: int, at: tuple[int, int], items: str, hide: list[int]
) -> None:
    spec = question(name, call, count + 1, planted, at=at, hide=hide, skip=(0, 9), gap=(0, 2), items=items)
    made = found(Words(), spec)
    assert planted in made
    # All that fits in one skip fits in the others after some steps.
    assert len(made) == 10
    assert all(survives(spec, item) for item in made)


@pytest.mark.parametrize(("name", "call", "count"), SEEDED)
@given(planted=SEEDS, at=st.tuples(st.integers(0, 9), st.integers(0, 1)), hide=st.sampled_from([[], [0], [1]]))
@settings(max_examples=3, deadline=None)
def test_planted_seeds_of_lua_are_found(
    name: str, call: Call, count: int, planted: int, at: tuple[int, int], hide: list[int]
) -> None:
    spec = question(name, call, count + 1, planted, at=at, hide=hide, skip=(0, 9), gap=(0, 1))
    assert found(Words(), spec) == [planted]


def test_every_place_of_lua_gives_its_seed() -> None:
    source = random.Random(17)
    for skip in range(64):
        seed = source.randrange(WORD)
        assert found(Words(), question("lua", FLOAT, 3, seed, at=(skip, 0))) == [seed]


@pytest.mark.long
def test_far_from_the_seed() -> None:
    for name in ("splitmix64", "xorshift64star", "pcg32"):
        assert 5 in found(Words(), question(name, EXACT, 4, 5, at=(90_000, 0), skip=(89_990, 90_000)))
        assert 5 in found(Words(), question(name, EXACT, 4, 5, at=(1, 3000)))
    assert found(Words(), question("lua", FLOAT, 4, 5, at=(2000, 500))) == [5]


@pytest.mark.parametrize("call", [EXACT, FLOAT, {"kind": "bits", "shift": 20, "bits": 44}])
@given(SEEDS)
@settings(max_examples=3, deadline=None)
def test_the_first_word_of_xoshiro_gives_its_seed(call: Call, seed: int) -> None:
    assert found(Words(), question("xoshiro256starstar", call, 5, seed)) == [seed]
    assert found(Words(), question("xoshiro256starstar", call, 30, seed, hide=range(2, 28))) == [seed]


@pytest.mark.parametrize("name", ["splitmix64", "xorshift64star", "pcg32", "pcg32-54"])
@given(SEEDS, st.integers(0, 3), st.booleans())
@settings(max_examples=3, deadline=None)
def test_ends_are_found(name: str, seed: int, gap: int, hidden: bool) -> None:
    spec = question(name, EXACT, 6, seed, at=(0, gap), hide=[5] if hidden else [], items="ends")
    assert found(Words(), spec) == [end(spec, seed, gap)]


def test_calls_in_turn() -> None:
    calls = [{"kind": "mod", "modulus": 6}, FLOAT, EXACT]
    for name in ("splitmix64", "xorshift64star", "pcg32"):
        assert 99 in found(Words(), question(name, calls, 9, 99, at=(3, 0), hide=[1, 4], skip=(0, 5)))
    turns = [{"kind": "below", "n": 16}, FLOAT]
    assert found(Words(), question("lua", turns, 9, 99, at=(3, 0), hide=[2], skip=(0, 5))) == [99]
    assert found(Words(), question("xoshiro256starstar", calls[1:], 9, 99)) == [99]


def test_zero_of_xorshift_stays_zero() -> None:
    assert found(Words(), question("xorshift64star", EXACT, 4, 0, at=(3, 0), skip=(0, 9))) == [0]


def test_an_interval_has_its_own_items_only() -> None:
    spec = question("splitmix64", EXACT, 4, 1 << 40, at=(3, 0), skip=(0, 9))
    assert found(Words(), spec, 1 << 40, (1 << 40) + 1) == [1 << 40]
    assert found(Words(), spec, 0, 1 << 40) == [item for item in found(Words(), spec) if item < 1 << 40]


@pytest.mark.parametrize(("name", "call", "count"), [*CASES, *SEEDED, ("xoshiro256starstar", FLOAT, 6)])
def test_draws_by_chance_have_no_item(name: str, call: Call, count: int) -> None:
    assert found(Words(), noise(question(name, call, count + 3, 5), seed=count)) == []


def test_a_draw_that_never_comes_excludes_all() -> None:
    (float_of,) = question("splitmix64", {"kind": "floor", "n": (1 << 32) - 5}, 1, 5).calls
    assert Choices(Single(0, 0, Part(11, 53), Span(7, 6)), 64).count == 0
    spec = question("pcg32", [EXACT, {"kind": "mod", "modulus": 1 << 31}], 6, 5)
    assert found(Words(), dataclasses.replace(spec, draws=(*spec.draws[:5], 1 << 31))) == []
    assert float_of.size == (1 << 32) - 5


def test_all_that_fits_is_found() -> None:
    spec = question("splitmix64", FLOAT, 1, 12345)
    made = found(Words(), spec)
    assert len(made) == 2048
    assert all(survives(spec, item) for item in made)
    with pytest.raises(TooManyHits, match="give more known draws"):
        found(Words(), question("splitmix64", FLOAT, 1, 12345, skip=(0, 9)))


@pytest.mark.parametrize(
    ("name", "call", "count", "how", "why"),
    [
        ("java", {"kind": "int"}, 8, {}, "nothing here undoes"),
        ("xoshiro256plusplus", EXACT, 8, {}, "nothing here undoes"),
        ("splitmix64", EXACT, 8, {"missing": 1}, "missing between"),
        ("splitmix64", EXACT, 8, {"share": 0.5}, "only 4 of 8 draws"),
        (
            "splitmix64",
            {"kind": "bits", "shift": 40, "bits": 24},
            8,
            {},
            r"2\^40.0 words.*CPU-s, more than 30; .* (9|10) bits more",
        ),
        ("splitmix64", {"kind": "mod", "modulus": 1000}, 3, {}, "by chance"),
        ("pcg32", EXACT, 1, {}, "2 at a time"),
        ("pcg32", {"kind": "mod", "modulus": 1000}, 20, {}, r"pairs of words, .* 1\d bits more"),
        ("lua", {"kind": "range", "min": 1, "max": 1000}, 20, {}, "draws again"),
        ("lua", FLOAT, 20, {"skip": (0, 99_000), "gap": (0, 99)}, "narrow the ranges"),
        ("lua", FLOAT, 20, {"skip": (500_000, 500_000)}, "first 100000 words"),
        ("xoshiro256starstar", FLOAT, 8, {"skip": (0, 1)}, "only the first word"),
        ("xoshiro256starstar", FLOAT, 8, {"gap": (0, 1)}, "only the first word"),
        ("xoshiro256starstar", FLOAT, 8, {"hide": [0]}, "only the first word"),
    ],
)
def test_why_it_does_not_apply(name: str, call: Call, count: int, how: dict[str, Any], why: str) -> None:
    answer = Words().offer(question(name, call, count, 1, **how))
    assert isinstance(answer, str)
    with pytest.raises(ValueError, match=why):
        raise ValueError(answer)


@pytest.mark.parametrize(
    ("name", "call", "count"),
    [*CASES, *SEEDED[:3], ("xoshiro256starstar", FLOAT, 5)],
)
def test_the_planner_takes_it(name: str, call: Call, count: int) -> None:
    seed = 0xFEDC_BA98_7654_3210
    spec = question(name, call, count + 1, seed)
    assert choose(spec, spec.size).name == "words"
    searcher = Searcher(spec)
    assert searcher.search(seed - 10, seed + 10).items == [seed]
    assert searcher.search(0, seed).items == []
    assert offered(Words(), spec).fixed_s < 5


@given(NUMBERS)
def test_words_are_undone(number: int) -> None:
    assert splitmix64.unword(splitmix64.word(number)) == number
    assert splitmix64.word(splitmix64.unword(number)) == number
    assert number * xorshift.STAR * xorshift.UNSTAR % WORD == number
    assert xoshiro.unstar_star(xoshiro.star_star((0, number, 0, 0))) == number
    assert pcg32.upper(pcg32.word(number), number >> 59) == number >> 27 << 27
    turned = pcg32.upper(number >> 32, number >> 32 & 31)
    assert pcg32.word(turned) == number >> 32
    assert turned >> 59 == number >> 32 & 31


CONDITIONS = st.tuples(st.integers(0, 8), st.integers(1, 8), st.integers(1, 255), st.integers(0, 255), st.booleans())


@given(CONDITIONS, st.integers(1, 20))
def test_choices_are_the_words_that_meet_a_condition(condition: tuple[int, int, int, int, bool], size: int) -> None:
    shift, bits, a, b, residue = condition
    part = Part(min(shift, 8 - bits), bits)
    a, b = min(a, (1 << bits) - 1), min(b, (1 << bits) - 1)
    want: Want = Residue(a, b % a) if residue else Span(a, b)
    choices = Choices(Single(0, 0, part, want), 8)
    made = [int(word) for block in choices.blocks(size) for word in block]
    assert sorted(made) == [word for word in range(256) if want.holds(part.cut(word))]
    assert choices.count == len(made)


@given(st.lists(NUMBERS, min_size=64, max_size=64), st.integers(1, 64), NUMBERS)
@settings(max_examples=30)
def test_linear_maps_are_undone(columns: list[int], rank: int, number: int) -> None:
    columns = [columns[i % rank] for i in range(64)]
    there = Matrix(tuple(columns))
    back, kernel = inverse(columns, 64)
    made = there(number)
    assert there(Matrix(tuple(back))(made)) == made
    assert all(there(vector) == 0 for vector in kernel)
    assert len(kernel) >= 64 - rank


FACTORS = st.one_of(
    NUMBERS,
    st.integers(0, 300),
    st.builds(lambda bits, more: (1 << bits) + more, st.integers(30, 63), st.integers(0, 9)),
)


@given(
    FACTORS, st.integers(1, 12), st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 4095)), max_size=9), NUMBERS
)
@settings(max_examples=8, deadline=None)
def test_near_finds_all(factor: int, bits: int, planted: list[tuple[int, int]], chance: int) -> None:
    factor |= 1
    bound = 1 << bits
    y = [chance, *((made % bound - factor * (x % bound)) % WORD for x, made in planted)]
    places, lower = Near(factor, bits).found(np.array(y, np.uint64))
    made = sorted(zip(places.tolist(), lower.tolist(), strict=True))
    assert made == [(i, x) for i, each in enumerate(y) for x in range(bound) if (factor * x + each) % WORD < bound]
