"""Who survived searches for seeds: waiting for them, and telling of them, with E-values and the next draws."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from hostler.cli.show import Column, duration, percent, plural, quantity, table
from hostler.cli.sieving import control_of
from hostler.model.errors import NotFound, UsageError

if TYPE_CHECKING:
    from hostler.client import Client, View

WORKER = ["{python}", "-m", "hostler.workloads.sieve", "worker"]
LOOK_S = 0.5
TELL_S = 5.0
MOST_SHOWN = 100
SURVIVORS = (Column("SEED", right=True), Column("E-VALUE", right=True), Column("NEXT", yields=True))
PLACE = Column("SKIP,GAP", right=True)
FIT = Column("FIT", right=True)
WHO = (Column("GENERATOR"), Column("CALLS", yields=True))
DONE, FINAL = "done", frozenset({"done", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Control:
    """The search of the same draws in another order: its job, how far it is, and how many survived."""

    job: str
    sweep: View
    hits: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """A search as it stands: its job, its canonical parameters, its sweep, and who survived, the least E-value first.

    `searches` is how many were made together: an E-value counts the wrong seeds that fit in all of them.
    """

    job: str
    generator: str
    calls: str
    params: Mapping[str, Any]
    sweep: View
    hits: Sequence[Mapping[str, Any]]
    done: Sequence[Sequence[int]]
    control: Control | None
    searches: int = 1

    @property
    def items(self) -> int:
        """How many items are searched."""
        return int(self.sweep["total"])

    def e_value(self, hit: Mapping[str, Any]) -> float:
        """How many wrong items would on average fit as well, in all that was searched."""
        return float(hit["chance"]) * self.items * self.searches

    def lines(self) -> Iterator[dict[str, Any]]:
        """Survivors as objects for JSON lines."""
        for hit in self.hits:
            who = {"job": self.job, "generator": self.generator, "calls": self.calls}
            yield {**who, **hit, "e_value": self.e_value(hit)}


def wait(controller: Client, ids: Sequence[str]) -> None:
    """Until all have ended, telling on standard error how far they are.

    Raises :class:`UsageError` naming one that did not end well.
    """
    told, left = time.monotonic(), list(ids)
    try:
        while left:
            job = controller.job(left[0])["job"]
            if job["state"] not in FINAL:
                told = _tell(controller, ids, told)
                time.sleep(LOOK_S)
                continue
            if job["state"] != DONE:
                raise UsageError(
                    f"{job['id']} is {job['state']}; `hostler explain {job['id']}` and `hostler logs {job['id']}` "
                    "say why"
                )
            del left[0]
    except KeyboardInterrupt:
        some = " ".join(ids[:1])
        print(f"{' '.join(ids)}: still searched; `hostler sieve survivors {some}` shows who survives", file=sys.stderr)
        raise


def outcomes(controller: Client, names: Sequence[str]) -> list[Outcome]:
    """How searches stand; raises :class:`UsageError` for a job that is none."""
    once = list(dict.fromkeys(names))
    return [_outcome(controller, name, len(once)) for name in once]


def told(found: Sequence[Outcome]) -> Iterator[str]:
    """Survivors and controls for people."""
    many = len(found) > 1
    rows = sorted(((each, hit) for each in found for hit in each.hits), key=lambda row: row[0].e_value(row[1]))
    yield f"{_head(found)}: {len(rows)} survived" + (":" if rows else "; no seed of the range made these draws")
    if rows:
        shown = rows[:MOST_SHOWN]
        yield from table(_columns(shown, many), [_row(each, hit, shown, many) for each, hit in shown])
        if len(rows) > MOST_SHOWN:
            yield f"and {len(rows) - MOST_SHOWN} more, less sure than these; `hostler sieve survivors --json` has all"
    controls = [each.control for each in found if each.control is not None]
    if controls:
        survived = sum(each.hits for each in controls)
        whose = controls[0].job if len(controls) == 1 else plural(len(controls), "control")
        yield f"{whose}, the same draws shuffled: {survived} survived{_so_far([each.sweep for each in controls])}"
    if many:
        yield f"E-values count all {len(found)} searches"


def progress(sweeps: Sequence[View]) -> str:
    """How far sweeps are, in a line; of one of them also how long it takes."""
    speeds = [each["per_s"] for each in sweeps if each["per_s"] is not None]
    rate = f", {quantity(sum(speeds))} items/s" if speeds else ""
    if len(sweeps) == 1:
        (one,) = sweeps
        left = "" if one["left_s"] is None else f", {duration(one['left_s'])} left"
        return f"{one['job']}: {percent(one['done'], one['total'])}{rate}{left}"
    over = sum(each["state"] in FINAL for each in sweeps)
    return f"{over} of {len(sweeps)} searches done{rate}"


def json_lines(found: Sequence[Outcome]) -> Iterator[str]:
    """Survivors as JSON, one a line."""
    return map(json.dumps, chain.from_iterable(each.lines() for each in found))


def _outcome(controller: Client, name: str, searches: int) -> Outcome:
    from hostler.workloads.sieve import callspec, spec

    detail = controller.job(name)
    payload, job = detail["spec"]["payload"], detail["job"]
    if payload["kind"] != "sweep" or list(payload["worker"]) != WORKER:
        raise UsageError(f"{name} is no search for a seed; `hostler jobs` lists what there is")
    asked, sweep = spec.parse(payload["params"]), detail["sweep"]
    assert sweep is not None  # a sweep has one
    hits = [{"at": hit["at"], **hit["data"]} for hit in controller.hits(job["id"])]
    return Outcome(
        job["id"],
        asked.generator.name,
        callspec.native(asked.generator, asked.calls),
        payload["params"],
        sweep,
        sorted(hits, key=lambda hit: (hit["chance"], hit["at"])),
        controller.ledger(job["id"])["done"],
        _control(controller, job["key"]),
        searches,
    )


def _control(controller: Client, key: str | None) -> Control | None:
    if key is None:
        return None
    try:
        detail = controller.job(control_of(key))
    except NotFound:
        return None
    sweep = detail["sweep"]
    return None if sweep is None else Control(detail["job"]["id"], sweep, sweep["hits"])


def _head(found: Sequence[Outcome]) -> str:
    whose = found[0].job if len(found) == 1 else f"{len(found)} searches"
    return whose + _so_far([each.sweep for each in found])


def _so_far(sweeps: Sequence[View]) -> str:
    done, total = sum(each["done"] for each in sweeps), sum(each["total"] for each in sweeps)
    return "" if done == total else f", {percent(done, total)} searched so far"


def _columns(rows: Sequence[tuple[Outcome, Mapping[str, Any]]], many: bool) -> list[Column]:
    extra = [column for column, key in ((FIT, "fitting"), (PLACE, "skip")) if any(key in hit for _, hit in rows)]
    return [*(WHO if many else ()), *SURVIVORS[:2], *extra, SURVIVORS[2]]


def _row(
    of: Outcome, hit: Mapping[str, Any], rows: Sequence[tuple[Outcome, Mapping[str, Any]]], many: bool
) -> list[object]:
    cells: list[object] = [of.generator, of.calls] if many else []
    cells += [hit["at"], f"{of.e_value(hit):.2g}"]
    if any("fitting" in each for _, each in rows):
        cells.append(f"{hit.get('fitting', hit['draws'])}/{hit['draws']}")
    if any("skip" in each for _, each in rows):
        cells.append(f"{hit.get('skip', 0)},{hit.get('gap', 0)}")
    return [*cells, " ".join(json.dumps(draw) for draw in hit["next"])]


def _tell(controller: Client, ids: Sequence[str], told: float) -> float:
    """Say how far all of them are, if that was not said of late; when it was said last."""
    now = time.monotonic()
    if now - told < TELL_S:
        return told
    mine = [sweep for sweep in controller.sweeps() if sweep["job"] in ids]
    print(progress(mine), file=sys.stderr, flush=True)
    return now
