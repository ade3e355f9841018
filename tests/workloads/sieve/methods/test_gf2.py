"""``gf2`` finds every planted state, and its certificates hold where the oracle checks them."""

import dataclasses

import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.sieve.generators import GENERATORS, generator
from hostler.workloads.sieve.generators.base import Structure, stream
from hostler.workloads.sieve.generators.rules import Part, Rule, Span
from hostler.workloads.sieve.methods.exclusions import exclude, holds
from hostler.workloads.sieve.methods.gf2 import Gf2
from hostler.workloads.sieve.methods.linear import linear
from hostler.workloads.sieve.methods.picks import Aim
from hostler.workloads.sieve.methods.terms import terms_of_aim

from ..support import tiers
from .questions import end, found, noise, question, survives

MOD = {"kind": "mod", "modulus": 1000}
CASES = [
    ("xorshift32", MOD, 12),
    ("xorshift32", {"kind": "floor", "n": 10}, 30),
    ("xorshift64", MOD, 24),
    ("xorshift64", {"kind": "bits", "shift": 5, "bits": 9}, 14),
    ("xorshift64star", {"kind": "mod", "modulus": 6}, 62),
    ("xorshift128", MOD, 46),
    ("xorshift128", {"kind": "float"}, 5),
    ("v8-random", {"kind": "floor", "n": 1000}, 30),
    ("v8-random", {"kind": "float"}, 4),
    ("v8-random-2025", {"kind": "floor", "n": 7}, 150),
    ("xoshiro256starstar", {"kind": "exact"}, 6),
    ("lua-random", {"kind": "integer"}, 6),
]
QUICK = {"xorshift32", "xorshift64", "xorshift128"}
LINEAR = [name for name in GENERATORS if linear(GENERATORS[name])]


@pytest.mark.parametrize(("name", "call", "count"), tiers(CASES, QUICK))
@given(planted=st.integers(1, (1 << 128) - 1), at=st.tuples(st.integers(0, 70), st.integers(0, 1)))
@settings(max_examples=2, deadline=None)
def test_planted_seeds_are_found(
    name: str, call: dict[str, object], count: int, planted: int, at: tuple[int, int]
) -> None:
    planted %= generator(name).seeds
    spec = question(name, call, count, planted, at=at, hide=[3], skip=(at[0], at[0] + 2), gap=(0, 1))
    made = found(Gf2(), spec)
    assert planted in made
    assert len(made) < 100


@pytest.mark.parametrize("name", LINEAR)
@given(st.integers(0, (1 << 128) - 1), st.integers(0, (1 << 128) - 1), st.integers(0, 200))
@settings(max_examples=8, deadline=None)
def test_words_are_those_of_the_engine_and_linear(name: str, a: int, b: int, position: int) -> None:
    made_by, known = generator(name), linear(generator(name))
    assert known is not None
    a, b = a % (1 << known.bits), b % (1 << known.bits)
    assert known.back(known.step(a)) == a
    words = stream(made_by.engine, known.state(a))
    for _ in range(position):
        next(words)
    moved = a
    for _ in range(known.when(position)):
        moved = known.step(moved)
    assert known.word(moved) == (known.undone or int)(next(words))
    assert (known.word(a) ^ known.word(b) ^ known.word(a ^ b)) & known.seen == 0
    assert known.step(a) ^ known.step(b) == known.step(a ^ b)


@pytest.mark.parametrize("name", LINEAR)
@given(st.integers(0, (1 << 64) - 1))
@settings(max_examples=10, deadline=None)
def test_seedings_are_undone(name: str, seed: int) -> None:
    made_by, known = generator(name), linear(generator(name))
    assert known is not None
    seed %= made_by.seeds
    state = made_by.engine.seed(seed)
    packed = next(x for x in _packings(state) if known.state(x) == state)
    assert known.seeds(packed) == [seed]


def _packings(state: object) -> list[int]:
    if isinstance(state, int):
        return [state]
    assert isinstance(state, tuple)
    return [state[0] | state[1] << 64, *(sum(word << by * i for i, word in enumerate(state)) for by in (32, 64))]


