"""Results of job groups as columns: parameters, outcomes, durations and the fields of result JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

ENDED = ("done", "failed", "cancelled")
"""States in which a job of a group has ended, as `GroupView.jobs` counts them."""
RESERVED = ("job", "outcome", "duration", "duration_s")
"""Names of columns that every group has; parameters and result fields of these names get a prefix."""
NUMBER = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?"


class Field(NamedTuple):
    """A column of the results: a value for each job, `None` where it has none.

    Where each value is a number (`is_number`), the column stands at the right. Where none is, it may be shortened
    (`yields`).
    """

    name: str
    title: str
    values: Sequence[Any]
    is_number: bool = False
    yields: bool = False


def fields_of(rows: Sequence[Mapping[str, Any]]) -> list[Field]:
    """The columns: job, each parameter, outcome, duration, and each result field, in the order of their appearance."""
    given = [row["parameters"] for row in rows]
    parameters = _renamed(_union(given), "parameter.", RESERVED)
    taken = (*RESERVED, *parameters.values())
    results = [row["result"] if isinstance(row["result"], dict) else {} for row in rows]
    plain = [None if isinstance(row["result"], dict) else row["result"] for row in rows]
    has_plain = any(value is not None for value in plain)
    scalars = _union({name: value for name, value in result.items() if _is_scalar(value)} for result in results)
    names = _renamed(scalars, "result.", (*taken, "result") if has_plain else taken)
    return [
        Field("job", "JOB", [row["job"] for row in rows]),
        *(_parameter(shown, [each.get(name) for each in given]) for name, shown in parameters.items()),
        Field("outcome", "OUTCOME", [row["state"] for row in rows]),
        Field("duration", "DURATION", [_seconds(row) for row in rows], is_number=True),
        *([_result("result", "RESULT", plain)] if has_plain else []),
        *(_result(shown, shown, [each.get(name) for each in results]) for name, shown in names.items()),
    ]


def _parameter(name: str, values: Sequence[str | None]) -> Field:
    """The column of a parameter, whose values are texts."""
    numbers = [_is_finite_number(value) for value in set(values) if value is not None]
    return Field(name, name, values, all(numbers), not any(numbers))


def _is_finite_number(text: str) -> bool:
    """Whether a text is a number that JSON has: `1e999` is one only as a text."""
    return re.fullmatch(NUMBER, text) is not None and isfinite(float(text))


def _result(name: str, title: str, values: Sequence[Any]) -> Field:
    numbers = [is_number_value(value) for value in values if value is not None]
    return Field(name, title, values, all(numbers), not any(numbers))


def _seconds(row: Mapping[str, Any]) -> float | None:
    """How long the last attempt of a job that has ended ran."""
    known = row["duration_s"]
    return None if known is None or row["state"] not in ENDED else float(known)


def _union(objects: Iterator[Mapping[str, Any]] | Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of all objects, in the order of their first appearance."""
    return list(dict.fromkeys(name for each in objects for name in each))


def _renamed(names: Sequence[str], prefix: str, taken: Sequence[str]) -> dict[str, str]:
    """A name for each that is not taken: its own, or that with the prefix."""
    used = {*taken, *names}
    made = {}
    for name in names:
        shown = name
        while shown in taken or (shown != name and shown in used):
            shown = prefix + shown
        used.add(shown)
        made[name] = shown
    return made


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


def is_number_value(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _with_numbers(field: Field) -> Field:
    """A column of texts that are all numbers, as those numbers: parameters are texts."""
    if not field.is_number or not all(isinstance(value, str) for value in field.values if value is not None):
        return field
    return field._replace(values=[None if value is None else _as_number(value) for value in field.values])


def _as_number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def rows_of(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row of plain values for each job of a group (`shapes.GroupResult`), with a name for each column."""
    fields = [_with_numbers(each) for each in fields_of(rows)]
    names = ["duration_s" if each.name == "duration" else each.name for each in fields]
    return [dict(zip(names, values, strict=True)) for values in zip(*(each.values for each in fields), strict=True)]
