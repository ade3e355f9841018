"""The forms of data files: bytes in, columns out. :mod:`hostler.workloads.sieve.data` is the way in.

Each reader refuses what it does not know by line (or by place in a JSON list), and says what to do. Numbers are read
exactly: integers of any size, floats as the doubles their digits name.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from hostler.workloads.sieve.errors import SpecError

Draw: TypeAlias = int | float | str | list[int]

COLUMNS = ("draw", "time", "session")
UNKNOWN = frozenset({"-", "null"})
PROVENANCE = frozenset({"runtime", "script", "command"})
ABOUT = {1: frozenset({"generator", "output"}), 2: frozenset({"generator", "output", "calls", "provenance"})}
"""What a JSON file may say about its draws, by its schema; schema 1 has to say it."""

_INTEGER = re.compile(r"[+-]?[0-9]+|0[xX][0-9a-fA-F]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?")
_SHOWN = 20
_HEX = re.compile(r"([0-9a-fA-F]{2})+")
_LIST = re.compile(r"\[\s*(0|[1-9][0-9]{0,9})(\s*,\s*(0|[1-9][0-9]{0,9}))*\s*\]")
_NAMES = {int: "an integer", float: "a float", str: "a hexadecimal text", list: "a list"}


@dataclass(frozen=True, slots=True)
class Hints:
    """What a reader is told besides the file: columns to pass over, and whether texts are bytes in hexadecimal."""

    ignore: frozenset[str] = frozenset()
    hexadecimal: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of one length; ``places`` are the lines, or with ``listed`` the places in a JSON list."""

    draws: list[Draw | None]
    times: list[datetime] | None
    sessions: list[str] | None
    places: list[int]
    says: Mapping[str, Any] = field(default_factory=dict)
    listed: bool = False

    def place(self, i: int) -> str:
        """Where row ``i`` stands in the file, for people."""
        return f"draws[{self.places[i]}]" if self.listed else f"line {self.places[i]}"

    def pick(self, rows: Sequence[int]) -> Table:
        """These rows alone."""
        return Table(
            [self.draws[i] for i in rows],
            [self.times[i] for i in rows] if self.times is not None else None,
            [self.sessions[i] for i in rows] if self.sessions is not None else None,
            [self.places[i] for i in rows],
            self.says,
            self.listed,
        )


def read_table(content: bytes, form: str, hints: Hints) -> Table:
    """The columns of a file of this form; raises :class:`SpecError`."""
    readers: dict[str, Callable[[str, Hints], Table]] = {
        "json": _json,
        "jsonl": _json_lines,
        "csv": _csv,
        "text": _text,
    }
    if form not in readers:
        raise SpecError(f"form {form!r} is not known; choose one of {', '.join(readers)}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SpecError(f"line {line}: is no UTF-8 text; save the file as UTF-8") from None
    table = readers[form](text, hints)
    if not table.draws:
        raise SpecError("holds no draws; record some")
    _check_kinds(table)
    return table


def when(text: object, where: str) -> datetime:
    """An ISO time or date; raises :class:`SpecError`."""
    try:
        return datetime.fromisoformat(text)  # type: ignore[arg-type]  # what is no text is a TypeError
    except (ValueError, TypeError):
        raise SpecError(f"{where}: {text!r:.60} is no ISO time; write 2025-11-03 or 2025-11-03T12:00:00") from None


# ---- JSON -----------------------------------------------------------------------------------------------------------


def _json(text: str, hints: Hints) -> Table:
    try:
        content = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_int=_integer)
    except json.JSONDecodeError as error:
        lines = "; one object a line is JSON lines: name the file .jsonl" if error.msg == "Extra data" else ""
        raise SpecError(f"line {error.lineno}: is no JSON text ({error.msg}); record it again{lines}") from None
    except (ValueError, RecursionError) as error:
        raise SpecError(f"is no JSON text ({error}); record it again") from None
    draws, says = (content, {}) if isinstance(content, list) else _document(content)
    if draws and isinstance(draws[0], dict):
        return _objects(list(draws), list(range(len(draws))), hints, says, listed=True)
    places = list(range(len(draws)))
    return Table([_value(value, f"draws[{i}]") for i, value in enumerate(draws)], None, None, places, says, listed=True)


def _document(content: object) -> tuple[list[Any], dict[str, Any]]:
    """The draws of a document with a schema, and what else it says."""
    if not isinstance(content, dict):
        raise SpecError(
            f"must be a JSON object with schema and draws, or a list of draws, not {type(content).__name__}"
        )
    schema = content.get("schema")
    if type(schema) is not int or schema not in ABOUT:
        raise SpecError(f"schema: {schema!r} is not supported; this version reads schema 1 and 2")
    needed = {"draws", *(ABOUT[1] | {"provenance"} if schema == 1 else ())}
    allowed = {"schema", "draws", "provenance", *ABOUT[schema]}
    if missing := sorted(needed - content.keys()):
        raise SpecError(f"the file: missing {', '.join(missing)}")
    if unknown := sorted(content.keys() - allowed):
        raise SpecError(f"the file: unknown {_some(unknown)}; allowed are {', '.join(sorted(allowed))}")
    if not isinstance(content["draws"], list):
        raise SpecError("draws: must be a list")
    says = {name: value for name, value in content.items() if name not in ("schema", "draws")}
    _check_says(says, schema)
    return content["draws"], says


