"""The start screen of `hostler up`: where the controller answers, what it has, what to type next. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from hostler.core.away import reason_of
from hostler.model.units import printable
from hostler.model.views import DeviceView, NodeView

WIDTH = 80
LINES_MAX = 12
LABEL = 11
SOURCE_SHOWN = 76
NODES_SHOWN = 5
NODE_LINES = 3
NAME_SHOWN = 64
"""Characters of the name of a node, which has no more, and of the model of a GPU."""
BELOW = 2
"""Lines that `hostler up --detach` adds: how the controller is stopped, and its log."""


class Adopted(NamedTuple):
    """Attempts of an earlier controller, after a restart."""

    running: int = 0
    """They run on."""
    ended: int = 0
    """They ended meanwhile."""
    lost: int = 0
    """They ended with their machine or their process, and their jobs are tried again."""
    unknown: int = 0
    """Their nodes have not answered yet."""


def where_lines(version: str, fleet: str, file: Path | None, url: str, code: str | None, token: Path) -> list[str]:
    """The first lines: version and fleet, the dashboard with a link that logs in once, the file of the token."""
    name = printable(fleet, 40)
    source = "no fleet file: this machine alone" if file is None else _source(file)
    link = url if code is None else f"{url}/login?once={code}"
    return [
        *_wrapped(f"Hostler {version}", f"{name} ({source})"),
        # Never cut or wrapped: terminals make a link of it.
        _dashboard(link, code),
        f"{'Token':{LABEL}}{at_home(token)}",
    ]


def _source(file: Path) -> str:
    """The path of the fleet file, or its name alone where the path is longer than a line."""
    path = printable(at_home(file))
    return path if len(path) <= SOURCE_SHOWN else printable(file.name, SOURCE_SHOWN)


def _dashboard(link: str, code: str | None) -> str:
    line = f"{'Dashboard':{LABEL}}{link}"
    noted = f"{line} (logs in once)"
    return line if code is None or len(noted) > WIDTH else noted


def node_lines(nodes: Sequence[NodeView], adopted: Adopted, room: int) -> list[str]:
    """Nodes with their GPUs and what others use on them, what was adopted, and the next commands, in `room` lines."""
    after = [*_adopted(adopted), *_next(nodes)]
    # Those that do not answer first: something is to be done about them.
    ordered = sorted(nodes, key=lambda node: node.link == "up")
    blocks = [_node(node) for node in ordered[:NODES_SHOWN]]
    shown = _fitting(blocks, room - len(after) - 1, more=len(nodes) > len(blocks))
    lines = [_totals(nodes), *chain.from_iterable(blocks[:shown])]
    if len(nodes) > shown:
        lines.append(f"{'':{LABEL}}and {len(nodes) - shown} more: hostler node list")
    return [*lines, *after]


def _fitting(blocks: Sequence[Sequence[str]], room: int, *, more: bool) -> int:
    """How many of these blocks of lines have room, with a line on those left out, of which there may be `more`."""
    if not more and sum(map(len, blocks)) <= room:
        return len(blocks)
    count, taken = 0, 1
    for block in blocks:
        if (taken := taken + len(block)) > room:
            break
        count += 1
    return count


def _totals(nodes: Sequence[NodeView]) -> str:
    up = sum(node.link == "up" for node in nodes)
    devices = [device for node in nodes for device in node.devices]
    gpus = sum(device.kind != "cpu" for device in devices)
    slots = len(devices) - gpus
    parts = [f"{up} of {len(nodes)} connected", _count(gpus, "GPU"), _count(slots, "CPU slot")]
    return f"{'Nodes':{LABEL}}{', '.join(parts)}"


def _node(node: NodeView) -> list[str]:
    """A node in a line; one that is not connected in as many as its reason and the remedy take, at most three."""
    gpus = [device for device in node.devices if device.kind != "cpu"]
    name = printable(node.name, NAME_SHOWN)
    if node.link != "up":
        why = printable(reason_of(name, node.backend, node.trouble))
        lines = _folded(f"{name}: {why}")
        return lines if len(lines) <= NODE_LINES else _folded(f"{name}: not connected; why: hostler node list")
    if not gpus:
        return _folded(f"{name}: {_count(len(node.devices), 'CPU slot')}")
    kinds = _gpus(gpus)
    for shown in range(len(kinds), -1, -1):
        left_out = sum(count for count, _ in kinds[shown:])
        more = (
            [f"and {left_out} more: hostler device list"]
            if shown
            else [f"{_count(left_out, 'GPU')}: hostler device list"]
        )
        lines = _folded(f"{name}: {'; '.join([*(text for _, text in kinds[:shown]), *(more if left_out else [])])}")
        if len(lines) <= NODE_LINES:
            break
    return lines


def _folded(text: str) -> list[str]:
    """A text about a node in lines that break between words, but not between a number and what it counts."""
    whole = re.sub(r"(?<=[0-9]) (?=GB|x )|(?<=[0-9] x) ", "\N{NO-BREAK SPACE}", text)
    indent = " " * LABEL
    lines = textwrap.wrap(whole, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _gpus(gpus: Sequence[DeviceView]) -> list[tuple[int, str]]:
    """GPUs by model and memory with their number, and the memory that others use on some of them."""
    kinds: dict[str, list[DeviceView]] = {}
    for gpu in gpus:
        memory = "" if gpu.vram_gb is None else f" {gpu.vram_gb:.0f} GB"
        kinds.setdefault(f"{printable(gpu.model or 'GPU', NAME_SHOWN)}{memory}", []).append(gpu)
    return [(len(some), f"{len(some)} x {kind}{_used(some)}") for kind, some in kinds.items()]


def _used(gpus: Sequence[DeviceView]) -> str:
    used = [gpu for gpu in gpus if gpu.foreign_use is not None]
    if not used:
        return ""
    sizes = [gpu.foreign_use.vram_gb for gpu in used if gpu.foreign_use is not None]
    known = [size for size in sizes if size is not None]
    memory = f" ({sum(known):.1f} GB)" if known else ""
    return f", {len(used)} used by others{memory}"


def _adopted(adopted: Adopted) -> list[str]:
    words: Mapping[str, int] = {
        "still running": adopted.running,
        "ended meanwhile": adopted.ended,
        "lost": adopted.lost,
        "unknown": adopted.unknown,
    }
    parts = [f"{count} {what}" for what, count in words.items() if count]
    return [f"{'Adopted':{LABEL}}{', '.join(parts)}"] if parts else []


def _next(nodes: Sequence[NodeView]) -> list[str]:
    if nodes and all(node.link != "up" for node in nodes):
        return [f"{'Next':{LABEL}}hostler node list", f"{'':{LABEL}}hostler submit -- python train.py"]
    return [f"{'Next':{LABEL}}hostler submit -- python train.py", f"{'':{LABEL}}hostler top"]


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def _wrapped(label: str, text: str) -> list[str]:
    line = f"{label}: {text}"
    if len(line) <= WIDTH:
        return [line]
    below = textwrap.wrap(text, WIDTH - 2)
    return [f"{label}:", *(f"  {each}" for each in below)]


def at_home(path: Path) -> str:
    """A path as people write it, with `~` for their home."""
    try:
        return f"~/{path.absolute().relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)
