"""``halves`` finds every planted state, whatever is drawn again, exactly those that a plain search finds, and says when
it does not apply."""

import random
import re
from collections.abc import Container
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from hostler.workloads.sieve.generators import generator, java_random
from hostler.workloads.sieve.generators.rules import Residue, Span
from hostler.workloads.sieve.judge import judge
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.methods.choosing import choose
from hostler.workloads.sieve.methods.halves import FEW, Halves
from hostler.workloads.sieve.methods.solved import MOST_S
from hostler.workloads.sieve.spec import Spec, parse_output

from .asking import planted
from .questions import LCG64, LCG128, end, found, offered, question, survives

ALL = 1 << 48
OFTEN = 2**30 + 1
"""A bound for which every other word is drawn again."""
DRAND48 = "lcg:25214903917,11,281474976710656,16"


def bound(number: int) -> dict[str, Any]:
    return {"kind": "bound", "bound": number}


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "count"),
    [
        (999, 6),
        *(
            pytest.param(number, count, marks=pytest.mark.long)
            for number, count in [(25, 13), (49, 10), (1001, 10), (1000, 6), (49_999, 4)]
        ),
    ],
)
def test_all_seeds_of_java_are_searched(number: int, count: int) -> None:
    seed = 0x1234_5678_9ABC * number % ALL
    spec = question("java", bound(number), count, seed)
    assert offered(Halves(), spec).fixed_s < 1
    assert [item for item in found(Halves(), spec) if survives(spec, item)] == [seed]


@pytest.mark.long
@given(
    st.integers(0, ALL - 1),
    st.integers(30, 40_000),
    st.tuples(st.integers(0, 5), st.integers(0, 2)),
    st.sampled_from([(), (0, 3), (1, 23), (0, 1, 2, 4, 6, 7, 8)]),
)
@settings(max_examples=3, deadline=None)
def test_planted_seeds_of_java_are_found(seed: int, number: int, at: tuple[int, int], hide: tuple[int, ...]) -> None:
    spec = question("java", bound(number), 30, seed, at=at, hide=hide, skip=(0, 5), gap=(0, 2))
    assert seed in found(Halves(), spec)


@pytest.mark.parametrize("number", [OFTEN, 3 * 2**29 + 1, 2**29 + 1, 2**28 + 1])
@given(st.integers(0, ALL - 1), st.integers(0, 4))
@settings(max_examples=1, deadline=None)
def test_what_is_drawn_again_is_followed_however_often(number: int, seed: int, skip: int) -> None:
    spec = question("java", bound(number), 8, seed, at=(skip, 0), hide=[0, 3])
    assert seed in found(Halves(), spec)


@pytest.mark.long
@pytest.mark.parametrize("number", [8191 * 9, 99_999])
@pytest.mark.parametrize("place", [0, *(pytest.param(each, marks=pytest.mark.long) for each in (1, 2, 4, 7)), 3])
def test_a_word_that_is_seldom_drawn_again_is_followed(number: int, place: int) -> None:
    limit, source = 2**31 - 2**31 % number - 1, random.Random(place)
    # The state of a word that is thrown away, and back from there to the seed.
    state = source.randint(limit + 1, 2**31 - 1) << 17 | source.getrandbits(17)
    for _ in range(place + 1):
        state = java_random.back(state)
    seed = state ^ java_random.MULTIPLIER
    words = generator("java").words(seed)
    assert [next(words) >> 1 > limit for _ in range(place + 1)][-1]
    for skip in (0, 1):
        spec = question("java", bound(number), 6, seed, at=(skip, 0))
        made = [item for item in found(Halves(), spec) if survives(spec, item)]
        # Without a skip, the state of a first word that is thrown away goes on like the state before it.
        assert seed in made
        assert len(made) <= 2


@pytest.mark.parametrize(
    "calls",
    [
        [bound(999), {"kind": "double"}, {"kind": "boolean"}],
        [bound(25), bound(OFTEN)],
        [bound(8), bound(10), bound(999)],
        pytest.param([{"kind": "boolean"}, {"kind": "shuffle", "n": 25}], marks=pytest.mark.long),
        [{"kind": "float"}, bound(OFTEN)],
        [{"kind": "long"}, bound(77)],
    ],
)
def test_calls_of_several_kinds_in_turn(calls: list[dict[str, Any]]) -> None:
    for seed in (987654321, 5 << 44):
        spec = question("java", calls, 24, seed, at=(2, 0), hide=[1, 8], skip=(0, 3))
        assert seed in found(Halves(), spec)


