"""Sections of a screen, given as much of its height as there is, the important ones first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hostler.cli.show import clean, folded_text, shortened

NARROWEST = 40
"""Columns below which lines are cut rather than arranged."""


class Line(NamedTuple):
    """A line and how it is drawn, in rich's words."""

    text: str
    style: str = ""
    is_rest: bool = False
    """Whether it continues the line before it."""


class Section(NamedTuple):
    """Lines under a heading. `rank` 0 is the most important; `least` lines of it are shown before others get more."""

    rank: int
    least: int
    lines: Sequence[Line]
    heading: Line | None = None
    more: str = "and {} more"
    """What is said of those that there is no room for."""


def arranged(sections: Iterable[Section], width: int, height: int | None = None) -> list[Line]:
    """The sections as lines of at most `width` columns, in their order, a blank line between them.

    Where `height` is given there are at most that many; what does not fit is counted, and the least important goes.
    """
    shown = [section for section in sections if section.lines]
    rooms = _rooms(shown, height)
    blocks = [_block(section, room) for section, room in zip(shown, rooms, strict=True) if room]
    found: list[Line] = []
    for block in blocks:
        found += [*([Line("")] if found else []), *block]
    if height is None:  # printed, not live: whole
        return [Line(text, line.style) for line in found for text in folded_text(line.text, max(width, 3))]
    return [Line(shortened(clean(line.text), max(width, 3)), line.style) for line in found][:height]


def _rooms(sections: Sequence[Section], height: int | None) -> list[int]:
    """Lines that each section may have, its heading included and the blank line before it not."""
    whole = [len(section.lines) + (section.heading is not None) for section in sections]
    if height is None:
        return whole
    rooms, left = [0] * len(sections), height
    by_rank = sorted(range(len(sections)), key=lambda at: sections[at].rank)
    for at in by_rank:
        least = min(sections[at].least + (sections[at].heading is not None), whole[at])
        blank = 1 if any(rooms) else 0
        if least + blank <= left:
            rooms[at], left = least, left - least - blank
    for at in by_rank:
        if rooms[at]:
            more = min(whole[at] - rooms[at], left)
            rooms[at], left = rooms[at] + more, left - more
    return rooms


def _block(section: Section, room: int) -> list[Line]:
    head = [] if section.heading is None else [section.heading]
    lines, room = list(section.lines), room - len(head)
    if len(lines) <= room:
        return [*head, *lines]
    if room <= 1:
        return [*head, *lines[:room]]
    end = _whole(lines, room - 1)
    hidden = sum(not line.is_rest for line in lines[end:])
    return [*head, *lines[:end], Line(section.more.replace("{}", str(hidden)) if hidden else "…", "dim")]


def _whole(lines: Sequence[Line], room: int) -> int:
    """How many of the lines fit without a part of a text that has several; of the first text, a part may stand."""
    end = room
    while end and lines[end].is_rest:
        end -= 1
    return end or room
