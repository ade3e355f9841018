"""`results`: parameters, outcomes, durations and result fields of the jobs of groups, as a table, CSV or JSON.

The rows (`GroupRow`) are turned into columns once; sorting, the table and CSV work on those.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from hostler.cli.common import Json, StateDir, client
from hostler.cli.declarations import Option
from hostler.cli.groups import GroupNames, expect_group
from hostler.cli.show import (
    Column,
    age,
    clean,
    compact,
    least_widths,
    plural,
    room,
    say,
    say_json,
    table,
    terminal_width,
)
from hostler.client.results import ENDED, RESERVED, Field, fields_of, is_number_value
from hostler.model.errors import UsageError
from hostler.model.units import duration

if TYPE_CHECKING:
    from hostler.client import Client, View


GROUPS_SHOWN = 50
GROUP_COLUMNS = (
    Column("GROUP"),
    *(Column(title, right=True) for title in ("JOBS", "DONE", "FAILED", "CANCELLED", "RUNNING", "PENDING", "AGE")),
    Column("NAME", yields=True),
)
LISTED = 5
KNOWN_LISTED = 40
EXACT_DIGITS = 20
"""Digits of a whole number that the table shows; those of 64 bits have as many."""
Ranked: TypeAlias = tuple[int, Any] | None
"""The sort key of a value; `None`: the value comes last."""


def results(
    names: GroupNames = None,
    sort: Annotated[
        str | None,
        Option(
            metavar="FIELD",
            help="Order by a parameter, a result field, duration, job or outcome; -FIELD: in descending order.",
        ),
    ] = None,
    descending: Annotated[bool, Option("--descending", help="With --sort: the highest values first.")] = False,
    as_csv: Annotated[bool, Option("--csv", help="Print CSV (RFC 4180) with exact values.")] = False,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Compare the jobs of groups: parameters, outcome, duration and the fields of each result JSON.

    Without a group, the job groups are listed.

    The table has a column for each number, text and truth value at the top level of the results. Numbers are rounded
    to six digits there; --csv prints them exactly and --json has nested values, too. Jobs without the field that is
    sorted by come last.

    Example:
      hostler results g1 --sort -accuracy
      hostler results g1 g2 --csv > runs.csv
    """
    if as_csv and as_json:
        raise UsageError("--csv and --json exclude each other; give one of them")
    if descending and sort is None:
        raise UsageError("--descending orders by the field of --sort; give that, too")
    if not names:
        if as_csv or sort is not None:
            raise UsageError("--csv and --sort are for the jobs of groups; name a group, as `hostler results g1`")
        _list_groups(client(state_dir), as_json)
        return
    groups = [
        expect_group(word, f"`hostler job show {word}` prints the result of a job") for word in dict.fromkeys(names)
    ]
    asked = client(state_dir)
    rows: Sequence[View] = [row for group in groups for row in asked.group_results(group)]
    fields = fields_of(rows) if sort is not None or not as_json else []
    order: Sequence[int] = range(len(rows))
    if sort is not None:
        chosen, is_descending = _chosen(fields, sort, " and ".join(groups))
        order = ordered(chosen, descending=is_descending or descending)
        fields = [each._replace(values=[each.values[at] for at in order]) for each in fields]
        sort = chosen.name
    if as_json:
        say_json([rows[at] for at in order])
    elif as_csv:
        _print_csv(fields)
    else:
        _print_table(fields, sort)
    ended = sum(row["state"] in ENDED for row in rows)
    if ended < len(rows):
        print(f"{ended} of {plural(len(rows), 'job')} {'has' if ended == 1 else 'have'} ended", file=sys.stderr)


def _list_groups(asked: Client, as_json: bool) -> None:
    """Print the newest groups, oldest first."""
    found = asked.groups(limit=None)
    if as_json:
        say_json(found)
        return
    now, shown = time.time(), found[-GROUPS_SHOWN:]
    say(table(GROUP_COLUMNS, [_group_row(group, now) for group in shown]) if shown else ["no job groups"])
    if len(shown) < len(found):
        print(f"and {len(found) - len(shown)} older; --json has them, too", file=sys.stderr)


