"""How the fleet is steered: shares, learnt durations, costs, and what is held back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from hostler.cli.common import Json, StateDir, client
from hostler.cli.declarations import Argument
from hostler.cli.show import (
    UNKNOWN,
    Column,
    age,
    clean,
    duration,
    paragraph,
    quantity,
    say,
    say_json,
    share,
    table,
    table_rows,
)

if TYPE_CHECKING:
    from hostler.client import View


HOUR_S = 3600.0
CONFIGS_SHOWN = 12
"""Configs of one quota that are listed, those that are furthest from their target."""
SHARE_COLUMNS = (
    Column("QUOTA, CONFIG", yields=True),
    Column("TARGET", right=True),
    Column("HAD", right=True),
    Column("POINTS", right=True),
    Column("HOURS", right=True),
    Column("NOW", right=True),
)
KIND_COLUMNS = (Column("WORK"), *SHARE_COLUMNS[1:])
DURATION_COLUMNS = (
    Column("WORK"),
    Column("FAMILY", yields=True),
    Column("MODEL", yields=True),
    Column("P50", right=True),
    Column("P90", right=True),
    Column("JOBS", right=True),
    Column("BASIS"),
)
ACCURACY_COLUMNS = (
    Column("WORK"),
    Column("OFF BY", right=True),
    Column("WITHIN 2", right=True),
    Column("JOBS", right=True),
)
COST_COLUMNS = (
    Column("WORK"),
    Column("FOR", yields=True),
    Column("HOURS", right=True),
    Column("COST", right=True),
    Column("UNPRICED", right=True),
    Column("EACH", yields=True),
)
BAN_COLUMNS = (
    Column("KIND"),
    Column("WHAT", yields=True),
    Column("OF", yields=True),
    Column("FOR", right=True),
    Column("LEFT", right=True),
    Column("BY"),
)


def shares(as_json: Json = False, state_dir: StateDir = None) -> None:
    """Show shares of device time: target against achieved, by tier, quota and config, and by kind of work.

    HOURS are device-hours; older ones count less, those of three days ago half. POINTS is how much of the time was had
    too much (+) or too little (-), NOW the devices held.

    Example:
      hostler account shares
    """
    told = client(state_dir).quotas()
    if as_json:
        say_json(told)
        return
    say(_quota_lines(told))


def durations(
    family: Annotated[
        str | None, Argument(metavar="[PART]", help="Only families, kinds or models with this in their name.")
    ] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Show what was learnt of how long jobs take, and how good predictions by it were.

    One in two jobs of a family takes less than P50, nine in ten less than P90. BASIS tells whether that was measured on
    the model, scaled from others, or blended of both.

    Example:
      hostler account durations
      hostler account durations hex8
    """
    told = client(state_dir).durations()
    if family is not None:
        told = {**told, "rows": [row for row in told["rows"] if family in _names(row)]}
    if as_json:
        say_json(told)
        return
    say(_history_lines(told))


def costs(as_json: Json = False, state_dir: StateDir = None) -> None:
    """Show device time and money used up, by kind of work, and by config or sweep with the price of what was made.

    In the currency of the fleet file. UNPRICED is the part of the time whose price is not known; where there is some,
    what one game or sample costs is not known either. What runs now counts when it is over.

    Example:
      hostler account costs --json | jq '.rows[] | {work, of, cost}'
    """
    told = client(state_dir).costs()
    if as_json:
        say_json(told)
        return
    say(_cost_lines(told))


def list_holds(as_json: Json = False, state_dir: StateDir = None) -> None:
    """List everything that is held back or put first for a while: by whom, why, until when.

    Quarantines, devices that have not proved themselves, devices that jobs keep away from or are barred from, stages
    that rest, pressures that hold work back, devices kept for a job, configs that go first because they starve.

    Example:
      hostler hold list
    """
    told = client(state_dir).bans()
    if as_json:
        say_json(told)
        return
    say(_ban_lines(told, time.time()) if told else ["nothing is held back"])


def _quota_lines(told: View) -> Iterator[str]:
    for tier in told["tiers"]:
        off = "" if tier["error_points"] is None else f", {tier['error_points']:.1f} points off"
        name = "CPU slots" if tier["tier"] == "cpu" else f"tier {tier['tier']}"
        yield f"{name}: devices {tier['devices']}, device-hours {_hours(tier['device_s'])}{off}"
        yield from table(SHARE_COLUMNS, _share_rows(tier))
        yield ""
    yield from table(KIND_COLUMNS, [_share_row(kind["work"], kind) for kind in told["kinds"]])
    yield ""
    if not told["tiers"]:
        yield "no training configs; a fleet file asks for them under `configs:`"
    yield from _feasibility(told)


