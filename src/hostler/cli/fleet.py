"""The fleet as a whole: numbers, queue, nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.common import Json, StateDir, client
from hostler.cli.show import (
    Column,
    age,
    clean,
    duration,
    maybe,
    paragraph,
    percent,
    quantity,
    say,
    say_json,
    shortened,
    table,
    terminal_width,
)
from hostler.model.errors import NotFound

if TYPE_CHECKING:
    from hostler.client import Client, View

commands = typer.Typer()

SWEEP_COLUMNS = (
    Column("SWEEP"),
    Column("STATE"),
    Column("DONE", right=True),
    Column("PER S", right=True),
    Column("LEFT", right=True),
    Column("HITS", right=True),
    Column("BY CHANCE", right=True),
    Column("NAME", yields=True),
)
NODE_COLUMNS = (
    Column("DEVICE", yields=True),
    Column("LINK"),
    Column("FOR", right=True),
    Column("BUSY", right=True),
    Column("LANES", right=True),
    Column("GB", right=True),
    Column("MODEL", yields=True),
    Column("HOLDS", yields=True),
)
QUEUE_COLUMNS = (
    Column("#", right=True),
    Column("JOB"),
    Column("WORK"),
    Column("PRIO", right=True),
    Column("WAITED", right=True),
    Column("NAME", yields=True),
    Column("WAITS FOR", yields=True),
)


@commands.command()
def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it anew until interrupted.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="With --watch: seconds between two looks.")] = 1.0,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Show the fleet in numbers, and the sweeps that are not over.

    \b
    Example:
      hostler status --watch
    """
    asked = client(state_dir)
    if watch:
        _watch(lambda: "\n".join(_status_lines(asked.status())), every)
    elif as_json:
        say_json(asked.status())
    else:
        say(_status_lines(asked.status()))


