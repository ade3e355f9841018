"""How artifacts come from nodes, beside rsync and rclone, and what an index of a million of them costs.

    python benchmarks/data.py [--quick] [--json FILE]

Four hosts are real OpenSSH servers on loopback, each with a folder of artifacts: 10,000 segments of 20 kB in all, and
10 files of 500 MB. All four are pulled from at once into one folder. Hostler's are fetched as the controller fetches
what a job has left: hashed on both sides and on disk (fsync) when they count. `rsync -a` hashes nothing that it does
not have yet and writes nothing through; `rclone copy` compares hashes that the server computes. *CPU* is of all
processes, on both sides, from /proc. Second copies go from the controller's store to two folders: hashed, on disk
(fsync) and read back from it when they count, and told to a journal; the peers' are not read back. The index is a real
journal database that a million artifacts were told to.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from common import Bar, Row, arguments, report
from data_copies import FEW, copies
from data_index import measured
from data_pull import Load, pulls

SMALL_BYTES, LARGE_BYTES = 20_000, 500_000_000


def main() -> None:
    """Measure, print, exit 1 if a bar is missed."""
    options = arguments(__doc__)
    small = Load("segments", 400 if options.quick else 10_000, SMALL_BYTES, 1 if options.quick else 2)
    large = Load("large files", 4 if options.quick else 10, LARGE_BYTES // (10 if options.quick else 1), 2)
    count = 20_000 if options.quick else 1_000_000
    with TemporaryDirectory(prefix="hostler-bench-data-") as scratch:
        files = [row for load in (small, large) for row in pulls(Path(scratch), load)]
    with TemporaryDirectory(prefix="hostler-bench-data-") as scratch:
        second = list(copies(Path(scratch), quick=options.quick))
    print("pulled and copied; the index is filled, which takes minutes", file=sys.stderr)
    with TemporaryDirectory(prefix="hostler-bench-data-") as scratch:
        index = measured(Path(scratch), count)
    bars = [*_rates(files), *_copies(second), *_index(index, count)]
    report("data", [*files, *second, *index], bars, options.json)
    sys.exit(1 if any(bar.met is False for bar in bars) else 0)


def _rates(files: Sequence[Row]) -> Iterator[Bar]:
    for what in dict.fromkeys(row["files"] for row in files):
        best = {row["way"]: row["best s"] for row in files if row["files"] == what}
        yield Bar(f"{what}: rate, relative to rsync -a", best["rsync -a"] / best["Hostler"], 0.9, ">=")


def _copies(rows: Sequence[Row]) -> Iterator[Bar]:
    few, many = rows[:2]
    short = many["files that lack one"]
    yield Bar(f"{short} files lack a copy: rate, relative to {FEW}", many["files/s"] / few["files/s"], 0.8, ">=")


def _index(rows: Sequence[Row], count: int) -> Iterator[Bar]:
    whole = count >= 1_000_000
    note = "" if whole else f"{count} artifacts only"

    def of(what: str, column: str) -> float | None:
        return next((float(row[column]) for row in rows if row["index"].startswith(what)), None) if whole else None

    yield Bar("a million artifacts: lookup of one, p99 ms", of("lookup", "p99 ms"), 5.0, "<", note)
    plan = of("plan of retention", "p50 ms")
    yield Bar("a million files: plan of retention, s", None if plan is None else plan / 1000, 10.0, "<", note)
    yield Bar("a million artifacts, none short: a look, p99 ms", of("look, nothing short", "p99 ms"), 50.0, "<", note)


if __name__ == "__main__":
    main()
