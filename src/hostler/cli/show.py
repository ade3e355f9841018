"""From answers to lines of text: safe, narrow, and readable without colour.

Names, arguments and error texts belong to whoever wrote them and may hold anything; nothing of them reaches a terminal
but printable characters. Unknown is shown as `?`, never as 0.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, NamedTuple

UNKNOWN = "?"
NARROW = 80
NARROWEST_CELL = 8
LINES = 20
GAP = "  "
BELOW = "    "
"""Before a text that stands below its row."""

MORE = "… (--json has the rest)"
SEAMS = ",;:/=&"
"""Signs behind which a word is divided that is too long for a line."""
UNLIMITED = 1_000_000
BREAK = r"(?<![0-9])(?<![0-9][hmd]) +|(?<=[0-9]) +(?![A-Za-zµ%°]{1,5}(?:[^A-Za-z]|$))|(?<=[0-9][hmd]) +(?![0-9])"
"""Spaces at which a line may end: not between a number and a unit of at most five letters, nor within `5h 07m`."""

# What a job may say on a terminal: tabs, line ends, and colours, which are the one kind of escape that moves nothing.
_HARMLESS = r"\x1b\[[0-9;]*m|[\t\r\n]"


class Column(NamedTuple):
    """One column: numbers stand at the right; a text of one that `yields` is wrapped where a line is too long."""

    title: str
    right: bool = False
    yields: bool = False


def clean(value: object) -> str:
    """`value` as text of printable characters; anything else is written as Python would (`\\x1b`, `\\n`, `\\u202e`)."""
    text = str(value)
    return text if text.isprintable() else "".join(map(_visible, text))


def clean_output(text: str) -> str:
    """What a process wrote, for a terminal: colours and line ends stay, every other control is made visible."""
    parts, at = [], 0
    for harmless in re.finditer(_HARMLESS, text):
        parts += [clean(text[at : harmless.start()]), harmless[0]]
        at = harmless.end()
    return "".join([*parts, clean(text[at:])])


def maybe(value: object) -> str:
    """A value, or `?` where it is not known."""
    return UNKNOWN if value is None else clean(value)


def quantity(value: float | None) -> str:
    """A count or a rate in at most six characters: `950`, `4.29G`, `1e+27`."""
    if value is None:
        return UNKNOWN
    if abs(value) < 10_000 and value == int(value):
        return str(int(value))
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if size <= abs(value) < 1000 * size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def plural(count: int, what: str) -> str:
    """A count of things: `1 job`, `2 jobs`."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def percent(part: int, whole: int) -> str:
    """A share, rounded down: 100 % is said of the whole alone."""
    return f"{1000 * part // whole / 10:.1f}%" if whole else UNKNOWN


def duration(seconds: float | None) -> str:
    """A length of time in at most five characters."""
    if seconds is None:
        return UNKNOWN
    for unit, size, until in (("s", 1, 100), ("m", 60, 100 * 60), ("h", 3600, 100 * 3600)):
        if seconds < until:
            return f"{max(seconds, 0) / size:.0f}{unit}"
    return f"{quantity(seconds // 86400)}d"


def age(at: float | None, now: float) -> str:
    """How long ago `at` was; `-` where it has not been yet."""
    return "-" if at is None else duration(now - at)


def standing(job: Mapping[str, Any]) -> str:
    """Where a job stands; `cancelling` while its owner's wish to end it is being carried out."""
    over = job["state"] in ("done", "failed", "cancelled")
    return "cancelling" if job["cancelling"] and not over else str(job["state"])


def kind_of(job: Mapping[str, Any]) -> str:
    """The kind of a job; a batch of function calls, which is scheduled as a sweep, is called by its own word."""
    return "calls" if job.get("calls") else str(job["work"])


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]], width: int | None = None) -> Iterator[str]:
    """Lines of a table, titles first: at most `width` columns wide, by default as wide as `table_width`.

    Nothing is cut. Where rows are too wide, a long text in the last column stands below its row, and texts in other
    columns that yield are wrapped below themselves.
    """
    for lines in table_rows(columns, rows, width):
        yield from lines


