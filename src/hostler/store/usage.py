"""How devices were used, by the hour: written once, summed up for whoever asks, dropped when they are too old.

Rows are added when an hour is over, and never changed. What they are of (a device as it was then, and a kind of work)
is told once, in `usage_of`; a new price or model is another one. A day that is over has the sums of its hours beside
them, a twentieth of their size: what is asked of a year walks days, and hours where a day is not whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, FromClause, case, delete, func, insert, literal, select

from hostler.model.usage import (
    DAY_H,
    IDLE,
    MONDAY_H,
    WEEK_H,
    Dimension,
    HourRow,
    Period,
    Totals,
    first_hour,
    milliseconds,
    period_of,
)
from hostler.store.dialect import insert_rows
from hostler.store.tables import usage_days, usage_hours, usage_of

ASKED = 500
"""Devices in one question."""
OF = ("node", "device", "kind", "model", "pool", "provider", "price_per_h", "work")
SUMMED = ("device_ms", "up_ms", "measured_ms", "busy_ms", "done", "failed")
MS_PER_H = 3.6e6


class Found(NamedTuple):
    """Sums of one group in one period."""

    period: int
    """Its number (`model.usage.period_of`)."""
    group: tuple[str | None, ...]
    sums: Totals


def write(connection: Connection, rows: Sequence[HourRow]) -> None:
    """Add the rows of hours that are over, no hour before one that is there; rows that are there are replaced."""
    if not rows:
        return
    known = _known(connection, rows)
    fresh = [each for each in dict.fromkeys(map(_of, rows)) if each not in known]
    first = 1 + (connection.execute(select(func.max(usage_of.c.id))).scalar() or 0)
    known |= {each: number for number, each in enumerate(fresh, first)}
    if fresh:
        insert_rows(connection, usage_of, [{"id": known[each], **dict(zip(OF, each, strict=True))} for each in fresh])
    insert_rows(connection, usage_hours, [_row(each, known[_of(each)]) for each in rows], replacing=True)
    _end_days(connection, max(row.hour for row in rows) // DAY_H)


def sums(
    connection: Connection,
    per: Period,
    by: Sequence[Dimension],
    hours: range,
    only: Mapping[Dimension, str],
) -> list[Found]:
    """Sums of these hours by period and group, in no order."""
    made: dict[tuple[int, tuple[str | None, ...]], Totals] = {}
    for column, scale, part in _parts(connection, per, hours):
        groups = [usage_of.c[name] for name in by]
        query = select(_number(column, scale, per, part).label("period"), *groups, *_sums(column.table))
        query = query.join(usage_of, usage_of.c.id == column.table.c.of)
        query = query.where(column >= part.start // scale, column < part.stop // scale)
        for name, value in only.items():
            query = query.where(usage_of.c[name] == value)
        for number, *row in connection.execute(query.group_by("period", *groups)):
            key = number, tuple(row[: len(groups)])
            made[key] = made.get(key, Totals()).plus(_totals(row[len(groups) :]))
    return [Found(number, group, each) for (number, group), each in made.items()]


def next_hour(connection: Connection, hours: range) -> int | None:
    """The first of these hours that there are rows of; `None`: there are none."""
    column = usage_hours.c.hour
    query = select(column).where(column >= hours.start, column < hours.stop).order_by(column).limit(1)
    found: int | None = connection.execute(query).scalar()
    return found


def newest_hour(connection: Connection) -> int | None:
    """The newest hour that there are rows of; `None`: there are none."""
    found: int | None = connection.execute(select(func.max(usage_hours.c.hour))).scalar()
    return found


def drop_oldest(connection: Connection, before: int) -> bool:
    """Drop the oldest hour, if it is before that one, and a day with its last hour; `False`: there is none."""
    oldest = connection.execute(select(func.min(usage_hours.c.hour))).scalar()
    if oldest is None or oldest >= before:
        return False
    connection.execute(delete(usage_hours).where(usage_hours.c.hour == oldest))
    connection.execute(delete(usage_days).where(usage_days.c.day < (oldest + 1) // DAY_H))
    return True


def _end_days(connection: Connection, today: int) -> None:
    """Sum up the days that are over, as all hours before the newest are written."""
    ended = connection.execute(select(func.max(usage_days.c.day))).scalar()
    hour, columns = usage_hours.c.hour, [usage_hours.c[name] for name in SUMMED]
    begin = next_hour(connection, range(0 if ended is None else (ended + 1) * DAY_H, today * DAY_H))
    for day in () if begin is None else range(begin // DAY_H, today):
        query = select(literal(day), usage_hours.c.of, *(func.sum(each) for each in columns)).group_by(usage_hours.c.of)
        query = query.where(hour >= day * DAY_H, hour < (day + 1) * DAY_H)
        connection.execute(insert(usage_days).from_select(["day", "of", *SUMMED], query))


def _parts(connection: Connection, per: Period, hours: range) -> Iterator[tuple[Column[Any], int, range]]:
    """Where these hours are read: those of whole days that are summed up as days."""
    ended = None if per is Period.HOUR else connection.execute(select(func.max(usage_days.c.day))).scalar()
    first, after = -(-hours.start // DAY_H), min(hours.stop // DAY_H, 0 if ended is None else ended + 1)
    if first >= after:
        yield usage_hours.c.hour, 1, hours
        return
    days = range(first * DAY_H, after * DAY_H)
    yield usage_days.c.day, DAY_H, days
    for rest in (range(hours.start, days.start), range(days.stop, hours.stop)):
        if rest:
            yield usage_hours.c.hour, 1, rest


def _known(connection: Connection, rows: Sequence[HourRow]) -> dict[tuple[Any, ...], int]:
    names = list({row.device for row in rows})
    columns = [usage_of.c[name] for name in OF]
    known: dict[tuple[Any, ...], int] = {}
    for at in range(0, len(names), ASKED):
        query = select(usage_of.c.id, *columns).where(usage_of.c.device.in_(names[at : at + ASKED]))
        known |= {tuple(row[1:]): row[0] for row in connection.execute(query)}
    return known


def _of(row: HourRow) -> tuple[Any, ...]:
    work = IDLE if row.work is None else row.work.value
    return row.node, row.device, row.kind.value, row.model, row.pool, row.provider, row.price_per_h, work


def _row(row: HourRow, of: int) -> dict[str, Any]:
    return {
        "hour": row.hour,
        "of": of,
        "device_ms": milliseconds(row.device_s),
        "up_ms": milliseconds(row.up_s),
        "measured_ms": milliseconds(row.measured_s),
        "busy_ms": milliseconds(row.busy_s),
        "done": row.done,
        "failed": row.failed,
    }


def _number(column: Column[Any], scale: int, per: Period, hours: range) -> ColumnElement[int]:
    """The number of the period that a row is in, among those of these hours."""
    first, last = period_of(per, hours.start), period_of(per, hours.stop - 1)
    if first == last:
        return literal(first)
    if per is Period.WEEK:
        return (column + MONDAY_H // scale) // (WEEK_H // scale)
    if per is not Period.MONTH:
        return column // (DAY_H // scale) if per is Period.DAY else column
    # Months have no equal length.
    ends = [(column < first_hour(per, each + 1) // scale, literal(each)) for each in range(first, last)]
    return case(*ends, else_=literal(last))


def _sums(table: FromClause) -> Iterator[ColumnElement[Any]]:
    """In the order of `Totals`."""
    had, price, idle = table.c.device_ms, usage_of.c.price_per_h, usage_of.c.work == IDLE
    yield func.sum(case((idle, 0), else_=had))
    yield func.sum(case((idle, had), else_=0))
    yield from (func.sum(table.c[name]) for name in ("up_ms", "measured_ms", "busy_ms"))
    yield func.sum(case((price.is_(None) & ~idle, had), else_=0))
    yield func.sum(case((price.is_(None) & idle, had), else_=0))
    yield func.sum(case((idle, 0.0), else_=func.coalesce(price, 0.0) * had / MS_PER_H))
    yield func.sum(case((idle, func.coalesce(price, 0.0) * had / MS_PER_H), else_=0.0))
    yield from (func.sum(table.c[name]) for name in ("done", "failed"))


def _totals(row: Sequence[Any]) -> Totals:
    """Sums of whole numbers are decimals in PostgreSQL."""
    return Totals._make(type(usual)(each) for usual, each in zip(Totals(), row, strict=True))