def _feasibility(told: View) -> Iterator[str]:
    """Whether the quotas can be met."""
    for problem in told["contradictions"]:
        yield from paragraph(f"contradiction: {problem}", rest="  ")
    plan = told["plan"]
    if plan is None:
        yield "whether the quotas can be met is not known: nothing has been planned yet"
        return
    for conflict in plan["conflicts"]:
        yield from paragraph(f"cannot be met: {conflict}", rest="  ")
    if plan["status"] != "optimal":
        yield f"whether the quotas can be met is not known: {clean(plan['status'])} (extra `opt`)"
    elif not plan["conflicts"]:
        yield "the quotas can be met, as last planned"


def _share_rows(tier: View) -> Iterator[Sequence[object]]:
    """Each quota, with its configs below it where it has several."""
    rows = {row["name"]: row for row in tier["configs"]}
    for pattern in tier["patterns"]:
        alone = len(tier["patterns"]) == 1 and pattern["pattern"] is None
        if not alone:
            yield _share_row(pattern["name"], pattern)
        mine = [rows[name] for name in pattern["configs"] if name in rows]
        if [row["name"] for row in mine] == [pattern["name"]]:
            continue
        furthest = sorted(mine, key=lambda row: -abs((row["had"] or 0.0) - row["target"]))[:CONFIGS_SHOWN]
        yield from (_share_row(row["name"] if alone else f"  {row['name']}", row) for row in furthest)
        if len(mine) > CONFIGS_SHOWN:
            yield f"  and {len(mine) - CONFIGS_SHOWN} more", "", "", "", "", ""


def _share_row(name: str, row: View) -> Sequence[object]:
    target, had = row["target"], row["had"]
    points = UNKNOWN if target is None or had is None else f"{100 * (had - target):+.1f}"
    return (
        name,
        "-" if target is None else share(target),
        share(had),
        "-" if target is None else points,
        _hours(row["device_s"]),
        quantity(row["holds"]),
    )


def _names(row: View) -> str:
    return f"{row['work']} {row['family']} {row['model'] or ''}"


def _history_lines(told: View) -> Iterator[str]:
    rows = [row for row in told["rows"] if row["model"] is not None]
    yield from table(DURATION_COLUMNS, map(_duration_row, rows)) if rows else ["nothing has been learnt yet"]
    yield ""
    if not told["accuracy"]:
        yield "how good predictions are is not known yet: none has been put to the test"
        return
    yield "how good predictions were, of late:"
    yield from table(ACCURACY_COLUMNS, map(_accuracy_row, told["accuracy"]))


def _duration_row(row: View) -> Sequence[object]:
    p50, p90 = _seconds(row["p50_s"]), _seconds(row["p90_s"])
    return row["work"], row["family"], row["model"], p50, p90, quantity(row["samples"]), row["source"]


def _accuracy_row(row: View) -> Sequence[object]:
    return row["work"], f"x {row['factor']:.2f}", share(row["within_2"]), quantity(row["samples"])


def _cost_lines(told: View) -> Iterator[str]:
    yield (
        f"in all: device-hours {_hours(told['device_s'])}, cost {quantity(told['cost'])}, "
        f"unpriced {share(told['unpriced'])}"
    )
    if told["unpriced"]:
        yield from paragraph("Unpriced time has no price: set `price_per_h` of the nodes in the fleet file.")
    if not told["rows"]:
        return
    yield ""
    yield from table(COST_COLUMNS[:1] + COST_COLUMNS[2:5], map(_kind_row, told["kinds"]))
    yield ""
    yield from table(COST_COLUMNS, map(_cost_row, told["rows"]))


def _kind_row(row: View) -> Sequence[object]:
    return row["work"], _hours(row["device_s"]), quantity(row["cost"]), share(row["unpriced"])


def _cost_row(row: View) -> Sequence[object]:
    whom = "-" if row["of"] is None else row["of"] + (f" {row['name']}" if row["name"] else "")
    each = ", ".join(
        f"{quantity(unit['cost'])} a {unit['unit']} ({_seconds(unit['device_s'])})"
        for unit in row["units"]
        if unit["count"]
    )
    return row["work"], whom, _hours(row["device_s"]), quantity(row["cost"]), share(row["unpriced"]), each or UNKNOWN


def _ban_lines(told: Sequence[View], now: float) -> Iterator[str]:
    """Each ban with its reason below it."""
    titles, *lines = table_rows(BAN_COLUMNS, [_ban_row(each, now) for each in told])
    yield from titles
    for own, each in zip(lines, told, strict=True):
        yield from own
        yield from paragraph(each["why"], "  ", "  ")


def _ban_row(row: View, now: float) -> Sequence[object]:
    since = UNKNOWN if row["since"] is None else age(row["since"], now)
    left = "-" if row["until"] is None else duration(max(row["until"] - now, 0.0))
    return row["kind"], row["what"], row["of"] or "all", since, left, row["owner"]


def _hours(seconds: float) -> str:
    hours = seconds / HOUR_S
    return f"{hours:.2f}" if hours < 100 else quantity(hours)


def _seconds(seconds: float | None) -> str:
    """A length of time; short ones with two figures."""
    if seconds is None or seconds >= 10:
        return duration(seconds)
    return f"{seconds:.2g}s"
