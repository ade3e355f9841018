"""One controller on PostgreSQL, at full load for hours: what it holds does not grow, what it writes follows its work.

`SOAK_MINUTES` is for how long (`make soak`: 120); without it half a minute, in which only the sampling is tried, since
a start-up is no trend. Each sample is printed, so that whatever fails can be seen.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, fields
from itertools import combinations
from pathlib import Path
from statistics import median

import psutil
import pytest
from sqlalchemy import Connection, create_engine, text

from hostler.model.errors import HostlerError
from tests import postgres
from tests.backends.ssh import sshd
from tests.integration.conftest import until
from tests.integration.standbys import Seat, Town, a_town

if _why := postgres.missing() or sshd.MISSING:
    pytest.skip(_why, allow_module_level=True)

MINUTES = float(os.environ.get("SOAK_MINUTES", "0"))
SPAN_S = MINUTES * 60 or 30.0
EVERY_S = 5.0
WAITING, LASTS_S = 100, 0.05
"""Jobs that wait after each look, ten times in a second: more than the devices do between two. Each takes a while: what
is kept for a minute follows the rate, which would follow whoever else works on the machine."""
KEPT = {
    "keep_finished": 500,
    "keep_finished_s": 60,
    "snapshot_every": 10_000,
    "compact_after_s": 60,
    "keep_entries": 1000,
}
"""Finished jobs in memory: few, so that what grows with them cannot be told from none by its size. Entries are packed
as soon as two snapshots cover them, so that the rows of the journal have an end."""
JOURNAL_PER_H = 0.1
"""How much the rows of the journal may grow by in an hour, on the disk, in the second half."""
MEMORY_PER_H = 0.05
"""How much of its memory it may grow by in an hour, in the second half of the time."""
FILES_PER_H = 4.0
WAL_BYTES = 1 << 30
"""PostgreSQL's own `max_wal_size`, which nothing of ours may keep it from."""
IDLE = 0.05
"""In how large a part of the samples nothing may wait."""
UNEVEN = 1.3
"""How many times as many entries a job may have in the second half as in the first."""


@dataclass(frozen=True)
class Sample:
    """What was seen then."""

    at_s: float
    memory: int
    files: int
    entries: int
    done: int
    journal: int
    """Bytes of its table with indexes,"""
    segments: int
    """and those of what is packed."""
    wal: int
    waiting: int
    """Jobs that could begin if there were room: the load is full while there are some."""


