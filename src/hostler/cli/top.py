"""Devices one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from hostler.cli.common import Json, StateDir, client
from hostler.cli.declarations import Argument, Option
from hostler.cli.show import say_json, terminal_width
from hostler.model.errors import NotFound

if TYPE_CHECKING:
    from hostler.client import View


UNKNOWN = "–"


def top(
    names: Annotated[list[str] | None, Argument(metavar="[NODE]...", help="Nodes; by default all.")] = None,
    watch: Annotated[bool, Option("--watch", "-w", help="Show it anew until interrupted.")] = False,
    every: Annotated[float, Option(min=1.0, help="With --watch: seconds between two looks.")] = 5.0,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Show what each device runs, since when, its utilisation, memory and temperature, and how old that reading is.

    What is not known is `–`. With `--watch`, something that happens is shown within a second.

    Example:
      hostler top rig-1 rig-2
      hostler top --watch
    """
    from hostler.cli.watching import devices, screen

    asked = client(state_dir)
    first = devices.look(asked, names or [])
    _refuse_unknown(names or [], first.nodes)
    if as_json:
        say_json([device for node in first.nodes for device in node["devices"]])
    elif watch:
        looks = client(state_dir, timeout_s=screen.PATIENCE_S)
        screen.show(first, lambda: devices.look(looks, names or []), asked.events, devices.draw, every_s=every)
    else:
        screen.once(first, devices.draw, terminal_width())


def _refuse_unknown(names: Sequence[str], nodes: Sequence[View]) -> None:
    missing = [name for name in names if name not in {node["name"] for node in nodes}]
    if missing:
        raise NotFound(f"there is no node {missing[0]!r} in the fleet; `hostler node list` lists them")
