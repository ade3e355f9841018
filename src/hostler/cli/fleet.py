"""The fleet as a whole: numbers, queue, nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hostler.cli.common import Json, StateDir, client
from hostler.cli.declarations import Option
from hostler.cli.health import report_health
from hostler.cli.nodes import pressure_text, use_text
from hostler.cli.show import (
    Column,
    clean,
    duration,
    kind_of,
    paragraph,
    percent,
    plural,
    quantity,
    say,
    say_json,
    table,
    wrapped,
)
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.client import Client, View


DRAINING_MOST = 10
"""Jobs that a controller names while it drains (`model.views`)."""
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
QUEUE_COLUMNS = (
    Column("#", right=True),
    Column("JOB"),
    Column("WORK"),
    Column("PRIO", right=True),
    Column("WAITED", right=True),
    Column("NAME", yields=True),
    Column("WAITS FOR", yields=True),
)


def status(
    watch: Annotated[bool, Option("--watch", "-w", help="Show it anew until interrupted.")] = False,
    every: Annotated[float, Option(min=1.0, help="With --watch: seconds between two looks.")] = 5.0,
    health: Annotated[
        bool,
        Option("--health", help="Show whether the controller makes progress, part by part."),
    ] = False,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> int:
    """Show the fleet in numbers, and the sweeps that are not over.

    With `--watch`: nodes, the queue, speed, loops and what is wrong, all on one screen; something that happens is shown
    within a second, and a controller that is away is waited for. Where there is no terminal that is printed once.

    With `--health`, exit status 1 where there is work and none of it makes progress.

    Example:
      hostler status --watch
      hostler status --health
    """
    asked = client(state_dir)
    if health:
        if watch:
            raise UsageError("--health is printed once; leave out --watch, which shows what is wrong, too")
        return report_health(asked, as_json=as_json)
    if as_json:
        say_json(asked.status())
    elif watch:
        _watch(asked, state_dir, every)
    else:
        say(_status_lines(asked.status()))
    return 0


def queue(
    limit: Annotated[int, Option(min=1, max=1000, help="Rows to show.")] = 50,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Show what goes next, in order, and what the rest waits for.

    Example:
      hostler queue --limit 10
    """
    rows = client(state_dir).queue(limit)
    if as_json:
        say_json(rows)
        return
    say(table(QUEUE_COLUMNS, map(_queue_row, rows)) if rows else ["nothing waits"])


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


def draining_text(view: View) -> str:
    """What the end of a controller that drains waits for."""
    others = " and others" if len(view["draining"]) == DRAINING_MOST else ""
    waits = f"waits for {', '.join(view['draining'])}{others}; " if view["draining"] else ""
    return f"draining {waits}nothing new starts; `hostler down --now` ends the controller at once"


def _status_lines(view: View) -> Iterator[str]:
    counts = ", ".join(f"{count} {state}" for state, count in view["jobs"].items() if count) or "none"
    yield from wrapped("", f"{clean(view['fleet'])}: hostler {clean(view['version'])}, entry {view['seq']}")
    if view["leader"] is not None:
        yield from paragraph(f"standby  stands by and changes nothing; {clean(view['leader'])} leads", rest="         ")
    if view.get("unwritten") is not None:
        since = f"what follows is as of entry {view['seq']}, the last one that it has"
        yield from paragraph(f"journal  cannot be written: {clean(view['unwritten'])}; {since}", rest="         ")
    if view["draining"] is not None:
        yield from paragraph(draining_text(view), rest="         ")
    yield f"jobs     {counts}"
    yield f"nodes    {view['nodes_up']} of {view['nodes']} reachable"
    for name, why in view["nodes_away"].items():
        yield from paragraph(f"{clean(name)}: {why}", "         ", "           ")
    more = view["nodes"] - view["nodes_up"] - len(view["nodes_away"])
    if more > 0:
        yield f"         and {more} more: `hostler node list`"
    yield f"devices  {view['devices_busy']} of {view['devices']} busy"
    if view["refused"] or view["troubles"]:
        yield f"trouble  {view['refused']} results refused, {view['troubles']} faults recorded (`hostler events`)"
    for each in view["pressures"]:
        yield from paragraph(f"queue    {pressure_text(each, view['at'])}", rest="         ")
    if view["nodes_pressed"]:
        yield f"pressed  {plural(view['nodes_pressed'], 'node')} (`hostler hold list`)"
    if view["devices_cordoned"]:
        yield f"cordons  {plural(view['devices_cordoned'], 'device')} given nothing new (`hostler hold list`)"
    if view["devices_used"]:
        yield f"others   {plural(view['devices_used'], 'GPU')} in use by others (`hostler hold list`)"
        for name, use in view["foreign_use"].items():
            yield from paragraph(f"{name}: {use_text(use, view['at'])}", "         ", "           ")
    if view["sweeps"]:
        yield ""
        yield from table(SWEEP_COLUMNS, map(sweep_row, view["sweeps"]))


def _watch(asked: Client, state_dir: Path | None, every_s: float) -> None:
    from hostler.cli.watching import board, screen

    looks = client(state_dir, timeout_s=screen.PATIENCE_S)
    draw = partial(board.draw, board.Speeds())
    screen.show(board.look(asked), lambda: board.look(looks), asked.events, draw, every_s=every_s)


def _queue_row(row: View) -> Sequence[object]:
    waited = duration(row["waited_s"])
    return row["place"], row["job"], kind_of(row), row["priority"], waited, row["name"], row["waits_for"] or ""
