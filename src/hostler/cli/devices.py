"""Single devices: what keeps a person's hand on one of them, and how they are listed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

from hostler.cli.common import Json, StateDir, client, user
from hostler.cli.completing import complete_device, complete_node
from hostler.cli.declarations import Argument, Option
from hostler.cli.explaining import device_lines
from hostler.cli.looping import span_s
from hostler.cli.nodes import busy, cordon_text, use_text
from hostler.cli.show import Column, clean, maybe, paragraph, quantity, say, say_json, table

if TYPE_CHECKING:
    from hostler.client import View


DeviceNames: TypeAlias = Annotated[
    list[str], Argument(metavar="DEVICE...", help="Ids of devices, such as here/cuda0.", complete=complete_device)
]
Reason: TypeAlias = Annotated[str | None, Option("--reason", "--why", help="Why; shown wherever the device is.")]
Span: TypeAlias = Annotated[
    str | None,
    Option("--for", metavar="TIME", help="For how long: 90m, 12h, 3d; by default until `resume`."),
]
COLUMNS = (
    Column("DEVICE", yields=True),
    Column("LINK"),
    Column("BUSY", right=True),
    Column("GB", right=True),
    Column("MODEL", yields=True),
    Column("HOLDS", yields=True),
)


def list_devices(
    node: Annotated[
        str | None, Option("--node", metavar="NODE", help="Only those of this node.", complete=complete_node)
    ] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """List devices: what each runs, and which of them are cordoned.

    Example:
      hostler device list --node rig-1
    """
    found = list(client(state_dir).devices(node))
    if as_json:
        say_json(found)
        return
    now = time.time()
    say(table(COLUMNS, [_row(each, now) for each in found]) if found else ["no devices known"])
    for each in found:
        if each["device"]["cordon"] is not None:
            text = cordon_text(each["device"]["cordon"], now)
            say(paragraph(f"{each['device']['id']}: {text}", rest="  "))
        if each["device"]["foreign_use"] is not None:
            text = use_text(each["device"]["foreign_use"], now)
            say(paragraph(f"{each['device']['id']}: {text}", rest="  "))


def show(
    name: Annotated[str, Argument(metavar="DEVICE", help="Id of a device, as rig-1/cuda0.", complete=complete_device)],
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Show one device: what it does and why.

    Example:
      hostler device show rig-1/cuda0
    """
    view = client(state_dir).explain_device(name)
    if as_json:
        say_json(view)
    else:
        say(device_lines(view, time.time()))


def cordon(
    names: DeviceNames,
    reason: Reason = None,
    span: Span = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Put nothing new on devices, until `resume` or until the time is over. What runs there runs on.

    Once more with another reason or time replaces that; without, the known ones stay.

    Example:
      hostler device cordon here/cuda0 --reason "a game tonight" --for 4h
    """
    asked, for_s = client(state_dir), None if span is None else span_s(span)
    _say_each((asked.cordon_device(name, reason, user(), for_s) for name in names), as_json)


def drain(
    names: DeviceNames,
    reason: Reason = None,
    span: Span = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Put nothing new on devices and let what runs there end; then they are shown as drained.

    Example:
      hostler device drain rig-1/cuda3 --reason "to be replaced"
    """
    asked, for_s = client(state_dir), None if span is None else span_s(span)
    _say_each((asked.drain_device(name, reason, user(), for_s) for name in names), as_json)


def resume(names: DeviceNames, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Put work on devices again.

    Example:
      hostler device resume here/cuda0
    """
    asked = client(state_dir)
    _say_each((asked.resume_device(name, user()) for name in names), as_json)


def _say_each(changed: Iterator[View], as_json: bool) -> None:
    """Print a line for each device as soon as it is changed: a later one may be unknown."""
    done = []
    for placed in changed:
        done.append(placed)
        if not as_json:
            print(clean(_changed(placed, time.time())), flush=True)
    if as_json:
        say_json(done)


def _changed(placed: View, now: float) -> str:
    """The state of a device after a command. Its node may be cordoned as well, which another command ends."""
    own, name = placed["device"]["cordon"], placed["device"]["id"]
    if own is not None:
        return f"{name} {cordon_text(own, now)}"
    if placed["cordon"] is not None:
        return f"{name} takes no work yet: {placed['node']} is {placed['cordon']['state']}"
    return f"{name} takes work"


def _row(placed: View, now: float) -> Sequence[object]:
    each = placed["device"]
    on_cpu = each["kind"] == "cpu"
    held = [*each["attempts"], *each["chunks"]]
    others = "idle" if each["foreign_use"] is None else "used by others"
    idle = others if each["cordon"] is None else each["cordon"]["state"]
    vram = "-" if on_cpu else quantity(each["vram_gb"])
    model = "" if on_cpu and each["model"] is None else maybe(each["model"])
    return each["id"], placed["link"], busy(each, now), vram, model, " ".join(held) or idle
