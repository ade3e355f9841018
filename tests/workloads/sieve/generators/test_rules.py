"""What outputs say of the words they take, against what they make of them."""

import random
from collections.abc import Iterable, Iterator
from math import factorial
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.sieve.generators import GENERATORS, Output, generator
from hostler.workloads.sieve.generators.rules import Part, Rule, Span, Want, span_of
from hostler.workloads.sieve.spec import output_arguments, parse_output

LCGS = ["lcg:25214903917,11,281474976710656,16", "lcg:16807,0,2147483647"]
KINDS = [(name, kind) for name in [*GENERATORS, *LCGS] for kind in generator(name).outputs]


def distinct(cases: Iterable[tuple[str, str]]) -> list[Any]:
    """For `parametrize`: `long` but where the generator comes for the first time, or the kind of output does."""
    made, seen = [], set[str]()
    for name, kind in cases:
        new = {name, kind} - seen
        seen |= new
        made.append(pytest.param(name, kind, marks=() if new else pytest.mark.long))
    return made


sizes = st.one_of(
    st.integers(2, 2000),
    st.integers(0, 30).map(lambda k: 2**k),
    st.integers(1, 2**31 - 2),
    st.sampled_from([1, 3 * 2**29]),
)


@st.composite
def outputs(draw: st.DrawFn, name: str, kind: str) -> Output:
    """An output of this kind with some arguments."""
    made_by = generator(name)
    names = output_arguments(made_by.outputs[kind])
    size = draw(sizes)
    if kind in ("shuffle", "perm", "bytes"):
        size = draw(st.integers(2, 20))
    if kind in ("mod", "floor"):
        size = min(size, made_by.seeds >> 1, 2**14)
    given: dict[str, int] = dict.fromkeys(names, max(1, size))
    if kind == "range":
        low = draw(st.integers(-(2**20), 2**20))
        given = {"min": low, "max": low + min(size, 2**30) - 1}
    if kind == "bits":
        width = made_by.engine.width
        shift = draw(st.integers(0, width - 1))
        given = {"shift": shift, "bits": draw(st.integers(1, width - shift))}
    if kind == "getrandbits":
        given = {"k": draw(st.integers(1, 200))}
    return parse_output(made_by, {"kind": kind, **given})


def noise(width: int, seed: int) -> Iterator[int]:
    """Words of this width without end."""
    source = random.Random(seed)
    while True:
        yield source.getrandbits(width)


def fitting(rule: Rule, want: Want, source: random.Random) -> list[int] | None:
    """Words that a pick takes and that meet the want, the other bits at random; ``None`` if the pick is drawn again."""
    top = (1 << rule.bits) - 1
    if isinstance(want, Span):
        v = source.choice([want.low, want.high, source.randint(want.low, max(want.low, want.high))])
    else:
        v = want.target + want.modulus * source.randint(0, max(0, (top - want.target) // want.modulus))
    if not want.holds(v) or v > top or (rule.again is not None and rule.again.holds(v)):
        return None
    words = [source.getrandbits(rule.width) for _ in range(rule.words)]
    for part in reversed(rule.parts):
        mask = (1 << part.bits) - 1 << part.shift
        words[part.word] = words[part.word] & ~mask | (v & (1 << part.bits) - 1) << part.shift
        v >>= part.bits
    return words


@pytest.mark.parametrize(("name", "kind"), distinct(KINDS))
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_words_fit_what_is_made_of_them_and_nothing_else(name: str, kind: str, data: st.DataObject) -> None:
    output, seed = data.draw(outputs(name, kind)), data.draw(st.integers(0, 2**32))
    rules = output.rules()
    # numpy's integers see half words: what feeds them is tested with the vectors.
    width = rules[0].width
    taken, again = noise(width, seed), noise(width, seed)
    other = data.draw(st.integers(output.lowest, output.lowest + output.size - 1))
    for _ in range(3):
        made = output.take(taken)
        if name.startswith("dotnet") and made >= output.lowest + output.size:
            return  # a word of 2^31 - 1, which that engine never makes
        picks = [rule.pick(again) for rule in rules]
        assert output.lowest <= made < output.lowest + output.size
        assert all(want.holds(v) for want, v in zip(output.wants(made), picks, strict=True))
        assert other == made or not all(want.holds(v) for want, v in zip(output.wants(other), picks, strict=True))
    assert next(taken) == next(again)


@pytest.mark.parametrize(("name", "kind"), distinct(KINDS))
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_words_that_fit_give_the_wanted_output(name: str, kind: str, data: st.DataObject) -> None:
    output, source = data.draw(outputs(name, kind)), random.Random(data.draw(st.integers(0, 2**32)))
    wanted = data.draw(st.integers(output.lowest, output.lowest + output.size - 1))
    words: list[int] = []
    for rule, want in zip(output.rules(), output.wants(wanted), strict=True):
        piece = fitting(rule, want, source)
        if piece is None:
            return
        words += piece
    assert output.take(iter(words)) == wanted


@pytest.mark.parametrize(("name", "kind"), distinct(KINDS))
@given(data=st.data())
@settings(max_examples=4, deadline=None)
def test_what_is_shown_is_read_back(name: str, kind: str, data: st.DataObject) -> None:
    output = data.draw(outputs(name, kind))
    made = data.draw(st.integers(output.lowest, output.lowest + output.size - 1))
    assert output.read(output.show(made)) == made


@pytest.mark.parametrize(
    ("name", "output", "size"),
    [
        ("php-mt_rand", {"kind": "exact"}, 2**31),  # mt_getrandmax() + 1
        ("php-mt_rand", {"kind": "shuffle", "n": 52}, factorial(52)),
        ("python-random", {"kind": "random"}, 2**53),
        ("python-random", {"kind": "getrandbits", "k": 100}, 2**100),
        ("java-random", {"kind": "float"}, 2**24),
        ("java-random", {"kind": "double"}, 2**53),
        ("java-random", {"kind": "long"}, 2**64),
        ("java-random", {"kind": "boolean"}, 2),
        ("glibc-rand", {"kind": "exact"}, 2**31),  # RAND_MAX + 1
        ("msvc-rand", {"kind": "exact"}, 2**15),  # RAND_MAX + 1
        ("dotnet-random", {"kind": "exact"}, 2**31 - 1),  # Next() < int.MaxValue
        ("v8-random", {"kind": "float"}, 2**52),
        ("v8-random-2025", {"kind": "float"}, 2**53),
        ("go-rand", {"kind": "int63"}, 2**63),
        ("ruby-random", {"kind": "range", "min": 1, "max": 6}, 6),
        ("numpy-randomstate", {"kind": "bytes", "n": 5}, 2**40),
        ("numpy-pcg64", {"kind": "exact"}, 2**64),
        ("xorshift128", {"kind": "bits", "shift": 3, "bits": 7}, 128),
    ],
)
def test_sizes_of_output_spaces(name: str, output: dict[str, object], size: int) -> None:
    assert parse_output(generator(name), output).size == size


def test_a_span_of_a_function_that_skips_a_value_is_empty() -> None:
    assert span_of(lambda v: 2 * v, 6, 10) == Span(3, 3)
    empty = span_of(lambda v: 2 * v, 5, 10)
    assert not any(empty.holds(v) for v in range(10))


def test_parts_stand_side_by_side_the_most_significant_first() -> None:
    rule = Rule(8, (Part(0, 4, word=1), Part(6, 2)))
    assert (rule.words, rule.bits) == (2, 6)
    assert rule.value([0b1000_0000, 0b0000_0101]) == 0b0101_10
