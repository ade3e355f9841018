"""Hours of usage in a store: written once, summed as by hand, dropped an hour at a time; on both databases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import func, select, text

from hostler.model.usage import (
    DIMENSIONS,
    Dimension,
    HourRow,
    Period,
    Totals,
    group_of,
    is_meant,
    period_of,
    totals_of,
)
from hostler.model.work import DeviceKind, WorkKind
from hostler.store import Batch, Claim, Place, open_journal
from hostler.store.archive import opened, writing
from hostler.store.copying import copy_in, copy_out
from hostler.store.dialect import POSTGRESQL
from hostler.store.moving import move
from hostler.store.tables import usage_days, usage_hours, usage_of
from hostler.store.usage import Found, drop_oldest, next_hour, sums, write
from tests import postgres
from tests.store.conftest import asked
from tests.store.test_journal import batch, trouble

BASE = 490_000
"""An hour of November 2025."""
HOURS = 300
"""From there into another month."""
ALL = range(10**6)


def row(
    hour: int = BASE, device: str = "a/cuda0", work: WorkKind | None = WorkKind.TRAINING, **fields: object
) -> HourRow:
    values: dict[str, object] = {
        "node": device.partition("/")[0], "kind": DeviceKind.CUDA, "model": "RTX 3090", "pool": None, "provider": None,
        "price_per_h": 0.5, "device_s": 3600.0, "up_s": 3600.0,
    }  # fmt: skip
    return HourRow(hour=hour, device=device, work=work, **{**values, **fields})  # type: ignore[arg-type]


def many(seed: int, hours: int) -> list[HourRow]:
    """A fleet of several kinds, some unknown, over so many hours."""
    random, made = Random(seed), []
    for hour in range(BASE, BASE + hours):
        for number in range(6):
            parts = random.sample([None, *WorkKind], 2)
            for work in parts:
                made.append(
                    row(
                        hour,
                        f"n{number % 3}/cuda{number}",
                        work,
                        model=[None, "A", "B ü"][number % 3],
                        price_per_h=None if number == 5 else number / 7,
                        pool="n1" if number % 3 == 1 else None,
                        device_s=random.uniform(0, 1800),
                        up_s=random.uniform(0, 900),
                        measured_s=random.choice([0.0, 300.0]),
                        busy_s=random.uniform(0, 300),
                        done=random.randrange(3),
                        failed=random.randrange(2),
                    )
                )
    return made


def by_hand(
    rows: Sequence[HourRow], per: Period, by: tuple[Dimension, ...], hours: range, only: dict[Dimension, str]
) -> dict[tuple[int, tuple[str | None, ...]], Totals]:
    made: dict[tuple[int, tuple[str | None, ...]], Totals] = {}
    for each in rows:
        if each.hour in hours and is_meant(only, each):
            key = period_of(per, each.hour), group_of(by, each)
            made[key] = made.get(key, Totals()).plus(totals_of(each))
    return made


def close(found: Totals, expected: Totals) -> bool:
    """Whole numbers are the same; money, but for rounding."""
    return tuple(found) == pytest.approx(tuple(expected), rel=1e-9) and found[:7] == expected[:7]


@pytest.mark.parametrize("per", list(Period))
def test_sums_are_those_by_hand(place: Place, per: Period) -> None:
    rows = many(1, HOURS)
    journal = open_journal(place)
    journal.append([batch(trouble(1)), Batch(entries=(), jobs=(), hours=rows)])
    ways: list[tuple[tuple[Dimension, ...], range, dict[Dimension, str]]] = [
        ((), range(BASE, BASE + HOURS), {}),
        (DIMENSIONS, range(BASE, BASE + 80), {}),
        (("work",), range(BASE + 7, BASE + 200), {"node": "n2"}),
        (("device", "work"), range(BASE, BASE + 30), {"work": "idle"}),
        (("model",), range(BASE + HOURS - 1, BASE + 5000), {"pool": "n1", "work": "rl"}),
        ((), range(BASE - 100, BASE), {}),
    ]
    with asked(place) as connection:
        for by, hours, only in ways:
            found = sums(connection, per, by, hours, only)
            expected = by_hand(rows, per, by, hours, only)
            assert {each[:2] for each in found} == expected.keys(), (by, hours, only)
            assert len(found) == len(expected)
            assert all(close(each.sums, expected[each[:2]]) for each in found)
    journal.close()


def test_what_is_written_again_is_there_once_and_what_it_is_of_is_told_once(place: Place) -> None:
    open_journal(place).close()
    rows = [row(), row(work=None), row(BASE + 1), row(BASE + 2, price_per_h=None), row(BASE + 3, model=None)]
    with asked(place) as connection:
        write(connection, rows[:3])
        write(connection, rows)
        write(connection, [])
        assert connection.execute(select(func.count()).select_from(usage_hours)).scalar() == 5
        assert connection.execute(select(func.count()).select_from(usage_of)).scalar() == 4
        (found,) = sums(connection, Period.MONTH, (), range(10**6), {})
    assert found.sums.cost == pytest.approx(0.5 * 3)
    assert (found.sums.held_ms, found.sums.unpriced_ms, found.sums.idle_cost) == (4 * 3_600_000, 3_600_000, 0.5)


def test_hours_are_found_and_dropped_one_by_one(place: Place) -> None:
    open_journal(place).close()
    with asked(place) as connection:
        write(connection, [row(BASE), row(BASE, "b/cuda0"), row(BASE + 5), row(BASE + 9)])
        assert next_hour(connection, range(BASE)) is None
        assert next_hour(connection, range(BASE + 1, BASE + 50)) == BASE + 5
        assert [drop_oldest(connection, BASE + 6) for _ in range(3)] == [True, True, False]
        assert sums(connection, Period.HOUR, ("device",), range(10**6), {}) == [
            Found(BASE + 9, ("a/cuda0",), totals_of(row(BASE + 9)))
        ]


def test_days_are_the_sums_of_their_hours_and_go_with_the_last_of_them(place: Place) -> None:
    open_journal(place).close()
    rows = many(3, 80)
    first = BASE // 24
    days = select(usage_days.c.day, func.sum(usage_days.c.device_ms)).group_by(usage_days.c.day)
    with asked(place) as connection:
        for hour in range(BASE, BASE + 80):
            write(connection, [each for each in rows if each.hour == hour])
        expected = {
            day: sum(totals_of(each).held_ms + totals_of(each).idle_ms for each in rows if each.hour // 24 == day)
            for day in range(first, (BASE + 79) // 24)
        }
        assert {day: int(device_ms) for day, device_ms in connection.execute(days)} == expected
        while drop_oldest(connection, (first + 1) * 24 - 1):
            pass
        assert len(connection.execute(days).all()) == len(expected), "an hour of it is there still"
        assert drop_oldest(connection, (first + 1) * 24)
        assert [day for day, _ in connection.execute(days.order_by(usage_days.c.day))] == sorted(expected)[1:]


def test_usage_rows_move_between_databases(new_place: Callable[[], Place], tmp_path: Path) -> None:
    here, there, again, elsewhere = new_place(), tmp_path / "there", new_place(), tmp_path / "elsewhere"
    for folder in (there, elsewhere):
        folder.mkdir()
    journal = open_journal(here)
    journal.append([batch(trouble(1)), Batch(entries=(), jobs=(), hours=many(4, 30))])
    journal.close()
    with asked(here) as connection:
        before = sorted(sums(connection, Period.DAY, ("device", "work"), ALL, {}), key=str)
    moved = move(here, there, 1.0, "test")
    assert moved.rows["usage_hours"] == 30 * 12
    assert moved.rows["usage_days"] > 0
    move(there, again, 2.0, "test")
    with writing(tmp_path / "packed", 1.0) as out:
        copied = copy_out(again, out)
        out.seal({"schema": copied.schema, "rows": copied.rows})
    with opened(tmp_path / "packed") as made:
        copy_in(made, elsewhere)
    for place in (there, again, elsewhere):
        with asked(place) as connection:
            after = sorted(sums(connection, Period.DAY, ("device", "work"), ALL, {}), key=str)
        assert [(each.period, each.group) for each in after] == [(each.period, each.group) for each in before]
        # A database adds in an order of its own: the last digit of a sum may be another one.
        assert all(close(one.sums, other.sums) for one, other in zip(after, before, strict=True))


def test_what_was_not_written_with_its_entries_is_not_there(place: Place) -> None:
    """An answer that was lost: the same batches, given again, are found to be there, rows and all."""
    journal = open_journal(place)
    journal.begin_epoch(1.0, Claim("test"))
    given = [Batch(entries=[trouble(1)], jobs=(), hours=[row()])]
    journal.append(given)
    journal._in_doubt = True
    journal.append(given)
    other = open_journal(place)
    other.begin_epoch(2.0, Claim("test"))
    with pytest.raises(Exception, match="leads"):
        journal.append([Batch(entries=[trouble(2)], jobs=(), hours=[row(BASE + 1)])])
    with asked(place) as connection:
        assert connection.execute(select(usage_hours.c.hour)).scalars().all() == [BASE]
    journal.close()
    other.close()


def test_postgresql_knows_how_hours_are_written(server: postgres.Server) -> None:
    place = server.database()
    open_journal(place).close()
    with asked(place) as connection:
        assert connection.dialect.name == POSTGRESQL
        options = connection.execute(text("select reloptions from pg_class where relname = 'usage_hours'")).scalar()
    assert "autovacuum_vacuum_threshold=50000" in options
