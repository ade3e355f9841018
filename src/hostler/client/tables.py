"""Answers as HTML tables for notebooks, with times as local dates. All texts are from outside, and are escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from hostler.model.units import UNKNOWN, duration

ROWS_SHOWN = 200
COLUMNS_SHOWN = 14
TEXT_SHOWN = 200
TIME = re.compile(r"(.*_)?(at|since|until)")
"""Names of fields that have a time, in seconds since 1970."""
DURATION = re.compile(r"(?!(.*_)?per_).*_s")
"""Names of fields that have a number of seconds; rates, as `items_per_s`, do not."""
INNER = ("device", "rule", "event")
"""Fields whose own fields are shown in the place of them."""


def rows_html(rows: Sequence[Any]) -> str:
    """A table of rows, a column for each field that is not a list; of many rows the first."""
    if not rows:
        return "<p>nothing</p>"
    flat = [_flat(row) for row in rows[:ROWS_SHOWN]]
    columns = [name for name in flat[0] if not isinstance(flat[0][name], list | dict)][:COLUMNS_SHOWN]
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(name, row.get(name))}</td>" for name in columns) + "</tr>" for row in flat
    )
    more = f"<p>and {len(rows) - ROWS_SHOWN} more</p>" if len(rows) > ROWS_SHOWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def fields_html(value: Mapping[str, Any]) -> str:
    """A table of the fields of one value; a list in it is a table in the table."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{_inner(name, each)}</td></tr>" for name, each in value.items())
    return f"<table><tbody>{body}</tbody></table>"


def _flat(row: Any) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        return {"value": row}
    made: dict[str, Any] = {}
    for name, value in row.items():
        made |= {f"{name}.{key}": each for key, each in value.items()} if _opens(name, value) else {name: value}
    return made


def _opens(name: str, value: Any) -> bool:
    return name in INNER and isinstance(value, Mapping)


def _inner(name: str, value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return rows_html(value)
    return _cell(name, value)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return UNKNOWN
    text = value if isinstance(value, str) else _read(name.rpartition(".")[2], value)
    return escape(text if len(text) <= TEXT_SHOWN else text[: TEXT_SHOWN - 1] + "…")


def _read(name: str, value: Any) -> str:
    """A value that is not a text, as people read it: times as local dates, seconds as minutes, hours and days."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # `at` of a hit is its place in the range, an integer.
    if is_number and TIME.fullmatch(name) and not (name == "at" and isinstance(value, int)):
        return _local_time(value) or json.dumps(value)
    if is_number and DURATION.fullmatch(name):
        return duration(value)
    return json.dumps(value, ensure_ascii=False)


def _local_time(seconds: float) -> str | None:
    """The local date and time; `None` for a number that is not a date."""
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return None
