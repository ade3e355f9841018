"""Sweeps: the ledger as a bar with its holes, how fast each device is, what is left, and whether hits mean anything."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hostler.model.events import ChunkDone, ChunkLeased, ChunkShortened, Entry
from hostler.model.views import ChunkView, LedgerView, SweepView
from hostler.web.desk import Desk
from hostler.web.pages.events import entries
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.strip import strip

COLUMNS = 500
HITS_SHOWN = 50
POISSON_TERMS = 100_000
LOOKED_AT = 600
"""Newest entries of the journal in which it is looked how well the durations of chunks were expected."""
LEAST_CHUNKS, OUTER = 5, 0.1


class Run(NamedTuple):
    """Neighbouring columns of the bar that look alike: from which on, how many, and what is in them.

    `hole` is a column of which a part has neither been searched nor given out, between others that have.
    """

    x: int
    width: int
    look: str


async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """The ledger, its devices and its hits."""
    ledger = (await desk.having(subject.name or "")).ledger()
    seq = desk.status().seq
    recent = await entries(desk, max(seq - LOOKED_AT, 0), seq) if ledger.leased else []
    hits = await desk.hits(ledger.sweep.job, max(ledger.sweep.hits - HITS_SHOWN, 0), HITS_SHOWN)
    return [
        strip(desk.status()),
        Part(
            "numbers",
            "parts/sweep_numbers.html",
            _numbers(ledger.sweep, misses(recent, ledger.sweep.job)),
            kind="numbers",
        ),
        Part("ledger", "parts/ledger.html", _ledger(ledger)),
        Part("devices", "parts/sweep_devices.html", {"rows": speeds(ledger.leased, desk.status().at)}),
        Part("hits", "parts/hits.html", {"hits": list(hits)[::-1], "of": ledger.sweep.hits, "job": ledger.sweep.job}),
    ]


async def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """Which sweep it is."""
    view = (await desk.having(subject.name or "")).ledger().sweep
    return {"title": f"Sweep {view.name}", "job": view.job, "name": view.name}


async def list_parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """All sweeps, those at work first; batches of function calls have a list of their own."""
    every = desk.sweeps()
    calls = sum(each.calls for each in every)
    found = (each for each in every if not each.calls)
    sweeps = sorted(found, key=lambda each: (each.state.final, -int(each.job.removeprefix("j"))))
    rows = [_rounded(each) for each in sweeps]
    return [strip(desk.status()), Part("sweeps", "parts/sweeps.html", {"rows": rows, "calls": calls})]


def list_frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """Nothing that could be chosen."""
    return {"title": "Sweeps"}


SWEEP = Page("sweep", "sweep.html", parts, frame)
SWEEPS = Page("sweeps", "sweeps.html", list_parts, list_frame)


def bar(ledger: LedgerView, columns: int = COLUMNS) -> Sequence[Run]:
    """The range in columns: `done` only if all of one is, `out` if the rest is with devices, else `hole` or `free`."""
    start, total = ledger.sweep.start, ledger.sweep.total
    done = _cover(ledger.done, start, total, columns)
    out = _cover([(each.start, each.stop) for each in ledger.leased], start, total, columns)
    looks = [_look(*each) for each in zip(done, out, _sizes(total, columns), strict=True)]
    touched = [index for index, look in enumerate(looks) if look != "free"]
    if touched:
        last = touched[-1]
        looks = ["hole" if look == "free" and index < last else look for index, look in enumerate(looks)]
    return _runs(looks)


def as_many_or_more(hits: int, expected: float) -> float | None:
    """Probability that chance alone gives as many hits or more, where it gives `expected` on average (Poisson).

    `None` where that is too much to add up.
    """
    if hits <= 0:
        return 1.0
    if expected <= 0:
        return 0.0
    if hits > POISSON_TERMS:
        return None
    logs = [k * math.log(expected) - expected - math.lgamma(k + 1) for k in range(hits)]
    return min(max(1.0 - math.fsum(math.exp(each) for each in logs), 0.0), 1.0)


def speeds(chunks: Iterable[ChunkView], now: float) -> Sequence[Mapping[str, Any]]:
    """Devices with what they have: their learnt speed, and that of the chunk they are at so far."""
    held: defaultdict[str, list[ChunkView]] = defaultdict(list)
    for chunk in chunks:
        held[chunk.device].append(chunk)
    return [_speed(device, held[device], now) for device in sorted(held)]


def _numbers(view: SweepView, missed: Sequence[float]) -> Mapping[str, Any]:
    chance = None if view.expected_by_chance is None else view.expected_by_chance * (view.done / view.total)
    odds = None if chance is None else as_many_or_more(view.hits, chance)
    sweep = _rounded(view)
    return {
        "sweep": sweep,
        "interval": interval(sweep["left_s"], missed),
        "chunks": len(missed),
        "by_chance": None if chance is None else float(f"{chance:.3g}"),
        "odds": None if odds is None else float(f"{odds:.2g}"),
    }


def misses(recent: Sequence[Entry], job: str) -> Sequence[float]:
    """Of chunks of a sweep that were done of late: how long they took, against what was expected of them."""
    expected: dict[str, float] = {}
    found: list[float] = []
    for event in (entry.event for entry in recent):
        if isinstance(event, ChunkLeased) and event.job == job and event.expected_s:
            expected[event.chunk] = event.expected_s
        elif isinstance(event, ChunkShortened):
            expected.pop(event.chunk, None)
        elif isinstance(event, ChunkDone) and event.chunk in expected:
            found.append(event.elapsed_s / expected.pop(event.chunk))
    return found


def interval(left_s: float | None, missed: Sequence[float]) -> tuple[float, float] | None:
    """Between what the rest may take, if it goes as chunks went of late: eight in ten of them lay in between.

    `None` where too few are known.
    """
    if left_s is None or len(missed) < LEAST_CHUNKS:
        return None
    ranked = sorted(missed)
    outer = int(len(ranked) * OUTER)
    return (float(f"{left_s * ranked[outer]:.2g}"), float(f"{left_s * ranked[-1 - outer]:.2g}"))


def _rounded(view: SweepView) -> dict[str, Any]:
    return {
        "job": view.job,
        "name": view.name,
        "state": str(view.state),
        "start": view.start,
        "stop": view.stop,
        "total": view.total,
        "share": round(view.done / view.total, 4) if view.done < view.total else 1.0,
        "done": view.done,
        "leased": view.leased,
        "free": view.free,
        "chunks_done": view.chunks_done,
        "chunks_out": view.chunks_out,
        "hits": view.hits,
        "expected_by_chance": view.expected_by_chance,
        "per_s": None if view.per_s is None else float(f"{view.per_s:.3g}"),
        "left_s": None if view.left_s is None else float(f"{view.left_s:.2g}"),
        "device_s": float(f"{view.device_s:.3g}"),
        "digest": view.digest,
    }


def _ledger(ledger: LedgerView) -> Mapping[str, Any]:
    view = ledger.sweep
    holes = [each for each in ledger.free if ledger.done and each[0] < ledger.done[-1][1]]
    return {
        "runs": bar(ledger),
        "columns": COLUMNS,
        "start": view.start,
        "stop": view.stop,
        "share": round(view.done / view.total, 4) if view.done < view.total else 1.0,
        "intervals": len(ledger.done),
        "holes": len(holes),
        "in_holes": sum(stop - start for start, stop in holes),
        "job": view.job,
    }


def _cover(parts: Iterable[tuple[int, int]], start: int, total: int, columns: int) -> list[int]:
    """Items of each column that these disjoint intervals cover; exact, however large the range is."""
    covered = [0] * columns
    for low, high in parts:
        first, last = (low - start) * columns // total, (high - 1 - start) * columns // total
        for column in range(first, last + 1):
            edges = _edge(column, total, columns), _edge(column + 1, total, columns)
            covered[column] += max(min(high - start, edges[1]) - max(low - start, edges[0]), 0)
    return covered


def _edge(column: int, total: int, columns: int) -> int:
    """The first item of a column: the smallest that `item · columns // total` maps there."""
    return -(-column * total // columns)


def _sizes(total: int, columns: int) -> list[int]:
    return [_edge(column + 1, total, columns) - _edge(column, total, columns) for column in range(columns)]


def _look(done: int, out: int, size: int) -> str:
    if done >= size:
        return "done"
    if done + out >= size:
        return "out"
    return "part" if done or out else "free"


def _runs(looks: Sequence[str]) -> Sequence[Run]:
    runs: list[Run] = []
    for x, look in enumerate(looks):
        if runs and runs[-1].look == look:
            runs[-1] = runs[-1]._replace(width=runs[-1].width + 1)
        else:
            runs.append(Run(x, 1, look))
    return runs


def _speed(device: str, chunks: Sequence[ChunkView], now: float) -> Mapping[str, Any]:
    first = min(chunks, key=lambda each: (each.leased_at, int(each.chunk.rpartition(".")[2])))
    size = first.stop - first.start
    known = None if first.position is None else first.position - first.start
    return {
        "device": device,
        "chunk": first.chunk,
        "chunks": len(chunks),
        "since": first.leased_at,
        "expected": None if not first.expected_s else float(f"{size / first.expected_s:.3g}"),
        "expected_s": first.expected_s,
        "share": None if known is None else round(known / size, 2),
        "so_far": None if known is None or now <= first.leased_at else float(f"{known / (now - first.leased_at):.2g}"),
    }
