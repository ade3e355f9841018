"""`hostler status --watch`: the fleet, its queue, its speed and what is wrong with it, as lines for one screen."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hostler.cli.entries import entry_line
from hostler.cli.fleet import draining_text
from hostler.cli.show import (
    Column,
    age,
    clean,
    clock,
    duration,
    kind_of,
    percent,
    plural,
    quantity,
    screen_rows,
    shortened,
    table_rows,
)
from hostler.cli.watching.follow import Sight
from hostler.cli.watching.layout import NARROWEST, Line, Section, arranged
from hostler.cli.watching.spark import Seen, sparkline

if TYPE_CHECKING:
    from hostler.client import Client, View

UNKNOWN = "–"
HOUR_S = 3600.0
INDENT = 9
CLOCK = 10
HEAD_MOST = 8
"""Lines of the head, where the controller is lost."""
FOLDED = 3
STALE_S = 20.0
"""An answer that old is said to be so, though nothing has failed."""
SPARKS = 24
FINAL = ("done", "failed", "cancelled")
HELD = ("leased", "launching", "running", "collecting")
BAD, ODD, DIM, HEAD = "red", "yellow", "dim", "bold"
NODE_COLUMNS = (
    Column("NODE", yields=True),
    Column("LINK"),
    Column("FOR", right=True),
    Column("BUSY", right=True),
    Column("UTIL", right=True),
    Column("READ", right=True),
    Column("PRESSURE, CORDON, TROUBLE", yields=True),
)
SWEEP_COLUMNS = (
    Column("SWEEP"),
    Column("DONE", right=True),
    Column("PER S", right=True),
    Column("LEFT", right=True),
    Column("HITS", right=True),
    Column("NAME", yields=True),
)
LOOP_COLUMNS = (
    Column("LOOP", yields=True),
    Column("GEN", right=True),
    Column("ELO", right=True),
    Column("GAMES/H", right=True),
    Column("NEXT", yields=True),
)


class Fleet(NamedTuple):
    """Everything that is shown, fetched at one time."""

    status: View
    nodes: Sequence[View]
    first: View | None
    """The job that goes next, as a row of the queue; `None`: nothing waits."""
    start: View | None
    """When that is expected to start."""
    configs: Sequence[View]
    alerts: Sequence[View]
    """Those that fire."""
    bans: Sequence[View]
    pace: View
    """How fast it went of late, as the controller counts."""


class Speeds:
    """What was seen of the fleet's speed since the watching began: the controller keeps no such series."""

    def __init__(self) -> None:
        self.jobs, self.games = Seen(counts=True), Seen(counts=True)
        self.items = Seen(counts=False)

    def add(self, at: float, seen: Fleet) -> None:
        """Take a look into account; once, however often it is shown."""
        self.jobs.add(at, float(sum(seen.status["jobs"].get(state, 0) for state in FINAL)))
        self.games.add(at, float(sum(config["games"] for config in seen.configs)))
        self.items.add(at, sum(sweep["per_s"] or 0.0 for sweep in seen.status["sweeps"]))


def look(asked: Client) -> Fleet:
    """Everything that is shown, from a controller."""
    status = asked.status()
    rows = asked.queue(1) if status["jobs"].get("pending") or status["sweeps"] else []
    alerts, queue = asked.alerts(["firing"]), asked.queue_status()
    return Fleet(
        status=status,
        nodes=asked.nodes(),
        first=rows[0] if rows else None,
        start=asked.explain(rows[0]["job"])["start"] if rows else None,
        configs=asked.configs(),
        alerts=alerts,
        bans=asked.bans(),
        pace=queue["pace"],
    )


def draw(
    speeds: Speeds, sight: Sight[Fleet], entries: Sequence[View], now: float, width: int, height: int | None
) -> Sequence[Line]:
    """The whole screen."""
    seen = sight.seen
    speeds.add(sight.at, seen)
    room = max(width, NARROWEST)
    at = now if sight.lost is None else sight.at
    sections = [
        Section(0, HEAD_MOST, [*_head(sight, now, room)]),
        _alarms(seen, now, room),
        _nodes(seen, at, room),
        Section(2, 2, [*_queue(seen, at, room)]),
        Section(4, 4, [*_throughput(seen, speeds, now, room)]),
        _sweeps(seen, room, live=height is not None),
        _loops(seen, room, live=height is not None),
        Section(7, 1, [Line(entry_line(each, room), DIM) for each in reversed(entries)], more=UNKNOWN),
    ]
    return arranged(sections, width, height)


