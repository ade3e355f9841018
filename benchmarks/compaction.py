"""What compaction makes of a journal, what it costs, and how long whoever writes waits for it.

    python benchmarks/compaction.py [--entries N] [--place sqlite|postgresql] [--quick] [--json FILE]

A journal is filled with the entries of finished scripts, six each as the core writes them, of some two hundred jobs at
a time, with times, process ids, measurements and results drawn by chance. Then everything that may go into segments
goes there with no rest between steps: half of it alone, and the other half while another thread appends an entry every
few milliseconds, each waiting for the disk, as it did before with nothing beside it. A controller rests four times as
long as a step took, so that a fifth of its writes at most meet one. CPU seconds are this process's, and those of
PostgreSQL's server.

`story` is one old job's entries; `read` is all entries as events, which a replay has to fold then.

No peer is measured: none of those at hand packs what is over.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count, islice
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil
from tests import postgres

from common import Bar, Row, command_line, report
from history import a_place
from history_rows import BEGAN, adder, spec_of
from hostler.model.codec import dump_event
from hostler.model.events import (
    AttemptEnded,
    AttemptLaunching,
    AttemptLeased,
    AttemptStarted,
    Entry,
    Event,
    JobDone,
    JobSubmitted,
    TroubleRecorded,
    subject,
)
from hostler.model.rules import CompactRules
from hostler.store import Batch, Claim, Journal, Place, Snapshot, open_journal
from hostler.store.dialect import engine_of

SOME = 20_000
KEEP = 2_000
EVERY_S, LASTS_S = 0.3, 60.0
PAUSE_S = 0.005
ALONE = 500
STORIES = 50
RATIO, WAIT_MS, STORY_MS = 5.0, 250.0, 50.0
"""What is wanted: segments are a fifth of the rows, no append waits longer, no story takes longer."""
ALL = CompactRules(after_s=0.0, keep_entries=KEEP)


def main() -> None:
    """Fill, compact, ask."""
    parser = command_line(__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--place", choices=("sqlite", "postgresql"), action="append")
    options = parser.parse_args()
    entries = 60_000 if options.quick else options.entries
    sizes, waits, reads, bars = list[Row](), list[Row](), list[Row](), list[Bar]()
    for kind in options.place or ("sqlite", "postgresql"):
        if kind == "postgresql" and (why := postgres.missing()):
            print(f"no figures of PostgreSQL: {why}")
            continue
        with a_place(kind) as (_, place):
            if isinstance(place, Path):
                place.mkdir(exist_ok=True)
            bench = Bench(kind, place, entries, _server_of(place))
            bench.run()
        sizes.append(bench.size)
        waits += bench.waits
        reads += bench.reads
        bars += bench.bars
    report("compaction", [*sizes, *waits, *reads], bars, options.json)


class Bench:
    """One store, filled, compacted and asked."""

    def __init__(self, kind: str, place: Place, entries: int, server: psutil.Process | None) -> None:
        self._kind = kind
        self._place = place
        self._entries = entries
        self._server = server
        self.size: dict[str, Any] = {}
        self.waits: list[Row] = []
        self.reads: list[Row] = []
        self.bars: list[Bar] = []

    def run(self) -> None:
        """All of it."""
        self._fill()
        journal = open_journal(self._place)
        journal.begin_epoch(BEGAN, Claim("benchmark"))
        newest = journal.newest_seq()
        for seq in (newest - 1, newest):
            journal.save_snapshot(Snapshot(seq=seq, at=BEGAN, data=b""))
        before = journal.sizes()
        asked = [f"j{number}" for number in range(10, self._entries // 12, self._entries // 12 // STORIES)]
        self._ask(journal, "rows", asked)
        alone = Appending(journal, PAUSE_S)
        alone.run(ALONE)
        holds, cpu_s = self._compact(journal, before.rows // 2)
        _vacuum(self._place)
        after = journal.sizes()
        self._ask(journal, "segments", asked)
        journal.close()
        assert before.row_bytes is not None
        assert after.packed_disk_bytes is not None
        row_bytes = before.row_bytes / before.rows
        packed_bytes = after.packed_disk_bytes / after.packed.entries
        found_bytes = (after.packed_disk_bytes - after.packed.packed_bytes) / after.packed.entries
        self.size = {
            "store": self._kind,
            "entries": f"{after.packed.entries:,}",
            "row, with indexes": f"{row_bytes:.0f} B",
            "in a segment": f"{packed_bytes:.1f} B",
            "of that around it": f"{found_bytes:.1f} B",
            "ratio": row_bytes / packed_bytes,
            "CPU s per million": cpu_s,
            "step p50 ms": median(holds) * 1e3,
            "step p99 ms": quantiles(holds, n=100)[98] * 1e3,
            "step max ms": max(holds) * 1e3,
        }
        self.waits.insert(0, _wait_row(self._kind, "nothing", alone.took_s))
        longest_ms = max(float(row["max ms"]) for row in self.waits[1:])
        story_ms = float(self.reads[-1]["story p50 ms"])
        self.bars = [
            Bar(f"{self._kind}: a row against its place in a segment", row_bytes / packed_bytes, RATIO, ">", "times"),
            Bar(f"{self._kind}: longest wait of an append meanwhile", longest_ms, WAIT_MS, "<", "ms"),
            Bar(f"{self._kind}: story of an old job, p50", story_ms, STORY_MS, "<", "ms"),
        ]

    def _fill(self) -> None:
        open_journal(self._place).close()
        add = adder(self._place)
        rows = _rows(self._entries)
        while some := list(islice(rows, SOME)):
            add("journal", some)
        _vacuum(self._place)

    def _compact(self, journal: Journal, half: int) -> tuple[list[float], float]:
        """How long each step held the writer's lock, and the CPU seconds of a million entries."""
        began_s, gone = self._cpu_s(), 0
        while gone < half and (made := journal.compact(ALL, BEGAN + 1e9)) is not None:
            gone += made.entries
        cpu_s = (self._cpu_s() - began_s) / gone * 1e6
        holds = list[float]()
        beside = Appending(journal, PAUSE_S)
        with _timed(journal, holds), beside.running():
            while journal.compact(ALL, BEGAN + 1e9):
                pass
        self.waits.append(_wait_row(self._kind, "compaction without a rest", beside.took_s))
        return holds, cpu_s

    def _cpu_s(self) -> float:
        own = time.process_time()
        if self._server is None:
            return own
        return own + sum(_cpu_of(each) for each in (self._server, *self._server.children(recursive=True)))

    def _ask(self, journal: Journal, where: str, jobs: list[str]) -> None:
        stories = [_timing(lambda job=job: self._story(journal, job)) for job in jobs]  # type: ignore[misc]
        began = time.process_time(), time.monotonic()
        read = sum(1 for _ in journal.read(limit=self._entries - 2 * KEEP))
        cpu_s, took_s = time.process_time() - began[0], time.monotonic() - began[1]
        self.reads.append(
            {
                "store": self._kind,
                "from": where,
                "story p50 ms": median(stories) * 1e3,
                "story max ms": max(stories) * 1e3,
                "read, entries/s": read / took_s,
                "read, CPU s per million": cpu_s / read * 1e6,
            }
        )

    def _story(self, journal: Journal, job: str) -> None:
        assert [entry.event.kind for entry in journal.story(job)][-1] == "job.done"


