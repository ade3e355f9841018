"""Numbers and ranges as people write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.cli.words import assignments, interval, json_or_text, whole
from hostler.model.errors import UsageError

INTEGERS = st.integers(-(2**300), 2**300)


@given(INTEGERS, st.sampled_from([str, hex, oct, bin, "{:_}".format]))
def test_integers_come_back_exactly(value: int, write: Any) -> None:
    assert whole("N", write(value)) == value


@given(st.integers(0, 10**20), st.integers(0, 40))
def test_scientific_notation_is_exact(digits: int, exponent: int) -> None:
    assert whole("N", f"{digits}e{exponent}") == digits * 10**exponent
    decimal = f"{digits // 1000}.{digits % 1000:03}e{exponent + 3}"
    assert whole("N", decimal) == digits * 10**exponent


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("2**32", 2**32),
        ("2**32 - 1", 2**32 - 1),
        ("1e9", 10**9),
        ("4.3E+9", 4_300_000_000),
        ("-2e3", -2000),
        (" 7 ", 7),
    ],
)
def test_numbers_people_write(word: str, value: int) -> None:
    assert whole("N", word) == value


@pytest.mark.parametrize(
    "word",
    ["x", "1.5", "1.5e0", "1e-3", "1e", "e9", "1e9999", "2**99999", "1e9;rm", "0x", "١", "1e9e9", "nan", "inf", "--1"],
)
def test_what_is_no_whole_number_is_named(word: str) -> None:
    with pytest.raises(UsageError, match=r"^--range '"):
        whole("--range", word)


@given(st.text(max_size=30))
def test_any_text_is_a_range_or_a_usage_error(text: str) -> None:
    try:
        start, stop = interval("--range", text)
    except UsageError:
        return
    assert start < stop


@given(INTEGERS, INTEGERS)
def test_ranges_come_back_exactly(start: int, stop: int) -> None:
    if start < stop:
        assert interval("--range", f"{start}:{stop}") == (start, stop)
        return
    with pytest.raises(UsageError, match="empty"):
        interval("--range", f"{start}:{stop}")


def test_a_range_may_begin_at_nothing_but_not_end_there() -> None:
    assert interval("--range", ":2**32") == (0, 2**32)
    for word in ("5", "5:", ":", "", "1:2:3"):
        with pytest.raises(UsageError):
            interval("--range", word)


@pytest.mark.parametrize(
    ("word", "value"),
    [("7", 7), ("[1, 2]", [1, 2]), ("true", True), ('"7"', "7"), ("a b", "a b"), ("NaN", "NaN"), ("", ""), ("{", "{")],
)
def test_values_are_json_or_text(word: str, value: Any) -> None:
    assert json_or_text(word) == value
    assert type(json_or_text(word)) is type(value)


def test_assignments_keep_what_follows_the_first_sign() -> None:
    assert assignments("--env", ["A=b=c", "B="]) == {"A": "b=c", "B": ""}
    for words in (["A"], ["=b"], ["A=1", "A=2"]):
        with pytest.raises(UsageError, match="--env"):
            assignments("--env", words)
