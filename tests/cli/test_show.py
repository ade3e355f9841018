"""Lines for terminals: safe, narrow, honest."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, strategies as st

from hostler.cli.show import (
    Column,
    age,
    clean,
    clean_output,
    duration,
    maybe,
    percent,
    plural,
    quantity,
    shortened,
    standing,
    table,
    wrapped,
)

ANY = st.text(st.characters())


def columns(line: str) -> int:
    """What a line takes on a terminal."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else not unicodedata.combining(each) for each in line)


@given(ANY)
def test_cleaned_text_holds_nothing_but_printable_characters(text: str) -> None:
    assert clean(text).isprintable()
    assert clean(text) == text or not text.isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\x9b2J", "\\x9b2J"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        ("\ud800", "\\ud800"),
        ("名前 ß", "名前 ß"),
    ],
)
def test_controls_are_made_visible_and_markup_is_text(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(ANY)
def test_output_keeps_colours_and_line_ends_alone(text: str) -> None:
    left = re.sub(r"\x1b\[[0-9;]*m|[\t\r\n]", "", clean_output(text))
    assert left.isprintable()


def test_output_cannot_move_the_cursor_or_set_the_title() -> None:
    assert (
        clean_output("\x1b[31mred\x1b[0m\x1b[2J\x1b]0;title\x07\n") == "\x1b[31mred\x1b[0m\\x1b[2J\\x1b]0;title\\x07\n"
    )


@given(st.lists(st.tuples(ANY, ANY, st.integers()), max_size=8), st.integers(60, 200))
def test_tables_fit_and_have_a_line_for_each_row(rows: list[tuple[str, str, int]], width: int) -> None:
    shape = (Column("NAME", yields=True), Column("WHY", yields=True), Column("N", right=True, yields=True))
    lines = list(table(shape, rows, width))
    assert len(lines) == len(rows) + 1
    assert all(line.isprintable() and columns(line) <= width for line in lines)


def test_columns_that_yield_share_what_there_is() -> None:
    shape = (Column("ID"), Column("A", yields=True), Column("B", yields=True))
    (_, line) = table(shape, [("j1", "a" * 1_000_000, "b" * 50)], 40)
    assert line == f"j1  {'a' * 16}…  {'b' * 16}…"
    (_, line) = table(shape, [("j1", "a" * 100, "b" * 5)], 40)
    assert line == f"j1  {'a' * 28}…  bbbbb"


@given(ANY.filter(str.isprintable), st.integers(3, 40))
def test_shortening_marks_what_it_leaves_out(text: str, width: int) -> None:
    short = shortened(text, width)
    assert columns(short) <= width
    assert short == text or short.endswith("…")


@given(ANY.filter(str.isprintable))
def test_wrapping_keeps_everything_and_fits(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "30")
        lines = wrapped("why  ", text)
    assert all(columns(line) <= 30 and line[:5] in ("why  ", "     ") for line in lines)
    assert "".join(line[5:] for line in lines) == text


def test_wrapping_ends_somewhere() -> None:
    lines = wrapped("why  ", "x" * 1_000_000)
    assert len(lines) == 20
    assert lines[-1].endswith("x…")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "?"), (0, "0"), (9999, "9999"), (2**32, "4.29G"), (1234567, "1.23M"), (0.5, "0.5"), (2**200, "1.61e+60")],
)
def test_quantities(value: float | None, text: str) -> None:
    assert quantity(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (0, "0s"), (99, "99s"), (100, "2m"), (5999, "100m"), (7200, "2h"), (1e6, "11d"), (-3, "0s")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_unknown_is_never_zero_and_not_yet_is_not_unknown() -> None:
    assert (maybe(None), maybe(0)) == ("?", "0")
    assert (age(None, 5.0), age(5.0, 5.0)) == ("-", "0s")


@given(st.integers(0, 2**80), st.integers(1, 2**80))
def test_only_the_whole_is_a_hundred_percent(part: int, whole: int) -> None:
    part = min(part, whole)
    assert (percent(part, whole) == "100.0%") == (part == whole)


def test_a_job_that_is_over_is_not_being_cancelled() -> None:
    assert standing({"state": "running", "cancelling": True}) == "cancelling"
    assert standing({"state": "cancelled", "cancelling": True}) == "cancelled"


def test_places_in_files_lose_their_beginning() -> None:
    column = Column("FROM", yields=True, tail=True)
    assert list(table([column], [["a/long/way/fleet.yaml:24:14"]], 15)) == ["FROM", "…eet.yaml:24:14"]
    assert list(table([column], [["short:1:1"]], 15))[1] == "short:1:1"


def test_counts_of_things() -> None:
    assert [plural(count, "job") for count in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]