class Appending:
    """Appends an entry now and then, as a leader does, and notes how long each took."""

    def __init__(self, journal: Journal, pause_s: float) -> None:
        self._journal = journal
        self._pause_s = pause_s
        self._over = threading.Event()
        self.took_s: list[float] = []

    def run(self, many: int | None = None) -> None:
        """Go on until told to end, or so often."""
        seq = self._journal.newest_seq()
        for number in count(1):
            if self._over.wait(self._pause_s) or number - 1 == many:
                return
            entry = Entry(seq=seq + number, at=BEGAN + 1e8, event=TroubleRecorded(where="benchmark", what="x" * 200))
            self.took_s.append(_timing(lambda entry=entry: self._journal.append([Batch(entries=[entry], jobs=())])))  # type: ignore[misc]

    @contextmanager
    def running(self) -> Iterator[None]:
        """In a thread, meanwhile."""
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


def _rows(entries: int) -> Iterator[dict[str, Any]]:
    """Rows of the journal: jobs that run beside each other, in the order in which things happened."""
    random, waiting, number, seq = Random(1), list[tuple[float, int, int, Event]](), 0, 0
    while seq < entries:
        number += 1
        at = BEGAN + number * EVERY_S
        for place, (then, event) in enumerate(_events(number, at, random)):
            heappush(waiting, (then, number, place, event))
        while waiting and waiting[0][0] <= at and seq < entries:
            then, _, _, event = heappop(waiting)
            seq += 1
            yield {"seq": seq, "at": then, "job": subject(event), "data": dump_event(event), "epoch": 1}