def test_every_linear_generator_is_known_or_has_words_that_are_not() -> None:
    large = {"php-mt_rand", "php5-mt_rand", "python-random", "ruby-random", "numpy-randomstate"}
    known = {name for name, made_by in GENERATORS.items() if made_by.engine.structure is Structure.GF2}
    assert known == set(LINEAR) | large


def test_what_equations_leave_open_is_tested() -> None:
    spec = question("xorshift32", MOD, 5, 123456)
    made = found(Gf2(), spec)
    assert [item for item in range(120_000, 130_000) if survives(spec, item)] == [
        item for item in made if 120_000 <= item < 130_000
    ]
    assert 123456 in made
    assert found(Gf2(), spec, 123456, 123457) == [123456]


def test_states_ends_and_calls_in_turn() -> None:
    assert 99 in found(Gf2(), question("xorshift64", MOD, 30, 99, at=(4, 2), items="states"))
    spec = question("xorshift64", MOD, 30, 99, at=(0, 2), items="ends")
    assert found(Gf2(), spec) == [end(spec, 99, 2)]
    whole = [{"kind": "integer"}, {"kind": "float"}, {"kind": "below", "n": 16}]
    assert found(Gf2(), question("lua", whole, 15, 99, at=(5, 0), skip=(0, 10))) == [99]
    calls = [MOD, {"kind": "float"}, {"kind": "bits", "shift": 3, "bits": 5}]
    assert 99 in found(Gf2(), question("xorshift128", calls, 12, 99, at=(5, 0), skip=(0, 10)))


@pytest.mark.parametrize(("name", "call", "count"), tiers([case for case in CASES if case[2] > 20] + CASES[-1:], QUICK))
def test_draws_by_chance_are_excluded_with_a_certificate(name: str, call: dict[str, object], count: int) -> None:
    spec = noise(question(name, call, count + 40, 5, skip=(0, 3), gap=(0, 2)), seed=count)
    exclusion = exclude(spec)
    assert exclusion is not None
    assert exclusion.redraws == 0
    assert {(each.gap, each.phase) for each in exclusion.contradictions} >= {(gap, 0) for gap in range(3)}
    assert all(holds(spec, each) for each in exclusion.contradictions)
    assert found(Gf2(), spec) == []


def test_certificates_that_say_more_than_the_draws_do_not_hold() -> None:
    spec = noise(question("xorshift64", MOD, 40, 5), seed=1)
    exclusion = exclude(spec)
    assert exclusion is not None
    (good,) = exclusion.contradictions
    first, *rest = good.terms
    for terms in (
        tuple(rest),
        (dataclasses.replace(first, value=1 - first.value), *rest),
        (dataclasses.replace(first, bit=first.bit + 9), *rest),
        (),
    ):
        assert not holds(spec, dataclasses.replace(good, terms=terms))
    true = question("xorshift64", MOD, 40, 5)
    assert exclude(true) is None
    assert not holds(true, good)


def test_a_draw_that_never_comes_is_a_contradiction() -> None:
    spec = question("v8-random", {"kind": "floor", "n": 1000}, 30, 5)
    never = Part(0, 52), Span(7, 6)
    assert [term.value for term in terms_of_aim(Aim(0, 0, Rule(64, (never[0],)), never[1]))] == [0, 1]
    assert exclude(spec) is None


@pytest.mark.parametrize(
    ("name", "call", "count", "why"),
    [
        ("xorshift128", MOD, 30, "some 6 known draws more"),
        ("xorshift64", MOD, 5, "by chance"),
        ("xorshift64", {"kind": "mod", "modulus": 9}, 30, "decide no bit"),
        ("xoshiro256starstar", {"kind": "float"}, 30, "decide no bit"),
        ("xoshiro256starstar", {"kind": "exact"}, 3, "by chance"),
        ("java", {"kind": "int"}, 30, "not linear"),
        ("php", {"kind": "exact"}, 30, "too large"),
    ],
)
def test_why_it_does_not_apply(name: str, call: dict[str, object], count: int, why: str) -> None:
    answer = Gf2().offer(question(name, call, count, 1))
    assert isinstance(answer, str)
    assert why in answer
