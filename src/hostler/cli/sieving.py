"""Searches for seeds from the command line: what they will be worth, the sweep and its control, who survived."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostler.cli.common import client
from hostler.cli.show import Column, duration, paragraph, say, say_json, table
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.client import Client

MOST_CPU_S = 10 * 365 * 86400.0
"""What a search of a range that nobody named may take: ten years of one core."""
PATIENCE_S = 120.0
LOOK_S = 0.5
SURVIVORS = (Column("SEED", right=True), Column("E-VALUE", right=True), Column("NEXT", yields=True))

Params = dict[str, Any]


def question(data: Path, generator: str | None, calls: str | None, how: Mapping[str, Any], base_dir: Path) -> Params:
    """Canonical parameters of the search that is asked for; raises :class:`UsageError`."""
    from hostler.workloads.sieve import spec
    from hostler.workloads.sieve.errors import SpecError

    said = {"generator": generator, "calls": calls}
    given = {"data": str(data), **how, **{name: value for name, value in said.items() if value is not None}}
    try:
        return spec.prepare(given, base_dir)
    except SpecError as error:
        raise UsageError(str(error)) from error


def all_items(params: Params) -> tuple[int, int]:
    """All items, half-open."""
    from hostler.workloads.sieve import spec

    return spec.item_range(params)


def key_of(name: str, params: Params, bounds: tuple[int, int]) -> str:
    """The key of a search: the same question of the same range is the same job, and goes on where it was."""
    from hostler.workloads.sieve import spec

    return f"{name}-{spec.digest(params)[:12]}-{bounds[0]}-{bounds[1]}"


def part_of(bounds: tuple[int, int], words: str) -> tuple[int, int]:
    """The I-th of N parts of a range, from `I/N`; together the parts are the range, and none overlap."""
    first, slash, last = words.partition("/")
    if not (slash and first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise UsageError(f"--share {words!r} is no part; write I/N, such as 1/3, with I from 1 to N")
    start, size, parts = bounds[0], bounds[1] - bounds[0], int(last)
    found = start + size * (int(first) - 1) // parts, start + size * int(first) // parts
    if found[0] == found[1]:
        raise UsageError(f"--share {words!r}: a range of {size} items has no {parts} parts")
    return found


def with_control(asked: Params) -> list[Params]:
    """The sweep, and the same one over its draws in another order."""
    from hostler.workloads.sieve.prospect import shuffled

    names = {name: f"{asked[name]}-control" for name in ("name", "key")}
    return [asked, {**asked, **names, "params": shuffled(asked["params"])}]


def run(
    params: Params,
    items: int,
    specs: Sequence[Any],
    *,
    named: bool,
    wait: bool,
    as_json: bool,
    state_dir: Path | None,
) -> None:
    """Say what a search of so many items will be worth, submit it, and with ``wait`` print who survived.

    Raises :class:`UsageError` where it would take years and nobody ``named`` the range.
    """
    told = list(_told(params, items, named))
    for line in told if not as_json else ():
        say(paragraph(line, rest="  "))
    controller = client(state_dir)
    ids = controller.submit(specs)
    if not wait:
        say_json({"ids": list(ids), "plan": told}) if as_json else print("\n".join(ids))
        return
    _await(controller, ids)
    found = [list(controller.hits(each)) for each in ids]
    if as_json:
        for hit in found[0]:
            print(json.dumps({"job": ids[0], "at": hit["at"], **hit["data"], "e_value": _e_value(hit, items)}))
        return
    say(_survived(ids, found, items))


def _told(params: Params, items: int, named: bool) -> Iterator[str]:
    from hostler.workloads.sieve import spec
    from hostler.workloads.sieve.prospect import prospect, told

    search = spec.parse(params)
    yield from told(search, prospect(search, items))
    plan = _plan(params, items)
    if plan is None:
        yield "method: chosen where it runs; `pip install hostler[kernels]` here to be told"
        return
    if plan["cpu_s"] > MOST_CPU_S and not named:
        raise UsageError(
            f"this would take {plan['cpu_s'] / 3.15e7:.2g} years of one core; say with --range what to search"
        )
    seconds = f"{plan['cpu_s']:.2g} s" if plan["cpu_s"] < 60 else duration(plan["cpu_s"])
    yield f"method: {plan['method']}: {plan['why']}; about {seconds} of one core"


def _plan(params: Params, items: int) -> dict[str, Any] | None:
    """What the methods say, asked in a process of its own: they need numba, which this program never loads.

    ``None`` where they are not installed; raises :class:`UsageError` with whatever else went wrong.
    """
    command = [sys.executable, "-m", "hostler.workloads.sieve", "plan", "--items", str(items)]
    try:
        done = subprocess.run(
            command, input=json.dumps(params), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"no plan within {PATIENCE_S:.0f} s; give fewer draws") from None
    if done.returncode and "ModuleNotFoundError" in done.stderr:
        return None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise UsageError(f"this search cannot be planned: {last.removeprefix('sieve: ')}")
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def _await(controller: Client, ids: Sequence[str]) -> None:
    """Until all have ended; raises :class:`UsageError` naming one that did not end well."""
    from hostler.model.work import JobState

    final = {state.value for state in JobState if state.final}
    try:
        for each in ids:
            while (job := controller.job(each)["job"])["state"] not in final:
                time.sleep(LOOK_S)
            if job["state"] != JobState.DONE.value:
                raise UsageError(
                    f"{each} is {job['state']}; `hostler explain {each}` and `hostler logs {each}` say why"
                )
    except KeyboardInterrupt:
        print(f"{' '.join(ids)}: still searched; `hostler hits {ids[0]}` shows who survives", file=sys.stderr)
        raise


def _survived(ids: Sequence[str], found: Sequence[Sequence[Any]], items: int) -> Iterator[str]:
    hits = sorted(found[0], key=lambda hit: (_e_value(hit, items), hit["at"]))
    yield f"{ids[0]}: {len(hits)} survived" + (":" if hits else "; no seed of the range made these draws")
    if hits:
        yield from table(SURVIVORS, [(hit["at"], f"{_e_value(hit, items):.2g}", _next(hit)) for hit in hits])
    if len(found) > 1:
        yield f"{ids[1]}, the same draws shuffled: {len(found[1])} survived"


def _e_value(hit: Mapping[str, Any], items: int) -> float:
    return float(hit["data"]["chance"]) * items


def _next(hit: Mapping[str, Any]) -> str:
    return " ".join(json.dumps(draw) for draw in hit["data"]["next"])
