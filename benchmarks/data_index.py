"""An index of so many artifacts in a real journal database: what it costs to fill, to ask, and to plan with."""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from common import Row
from hostler.model.artifacts import HUB, Artifact, ArtifactKind, Copy, Place, Standing, Wanted
from hostler.model.events import CopiesGone, CopiesVerified, Entry, Event, SegmentsJudged, SegmentsMade
from hostler.model.learning import SegmentRef, SegmentVerdict
from hostler.policy.retention import FileKind, Found, RetentionRules, plan
from hostler.store import Batch, Journal, catalogue, open_journal
from hostler.store.settling import Marks, Rules

BATCH = 200
"""Segments that one fact tells of."""
LOOKUPS = 5000
AT = 1_700_000_000.0
DAY_S = 86_400.0
BUCKETS = ("bucket", "vault")
DOMAINS = {HUB: "here", "bucket": "s3", "vault": "elsewhere"}
RULES = Rules({Standing.GAMES: Wanted(copies=3, domains=2), Standing.MODEL: Wanted(copies=3)}, DOMAINS)


def measured(folder: Path, count: int) -> list[Row]:
    """Rows of what is asked, each with its times."""
    journal = open_journal(folder)
    chance = random.Random(1)
    names = [f"{chance.getrandbits(256):064x}" for _ in range(count)]
    try:
        return [_filled(journal, names), *_asked(journal, names, chance), *_looks(journal, names), *_plans(journal)]
    finally:
        journal.close()


def _filled(journal: Journal, names: Sequence[str]) -> Row:
    """All of it told as facts: made, judged, copied to two more places."""
    began, seq = time.perf_counter(), 0
    for start in range(0, len(names), BATCH * 10):
        batches = []
        for at in range(start, min(start + BATCH * 10, len(names)), BATCH):
            for event in _facts(names[at : at + BATCH]):
                seq += 1
                batches.append(Batch(entries=[Entry(seq=seq, at=AT, event=event)], jobs=()))
        journal.append(batches)
    wall = time.perf_counter() - began
    print(f"filled in {wall:.0f} s", file=sys.stderr)
    return _row(f"filled, {len(names):,} artifacts with 3 copies (one sample: all)", [Sample(wall)])