def _check_says(says: Mapping[str, Any], schema: int) -> None:
    if "output" in says and "calls" in says:
        raise SpecError("output, calls: give one of them; several calls in turn are a list of calls")
    if ("output" in says or "calls" in says) and "generator" not in says:
        raise SpecError("generator: missing; an output is one of a generator's")
    if "provenance" not in says:
        return
    provenance = says["provenance"]
    if not isinstance(provenance, dict) or (schema == 1 and provenance.keys() != PROVENANCE):
        raise SpecError(f"provenance: must be an object with {', '.join(sorted(PROVENANCE))}")
    for name, text in provenance.items():
        if not isinstance(text, str) or not text:
            raise SpecError(f"provenance.{name}: must be a text that is not empty")


def _json_lines(text: str, hints: Hints) -> Table:
    decode = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number, parse_int=_integer).decode
    rows, places = [], []
    for number, line in _lines(text):
        try:
            rows.append(decode(line))
        except (ValueError, RecursionError) as error:
            said = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise SpecError(f'line {number}: is no JSON text ({said}); write one {{"draw": ...}} a line') from None
        places.append(number)
    return _objects(rows, places, hints, {}, listed=False)


def _objects(rows: list[Any], places: list[int], hints: Hints, says: Mapping[str, Any], *, listed: bool) -> Table:
    """The columns of rows that are objects, all with the same keys."""

    def where(i: int) -> str:
        return f"draws[{places[i]}]" if listed else f"line {places[i]}"

    columns = _columns_of(rows[0], where(0), hints) if rows else frozenset({"draw"})
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise SpecError(f'{where(i)}: must be an object as the others, {{"draw": ...}}')
        if row.keys() != columns and (different := (row.keys() ^ columns) - hints.ignore):
            _check_columns(row.keys(), where(i), hints)
            raise SpecError(f"{where(i)}: {_some(sorted(different))} stands in some rows only; give it in all or none")
    draws = [_value(row["draw"], f"{where(i)}: draw") for i, row in enumerate(rows)]
    times = [when(row["time"], f"{where(i)}: time") for i, row in enumerate(rows)] if "time" in columns else None
    sessions = None
    if "session" in columns:
        sessions = [_name(row["session"], where(i)) for i, row in enumerate(rows)]
    return Table(draws, times, sessions, places, says, listed)


def _some(names: Sequence[str]) -> str:
    """The first of some names: there may be as many as a file can hold."""
    shown = ", ".join(f"{name:.60}" for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _columns_of(row: object, where: str, hints: Hints) -> frozenset[str]:
    if not isinstance(row, dict):
        raise SpecError(f'{where}: must be an object {{"draw": ...}}, not {type(row).__name__}')
    _check_columns(row.keys(), where, hints)
    return frozenset(row)


def _check_columns(names: Iterator[str] | Any, where: str, hints: Hints) -> None:
    if unknown := sorted(set(names) - set(COLUMNS) - hints.ignore):
        raise SpecError(
            f"{where}: unknown {_some(unknown)}; allowed are {', '.join(COLUMNS)}: "
            "name what is to be passed over in ignore"
        )
    if "draw" not in names:
        raise SpecError(f"{where}: there is no draw; that is what the outputs are called")


def _value(value: object, where: str) -> Draw | None:
    """A draw of a JSON text."""
    if value is None or type(value) is int or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, str) and _HEX.fullmatch(value):
        return value
    if isinstance(value, list) and value and all(type(item) is int for item in value):
        return value
    raise SpecError(
        f"{where}: {value!r:.60} is no draw; write an integer, a float, bytes as hexadecimal text, a list of integers "
        "for a shuffle, or null for an unknown one"
    )


def _name(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise SpecError(f"{where}: session: {value!r} is no name; write a text")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        name, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"{name!r:.60} stands twice in an object")
    return made


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"an integer of {len(text)} digits is none that a generator gives") from None


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number; write null for an unknown draw")


# ---- CSV and plain text ---------------------------------------------------------------------------------------------


