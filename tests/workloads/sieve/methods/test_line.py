"""``line`` finds exactly the items that a plain search finds."""

import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.sieve.generators import generator
from hostler.workloads.sieve.methods.line import Line

from .questions import end, found, offered, question, survives

CASES = [
    ("lcg:1103515245,12345,2147483647,0", {"kind": "mod", "modulus": 10}),
    ("lcg:1103515245,12345,2147483648,0", {"kind": "mod", "modulus": 12}),
    ("lcg:1103515245,12345,2147483648,0", {"kind": "mod", "modulus": 8}),
    ("lcg:1664525,1013904223,4294967296,16", {"kind": "floor", "n": 9}),
    ("lcg:75,74,65537,0", {"kind": "mod", "modulus": 10}),
    ("lcg:75,74,65537,0", {"kind": "exact"}),
    ("lcg:16807,0,2147483647,3", {"kind": "float"}),
    ("msvc", {"kind": "floor", "n": 9}),
    ("minstd", {"kind": "mod", "modulus": 7}),
    ("glibc-type0", {"kind": "mod", "modulus": 7}),
    ("glibc-type0", {"kind": "bits", "shift": 28, "bits": 3}),
]
QUICK = (CASES[1], CASES[4], CASES[7])


@pytest.mark.parametrize(
    ("name", "call"), [pytest.param(*case, marks=() if case in QUICK else pytest.mark.long) for case in CASES]
)
@pytest.mark.parametrize("share", [1.0, 0.5])
@given(planted=st.integers(0, 1 << 62), at=st.tuples(st.integers(0, 2), st.integers(0, 1)))
@settings(max_examples=2, deadline=None)
def test_an_interval_is_searched_like_one_by_one(
    name: str, call: dict[str, object], share: float, planted: int, at: tuple[int, int]
) -> None:
    seeds = generator(name).seeds
    planted %= seeds
    spec = question(name, call, 6, planted, at=at, hide=[2], skip=(0, 2), gap=(0, 1), share=share)
    start, stop = max(0, planted - 150), min(seeds, planted + 150)
    middle = (start + stop) // 2
    finder = offered(Line(), spec).make()
    made = finder.find(start, middle) + finder.find(middle, stop)
    assert planted in made
    assert [item for item in made if survives(spec, item)] == [
        item for item in range(start, stop) if survives(spec, item)
    ]
    # Seed 0 of some is another state: it is a candidate wherever it is looked for.
    assert all(survives(spec, item) for item in made if item % (1 << 31))


def test_intervals_longer_than_a_block_and_in_any_order() -> None:
    spec = question("lcg:1103515245,12345,2147483647,0", {"kind": "mod", "modulus": 1000}, 40, 700_000, share=0.2)
    finder = offered(Line(), spec).make()
    whole = finder.find(0, 1_000_000)
    assert 700_000 in whole
    assert finder.find(600_000, 800_000) == [item for item in whole if 600_000 <= item < 800_000]
    assert finder.find(0, 600_000) == [item for item in whole if item < 600_000]


def test_items_may_be_states_and_ends() -> None:
    call = {"kind": "mod", "modulus": 1000}
    assert 31337 in found(Line(), question("minstd", call, 8, 31337, items="states"))
    spec = question("minstd", call, 8, 31337, at=(0, 1), items="ends")
    assert end(spec, 31337, 1) in found(Line(), spec)
    java = question("java", {"kind": "float"}, 8, 99, at=(2, 0), items="states")
    assert 99 in found(Line(), java, 0, 1000)


@pytest.mark.parametrize(
    ("name", "call", "why"),
    [
        ("java", {"kind": "float"}, "are no states"),
        ("java", {"kind": "bound", "bound": 10}, "draws again"),
        ("msvc", {"kind": "mod", "modulus": 10}, "does not say"),
        ("xorshift32", {"kind": "mod", "modulus": 10}, "no linear congruential"),
        ("lcg:6364136223846793005,1,0x10000000000000000,0", {"kind": "mod", "modulus": 10}, "too large"),
    ],
)
def test_why_it_does_not_apply(name: str, call: dict[str, object], why: str) -> None:
    answer = Line().offer(question(name, call, 8, 1))
    assert isinstance(answer, str)
    assert why in answer