CASES = [
    (DRAND48, {"kind": "mod", "modulus": 1001}, 10),
    (DRAND48, {"kind": "mod", "modulus": 49}, 12),
    (DRAND48, {"kind": "floor", "n": 49}, 12),
    ("lcg:6364136223846793005,1,18446744073709551616,20", {"kind": "mod", "modulus": 1_000_003}, 6),
    ("lcg:6364136223846793005,1,18446744073709551616,12", {"kind": "mod", "modulus": 1_000_003}, 6),
    ("lcg:6364136223846793005,1,18446744073709551616,33", {"kind": "floor", "n": 1000}, 12),
    ("lcg:1103515245,12345,2147483648,0", {"kind": "mod", "modulus": 99}, 8),
    ("glibc-type0", {"kind": "mod", "modulus": 7}, 16),
    ("msvc", {"kind": "mod", "modulus": 99}, 8),
    ("msvc", {"kind": "mod", "modulus": 100}, 8),
    ("msvc", {"kind": "bits", "shift": 9, "bits": 6}, 8),
]
FIRST = [
    pytest.param(*case, marks=() if case in (CASES[0], CASES[6], CASES[8]) else pytest.mark.long) for case in CASES
]
"""In the quick tier: floored, whole and upper words."""


@pytest.mark.parametrize(("name", "call", "count"), FIRST)
@given(source=st.randoms(use_true_random=False), items=st.sampled_from(["seeds", "states", "ends"]))
@settings(max_examples=2, deadline=None)
def test_planted_items_are_found(
    name: str, call: dict[str, Any], count: int, source: random.Random, items: str
) -> None:
    how = {"gap": (0, 1)} if items == "ends" else {"gap": (0, 1), "skip": (0, 3)}
    blank = question(name, call, count, 1, items=items, **how)
    spec, item = planted(blank, source.randrange(blank.generator.seeds), source, unknown=0.0)
    # One draw is not told: without more of them, some of these questions have too many answers (see below).
    assert item in found(Halves(), without(spec, {source.randrange(count)}))


def without(spec: Spec, hidden: Container[int]) -> Spec:
    return replace(spec, draws=tuple(None if i in hidden else draw for i, draw in enumerate(spec.draws)))


@pytest.mark.parametrize(("name", "call", "count"), FIRST)
def test_the_fewer_draws_are_told_the_sooner_it_says_that_they_are_too_few(
    name: str, call: dict[str, Any], count: int
) -> None:
    source = random.Random(f"{name} {call}")
    blank = question(name, call, count, 1, gap=(0, 1), skip=(0, 3))
    spec, _ = planted(blank, source.randrange(blank.generator.seeds), source, unknown=0.0)
    order = source.sample(range(count), count)
    answers = [Halves().offer(without(spec, order[:hidden])) for hidden in range(count)]
    refused = [answer for answer in answers if isinstance(answer, str)]
    assert answers == [*answers[: count - len(refused)], *refused], "fewer draws never make it apply again"
    assert len(refused) in range(1, count - 1)
    assert all("by chance" in each or "fewer than two" in each or "CPU-seconds" in each for each in refused)


@pytest.mark.parametrize(("count", "applies"), [(2, False), (3, False), (4, True), (5, True)])
def test_it_applies_exactly_where_chance_leaves_few_states_and_says_how_many(count: int, applies: bool) -> None:
    spec = question("lcg:413293,12345,1048576,4", {"kind": "mod", "modulus": 11}, count, 4711, items="states")
    states, answer = every_state(spec), Halves().offer(spec)
    assert (len(states) <= FEW) is applies
    if applies:
        assert found(Halves(), spec) == states
    else:
        assert isinstance(answer, str)
        said = re.fullmatch(r"some (\S+) states reproduce the draws by chance; give more known draws", answer)
        assert said is not None
        assert len(states) / 2 < float(said[1]) < len(states) * 2


def every_state(spec: Spec) -> list[int]:
    """The states that make the draws of one call, by going through all of them."""
    constants, (call,) = spec.generator.parameters, spec.calls
    (rule,), made = call.rules(), set[int]()
    for skip, gap in spec.alignments():
        state = np.arange(constants["modulus"], dtype=np.uint64)
        fits = np.ones(state.size, bool)
        for output in range(skip + gap + (len(spec.draws) - 1) * (gap + 1) + 1):
            state = (state * np.uint64(constants["multiplier"]) + np.uint64(constants["increment"])) % state.size
            turn, place = divmod(output - skip - gap, gap + 1)
            if turn < 0 or place or (draw := spec.draws[turn]) is None:
                continue
            (want,), part = call.wants(draw), rule.parts[0]
            v = (state >> np.uint64(constants["shift"] + part.shift)) & np.uint64((1 << part.bits) - 1)
            if isinstance(want, Residue):
                fits &= v % np.uint64(want.modulus) == want.target
            else:
                fits &= (want.low <= v) & (v <= want.high)
        made.update(np.flatnonzero(fits).tolist())
    return sorted(made)


# Of generators in use. With 1, or another whose powers lie close together, draws tell little and the search has no end.
MULTIPLIERS = (0x5DEECE66D, 6364136223846793005, 1103515245, 1664525, 22695477, 134775813, 69069)