def _facts(names: Sequence[str]) -> Iterator[Event]:
    refs = tuple(SegmentRef(sha256=name, bytes=20_000, games=16, positions=900) for name in names)
    yield SegmentsMade(config="hex8_2p", job="j1", player="random", segments=refs, cpu_s=None)
    refused = tuple(
        SegmentVerdict(sha256=name, games=16, accepted=0, rejected={}, quality={}, score=None, refused="weak")
        for name in names[: len(names) // 2]
    )
    yield SegmentsJudged(config="hex8_2p", job="j2", segments=refused, quality={}, lengths=None, bootstrap=False)
    for place in BUCKETS:
        yield CopiesVerified(place=place, artifacts=tuple(names))


def _asked(journal: Journal, names: Sequence[str], chance: random.Random) -> Iterator[Row]:
    def lookup(name: str) -> None:
        with journal.catalogue() as connection:
            assert catalogue.by_name(connection, [name])[name].bytes
            assert len(catalogue.copies_of(connection, [name])[name]) == 3

    def beginning(name: str) -> None:
        with journal.catalogue() as connection:
            assert name in catalogue.beginning_with(connection, name[:12], 2)

    def page(name: str) -> None:
        with journal.catalogue() as connection:
            assert catalogue.page(connection, config="hex8_2p", after=name, limit=50) is not None

    def unread(_: str) -> None:
        with journal.catalogue() as connection:
            assert len(catalogue.unread_longest(connection, "vault", 200)) == 200

    chosen = [chance.choice(names) for _ in range(LOOKUPS)]
    yield _row("lookup of one: what it is, and its copies", _times(lookup, chosen))
    yield _row("lookup by the beginning of a name", _times(beginning, chosen))
    yield _row("a page of 50", _times(page, chosen[:500]))
    yield _row("the 200 unread longest in a place", _times(unread, chosen[:500]))


def _looks(journal: Journal, names: Sequence[str]) -> Iterator[Row]:
    """For what lacks copies."""
    marks = Marks(journal)

    def plain(_: str) -> None:
        with journal.catalogue() as connection:
            for standing, wanted in RULES.wanted.items():
                assert catalogue.short_of(connection, standing, wanted, DOMAINS, 0.0, 500) == []

    def marked(_: str) -> None:
        assert marks.short_of(RULES, 0.0, 500) == []

    def some(_: str) -> None:
        assert len(marks.short_of(RULES, 0.0, 500)) == 100

    yield _row("look without marks, nothing short", _times(plain, names[:1]))
    yield _row("look for the first time: all are marked", _times(marked, names[:1]))
    yield _row("look, nothing short", _times(marked, names[:500]))
    gone = CopiesGone(place="vault", artifacts=tuple(names[:100]), why="deleted")
    journal.append([Batch(entries=[Entry(seq=journal.newest_seq() + 1, at=AT, event=gone)], jobs=())])
    yield _row("look, 100 short", _times(some, names[:200]))


def _plans(journal: Journal) -> Iterator[Row]:
    """Of all files of the controller's own store, with what the index knows of each."""
    began = time.perf_counter()
    files = list(_files(journal))
    yield _row("the files for a plan, from the index (one sample: all)", [Sample(time.perf_counter() - began)])
    places = {name: Place(name=name, domain=domain) for name, domain in DOMAINS.items()}
    times = []
    for need in (None, None, sum(each.bytes for each in files) // 4):
        gc.collect()
        began = time.perf_counter()
        made = plan(files, places, RetentionRules(), AT + 2 * DAY_S, need)
        times.append(Sample(time.perf_counter() - began))
        assert made.deletions
    yield _row(f"plan of retention, {len(files):,} files", times[:2])
    yield _row(f"the same, a quarter of the bytes needed ({len(files):,} files)", times[2:])


def _files(journal: Journal) -> Iterator[Found]:
    known: list[Artifact] = []
    with journal.catalogue() as connection:
        while page := catalogue.page(connection, after=known[-1].sha256 if known else None, limit=20_000):
            known += page
            names = [each.sha256 for each in page]
            copies, worth = catalogue.copies_of(connection, names), catalogue.standings(connection, names)
            for each in page:
                stands = worth[each.sha256]
                yield _found(each, tuple(copies[each.sha256]), stands.standing, stands.exported, stands.games)


def _found(
    artifact: Artifact, copies: tuple[Copy, ...], standing: Standing, exported: bool, games: int | None
) -> Found:
    assert artifact.kind is ArtifactKind.GAMES
    return Found(
        path=f"objects/{artifact.sha256[:2]}/{artifact.sha256}.segment.npz",
        kind=FileKind.ARTIFACT,
        bytes=artifact.bytes,
        used_at=artifact.made_at,
        place=HUB,
        artifact=artifact,
        standing=standing,
        games=games,
        exported=exported,
        copies=copies,
    )


class Sample(NamedTuple):
    """Seconds that something took, and those that it computed: others may have had the processor meanwhile."""

    wall: float
    cpu: float | None = None


def _times(work: Callable[[str], None], names: Sequence[str]) -> list[Sample]:
    samples = []
    for name in names:
        began, cpu = time.perf_counter(), time.thread_time()
        work(name)
        samples.append(Sample(time.perf_counter() - began, time.thread_time() - cpu))
    return samples


def _row(what: str, samples: Sequence[Sample]) -> Row:
    walls = [each.wall for each in samples]
    return {
        "index": what,
        "n": len(samples),
        "p50 ms": 1000 * sorted(walls)[len(walls) // 2],
        "p99 ms": _p99_ms(walls),
        "p99 CPU ms": _p99_ms([each.cpu for each in samples if each.cpu is not None]),
    }


def _p99_ms(seconds: Sequence[float]) -> float | None:
    return 1000 * sorted(seconds)[int(0.99 * len(seconds))] if len(seconds) >= 100 else None