def _group_row(group: View, now: float) -> Sequence[object]:
    counts = [group["jobs"].get(state, 0) for state in ("done", "failed", "cancelled", "running", "pending")]
    return group["id"], group["size"], *counts, age(group["submitted_at"], now), group["name"]


def ordered(field: Field, *, descending: bool) -> list[int]:
    """The rows in the order of a column: numbers by size and before texts, rows without a value last."""
    keys = _keys(field)
    there = [at for at, key in enumerate(keys) if key is not None]
    there.sort(key=keys.__getitem__, reverse=descending)  # type: ignore[arg-type]
    return there + [at for at, key in enumerate(keys) if key is None]


def _keys(field: Field) -> list[Ranked]:
    if field.name == "job":
        return [(0, int(text[1:])) if text[1:].isdecimal() else (1, text) for text in map(str, field.values)]
    if field.is_number:
        return [None if value is None else _key(_number(value)) for value in field.values]
    return list(map(_key, field.values))


def _number(value: Any) -> Any:
    """A number that may be the text of a parameter."""
    return Decimal(value) if isinstance(value, str) else value


def _key(value: Any) -> Ranked:
    if isinstance(value, str):
        return 1, value
    if (
        isinstance(value, int | float | Decimal) and value == value
    ):  # not NaN, which is neither more nor less than others
        return 0, value
    return None


def _chosen(fields: Sequence[Field], word: str, groups: str) -> tuple[Field, bool]:
    """The column that `--sort` names, and whether the order is descending. Raises `UsageError`."""
    known = {each.name: each for each in fields}
    if word in known:
        return known[word], False
    if word.startswith("-") and word[1:] in known:
        return known[word[1:]], True
    listed = ", ".join(map(clean, list(known)[:KNOWN_LISTED]))
    more = f" and {len(known) - KNOWN_LISTED} more, which `--csv` prints" if len(known) > KNOWN_LISTED else ""
    raise UsageError(f"--sort {word!r}: the results of {groups} have no such field. The fields are {listed}{more}")


def _print_table(fields: Sequence[Field], sort: str | None) -> None:
    """Print as many columns as fit, none of them with a shortened number; and the names of the others."""
    columns = [Column(clean(each.title), right=each.is_number, yields=each.yields) for each in fields]
    cells = [list(map(_writer(each), each.values)) for each in fields]
    kept = _fitting(fields, least_widths(columns, cells), sort)
    say(table([columns[at] for at in kept], zip(*(cells[at] for at in kept), strict=True)))
    left_out = [each.name for at, each in enumerate(fields) if at not in kept]
    if left_out:
        more = f" and {len(left_out) - LISTED} more" if len(left_out) > LISTED else ""
        print(
            f"not shown in {terminal_width()} columns: {', '.join(map(clean, left_out[:LISTED]))}{more}; "
            "`--csv` prints all of them, and `--sort FIELD` shows its field",
            file=sys.stderr,
        )


def _fitting(fields: Sequence[Field], least: Sequence[int], sort: str | None) -> list[int]:
    """The columns that fit beside each other: job, outcome, duration and the sorted one first, then the others."""
    kept = {at for at, each in enumerate(fields) if each.name in (*RESERVED, sort)}
    for at in range(len(fields)):
        if room([least[each] for each in kept | {at}]) <= terminal_width():
            kept.add(at)
    return sorted(kept)


def _print_csv(fields: Sequence[Field]) -> None:
    """Print CSV: full numbers, seconds, an empty field where a value is unknown."""
    import csv  # only this output needs it

    writer = csv.writer(sys.stdout, lineterminator="\r\n")
    writer.writerow([_exact("duration_s" if each.name == "duration" else each.name) for each in fields])
    writer.writerows(zip(*(map(_exact, each.values) for each in fields), strict=True))


def _exact(value: Any) -> Any:
    """A value as CSV has it; control characters reach files and pipes, but no terminal."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return clean(value) if sys.stdout.isatty() else value.encode("utf-8", "backslashreplace").decode()
    return value if value is None or is_number_value(value) else compact(value)


def _writer(field: Field) -> Callable[[Any], str]:
    """The function that formats the values of a column as cells."""
    return _length if field.name == "duration" else _cell


def _length(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 10**EXACT_DIGITS else f"{Decimal(value):.6g}"
    return compact(value)