@commands.command()
def queue(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Rows to show.")] = 50,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Show what goes next, in order, and what the rest waits for.

    \b
    Example:
      hostler queue --limit 10
    """
    rows = client(state_dir).queue(limit)
    if as_json:
        say_json(rows)
        return
    say(table(QUEUE_COLUMNS, map(_queue_row, rows)) if rows else ["nothing waits"])


@commands.command()
def nodes(
    name: Annotated[
        str | None, typer.Argument(metavar="NODE", help="Only this one, with what its devices do and why.")
    ] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Show the nodes, their devices and what is on them.

    BUSY is the utilisation that the driver told last, and how long ago; LANES are those taken of the jobs that may
    share a device. Below stand pressures and quarantines, with when they end if nothing more is heard.

    \b
    Example:
      hostler nodes
      hostler nodes rig-1
    """
    asked = client(state_dir)
    found = [node for node in asked.nodes() if name in (None, node["name"])]
    if name is not None and not found:
        raise NotFound(f"there is no node {name!r}; `hostler nodes` lists them")
    if as_json:
        say_json(found)
        return
    now = time.time()
    say(table(NODE_COLUMNS, [row for node in found for row in _device_rows(node, now)]))
    for node in found:
        say(_node_remarks(node, now))
    if name is not None:
        say(_node_detail(asked, found[0]))


def sweep_row(sweep: View) -> Sequence[object]:
    """A sweep as a row of `SWEEP_COLUMNS`."""
    return (
        sweep["job"],
        sweep["state"],
        percent(sweep["done"], sweep["total"]),
        quantity(sweep["per_s"]),
        "-" if sweep["done"] == sweep["total"] else duration(sweep["left_s"]),
        quantity(sweep["hits"]),
        quantity(sweep["expected_by_chance"]),
        sweep["name"],
    )


def _status_lines(view: View) -> Iterator[str]:
    counts = ", ".join(f"{count} {state}" for state, count in view["jobs"].items() if count) or "none"
    yield shortened(f"{clean(view['fleet'])}: hostler {clean(view['version'])}, entry {view['seq']}", terminal_width())
    yield f"jobs     {counts}"
    yield f"nodes    {view['nodes_up']} of {view['nodes']} reachable"
    yield f"devices  {view['devices_busy']} of {view['devices']} busy"
    if view["refused"] or view["troubles"]:
        yield f"trouble  {view['refused']} results refused, {view['troubles']} faults recorded (`hostler events`)"
    if view["sweeps"]:
        yield ""
        yield from table(SWEEP_COLUMNS, map(sweep_row, view["sweeps"]))


def _watch(render: Callable[[], str], every_s: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        while True:
            print(render(), end="\n\n", flush=True)
            time.sleep(every_s)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(Text(render()), refresh=True)
            time.sleep(every_s)


def _queue_row(row: View) -> Sequence[object]:
    waited = duration(row["waited_s"])
    return row["place"], row["job"], row["work"], row["priority"], waited, row["name"], row["waits_for"] or ""


def _device_rows(node: View, now: float) -> Iterator[Sequence[object]]:
    since = age(node["since"], now)
    if not node["devices"]:
        yield node["name"], node["link"], since, "", "", "", "", "no devices known"
    for device in node["devices"]:
        held = [*device["attempts"], *device["chunks"]]
        on_cpu = device["kind"] == "cpu"
        vram = "-" if on_cpu else quantity(device["vram_gb"])
        model = "" if on_cpu and device["model"] is None else maybe(device["model"])
        lanes = "-" if on_cpu else f"{len(device['attempts'])}/{device['lanes']}"
        yield device["id"], node["link"], since, _busy(device, now), lanes, vram, model, " ".join(held) or "idle"


def _busy(device: View, now: float) -> str:
    """Utilisation, and how old the reading is."""
    if device["told_at"] is None:
        return "-" if device["kind"] == "cpu" else "?"
    known = "?" if device["utilization"] is None else f"{100 * device['utilization']:.0f}%"
    return f"{known} {age(device['told_at'], now)}"


def _node_remarks(node: View, now: float) -> Iterator[str]:
    """What is wrong with a node or a device of it, and until when."""
    if node["trouble"]:
        yield from paragraph(f"{node['name']}: {node['trouble']}", rest="  ")
    for each in node["pressures"]:
        yield from paragraph(f"{node['name']}: {pressure_text(each, now)}", rest="  ")
    for device in node["devices"]:
        ban = device["quarantine"]
        if ban is not None:
            left = "on probation" if ban["until"] <= now else f"for {duration(ban['until'] - now)} more"
            since = "?" if ban["since"] is None else age(ban["since"], now)
            yield from paragraph(f"{device['id']}: in quarantine since {since}, {left}: {ban['why']}", rest="  ")
        if device["reserved_for"] is not None:
            yield from paragraph(f"{device['id']}: kept for {device['reserved_for']}", rest="  ")


def pressure_text(pressure: View, now: float) -> str:
    """A pressure in words: what it is, since when, until when at most, and what it holds back."""
    ends = pressure["expires_at"]
    until = "" if ends is None else f", expires in {duration(max(ends - now, 0.0))} unless told again"
    back = ", ".join(pressure["holds_back"])
    return (
        f"{pressure['event']} {pressure['level']} for {age(pressure['since'], now)}: {pressure['signal']} "
        f"{quantity(pressure['value'])} of {quantity(pressure['limit'])} {pressure['unit']}{until}"
        + (f"; starts no {back}" if back else "")
    )


def _node_detail(asked: Client, node: View) -> Iterator[str]:
    """What each device of a node does and why, and what its gates have refused."""
    yield ""
    for device in node["devices"]:
        yield from paragraph(asked.explain_device(device["id"])["summary"], rest="  ")
    if node["gates"]:
        counts = ", ".join(f"{gate} {count}" for gate, count in node["gates"].items())
        yield from paragraph(f"refused there since the controller began: {counts}", rest="  ")