def _events(number: int, at: float, random: Random) -> Iterator[tuple[float, Event]]:
    job, attempt = f"j{number}", f"j{number}.1"
    started, lasts_s = at + random.uniform(0.2, 2.0), random.expovariate(1 / LASTS_S)
    device = f"rig{random.randrange(40)}/gpu{random.randrange(8)}"
    result = {"loss": random.random(), "steps": random.randrange(10**6), "accuracy": random.random()}
    yield at, JobSubmitted(job=job, spec=spec_of(number), after=(), why=None)
    why = f"script; waited {random.randrange(100)} s; the device is idle"
    yield at, AttemptLeased(job=job, attempt=attempt, device=device, why=why)
    yield at + random.uniform(0.01, 0.1), AttemptLaunching(attempt=attempt)
    pid_start = random.randrange(10**9)
    yield started, AttemptStarted(attempt=attempt, pid=random.randrange(4 * 10**6), pid_start=pid_start)
    ended = AttemptEnded(
        attempt=attempt,
        started_at=started,
        ended_at=started + lasts_s,
        exit_code=0,
        signal=None,
        reason=None,
        error=None,
        cpu_s=round(lasts_s * random.random(), 2),
        max_rss_bytes=random.randrange(10**10),
        result=result,
    )
    yield started + lasts_s + 0.01, ended
    yield started + lasts_s + 0.01, JobDone(job=job, attempt=attempt, result=result)


@contextmanager
def _timed(journal: Journal, holds: list[float]) -> Iterator[None]:
    """How long compaction holds the lock that appends wait for, of its database as of its process."""
    inner = journal._writing

    @contextmanager
    def writing(what: str, *, at_once: bool = False) -> Iterator[Any]:
        began = 0.0
        with inner(what, at_once=at_once) as connection:
            began = time.perf_counter()
            yield connection
        if "compacted" in what:
            holds.append(time.perf_counter() - began)

    journal._writing = writing  # type: ignore[method-assign]
    yield
    journal._writing = inner  # type: ignore[method-assign]


def _wait_row(kind: str, beside: str, took_s: list[float]) -> Row:
    cuts = quantiles(took_s, n=100)
    return {
        "store": kind,
        "appends beside": beside,
        "appends": len(took_s),
        "p50 ms": cuts[49] * 1e3,
        "p99 ms": cuts[98] * 1e3,
        "max ms": max(took_s) * 1e3,
    }


def _vacuum(place: Place) -> None:
    """What PostgreSQL does by itself, a little later."""
    if isinstance(place, str):
        with engine_of(place).connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("vacuum analyze")


def _server_of(place: Place) -> psutil.Process | None:
    """The server of a database of the benchmark's own; it detaches itself from whoever started it."""
    if isinstance(place, Path):
        return None
    port = f"-p {engine_of(place).url.port}"
    return next(each for each in psutil.process_iter(["cmdline"]) if port in " ".join(each.info["cmdline"] or ()))


def _cpu_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _timing(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