def table_rows(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], width: int | None = None
) -> Iterator[list[str]]:
    """The same table by its rows, each with its lines; the titles are the first row."""
    whole = table_width() if width is None else width
    for cells, widths in _laid_out(columns, rows, whole):
        below: list[str] = []
        if len(columns) > 1 and columns[-1].yields and _columns(cells[-1]) > widths[-1]:
            below = [(BELOW + piece).rstrip() for piece in _pieces_of(cells[-1], whole - len(BELOW))]
            cells = [*cells[:-1], ""]
        parts = [
            _pieces_of(cell, wide) if column.yields else [cell]
            for cell, wide, column in zip(cells, widths, columns, strict=True)
        ]
        yield [*(_row_line(line, widths, columns) for line in zip_longest(*parts, fillvalue="")), *below]


def live_table(columns: Sequence[Column], rows: Iterable[Sequence[object]], width: int) -> Iterator[str]:
    """A table for live screens, which have a line for each row: what is too long for its column is shortened."""
    for cells, widths in _laid_out(columns, rows, width, last_first=False):
        short = [shortened(cell, max(3, wide)) for cell, wide in zip(cells, widths, strict=True)]
        yield _row_line(short, widths, columns)


def screen_rows(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], width: int, *, live: bool
) -> list[list[str]]:
    """The rows of a table of a screen, titles first: of a live one a line each, of a printed one wrapped and whole."""
    if live:
        return [[line] for line in live_table(columns, rows, width)]
    return list(table_rows(columns, rows, width))


def _laid_out(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], width: int, *, last_first: bool = True
) -> Iterator[tuple[Sequence[str], Sequence[int]]]:
    """The cells of each row, titles first, and the widths of the columns."""
    cells = [[column.title for column in columns], *([clean(cell) for cell in row] for row in rows)]
    widths = _widths(columns, cells, width, last_first=last_first)
    yield from ((row, widths) for row in cells)


