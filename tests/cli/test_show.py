"""Lines for terminals: safe, narrow, honest."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, strategies as st

from hostler.cli.entries import entry_lines
from hostler.cli.show import (
    Column,
    age,
    clean,
    clean_output,
    duration,
    folded_text,
    maybe,
    percent,
    plural,
    quantity,
    screen_rows,
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
def test_tables_fit_and_have_lines_for_each_row(rows: list[tuple[str, str, int]], width: int) -> None:
    shape = (Column("NAME", yields=True), Column("WHY", yields=True), Column("N", right=True))
    lines = list(table(shape, rows, width))
    assert len(lines) >= len(rows) + 1
    assert all(line.isprintable() and columns(line) <= width for line in lines)


WORDS = st.text(st.characters(codec="ascii", categories=["L", "P"]), min_size=1, max_size=30)


@given(st.lists(WORDS, min_size=1, max_size=30), st.integers(20, 80))
def test_text_of_a_table_is_wrapped_between_words_and_not_cut(words: list[str], width: int) -> None:
    text = " ".join(words)
    (_, *lines) = table((Column("ID"), Column("WHY", yields=True)), [("j1", text)], width)
    assert all(columns(line) <= width for line in lines)
    shown = [line.removeprefix("j1").strip() for line in lines]
    assert "".join(shown).replace(" ", "") == "".join(words)
    if max(map(len, words)) <= width - 4:
        assert " ".join(shown).split() == words


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("needs 24 GB here", "24 GB"),
        ("took 5h 07m so far", "5h 07m"),
        ("ran at 131 M/s then", "131 M/s"),
        ("lasted 3m 20s more", "3m 20s"),
        ("up 12 % of it", "12 %"),
        ("waits 4 s (max)", "4 s"),
    ],
)
@pytest.mark.parametrize("width", range(8, 20))
def test_number_and_its_unit_are_on_one_line(text: str, whole: str, width: int) -> None:
    (_, *lines) = table((Column("WHY", yields=True),), [(text,)], width)
    assert any(whole in line for line in lines)
    assert " ".join(line.strip() for line in lines) == text


def test_columns_that_yield_share_the_room() -> None:
    shape = (Column("ID"), Column("A", yields=True), Column("B", yields=True))
    (_, *lines) = table((*shape, Column("N", right=True)), [("j1", "a" * 30, "b" * 50, 7)], 43)
    assert lines == [
        f"j1  {'a' * 17}  {'b' * 17}  7",
        f"    {'a' * 13}      {'b' * 17}",
        f"    {' ' * 17}  {'b' * 16}",
    ]
    (_, *lines) = table(shape, [("j1", "a" * 30, "b" * 5)], 40)
    assert lines == [f"j1  {'a' * 29}  bbbbb", "    a"]


def test_text_of_the_last_column_stands_below_its_row_where_it_is_too_long() -> None:
    shape = (Column("ID"), Column("NAME", yields=True), Column("WHY", yields=True))
    rows = [("j1", "train-resnet-50", "waits for a GPU with 24 GB"), ("j2", "eval", "runs")]
    assert list(table(shape, rows, 30)) == [
        "ID  NAME             WHY",
        "j1  train-resnet-50",
        "    waits for a GPU with 24 GB",
        "j2  eval             runs",
    ]


def test_row_is_one_line_for_a_program_that_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("os.isatty", lambda _: False)
    (_, line) = table((Column("ID"), Column("WHY", yields=True)), [("j1", "word " * 100 + "end")])
    assert line.endswith("word end")


@given(ANY.filter(str.isprintable), st.integers(3, 40))
def test_shortening_marks_what_it_leaves_out(text: str, width: int) -> None:
    short = shortened(text, width)
    assert columns(short) <= width
    assert short == text or short.endswith("…")


@given(ANY.filter(str.isprintable))
def test_wrapping_keeps_everything_but_spaces_at_ends_of_lines_and_fits(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "30")
        lines = wrapped("why  ", text)
    assert all(columns(line) <= 30 and line[:5] in ("why  ", "     ") for line in lines)
    assert "".join(line[5:] for line in lines).replace(" ", "") == text.replace(" ", "")


def test_wrapping_of_a_huge_text_ends_with_the_way_to_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = wrapped("why  ", "x" * 1_000_000)
    assert len(lines) == 20
    assert lines[-1] == "     … (--json has the rest)"


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


def test_counts_of_things() -> None:
    assert [plural(count, "job") for count in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]


def test_entry_shows_the_first_of_several_lines_and_their_number() -> None:
    event = {"kind": "attempt.ended", "attempt": "j1.1", "evidence": "Traceback\n  File\nValueError: no data\n"}
    (line,) = entry_lines({"seq": 7, "at": 0.0, "event": event})
    assert line.endswith('attempt.ended        j1.1 evidence="Traceback" (+2 lines)')


def test_long_word_is_divided_behind_a_sign_and_not_within_a_part() -> None:
    text = "ended why=" + "/".join(["folder"] * 12)
    lines = folded_text(text, 40)
    assert lines[0] == "ended"
    assert "".join(lines[1:]) == text.partition(" ")[2]
    assert all(line.endswith("folder/") for line in lines[1:-1])


def test_printed_screen_has_whole_cells_and_a_live_one_a_line_for_each() -> None:
    columns, rows = [Column("NODE", yields=True), Column("RUNS", yields=True)], [["n" * 50, "train a-long-name " * 5]]
    printed, live = (screen_rows(columns, rows, 40, live=live)[1] for live in (False, True))
    assert len(live) == 1
    assert "…" in live[0]
    assert not any("…" in line for line in printed)
    assert "".join("".join(printed).split()).count("a-long-name") == 5
