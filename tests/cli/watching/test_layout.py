"""Sections share a screen: never more than there is room for, the important first, in their order."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st
from rich.cells import cell_len

from hostler.cli.watching.layout import Line, Section, arranged

SECTIONS = st.lists(
    st.builds(
        Section,
        rank=st.integers(0, 5),
        least=st.integers(1, 4),
        lines=st.lists(st.builds(Line, st.text(max_size=120)), max_size=12),
        heading=st.none() | st.just(Line("HEADING")),
    ),
    max_size=6,
)


def numbered(rank: int, count: int, name: str, least: int = 1) -> Section:
    return Section(rank, least, [Line(f"{name}{n}") for n in range(count)], Line(name.upper()))


def texts(sections: list[Section], height: int | None = None) -> list[str]:
    return [line.text for line in arranged(sections, 80, height)]


def test_everything_where_there_is_room() -> None:
    sections = [numbered(1, 2, "b"), numbered(0, 1, "a"), Section(2, 1, [])]
    assert texts(sections) == texts(sections, 50) == ["B", "b0", "b1", "", "A", "a0"]


def test_what_has_no_room_is_counted_and_the_least_important_goes_first() -> None:
    sections = [numbered(0, 3, "a", least=3), numbered(2, 9, "c"), numbered(1, 9, "b", least=2)]
    assert texts(sections, 12) == ["A", "a0", "a1", "a2", "", "C", "c0", "", "B", "b0", "b1", "and 7 more"]
    assert texts(sections, 8) == ["A", "a0", "a1", "a2", "", "B", "b0", "and 8 more"]
    assert texts(sections, 6) == ["A", "a0", "a1", "a2"]


@settings(max_examples=40)
@given(SECTIONS, st.integers(40, 140), st.integers(1, 60))
def test_it_always_fits(sections: list[Section], width: int, height: int) -> None:
    lines = arranged(sections, width, height)
    assert len(lines) <= height
    assert all(line.text.isprintable() and cell_len(line.text) <= width for line in lines)


@settings(max_examples=30)
@given(SECTIONS)
def test_without_a_bound_nothing_is_left_out(sections: list[Section]) -> None:
    shown = [section for section in sections if section.lines]
    whole = sum(len(section.lines) + (section.heading is not None) for section in shown)
    assert len(arranged(sections, 500)) == whole + max(len(shown) - 1, 0)


def test_words_for_the_rest_may_have_braces() -> None:
    rest = Section(0, 1, [Line("a"), Line("b"), Line("c")], more="{x} and {}")
    assert texts([rest], 2) == ["a", "{x} and 2"]