def remarks(node: View) -> str:
    """What keeps a node from work, or may soon."""
    parts = [node["trouble"] or ""] if node["link"] != "up" else []
    cordon = node["cordon"]
    if cordon is not None:
        who = "" if cordon["who"] is None else f" by {cordon['who']}"
        why = "" if cordon["why"] is None else f": {cordon['why']}"
        parts.append(f"{cordon['state']}{who}{why}")
    parts += [_pressure(each) for each in node["pressures"]]
    spared = [device["id"] for device in node["devices"] if device["cordon"] is not None]
    if spared:
        parts.append(f"{plural(len(spared), 'device')} cordoned")
    used = [device["id"] for device in node["devices"] if device["foreign_use"] is not None]
    if used:
        parts.append(f"{plural(len(used), 'device')} used by others")
    banned = [device for device in node["devices"] if device["quarantine"] or device["canary"]]
    if banned:
        parts.append(f"{plural(len(banned), 'device')} kept out")
    return "; ".join(part for part in parts if part)


def known(value: float | None, form: str, unit: str = "") -> str:
    """A number as it is shown, or that it is not known."""
    return UNKNOWN if value is None else f"{value:{form}}{unit}"


def how_long(seconds: float | None) -> str:
    """A length of time, or that it is not known."""
    return UNKNOWN if seconds is None else duration(seconds)


def told_head(sight: Sight[Any], now: float, width: int) -> Iterator[Line]:
    """Since when nothing is known, if so."""
    if sight.lost is not None:
        since, why = sight.lost
        yield from folded(f"since {_time(since)} ({duration(now - since)}): {why}", "LOST", f"{BAD} bold", width)
        yield Line(f"what follows was so at {_time(sight.at)}; it goes on by itself", BAD)
    elif now - sight.at > STALE_S:
        yield Line(f"no answer for {duration(now - sight.at)}; what follows was so at {_time(sight.at)}", ODD)


def _head(sight: Sight[Fleet], now: float, width: int) -> Iterator[Line]:
    status, jobs = sight.seen.status, sight.seen.status["jobs"]
    title = f"{clean(status['fleet'])}: hostler {clean(status['version'])}, entry {status['seq']}"
    yield Line(f"{shortened(title, width - CLOCK):<{width - CLOCK}}{_time(now):>{CLOCK}}", HEAD)
    yield from told_head(sight, now, width)
    if status["leader"] is not None:
        yield Line(shortened(f"stands by and changes nothing; {clean(status['leader'])} leads", width), ODD)
    if status["draining"] is not None:
        yield Line(shortened(draining_text(status), width), ODD)
    waiting, held = jobs.get("pending", 0), sum(jobs.get(state, 0) for state in HELD)
    over = [f"{jobs[state]} {state}" for state in FINAL if jobs.get(state)]
    yield Line(f"jobs     {', '.join([f'{waiting} waiting', f'{held} running', *over])}")
    nodes = f"{status['nodes_up']} of {status['nodes']} nodes reachable"
    yield Line(f"devices  {status['devices_busy']} of {status['devices']} busy, {nodes}")


def _alarms(seen: Fleet, now: float, width: int) -> Section:
    """Alerts, what presses on the queue, and what is held back."""
    firing = [Line(_alert(each, now), BAD if each["severity"] == "critical" else ODD) for each in seen.alerts]
    queue = [Line(f"queue: {_pressure(each)}", ODD) for each in seen.status["pressures"]]
    bans = [Line(_ban(each), ODD) for each in seen.bans]
    heading = Line(f"alerts: {len(firing)} firing; held back: {len(bans)}", f"{BAD if firing else ODD} bold")
    return Section(1, 3, [*firing, *queue, *bans], heading, "and {} more: `hostler alert list`, `hostler hold list`")


def _ban(ban: View) -> str:
    of = f" of {ban['of']}" if ban["of"] and ban["kind"] != "pressure" else ""
    return f"{ban['kind']} {ban['what']}{of}: {ban['why']}"


def _alert(alert: View, now: float) -> str:
    return f"{alert['rule']} {alert['subject']} for {age(alert['since'], now)}: {alert['why']}"


def _pressure(each: View) -> str:
    value = UNKNOWN if each["value"] is None else quantity(each["value"])
    back = ", ".join(each["holds_back"])
    held = f", holds back {back}" if back else ""
    return (
        f"{each['event']} {each['level']}: {each['signal']} {value} of {quantity(each['limit'])} {each['unit']}{held}"
    )


def _nodes(seen: Fleet, now: float, width: int) -> Section:
    """Those that something is wrong with first: where there is no room for all, they are seen.

    A reason that is too long for its column stands whole below its node.
    """
    ranked = sorted(seen.nodes, key=lambda node: (node["link"] == "up", node["cordon"] is None, not remarks(node)))
    title, *found = table_rows(NODE_COLUMNS, [_node_row(node, now) for node in ranked], width)
    styled = [
        Line(line, _node_style(node), is_rest=at > 0)
        for lines, node in zip(found, ranked, strict=True)
        for at, line in enumerate(lines)
    ]
    return Section(3, 3, styled, Line(title[0], DIM), "and {} more nodes: `hostler node list`")