def _row_line(cells: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    fitted = (_fit(cell, wide, column) for cell, wide, column in zip(cells, widths, columns, strict=True))
    return GAP.join(fitted).rstrip()


def least_widths(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    """Columns of the terminal that each column of a table needs at least; `cells` are given column by column."""
    longest = [
        max(map(_columns, (column.title, *map(clean, some)))) for column, some in zip(columns, cells, strict=True)
    ]
    return [min(wide, NARROWEST_CELL) if column.yields else wide for column, wide in zip(columns, longest, strict=True)]


def room(widths: Sequence[int]) -> int:
    """Columns of the terminal that a table with such columns takes."""
    return sum(widths) + len(GAP) * (len(widths) - 1)


def shortened(text: str, width: int) -> str:
    """`text` in at most `width` (3 or more) columns; what is left out is marked by `…`."""
    return text if _columns(text) <= width else _beginning(text, width - 1) + "…"


def wrapped(title: str, text: str) -> list[str]:
    """`text` beside its title, in as many lines as it needs; in one line where a program reads it."""
    pieces = _pieces_of(text, table_width() - len(title))
    return [title + pieces[0], *(" " * len(title) + piece for piece in pieces[1:])]


def paragraph(text: str, first: str = "", rest: str = "") -> list[str]:
    """`text` in lines that break between words; the first begins with `first`, the others with `rest`."""
    indent = max(len(first), len(rest))
    pieces = _pieces_of(clean(text), terminal_width() - indent)
    return [first + pieces[0], *(rest + piece for piece in pieces[1:])]


def folded_text(text: str, width: int) -> list[str]:
    """A line in as many lines of `width` columns as it needs, broken between words."""
    return _pieces_of(clean(text), width)


def share(part: float | None) -> str:
    """A part of 1 as a percentage."""
    return UNKNOWN if part is None else f"{100 * part:.1f}%"


def clock(at: float, now: float) -> str:
    """A time of the day, with the day where that is another one."""
    there, here = time.localtime(at), time.localtime(now)
    return time.strftime("%H:%M" if there[:3] == here[:3] else "%d %b %H:%M", there)


def terminal_width() -> int:
    """Columns of the terminal, as `$COLUMNS` or the terminal itself says; 80 where there is none."""
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isdecimal() and len(chosen) < 7 and int(chosen):
        return int(chosen)
    try:
        return os.get_terminal_size(1).columns or NARROW
    except OSError:
        return NARROW


def table_width() -> int:
    """Columns that a table may take: those of the terminal. Without one, a row is one line, for programs."""
    chosen = os.environ.get("COLUMNS", "")
    return terminal_width() if chosen or os.isatty(1) else UNLIMITED


def say(lines: Iterable[str]) -> None:
    """Print lines."""
    for line in lines:
        print(line)


def say_json(value: Any) -> None:
    """Print one complete JSON document on one line; ASCII, so that it holds no control character."""
    print(json.dumps(value, ensure_ascii=True), flush=True)  # `json.dump` takes three times as long for many rows


def compact(value: Any) -> str:
    """A value as short JSON, for a cell."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _visible(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int, *, last_first: bool) -> list[int]:
    """As wide as the longest cell; where that is too much, the widest columns that yield become equally narrow.

    With `last_first`, the last column gives room before all others, if it yields.
    """
    widths = [min(width, max(_columns(row[at]) for row in cells)) for at in range(len(columns))]
    yielding = [at for at, column in enumerate(columns) if column.yields]
    excess = sum(widths) + len(GAP) * (len(columns) - 1) - width
    if last_first and excess > 0 and len(columns) > 1 and columns[-1].yields:
        least = min(widths[-1], max(NARROWEST_CELL, _columns(columns[-1].title)))
        given = min(excess, widths[-1] - least)
        widths[-1] -= given
        excess -= given
    for _ in range(excess):
        widest = max(yielding, key=lambda at: widths[at], default=None)
        if widest is None or widths[widest] <= NARROWEST_CELL:
            break
        widths[widest] -= 1
    return widths


def _fit(text: str, width: int, column: Column) -> str:
    filling = " " * (width - _columns(text))
    return filling + text if column.right else text + filling


def _pieces_of(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns, at least one of them.

    Lines end between words, but not between a number and its unit (`3.1 GB`, `5h 07m`); a word that is too long for a
    line is continued on the next one. Of a text of more than `LINES` lines, the last one says that there is more.
    """
    if _columns(text) <= width:
        return [text]
    lines = list(islice(_lines(text, width), LINES + 1))
    return lines if len(lines) <= LINES else [*lines[: LINES - 1], *_pieces(MORE, width)]


def _lines(text: str, width: int) -> Iterator[str]:
    line, gap = "", ""
    words = re.split(f"({BREAK})", text)
    for word, gap_after in zip(words[::2], [*words[1::2], ""], strict=True):
        if line and _columns(line) + len(gap) + _columns(word) <= width:
            line += gap + word
        else:
            if line:
                yield line
            *full, line = list(_pieces(word, width)) or [""]
            yield from full
        gap = gap_after
    yield line


def _pieces(text: str, width: int) -> Iterator[str]:
    """The text in parts of at most `width` columns; a character that is wider than that stands alone.

    A part ends behind a sign of `SEAMS` where its second half has one.
    """
    piece, taken = "", 0
    for character in text:
        wide = _columns(character)
        if piece and taken + wide > width:
            seam = max(map(piece.rfind, SEAMS)) + 1
            end = seam if 2 * seam > len(piece) else len(piece)
            yield piece[:end]
            piece = piece[end:]
            taken = _columns(piece)
        piece, taken = piece + character, taken + wide
    if piece:
        yield piece


def _beginning(text: str, width: int) -> str:
    """As much of the text as has room in `width` columns."""
    end, taken = 0, 0
    for character in text:
        taken += _columns(character)
        if taken > width and end:
            break
        end += 1
    return text[:end]


def _columns(text: str) -> int:
    """Columns that a terminal takes for printable text."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(2 if unicodedata.east_asian_width(each) in "WF" else not unicodedata.combining(each) for each in text)
