"""What searches for seeds will be worth, by which method and for how long: before they are made."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hostler.cli.show import Column, duration, plural, quantity, table
from hostler.cli.sieving import LeftOut, Search
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.client import Client
    from hostler.workloads.sieve.prospect import Prospect

YEAR_S = 365 * 86400.0
MOST_CPU_S = 10 * YEAR_S
"""What a search of a range that nobody named may take: ten years of one core."""
MOST_BY_CHANCE = 200.0
"""Of a search among many: so many survivors by chance at most."""
START_S = 2.0
"""CPU-seconds that a worker takes to be ready, its kernels being compiled already."""
PATIENCE_S = 300.0
PLANS = (
    Column("GENERATOR"),
    Column("CALLS", yields=True),
    Column("METHOD"),
    Column("BY CHANCE", right=True),
    Column("ONE CORE", right=True),
)
LEFT_OUT = (Column("LEFT OUT"), Column("CALLS", yields=True), Column("SINCE", yields=True))


@dataclass(frozen=True, slots=True)
class Planned:
    """A search with what it is expected to give, and what the planner of the methods said of it.

    `plan` is `None` where the methods are not installed here; it has `refused` where no method searches for this.
    """

    search: Search
    worth: Prospect
    plan: Mapping[str, Any] | None

    @property
    def cpu_s(self) -> float | None:
        """CPU-seconds of one core; `None` where that is not known."""
        return None if self.plan is None else self.plan.get("cpu_s")

    @property
    def refused(self) -> str | None:
        """Why no method searches for this; `None`: one does, or nobody knows here."""
        return None if self.plan is None else self.plan.get("refused")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "generator": self.search.generator,
            "calls": self.search.calls,
            "range": list(self.search.bounds),
            "expected_by_chance": self.worth.expected,
            "draws": self.worth.known,
            "draws_needed": self.worth.needed,
            **(self.plan or {}),
        }


def planned(searches: Sequence[Search]) -> list[Planned]:
    """All searches with their prospects, in their order."""
    from hostler.workloads.sieve import spec
    from hostler.workloads.sieve.prospect import prospect

    plans = _plans(searches)
    worths = (prospect(spec.parse(each.params), each.items) for each in searches)
    return [Planned(*each) for each in zip(searches, worths, plans, strict=True)]


def check(one: Planned, *, named: bool) -> None:
    """Raise :class:`UsageError` where no method searches, or it would take years and nobody `named` the range."""
    if one.refused is not None:
        raise UsageError(f"this search cannot be planned: {one.refused}")
    if not named and (one.cpu_s or 0.0) > MOST_CPU_S:
        raise UsageError(
            f"this would take {(one.cpu_s or 0.0) / YEAR_S:.2g} years of one core; say with --range what to search"
        )


def sorted_out(found: Iterable[Planned], budget_s: float) -> tuple[list[Planned], list[LeftOut]]:
    """Of many searches those that are worth their time and take at most `budget_s` of one core; and the others."""
    kept, left = [], []
    for each in found:
        why = _not_worth(each, budget_s)
        if why is None:
            kept.append(each)
        else:
            left.append(LeftOut(each.search.generator, each.search.calls, why))
    return kept, left


def told(one: Planned) -> Iterator[str]:
    """One search in words, for people."""
    from hostler.workloads.sieve import spec
    from hostler.workloads.sieve.prospect import told as told_of

    yield from told_of(spec.parse(one.search.params), one.worth)
    if one.plan is None:
        yield "method: chosen where it runs; `pip install hostler[kernels]` here to be told"
    else:
        yield f"method: {one.plan['method']}: {one.plan['why']}; about {_seconds(one.plan['cpu_s'])} of one core"


def told_of_many(kept: Sequence[Planned], left: Sequence[LeftOut]) -> Iterator[str]:
    """Many searches as a table, and what is left out."""
    rows = [
        (each.search.generator, each.search.calls, _method(each), f"{each.worth.expected:.2g}", duration(each.cpu_s))
        for each in kept
    ]
    yield from table(PLANS, rows)
    doubtful = sum(not each.worth.settles for each in kept)
    if doubtful:
        yield f"WARNING: survivors of {doubtful} of these will mean little: BY CHANCE is 0.01 or more"
    if left:
        yield ""
        yield from table(LEFT_OUT, [(each.generator, each.calls, each.why) for each in left])


def eta(controller: Client, found: Iterable[Planned], times: int) -> str:
    """How long the fleet takes, by its CPU devices that are there; `times` 2 where each is searched twice."""
    costs = [each.cpu_s for each in found]
    if any(cost is None for cost in costs):
        return "ETA: shown by `hostler status` once the first chunks are measured"
    total = times * sum(START_S + (cost or 0.0) for cost in costs)
    devices = sum(
        device["kind"] == "cpu"
        for node in controller.nodes()
        if node["link"] == "up" and node["cordon"] is None
        for device in node["devices"]
    )
    with_control = ", control included" if times > 1 else ""
    if not devices:
        return f"ETA: {_seconds(total)} of one core in all{with_control}; no CPU device is there now, GPUs are measured"
    # One search is worked on by all devices; its start is the same on each of them.
    seconds = max(total / devices, START_S)
    return f"ETA: about {_seconds(seconds)} on {plural(devices, 'free CPU device')}{with_control}"


def _plans(searches: Sequence[Search]) -> list[Mapping[str, Any] | None]:
    """What the methods say, asked in a process of its own: they need numba, which this program never loads.

    `None` where they are not installed; raises :class:`UsageError` with whatever else went wrong.
    """
    asked = "".join(json.dumps({"params": each.params, "items": each.items}) + "\n" for each in searches)
    command = [sys.executable, "-m", "hostler.workloads.sieve", "plan"]
    try:
        done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise UsageError(f"no plan within {PATIENCE_S:.0f} s; give fewer draws") from None
    if done.returncode and "ModuleNotFoundError" in done.stderr:
        return [None] * len(searches)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise UsageError(f"this search cannot be planned: {last.removeprefix('sieve: ')}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _not_worth(one: Planned, budget_s: float) -> str | None:
    if one.refused is not None:
        return one.refused
    if one.worth.expected > MOST_BY_CHANCE:
        needed = one.worth.needed
        enough = "no number of draws would do" if needed is None else f"{needed} known draws would do"
        return f"{quantity(one.worth.expected)} by chance: {enough}"
    if (one.cpu_s or 0.0) > budget_s:
        return f"{_seconds(one.cpu_s or 0.0)} of one core"
    return None


def _method(one: Planned) -> str:
    return "?" if one.plan is None else str(one.plan["method"])


def _seconds(seconds: float) -> str:
    if seconds > YEAR_S:
        return f"{seconds / YEAR_S:.2g} years"
    return f"{seconds:.2g} s" if seconds < 60 else duration(seconds)