def _csv(text: str, hints: Hints) -> Table:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows, places = [], []
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(header, hints)
        for row in reader:
            rows.append(row)
            places.append(reader.line_num)
    except csv.Error as error:
        raise SpecError(f"line {reader.line_num}: is no CSV ({error}); mend its quotes") from None
    while rows and not rows[-1]:
        rows.pop(), places.pop()
    for row, line in zip(rows, places, strict=True):
        if len(row) != len(header):
            raise SpecError(f"line {line}: has {len(row)} fields, not {len(header)} as the first line; complete it")
    return _cut(header, rows, places, hints)


def _check_header(header: list[str], hints: Hints) -> None:
    if "draw" not in header and any(mark in name for name in header for mark in ";\t"):
        raise SpecError("line 1: the columns must be parted by commas; convert the file")
    if "draw" not in header:
        raise SpecError("line 1: there is no column draw; the first line names the columns draw, time, session")
    if twice := sorted(name for name, count in Counter(header).items() if count > 1):
        raise SpecError(f"line 1: {_some(twice)} stands there twice; rename one of them")
    _check_columns(header, "line 1", hints)


def _cut(header: list[str], rows: list[list[str]], places: list[int], hints: Hints) -> Table:
    """The columns of rows of texts."""

    def column(name: str) -> list[str] | None:
        return [row[header.index(name)].strip() for row in rows] if name in header else None

    times, sessions = column("time"), column("session")
    return Table(
        _values(column("draw") or [], places, hints),
        None if times is None else [when(text, f"line {line}: time") for text, line in zip(times, places, strict=True)],
        None if sessions is None else [_name(text, f"line {i}") for text, i in zip(sessions, places, strict=True)],
        places,
    )


def _text(text: str, hints: Hints) -> Table:
    tokens, places = [], []
    for number, line in _lines(text):
        tokens.append(line)
        places.append(number)
    return Table(_values(tokens, places, hints), None, None, places)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, less comments; an empty one among the others is refused."""
    empty = 0
    begun = False
    for number, line in enumerate(text.split("\n"), 1):
        content = line.strip()
        if content.startswith("#"):
            continue
        if not content:
            empty = empty or (number if begun else 0)
            continue
        if empty:
            raise SpecError(f"line {empty}: is empty; write - for an unknown draw, or take the line out")
        begun = True
        yield number, content


def _values(tokens: Sequence[str], places: Sequence[int], hints: Hints) -> list[Draw | None]:
    """Draws of texts. What looks like a number is bytes where another one of the file can be nothing else."""
    kinds = [_kind(token, line) for token, line in zip(tokens, places, strict=True)]
    hexadecimal = hints.hexadecimal or "hex" in kinds
    made: list[Draw | None] = []
    for token, kind, line in zip(tokens, kinds, places, strict=True):
        if kind == "unknown":
            made.append(None)
        elif hexadecimal:
            made.append(_bytes(token, line))
        elif kind == "list":
            made.append(json.loads(token))
        elif kind == "float":
            made.append(_float(token, line))
        else:
            made.append(_whole(token, line))
    return made


def _kind(token: str, line: int) -> str:
    if _INTEGER.fullmatch(token):
        return "integer"
    if _FLOAT.fullmatch(token):
        return "float"
    if token in UNKNOWN:
        return "unknown"
    if _HEX.fullmatch(token):
        return "hex"
    if _LIST.fullmatch(token):
        return "list"
    raise SpecError(
        f"line {line}: {token!r:.60} is no draw; write one a line: an integer, a float, bytes in hexadecimal, "
        "[2, 0, 1] for a shuffle, or - for an unknown one"
    )


def _bytes(token: str, line: int) -> str:
    if _HEX.fullmatch(token):
        return token
    raise SpecError(
        f"line {line}: {token!r:.60} is no bytes in hexadecimal, as other draws are; write all of them alike"
    )


def _whole(token: str, line: int) -> int:
    try:
        return int(token, 16) if token[:2] in ("0x", "0X") else int(token)
    except ValueError:
        raise SpecError(f"line {line}: an integer of {len(token)} digits is none that a generator gives") from None


def _float(token: str, line: int) -> float:
    number = float(token)
    if math.isinf(number):
        raise SpecError(f"line {line}: {token:.60} is larger than a float can be; write it as it was recorded")
    return number


def _check_kinds(table: Table) -> None:
    """All draws of one kind; a 0 among floats is one, which some languages print so."""
    kinds = [type(draw) for draw in table.draws]
    found = set(kinds) - {type(None)}
    if found == {int, float}:
        for i, draw in enumerate(table.draws):
            if type(draw) is int and draw == 0:
                table.draws[i], kinds[i] = 0.0, float
        found = set(kinds) - {type(None)}
    if len(found) < 2:
        return
    first = next(kind for kind in kinds if kind is not type(None))
    other = next(i for i, kind in enumerate(kinds) if kind not in (first, type(None)))
    raise SpecError(
        f"{table.place(other)}: {table.draws[other]!r:.60} is {_NAMES[kinds[other]]}, the draws before it are not; "
        "write all of them alike"
    )
