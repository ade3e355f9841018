"""What notebooks show: answers as tables. Everything in them is somebody else's words, and escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

ROWS_SHOWN = 200
COLUMNS_SHOWN = 14
TEXT_SHOWN = 200
UNKNOWN = "?"
INNER = ("device", "rule", "event")
"""Fields whose own fields are shown in the place of them."""


def rows_html(rows: Sequence[Any]) -> str:
    """A table of rows, a column for each of their fields that is no list; of many rows the first."""
    if not rows:
        return "<p>nothing</p>"
    flat = [_flat(row) for row in rows[:ROWS_SHOWN]]
    columns = [name for name in flat[0] if not isinstance(flat[0][name], list | dict)][:COLUMNS_SHOWN]
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{_cell(row.get(name))}</td>" for name in columns) + "</tr>" for row in flat)
    more = f"<p>and {len(rows) - ROWS_SHOWN} more</p>" if len(rows) > ROWS_SHOWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def fields_html(value: Mapping[str, Any]) -> str:
    """A table of the fields of one value; a list in it is a table in the table."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{_inner(each)}</td></tr>" for name, each in value.items())
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


def _inner(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return rows_html(value)
    return _cell(value)


def _cell(value: Any) -> str:
    if value is None:
        return UNKNOWN
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return escape(text if len(text) <= TEXT_SHOWN else text[: TEXT_SHOWN - 1] + "…")