@given(st.data())
@settings(max_examples=8, deadline=None)
def test_it_finds_what_going_through_all_states_finds(data: st.DataObject) -> None:
    bits = data.draw(st.integers(8, 20))
    shift = data.draw(st.integers(0, bits - 4))
    size = 1 << bits
    a, c = data.draw(st.sampled_from(MULTIPLIERS)) % size, data.draw(st.integers(0, size - 1))
    width = bits - shift
    modulus = data.draw(st.integers(2, (1 << width) - 1))
    top = data.draw(st.integers(1, min(width, 8)))
    call = data.draw(
        st.sampled_from([{"kind": "mod", "modulus": modulus}, {"kind": "bits", "shift": width - top, "bits": top}])
    )
    count = data.draw(st.integers(2, 14))
    spec = question(
        f"lcg:{a},{c},{size},{shift}", call, count, data.draw(st.integers(0, size - 1)),
        hide=data.draw(st.sets(st.integers(0, count - 1), max_size=count - 2)), items="states", skip=(0, 1), gap=(0, 1),
    )  # fmt: skip
    answer = Halves().offer(spec)
    assume(isinstance(answer, Offer))
    assert isinstance(answer, Offer)
    states = every_state(spec)
    assume(len(states) < 2000)
    candidates = answer.make().find(0, size)
    assert [item for item in candidates if judge(spec, item)] == states
    # Nothing is drawn again: what is found fits.
    assert candidates == states
    assert answer.make().find(size // 3, size // 2) == [item for item in states if size // 3 <= item < size // 2]


def test_points_are_met_also_where_steps_and_states_are_large() -> None:
    # Whole words and floats leave boxes that are narrow in some directions and lie far from the lattice's origin.
    calls = [{"kind": "exact"}, {"kind": "floor", "n": 16384}]
    for seed in (3505809227, 1 << 47, (1 << 48) - 1):
        spec = question(DRAND48, calls, 3, seed, at=(17, 0), skip=(13, 19))
        assert seed in found(Halves(), spec)


@pytest.mark.long
def test_many_draws_and_ends_after_words_that_were_drawn_again() -> None:
    assert 123 in found(Halves(), question("java", bound(999), 5000, 123, at=(1, 0), skip=(0, 2)))
    spec = question("java", bound(999), 8, 4242, at=(0, 1), items="ends")
    assert end(spec, 4242, 1) in found(Halves(), spec)
    source = random.Random(7)
    for _ in range(5):
        blank = question("java", bound(OFTEN), 9, 1, items="ends")
        spec, item = planted(blank, source.randrange(ALL), source, unknown=0.3)
        assert item in found(Halves(), spec)


def test_the_planner_takes_it_for_all_seeds_and_not_for_a_few() -> None:
    spec = question("java", bound(999), 10, 4711)
    assert choose(spec, spec.size).name == "halves"
    assert choose(spec, 1 << 16).name == "lanes"


@pytest.mark.parametrize(
    ("name", "call", "count", "why"),
    [
        ("java", bound(3), 60, f"CPU-seconds, more than {MOST_S:.0f}"),
        (LCG64, {"kind": "mod", "modulus": 999}, 12, "CPU-seconds"),
        ("java", bound(999), 1, "fewer than two"),
        ("java", bound(999), 4, "by chance"),
        (DRAND48, {"kind": "mod", "modulus": 1 << 20}, 40, "by chance"),
        ("minstd", {"kind": "mod", "modulus": 10}, 40, "modulo 2^k"),
        (LCG128, {"kind": "mod", "modulus": 10}, 40, "modulo 2^k"),
        ("xorshift32", {"kind": "mod", "modulus": 10}, 40, "no linear congruential"),
        ("msvc", {"kind": "bits", "shift": 2, "bits": 5}, 40, "fewer than two"),
    ],
)
def test_why_it_does_not_apply(name: str, call: dict[str, Any], count: int, why: str) -> None:
    answer = Halves().offer(question(name, call, count, 1))
    assert isinstance(answer, str)
    assert why in answer


def test_it_wants_all_draws() -> None:
    for how in ({"share": 0.5}, {"missing": 1}):
        assert isinstance(Halves().offer(question("java", bound(999), 12, 1, **how)), str)


def test_a_draw_that_no_number_gives_has_no_answer() -> None:
    spec = question("lcg:5,3,65536,4", {"kind": "floor", "n": 4000}, 6, 1)
    assert found(Halves(), spec)
    call = parse_output(spec.generator, {"kind": "floor", "n": 4097})
    (never,) = (value for value in range(4097) if _is_empty(call.wants(value)[0]))
    assert found(Halves(), Spec(spec.generator, (call,), (never,) * 6)) == []


def _is_empty(want: object) -> bool:
    return isinstance(want, Span) and want.high < want.low
