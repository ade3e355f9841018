"""Ten million finished jobs in the store: does a controller notice?

    python benchmarks/history.py [--jobs N] [--quick] [--json FILE]

A store is filled with a year of finished jobs, row by row as the running system leaves them (history_rows.py, and
tests/benchmarks/test_history.py for how that is known), once a SQLite file and once a PostgreSQL. A real controller is
started on each; it keeps the newest 10,000 in memory, as a fleet file has it that says nothing. Asked over HTTP, one
request after the other: `/status`; the first page of `/jobs`, and one from the middle of history; a job of the past by
its id; a submission under the key of a job that left long ago, which must be that job.

The journal's own entries are there for the first jobs only, which ran: those of all would be six rows more each, and
no view that is asked here walks them.

No peer is measured: none of those at hand keeps what is over.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import mkdtemp
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil
from tests import postgres
from tests.integration.conftest import Fleet, a_fleet

from common import Bar, Row, command_line, report
from history_rows import Made, System, adder, all_rows, ran_of, snapshot_of, spec_of
from hostler.core import Core
from hostler.model import codec
from hostler.store import Place, open_journal
from hostler.store.dialect import FILE, engine_of
from hostler.store.past import find

KEEP = 10_000
RUN = 50
"""Jobs that the real core runs, of which one is the pattern."""
SOME = 20_000
ASKED = 500
LATEST_S = 0.020
"""The issue's bar for `/status`."""


def main() -> None:
    """Fill, start, ask."""
    parser = command_line(__doc__)
    parser.add_argument("--jobs", type=int, default=10_000_000)
    parser.add_argument("--place", choices=("sqlite", "postgresql"), action="append")
    options = parser.parse_args()
    jobs = 200_000 if options.quick else options.jobs
    rows: list[Row] = []
    bars: list[Bar] = []
    for kind in options.place or ("sqlite", "postgresql"):
        told = [measured(kind, number) for number in (KEEP, jobs)]
        rows += [row for row, _ in told]
        (_, little), (_, much) = told
        bars.append(Bar(f"/status p99 on {kind}, {jobs:,} jobs", much.p99_s * 1000, LATEST_S * 1000, "<", "ms"))
        # The machine is shared: how long an answer waits for a core says nothing of history; its own time does.
        ratio = much.cpu_s / little.cpu_s
        bars.append(Bar(f"CPU of a /status on {kind}, against one without history", ratio, 1.5, "<", "times"))
    report("history", rows, bars, options.json)


@dataclass(frozen=True)
class Status:
    """What a `/status` took."""

    p99_s: float
    cpu_s: float


def measured(kind: str, jobs: int) -> tuple[Row, Status]:
    """One store, filled and asked."""
    with a_place(kind) as (folder, place):
        settings: dict[str, Any] = {"store": place} if isinstance(place, str) else {}
        with a_fleet(folder, **settings) as fleet:
            if isinstance(place, Path):
                place.mkdir(exist_ok=True)
            filled_s, size = fill(place, jobs)
            row, status = ask(fleet, jobs)
    return {"store": kind, "jobs": f"{jobs:,}", "filled in": f"{filled_s:.0f} s", "size": size, **row}, status


@contextmanager
def a_place(kind: str) -> Iterator[tuple[Path, Place]]:
    """A folder for a fleet, and where its store is."""
    folder = Path(mkdtemp(prefix="hostler-history-"))
    try:
        if kind == "sqlite":
            yield folder, folder / "state"
        else:
            with postgres.running(durable=True) as server:
                yield folder, server.database()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fill(place: Place, jobs: int) -> tuple[float, str]:
    """Make the history; returns how long that took, and how large it is."""
    began = time.monotonic()
    journal = open_journal(place)
    system = System(journal, Core())
    system.begin()
    for number in range(1, RUN + 1):
        system.run(ran_of(number))
    system.rest()
    with journal.catalogue() as connection:
        (sample,) = find(connection, (f"j{RUN}",))
    made = Made(sample)
    add = adder(place)
    for past, rows in all_rows(made, RUN + 1, jobs - KEEP + 1, SOME):
        add("past", past)
        add("jobs", rows)
    for _, rows in all_rows(made, max(RUN, jobs - KEEP) + 1, jobs + 1, SOME):
        add("jobs", rows)
    journal.save_snapshot(snapshot_of(system.core, made, jobs, KEEP, journal.newest_seq()))
    journal.close()
    return time.monotonic() - began, _size(place)


def ask(fleet: Fleet, jobs: int) -> tuple[dict[str, Any], Status]:
    """Start a controller on it and ask; returns what to show."""
    began = time.monotonic()
    fleet.start()
    started_s = time.monotonic() - began
    controller = fleet.controller
    assert controller is not None
    process = psutil.Process(controller.pid)
    before_s = _cpu_s(process)
    status = _times(ASKED, fleet.client.status)
    cpu_s = (_cpu_s(process) - before_s) / ASKED
    first = _times(20, lambda: _page(fleet, 0))
    deep = _times(20, lambda: _page(fleet, jobs // 2))
    one = _times(50, lambda: fleet.client.job(f"j{jobs // 3}"))
    spec = codec.plain(spec_of(jobs // 4))
    began = time.monotonic()
    (same,) = fleet.client.submit_jobs([spec])
    again_s = time.monotonic() - began
    assert same == f"j{jobs // 4}", f"an old key made a new job: {same}"
    counts = fleet.client.status()["jobs"]
    assert sum(counts.values()) == jobs, counts
    rss = process.memory_info().rss
    p99 = quantiles(status, n=100)[98]
    shown = {
        "start": f"{started_s:.1f} s",
        "memory": f"{rss / 1e6:.0f} MB",
        "/status p50": f"{median(status) * 1e3:.1f} ms",
        "p99": f"{p99 * 1e3:.1f} ms",
        "CPU": f"{cpu_s * 1e3:.2f} ms",
        "/jobs first": f"{median(first) * 1e3:.0f} ms",
        "deep": f"{median(deep) * 1e3:.0f} ms",
        "job of the past": f"{median(one) * 1e3:.1f} ms",
        "old key": f"{again_s * 1e3:.0f} ms",
    }
    return shown, Status(p99, cpu_s)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _page(fleet: Fleet, after: int) -> None:
    found = fleet.client.jobs(after=after, limit=100)
    assert len(found) == 100, len(found)


def _times(count: int, call: Callable[[], Any]) -> list[float]:
    call()
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return taken


def _size(place: Place) -> str:
    if isinstance(place, Path):
        return f"{(place / FILE).stat().st_size / 1e9:.1f} GB"
    with engine_of(place).connect() as connection:
        size = connection.exec_driver_sql("select pg_database_size(current_database())").scalar_one()
    return f"{size / 1e9:.1f} GB"


if __name__ == "__main__":
    main()