@pytest.mark.services
@pytest.mark.long
def test_nothing_grows_but_by_work(tmp_path: Path) -> None:
    with a_town(tmp_path, names=("a",)) as town:
        seat = town.controllers["a"]
        seat.settle(store=town.address, **town._settings(), journal=KEPT)
        town.start("a")
        until(town.leading, "its nodes", log=seat.log)
        engine = create_engine(town.address, isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as database, loaded(town, seat):
                samples = list(sampled(seat, database))
                until(
                    lambda: seat.client.status()["jobs"]["done"] > samples[0].done, "a job that is done", log=seat.log
                )
        finally:
            engine.dispose()
    print(report(samples))
    if MINUTES:
        faults = list(judged(samples))
        assert not faults, "\n".join(faults)


@contextmanager
def loaded(town: Town, seat: Seat) -> Iterator[None]:
    """There is always more to do than there is room for."""
    over = threading.Event()

    def submit() -> None:
        while not over.wait(0.1):
            with suppress(HostlerError, OSError):
                if (missing := WAITING - seat.client.status()["jobs"].get("pending", 0)) > 0:
                    seat.client.submit_jobs([_job() for _ in range(missing)])

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def sampled(seat: Seat, database: Connection) -> Iterator[Sample]:
    """For so long."""
    assert seat.controller is not None
    process, began = psutil.Process(seat.controller.pid), time.monotonic()
    while (at_s := time.monotonic() - began) < SPAN_S:
        jobs = seat.client.status()["jobs"]  # to count millions of rows each time would be a load of its own
        yield Sample(
            at_s=at_s,
            memory=process.memory_info().rss,
            files=process.num_fds(),
            entries=_asked(database, "select max(seq) from journal"),
            done=jobs["done"],
            journal=_asked(database, _SIZE.format("journal")),
            segments=_asked(database, _SIZE.format("segment")),
            wal=_asked(database, "select sum(size) from pg_ls_waldir()"),
            waiting=jobs.get("pending", 0),
        )
        time.sleep(max(0.0, EVERY_S - (time.monotonic() - began) % EVERY_S))


def judged(samples: Sequence[Sample]) -> Iterator[str]:
    """What has grown that should not have."""
    middle = len(samples) // 2
    early, late = samples[:middle], samples[middle:]
    memory = slope(late, lambda each: each.memory) * 3600 / median(each.memory for each in late)
    if memory > MEMORY_PER_H:
        yield f"memory grows by {memory:.1%} an hour; {MEMORY_PER_H:.0%} is allowed"
    files = slope(late, lambda each: each.files) * 3600
    if files > FILES_PER_H:
        yield f"open files grow by {files:.1f} an hour; {FILES_PER_H:g} are allowed"
    if (wal := max(each.wal for each in samples)) > WAL_BYTES:
        yield f"the WAL has {wal >> 20} MB; {WAL_BYTES >> 20} are allowed"
    journal = slope(late, lambda each: each.journal) * 3600 / median(each.journal for each in late)
    if journal > JOURNAL_PER_H:
        yield f"the journal's rows grow by {journal:.1%} an hour; {JOURNAL_PER_H:.0%} is allowed"
    idle = sum(not each.waiting for each in samples)
    if idle > IDLE * len(samples):
        yield f"nothing waited in {idle} of {len(samples)} samples: that was not full load"
    for what, of in (("entries", lambda each: each.entries), ("bytes of segments", lambda each: each.segments)):
        first, second = per_job(early, of), per_job(late, of)
        if second > UNEVEN * first:
            yield f"{what} per job: {first:.1f} at first, {second:.1f} later"


def slope(samples: Sequence[Sample], of: Callable[[Sample], float]) -> float:
    """Per second: the median over all pairs, which single outliers do not move (Theil and Sen)."""
    few = samples[:: max(len(samples) // 200, 1)]
    return median((of(two) - of(one)) / (two.at_s - one.at_s) for one, two in combinations(few, 2))


def per_job(samples: Sequence[Sample], of: Callable[[Sample], float]) -> float:
    """How much of it a job that was done in this time has made."""
    first, last = samples[0], samples[-1]
    return (of(last) - of(first)) / max(last.done - first.done, 1)


def report(samples: Sequence[Sample]) -> str:
    """Twenty of them as a table, and the trends."""
    heads = [each.name for each in fields(Sample)]
    shown = samples[:: max(len(samples) // 20, 1)]
    lines = ["  ".join(head.rjust(12) for head in heads)]
    lines += ["  ".join(f"{value:12.0f}" for value in astuple(each)) for each in shown]
    late = samples[len(samples) // 2 :]
    if len(late) > 1:
        memory, files = slope(late, lambda each: each.memory), slope(late, lambda each: each.files)
        lines.append(f"second half: memory {memory * 3600 / 2**20:+.2f} MB/h, files {files * 3600:+.2f}/h")
        lines.append(f"entries per job {per_job(late, lambda each: each.entries):.2f}")
        journal = slope(late, lambda each: each.journal)
        lines.append(f"the journal's rows {journal * 3600 / 2**20:+.2f} MB/h")
        lines.append(f"bytes of segments per job {per_job(late, lambda each: each.segments):.0f}")
    return "\n".join(lines)


_SIZE = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0) from pg_class c
where c.relname like '{}%' and c.relkind in ('r', 'p')
"""


def _asked(database: Connection, question: str) -> int:
    return int(database.execute(text(question)).scalar_one() or 0)


def _job() -> dict[str, object]:
    return {"name": "soak", "payload": {"kind": "script", "schema": 1, "argv": ["sleep", str(LASTS_S)]}}


def test_the_trends_are_seen() -> None:
    """What grows is told, whatever single samples say; what stays is not."""
    flat = [
        Sample(
            at_s=5.0 * at,
            memory=10**8 + (at % 7) * 10**5,
            files=30,
            entries=8 * at,
            done=at,
            journal=10**7 + (at % 9) * 10**5,
            segments=90 * at,
            wal=1,
            waiting=WAITING,
        )
        for at in range(720)
    ]
    assert list(judged(flat)) == []
    leaking = [Sample(**{**vars(each), "memory": each.memory + at * 20_000}) for at, each in enumerate(flat)]
    assert "memory grows by" in "".join(judged(leaking))
    opened = [Sample(**{**vars(each), "files": 30 + at // 60}) for at, each in enumerate(flat)]
    assert "open files grow by" in "".join(judged(opened))
    kept = [Sample(**{**vars(each), "wal": 2 << 30 if at == 9 else 1}) for at, each in enumerate(flat)]
    assert "the WAL has 2048 MB" in "".join(judged(kept))
    unpacked = [Sample(**{**vars(each), "journal": each.journal + 2000 * at}) for at, each in enumerate(flat)]
    assert "the journal's rows grow by" in "".join(judged(unpacked))
    wordy = [Sample(**{**vars(each), "entries": 8 * at + max(at - 400, 0) * 20}) for at, each in enumerate(flat)]
    assert "entries per job" in "".join(judged(wordy))
    idle = [Sample(**{**vars(each), "waiting": at % 9}) for at, each in enumerate(flat)]
    assert "nothing waited in 80 of 720 samples" in "".join(judged(idle))
