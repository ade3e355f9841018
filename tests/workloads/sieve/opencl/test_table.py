"""The rows of tables, computed as the program computes them, against rules and wants."""

import random

import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.generators import GENERATORS, generator
from hostler.workloads.sieve.generators.rules import Rule
from hostler.workloads.sieve.opencl.source import program_for
from hostler.workloads.sieve.opencl.table import COLUMNS, PART_COLUMNS, Pick, Shape, Table, row, table_of

from ..generators.test_rules import KINDS, distinct, noise, outputs
from .support import Question, planted

PLACE = {name: place for place, name in enumerate(COLUMNS)}


def shape_of(rule: Rule) -> Shape:
    """The smallest shape for one rule."""
    bits = 32 if rule.bits <= 32 else 64
    return Shape(bits, max(1, len(rule.parts)), rule.words, rule.rejects, False, False, False, 0)


def value(numbers: list[int], words: list[int], shape: Shape) -> int:
    """``v`` as the program makes it."""
    v = 0
    for part in range(shape.parts):
        number, shift, mask, up = numbers[PLACE["NUMBER"] + PART_COLUMNS * part :][:PART_COLUMNS]
        if number < len(words):
            v |= (words[number] >> shift & mask) << up
    return v


def again(numbers: list[int], v: int) -> bool:
    """Whether the program draws again."""
    product = v * numbers[PLACE["FACTOR"]] & numbers[PLACE["LOW"]]
    return v > numbers[PLACE["LIMIT"]] or product < numbers[PLACE["THRESHOLD"]]


def fits(numbers: list[int], v: int, bits: int) -> bool:
    """The program's test."""
    target, inverse, turn, bound = numbers[PLACE["TARGET"] : PLACE["BOUND"] + 1]
    z = (v - target) * inverse % (1 << bits)
    return v >= target and (z << turn | z >> (bits - turn)) % (1 << bits) <= bound


@pytest.mark.parametrize(("name", "kind"), distinct(KINDS))
@given(data=st.data())
@settings(max_examples=6)
def test_a_row_says_what_rule_and_want_say(name: str, kind: str, data: st.DataObject) -> None:
    output = data.draw(outputs(name, kind))
    draw = data.draw(st.integers(output.lowest, output.lowest + output.size - 1))
    words = noise(output.rules()[0].width, data.draw(st.integers(0, 1000)))
    for rule, want in zip(output.rules(), output.wants(draw), strict=True):
        if not rule.words or rule.bits > 64:
            continue
        shape = shape_of(rule)
        numbers = row(shape, Pick(rule, want, True, True, True, 1))
        assert len(numbers) == shape.columns
        assert all(0 <= number < 1 << shape.v_bits for number in numbers)
        for _ in range(5):
            taken = [next(words) for _ in range(rule.words)]
            v = rule.value(taken)
            assert value(numbers, taken, shape) == v
            assert again(numbers, v) == (rule.again is not None and rule.again.holds(v))
            if not again(numbers, v):
                assert fits(numbers, v, shape.v_bits) == want.holds(v)


@given(data=st.data())
def test_no_bit_of_a_wide_residue_is_lost(data: st.DataObject) -> None:
    modulus = data.draw(st.integers(2, (1 << 63) - 1))
    target = data.draw(st.integers(0, modulus - 1))
    output = spec.parse_output(generator("splitmix64"), {"kind": "mod", "modulus": modulus})
    (rule,), (want,) = output.rules(), output.wants(target)
    numbers = row(shape_of(rule), Pick(rule, want, True, True, True, 1))
    most = ((1 << 64) - 1 - target) // modulus
    for v in (target, target + modulus * most, random.Random(target).getrandbits(64), (1 << 64) - 1, 0):
        assert fits(numbers, v, 64) == (v % modulus == target)


def table(question: Question) -> Table:
    made = table_of(spec.parse(question))
    assert isinstance(made, Table)
    return made


def test_draws_beyond_what_chance_can_pass_are_left_to_the_judge() -> None:
    question = planted("php-mt_rand", [{"kind": "exact"}], 1, 500)
    assert table(question).draws == 2
    assert table(question).words == 2
    half = table({**question, "share": 0.5})
    assert half.draws == 500
    assert [pick.least for pick in half.picks][-3:] == [248, 249, 250]


def test_missing_outputs_are_followed_as_far_as_a_word_has_bits() -> None:
    question = planted("xorshift32", [{"kind": "mod", "modulus": 4}], 1, 100, missing=3)
    assert table(question).draws == 21


def test_room_is_made_for_words_that_are_drawn_again() -> None:
    fair = planted("php-mt_rand", [{"kind": "range", "min": 1, "max": 1 << 31}], 1, 4)
    half = planted("php-mt_rand", [{"kind": "range", "min": 0, "max": 1 << 31}], 1, 4)
    assert table(fair).words == 2
    assert 4 < table(half).words < 100


REFUSED = [
    (planted("java-random", [{"kind": "int"}], 1, 3, items="ends"), "ends"),
    (planted("xorshift32", [{"kind": "exact"}], 1, 3, missing=64), "63 missing"),
    (planted("go-rand", [{"kind": "int63"}], 1, 3, skip=700), "607 words"),
    (planted("php-mt_rand", [{"kind": "exact"}], 1, 3, skip=(0, 3000)), "2048"),
    (planted("xorshift32", [{"kind": "mod", "modulus": 4}], 1, 100, missing=3), "21 of 100 draws"),
    (planted(f"lcg:25,7,{(1 << 63) + 29}", [{"kind": "exact"}], 1, 3), "2^63"),
]


@pytest.mark.parametrize(("question", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_it_cannot_do_is_refused_with_the_reason(question: Question, why: str) -> None:
    refusal = program_for(spec.parse(question))
    assert isinstance(refusal, str)
    assert why in refusal


@pytest.mark.parametrize("name", GENERATORS)
def test_there_is_a_program_for_every_generator(name: str) -> None:
    made_by = generator(name)
    kind = next(kind for kind, output in made_by.outputs.items() if not spec.output_arguments(output))
    program = program_for(spec.parse(planted(name, [{"kind": kind}], 1, 2)))
    assert not isinstance(program, str), program
    assert "__kernel void search" in program.source
    assert program.operations > 0


def test_questions_of_one_shape_share_a_program() -> None:
    first, second = (
        program_for(spec.parse(planted("java-random", [{"kind": "bound", "bound": bound}], seed, 5, skip=skip)))
        for bound, seed, skip in ((1000, 1, 0), (57, 2, 3))
    )
    assert not isinstance(first, str)
    assert not isinstance(second, str)
    assert first.digest == second.digest