def _node_row(node: View, now: float) -> Sequence[object]:
    devices = node["devices"]
    busy = sum(bool(device["attempts"] or device["chunks"]) for device in devices)
    used = [device["utilization"] for device in devices if device["utilization"] is not None]
    told = [device["told_at"] for device in devices if device["told_at"] is not None]
    mean = sum(used) / len(used) if used else None
    return (
        node["name"],
        node["link"],
        how_long(now - node["since"]),
        f"{busy}/{len(devices)}",
        known(None if mean is None else 100 * mean, ".0f", "%"),
        how_long(now - min(told) if told else None),
        remarks(node),
    )


def _node_style(node: View) -> str:
    if node["link"] != "up" or any(each["level"] == "critical" for each in node["pressures"]):
        return BAD
    return ODD if node["cordon"] is not None or remarks(node) else ""


def _queue(seen: Fleet, now: float, width: int) -> Iterator[Line]:
    """What goes next, why it has not gone yet, and when it is expected to."""
    first = seen.first
    if first is None:
        yield Line("queue    nothing waits")
        return
    waits = f": {first['waits_for']}" if first["waits_for"] else ""
    waited = duration(first["waited_s"])
    kind = kind_of(first)
    name = first["name"] if first["name"].startswith(kind) else f"{kind} {first['name']}"
    yield from folded(f"{first['job']} {name}, waited {waited}{waits}", "next", "", width)
    if seen.start is None:
        return
    at, late = seen.start["at"], seen.start["late_at"]
    when = "no start can be estimated" if at is None else f"starts about {clock(at, now)}"
    hardly = "" if at is None or late is None else f", hardly after {clock(late, now)}"
    yield from folded(f"{when}{hardly} ({seen.start['why']})", "", DIM, width)


def folded(
    text: str, title: str, style: str, width: int, indent: int = INDENT, most: int | None = FOLDED
) -> Iterator[Line]:
    """A text beside its title, in lines that break between words; at most `most` of them.

    Without a title, all lines but the first are indented.
    """
    lines = textwrap.wrap(clean(text), width - indent, max_lines=most, placeholder=" …")
    for number, line in enumerate(lines):
        first = f"{title:<{indent}}" if title else ""
        yield Line(f"{' ' * indent if number else first}{line}", style)


def _throughput(seen: Fleet, speeds: Speeds, now: float, width: int) -> Iterator[Line]:
    """How much comes to an end, as the controller counts it; the bars are what was watched."""
    window_s, count = seen.pace["window_s"], min(SPARKS, max(width - 40, 8))
    since = "" if speeds.jobs.since is None else f"seen since {_time(speeds.jobs.since)}"
    over = f"rates of the last {duration(window_s)}, bars " if window_s else ""
    yield Line(f"throughput, {over}{since}", DIM)
    for name, key, seen_of in (
        ("jobs/h", "attempts_per_h", speeds.jobs),
        ("games/h", "games_per_h", speeds.games),
        ("items/s", "items_per_s", speeds.items),
    ):
        rate = seen.pace[key]
        shown = UNKNOWN if rate is None else quantity(round(rate) if rate >= 10 else round(rate, 1))
        yield Line(f"{name:<8} {shown:>6}  {sparkline(seen_of.bars(count))}")


def _sweeps(seen: Fleet, width: int, *, live: bool) -> Section:
    sweeps = seen.status["sweeps"]
    title, *found = screen_rows(SWEEP_COLUMNS, map(_sweep_row, sweeps), width, live=live)
    return Section(
        5, 1, [Line(line) for lines in found for line in lines], Line(title[0], DIM), "and {} more: `hostler status`"
    )


def _sweep_row(sweep: View) -> Sequence[object]:
    return (
        sweep["job"],
        percent(sweep["done"], sweep["total"]),
        UNKNOWN if sweep["per_s"] is None else quantity(sweep["per_s"]),
        how_long(sweep["left_s"]),
        quantity(sweep["hits"]),
        sweep["name"],
    )


def _loops(seen: Fleet, width: int, *, live: bool) -> Section:
    going = [config for config in seen.configs if config["state"] == "open"]
    title, *found = screen_rows(LOOP_COLUMNS, map(_loop_row, going), width, live=live)
    styles = [ODD if config.get("paused") else "" for config in going]
    styled = [Line(line, style) for lines, style in zip(found, styles, strict=True) for line in lines]
    return Section(6, 1, styled, Line(title[0], DIM), "and {} more: `hostler train list`")


def _loop_row(config: View) -> Sequence[object]:
    rating = config["rating"]
    half = "" if rating is None else f" ±{(rating['high'] - rating['low']) / 2:.0f}"
    return (
        config["name"],
        known(config["generation"], "d"),
        known(None if rating is None else rating["elo"], ".0f") + half,
        known(config["games_per_h"], ".0f"),
        config["next"],
    )


def _time(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
