"""Candidates: from JSON, from bounded integers, and the questions they are."""

from pathlib import Path

import pytest
from hypothesis import given as drawn, settings, strategies as st

from hostler.workloads.sieve import data
from hostler.workloads.sieve.candidates import Candidate, given, question, usual, values_of
from hostler.workloads.sieve.errors import SpecError

from .support import DRAWS

JAVA = {"generator": "java", "calls": "nextInt(1000)"}


@settings(deadline=None)
@drawn(st.integers(-5, 10), st.integers(2, 2**33))
def test_usual_candidates_give_exactly_these_values(low: int, size: int) -> None:
    for each in usual(low, low + size - 1):
        (call,) = each.calls
        assert (call.lowest + each.shift, call.size) == (low, size)
        assert given(each.as_dict()) == each


def test_a_dice_of_all_generators() -> None:
    names = {each.made_by.name for each in usual(1, 6)}
    assert {"php-mt_rand", "java-random", "xorshift128", "numpy-pcg64"} <= names
    texts = {each.text for each in usual(1, 6)}
    assert {"mt_rand(1, 6)", "nextInt(6) + 1"} <= texts


def test_a_question_takes_the_shift_away() -> None:
    asked = question(given({**JAVA, "shift": 1}), [1, None, 1000], (0, 3), (1, 1))
    assert (asked.draws, asked.skip, asked.gap) == ((0, None, 999), (0, 3), (1, 1))


def test_floats_have_no_shift() -> None:
    shifted = Candidate(given(JAVA).made_by, given(JAVA).calls, 1)
    with pytest.raises(SpecError, match="leave shift out"):
        question(shifted, [0.5])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("java", "write generator, calls"),
        ({"generator": "java"}, "write generator, calls"),
        ({**JAVA, "shift": 1.0}, "shift 1.0 is no integer"),
        ({"generator": "jaav", "calls": "x"}, "is not known"),
        ({"generator": "java", "calls": []}, "write calls as text"),
    ],
)
def test_what_is_no_candidate_is_refused(value: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        given(value)


def test_values_must_be_two_or_more() -> None:
    with pytest.raises(SpecError, match="fewer than two"):
        usual(5, 5)


def test_what_a_file_says_of_its_draws(tmp_path: Path) -> None:
    of = values_of(data.read(DRAWS / "php.json"))
    assert of is not None
    assert (of.lowest, of.size) == (1, 1000)
    plain = tmp_path / "plain.txt"
    plain.write_text("1\n2\n")
    assert values_of(data.read(plain)) is None
