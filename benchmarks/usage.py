"""A year of usage by the hour: how large is it, and how soon does it answer?

    python benchmarks/usage.py [--devices N] [--hours N] [--quick] [--json FILE]

A store is filled with so many hours of a fleet, once a SQLite file and once a PostgreSQL: every device has one kind of
work in each hour, and every second one some idle time beside it. Then, by the code that a controller runs: one more
hour is written and the oldest is dropped, each in its transaction, and what people ask is asked.

No peer is measured: none of those at hand keeps how devices were used.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sqlalchemy import Connection, text
from tests import postgres

from common import Bar, Row, command_line, report
from hostler.model.usage import HourRow, Period, UsageAsked, UsageView, first_hour, period_of
from hostler.model.work import DeviceKind, WorkKind
from hostler.runtime.usage import gathered
from hostler.store import Place, open_journal
from hostler.store.dialect import POSTGRESQL, engine_of
from hostler.store.usage import drop_oldest, next_hour, sums, write

FIRST = first_hour(Period.MONTH, 12 * 2025)
"""An hour of January 2025."""
AT_ONCE = 216
PER_NODE = 8
NUMBERS = {
    "sqlite": "with recursive n(v) as (select {a} union all select v + 1 from n where v < {b} - 1) select v from n",
    POSTGRESQL: "select v from generate_series({a}, {b} - 1) as g(v)",
}
BAR_S = 20.0
"""Two thirds of what PostgreSQL lets a statement take."""


def main() -> None:
    """Fill, write, ask."""
    parser = command_line(__doc__)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--hours", type=int, default=8760)
    parser.add_argument("--place", choices=("sqlite", POSTGRESQL), action="append")
    options = parser.parse_args()
    hours = 730 if options.quick else options.hours
    rows: list[Row] = []
    bars: list[Bar] = []
    for kind in options.place or ("sqlite", POSTGRESQL):
        row, longest_s = measured(kind, options.devices, hours)
        rows.append(row)
        bars.append(Bar(f"slowest question on {kind}", longest_s, BAR_S, "<", "s"))
    report("usage", rows, bars, options.json)


def measured(kind: str, devices: int, hours: int) -> tuple[Row, float]:
    """One store, filled and asked; with the time that the slowest question took."""
    with a_place(kind) as place:
        open_journal(place).close()
        engine = engine_of(place)
        with engine.begin() as connection:
            write(connection, list(hour_of(FIRST - 1, devices)))
        count = fill(engine, kind, devices, hours)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("analyze"))
            size = size_of(connection, kind)
            end = FIRST + hours
            asked = {
                "year by month, by work": (UsageAsked(per=Period.MONTH, by=("work",)), range(FIRST, end)),
                "30 days by day, by device": (UsageAsked(by=("device",)), range(end - 720, end)),
                "one node, 24 h by hour": (
                    UsageAsked(per=Period.HOUR, by=("device", "work"), only={"node": "n7"}),
                    range(end - 24, end),
                ),
                "year by week, one device": (
                    UsageAsked(per=Period.WEEK, only={"device": "n7/cuda3"}),
                    range(FIRST, end),
                ),
            }
            times = {name: _seconds(partial(ask, connection, *what)) for name, what in asked.items()}

        def one_more() -> None:
            with engine.begin() as connection:
                write(connection, list(hour_of(FIRST + hours + 1, devices)))

        def one_less() -> None:
            with engine.begin() as connection:
                assert drop_oldest(connection, FIRST + 1)

        wrote_s, dropped_s = _seconds(one_more), _seconds(one_less)
        engine.dispose()
    told = {name: f"{seconds:.2f} s" for name, seconds in times.items()}
    row: Row = {
        "store": kind,
        "rows": f"{count:,}",
        "size": f"{size / 1e6:,.0f} MB",
        "a row": f"{size / count:.0f} B",
        "an hour written": f"{wrote_s * 1000:.0f} ms",
        "dropped": f"{dropped_s * 1000:.0f} ms",
        **told,
    }
    return row, max(times.values())


def ask(connection: Connection, asked: UsageAsked, hours: range) -> list[UsageView]:
    """A page of 1,000, as a controller makes it."""
    whole = range(hours.start, first_hour(asked.per, period_of(asked.per, hours.stop - 1) + 1))
    found = gathered(
        asked,
        whole,
        (),
        1000,
        (),
        (
            hours,
            lambda window: sums(connection, asked.per, asked.by, window, asked.only),
            lambda window: next_hour(connection, window),
        ),
    )
    assert found
    return found


def hour_of(hour: int, devices: int) -> Iterator[HourRow]:
    """One hour of the fleet; of each device with work and with none."""
    kinds = list(WorkKind)
    for number in range(devices):
        node = f"n{number // PER_NODE}"
        for work in (kinds[number % len(kinds)], None):
            yield HourRow(
                hour=hour,
                node=node,
                device=f"{node}/cuda{number % PER_NODE}",
                kind=DeviceKind.CUDA,
                model="NVIDIA GeForce RTX 3090",
                pool=None,
                provider="vast",
                price_per_h=0.25,
                work=work,
                device_s=3600.0 if work else 17.5,
                up_s=3600.0 if work else 17.5,
                measured_s=3595.0 if work else 15.0,
                busy_s=2876.543 if work else 0.1,
                done=3 if work else 0,
            )


def fill(engine: Any, kind: str, devices: int, hours: int) -> int:
    """All hours, in order, as the database makes them by itself; of every second device idle time, too."""
    for first in range(FIRST, FIRST + hours, AT_ONCE):
        after = min(first + AT_ONCE, FIRST + hours)
        every = NUMBERS[kind]
        of = every.format(a=1, b=2 * devices + 1).replace("n(v)", "m(v)").replace("from n", "from m")
        which = "o.v % 2 = 1 or (h.v + o.v) % 4 < 2"
        query = (
            f"insert into usage_hours select h.v, o.v, 3600000 - (h.v * o.v) % 3333, 3600000, 3595000, "
            "(h.v % 1000 * 7919 + o.v * 1047) % 3595000, (h.v + o.v) % 5, 0 "
            f"from ({every.format(a=first, b=after)}) as h cross join ({of}) as o where {which} order by h.v, o.v"
        )
        with engine.begin() as connection:
            connection.exec_driver_sql(query.replace("%", "%%") if kind == POSTGRESQL else query)
    with engine.begin() as connection:
        write(connection, list(hour_of(FIRST + hours, devices)))
        return int(connection.execute(text("select count(*) from usage_hours")).scalar() or 0)


def size_of(connection: Connection, kind: str) -> int:
    """Bytes of the tables with their indexes."""
    if kind == POSTGRESQL:
        query = "select pg_total_relation_size('usage_hours') + pg_total_relation_size('usage_days')"
    else:
        query = "select (select page_count from pragma_page_count) * (select page_size from pragma_page_size)"
    return int(connection.execute(text(query)).scalar() or 0)


@contextmanager
def a_place(kind: str) -> Iterator[Place]:
    """Where a store is."""
    folder = Path(mkdtemp(prefix="hostler-usage-"))
    try:
        if kind == "sqlite":
            yield folder
        else:
            with postgres.running(durable=True) as server:
                yield server.database()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
