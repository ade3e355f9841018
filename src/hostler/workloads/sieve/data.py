"""Recorded draws from files, strictly: JSON, JSON lines, CSV and plain text; sessions, times and windows.

The form goes by the name of the file: ``.json``, ``.jsonl`` or ``.ndjson``, ``.csv``; any other is plain text. What the
draws mean (generator, output) is for the question that is asked of them; here they are integers, floats, hexadecimal
texts or lists, all of one kind in a file, or ``None`` where nobody wrote one down. Pure Python, no numpy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.tables import Draw, Hints, Table, read_table, when

__all__ = ["ALL", "OTHERS", "Draw", "Filters", "Recording", "read"]

OTHERS = ("drop", "unknown")


@dataclass(frozen=True, slots=True)
class Filters:
    """Which draws of a file count: by session first, then by time, then by position among those that are left.

    ``sessions`` are names, none for all. ``since`` and ``until`` are ISO times or dates, both included, a date meaning
    the whole day. ``window`` is ``(offset, size)`` and must lie within what is left. ``others`` says what draws of
    other sessions become: with ``drop`` another generator made them, with ``unknown`` the same one did, so that they
    stay as draws that nobody wrote down.
    """

    sessions: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    window: tuple[int, int] | None = None
    others: str = "drop"

    def __post_init__(self) -> None:
        if self.others not in OTHERS:
            raise SpecError(f"others: {self.others!r} is not known; choose drop or unknown")
        if self.window is not None and (self.window[0] < 0 or self.window[1] < 1):
            raise SpecError(f"window: {list(self.window)}: write [OFFSET, SIZE] with OFFSET from 0 and SIZE from 1 up")

    @classmethod
    def parse(cls, given: object) -> Filters:
        """From JSON: an object with any of the fields, ``window`` as a list; raises :class:`SpecError`."""
        names = ("sessions", "since", "until", "window", "others")
        if not isinstance(given, Mapping) or (unknown := sorted(map(str, given.keys() - set(names)))):
            what = f"unknown {', '.join(unknown)}" if isinstance(given, Mapping) else f"{given!r} is no object"
            raise SpecError(f"filters: {what}; allowed are {', '.join(names)}")
        sessions, window = given.get("sessions", []), given.get("window")
        if not isinstance(sessions, list) or any(not isinstance(name, str) for name in sessions):
            raise SpecError(f"sessions: {sessions!r}: must be a list of names")
        if window is not None and not (
            isinstance(window, list) and len(window) == 2 and all(type(number) is int for number in window)
        ):
            raise SpecError(f"window: {window!r}: write [OFFSET, SIZE], two integers")
        for name in ("since", "until"):
            if not isinstance(given.get(name), str | None):
                raise SpecError(f"{name}: {given[name]!r}: write an ISO time or date in quotes, 2025-11-03")
        return cls(
            tuple(sessions),
            given.get("since"),
            given.get("until"),
            (window[0], window[1]) if window else None,
            given.get("others", "drop"),
        )


ALL = Filters()


@dataclass(frozen=True, slots=True)
class Recording:
    """Draws as ``Output.read`` takes them, in the order they were made.

    ``times`` and ``sessions``, one for each draw, where the file has them. ``source`` is the path as it was given,
    ``sha256`` that of the whole file. ``kept`` is one line on what of the file is here. ``says`` is what the file says
    of the draws, unchecked: some of ``generator``, ``output``, ``calls``, ``provenance``.
    """

    draws: tuple[Draw | None, ...]
    source: str
    sha256: str
    kept: str
    times: tuple[datetime, ...] | None = None
    sessions: tuple[str, ...] | None = None
    says: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def known(self) -> int:
        """How many draws are known."""
        return sum(draw is not None for draw in self.draws)


def read(
    path: Path,
    filters: Filters = ALL,
    *,
    ignore: Iterable[str] = (),
    form: str | None = None,
    hexadecimal: bool = False,
) -> Recording:
    """The draws of ``path`` that pass ``filters``; raises :class:`SpecError`, which names the file and the line.

    ``ignore`` are columns (or keys) besides ``draw``, ``time``, ``session`` that are passed over. ``form`` is
    ``json``, ``jsonl``, ``csv`` or ``text`` where the name of the file does not say it. With ``hexadecimal``, draws of
    CSV and plain text are bytes in hexadecimal even where all of them look like decimal numbers.
    """
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SpecError(f"{path}: cannot be read ({why}); check the path") from None
    try:
        table = read_table(content, form or _form(path), Hints(frozenset(ignore), hexadecimal))
        _check_order(table)
        kept, notes = _filtered(table, filters)
        if all(draw is None for draw in kept.draws):
            cure = f" ({', '.join(notes)}); choose wider filters" if notes else "; record some"
            raise SpecError(f"no known draw is left of {len(table.draws)}{cure}")
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None
    return Recording(
        tuple(kept.draws),
        str(path),
        hashlib.sha256(content).hexdigest(),
        _line(path, table, kept, notes),
        tuple(kept.times) if kept.times is not None else None,
        tuple(kept.sessions) if kept.sessions is not None else None,
        MappingProxyType(dict(table.says)),
    )


def _form(path: Path) -> str:
    return {".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}.get(path.suffix.lower(), "text")


def _check_order(table: Table) -> None:
    times = table.times
    if times is None:
        return
    if len({moment.tzinfo is None for moment in times}) > 1:
        raise SpecError("some times have an offset from UTC and some have none; write all of them alike")
    for i, (before, after) in enumerate(pairwise(times), 1):
        if after < before:
            newest_first = all(a >= b for a, b in pairwise(times))
            cure = "the newest draw comes first: turn the file round" if newest_first else "sort the file by time"
            raise SpecError(f"{table.place(i)}: {after.isoformat()} is before {before.isoformat()}; {cure}")


def _filtered(table: Table, filters: Filters) -> tuple[Table, list[str]]:
    """What the filters leave, and a note on each that was used."""
    notes: list[str] = []
    if filters.sessions:
        table = _of_sessions(table, filters)
        dropped = "dropped" if filters.others == "drop" else "unknown"
        notes.append(f"session {' and '.join(filters.sessions)} (others {dropped})")
    if filters.since is not None or filters.until is not None:
        table = _within(table, filters)
        notes.append(" ".join(f"{word} {end}" for word, end in _ends(filters) if end))
    if filters.window is not None:
        offset, size = filters.window
        if offset + size > len(table.draws):
            raise SpecError(
                f"window: {size} draws from {offset} on, of the {len(table.draws)} that are there; choose less"
            )
        table = table.pick(range(offset, offset + size))
        notes.append(f"window {offset}..{offset + size - 1}")
    return table, notes


def _of_sessions(table: Table, filters: Filters) -> Table:
    if table.sessions is None:
        raise SpecError("sessions: the file names no sessions; leave that filter out")
    known = sorted(set(table.sessions))
    for name in filters.sessions:
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise SpecError(f"sessions: {name!r} is not in the file, which has {', '.join(known)}{meant}")
    wanted = frozenset(filters.sessions)
    if filters.others == "drop":
        return table.pick([i for i, name in enumerate(table.sessions) if name in wanted])
    draws = [draw if name in wanted else None for draw, name in zip(table.draws, table.sessions, strict=True)]
    return replace(table, draws=draws)


def _within(table: Table, filters: Filters) -> Table:
    if table.times is None:
        raise SpecError("since, until: the file has no times; leave these filters out")
    since, until = (_moment(word, text, table.times) for word, text in _ends(filters))
    inside = [
        i
        for i, moment in enumerate(table.times)
        if (since is None or moment >= since) and (until is None or moment <= until)
    ]
    if not inside:
        first, last = table.times[0].isoformat(), table.times[-1].isoformat()
        raise SpecError(f"since, until: no draw lies there; the file goes from {first} to {last}")
    return table.pick(inside)


def _ends(filters: Filters) -> tuple[tuple[str, str | None], tuple[str, str | None]]:
    return ("since", filters.since), ("until", filters.until)


def _moment(word: str, text: str | None, times: Sequence[datetime]) -> datetime | None:
    """The first moment (or the last, of ``until``) that is meant, in the way the file writes its times."""
    if text is None:
        return None
    moment = when(text, word)
    zone = times[0].tzinfo
    if len(text) <= len("2025-11-03"):
        return datetime.combine(moment.date(), time.max if word == "until" else time.min, zone)
    if (moment.tzinfo is None) != (zone is None):
        has = "none" if zone is None else f"one, as in {times[0].isoformat()}"
        raise SpecError(
            f"{word}: {text}: give an offset from UTC just where the times of the file have one: they have {has}"
        )
    return moment


def _line(path: Path, table: Table, kept: Table, notes: Sequence[str]) -> str:
    unknown = sum(draw is None for draw in kept.draws)
    count = f"{len(kept.draws)} draws" if not notes else f"{len(kept.draws)} of {len(table.draws)} draws"
    why = f": {', '.join(notes)}" if notes else ""
    return f"{path.name}: {count}{why}" + (f"; {unknown} of them unknown" if unknown else "")
