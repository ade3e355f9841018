"""The numbers of ranges: exact, and nothing but numbers."""

import ast

import pytest
from hypothesis import given, settings, strategies as st

from hostler.settings.ranges import MAX_BITS, parse_integer

LITERALS = st.integers(0, 2**80).flatmap(
    lambda n: st.sampled_from([str(n), hex(n), bin(n), oct(n), f"{n:_}", f"{n:#X}"])
)
POWERS = st.tuples(st.integers(0, 300), st.integers(0, 60)).map(lambda pair: f"{pair[0]}**{pair[1]}")
PRODUCTS = st.lists(LITERALS | POWERS, min_size=1, max_size=3).map(" * ".join)


@st.composite
def sums(draw: st.DrawFn) -> str:
    """A text of the grammar, with spaces here and there."""
    text = draw(st.sampled_from(["", "-", " - "])) + draw(PRODUCTS)
    for product in draw(st.lists(PRODUCTS, max_size=3)):
        text += draw(st.sampled_from(["+", "-", " + ", "  -\t"])) + product
    return text + draw(st.sampled_from(["", " "]))


@settings(max_examples=40)
@given(sums())
def test_means_what_python_means(text: str) -> None:
    # The texts come from the grammar above, so Python's own arithmetic may judge them.
    assert parse_integer(text) == eval(compile(ast.parse(text.strip(), mode="eval"), "text", "eval"))


@settings(max_examples=40)
@given(st.integers(-(2**MAX_BITS) + 1, 2**MAX_BITS - 1))
def test_is_exact_for_numbers_of_any_size(number: int) -> None:
    assert parse_integer(number) == number
    assert parse_integer(hex(number)) == number


@settings(max_examples=40)
@given(st.text(alphabet="0123456789abxo_*+-() .e^\n", max_size=12))
def test_never_gives_anything_but_a_number_or_a_value_error(text: str) -> None:
    try:
        value = parse_integer(text)
    except ValueError:
        return
    assert type(value) is int
    assert value.bit_length() <= MAX_BITS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2**32", 1 << 32),
        ("2**32-1", (1 << 32) - 1),
        ("0x10", 16),
        ("4_294_967_296", 1 << 32),
        ("007", 7),
        ("-5+3", -2),
    ],
)
def test_reads_what_people_write(text: str, value: int) -> None:
    assert parse_integer(text) == value


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "ends where a number should be"),
        ("2^32", r"cannot be read at '\^32'"),
        ("1e9", "cannot be read at 'e9'"),
        (1e9, r"write 10\*\*9 for 1e9"),
        (True, "should be a whole number"),
        (None, "should be a whole number"),
        ("9**9**9", "powers do not nest"),
        ("9**999999999", "too big"),
        ("2**4096", "too big"),
        (1 << 5000, "too big"),
        ("1" * 5000, "5000 characters long"),
        ("1__0", "cannot be read at '__0'"),
        ("2 3", "has '3' where"),
        ("__import__('os')", "cannot be read"),
        ("*3", r"has '\*' where a number should be"),
    ],
)
def test_refuses_anything_else(written: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_integer(written)
