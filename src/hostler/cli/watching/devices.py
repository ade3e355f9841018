"""`hostler top`: what each device runs, since when, and how it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hostler.cli.show import Column, clean, plural, screen_rows
from hostler.cli.watching.board import (
    BAD,
    DIM,
    FOLDED,
    HEAD,
    HEAD_MOST,
    ODD,
    UNKNOWN,
    folded,
    how_long,
    known,
    told_head,
)
from hostler.cli.watching.follow import Sight
from hostler.cli.watching.layout import NARROWEST, Line, Section, arranged

if TYPE_CHECKING:
    from hostler.client import Client, View

HELD = ("leased", "launching", "running", "collecting")
DEVICE_COLUMNS = (
    Column("DEVICE", yields=True),
    Column("RUNS", yields=True),
    Column("SINCE", right=True),
    Column("UTIL", right=True),
    Column("VRAM GB", right=True),
    Column("TEMP", right=True),
    Column("READ", right=True),
)


class Held(NamedTuple):
    """A job or a chunk on a device."""

    words: str
    since: float | None


class Devices(NamedTuple):
    """Devices with their nodes, and what attempts and chunks there are, by id."""

    nodes: Sequence[View]
    held: Mapping[str, Held]


def look(asked: Client, names: Sequence[str]) -> Devices:
    """The devices of these nodes, or of all."""
    nodes = [node for node in asked.nodes() if not names or node["name"] in names]
    jobs = {job["attempt"]: _job(job) for job in asked.all_jobs(HELD) if job["attempt"]}
    chunks = {
        chunk["chunk"]: Held(
            f"{'calls' if sweep.get('calls') else 'sweep'} {chunk['chunk']} {sweep['name']}", chunk["leased_at"]
        )
        for sweep in asked.status()["sweeps"]
        if sweep["chunks_out"]
        for chunk in asked.ledger(sweep["job"])["leased"]
    }
    return Devices(nodes, {**jobs, **chunks})


def draw(sight: Sight[Devices], entries: Sequence[View], now: float, width: int, height: int | None) -> Sequence[Line]:
    """The whole screen: a line for each device."""
    rows = [(node, device) for node in sight.seen.nodes for device in node["devices"]]
    at = now if sight.lost is None else sight.at
    cells, live = [_row(node, device, sight.seen.held, at) for node, device in rows], height is not None
    title, *found = screen_rows(DEVICE_COLUMNS, cells, max(width, NARROWEST), live=live)
    styled = [Line(line, _style(*row)) for lines, row in zip(found, rows, strict=True) for line in lines]
    head = Section(
        0,
        HEAD_MOST,
        [
            *told_head(sight, now, max(width, NARROWEST)),
            *_head(rows),
            *_away(sight.seen.nodes, max(width, NARROWEST), live=live),
        ],
    )
    return arranged([head, Section(1, 1, styled, Line(title[0], DIM), "and {} more devices")], width, height)


def _job(job: View) -> Held:
    name = job["name"] if job["name"].startswith(job["work"]) else f"{job['work']} {job['name']}"
    going = "" if job["state"] == "running" else f" ({job['state']})"
    return Held(f"{job['attempt']} {name}{going}", job["started_at"])


def _head(rows: Sequence[tuple[View, View]]) -> Iterator[Line]:
    busy = sum(bool(device["attempts"] or device["chunks"]) for _, device in rows)
    used = [device["utilization"] for _, device in rows if device["utilization"] is not None]
    mean = f"{100 * sum(used) / len(used):.0f}% of {len(used)} that tell" if used else UNKNOWN
    yield Line(f"{plural(len(rows), 'device')}, {busy} busy, utilisation {mean}", HEAD)


def _away(nodes: Sequence[View], width: int, *, live: bool) -> Iterator[Line]:
    """Of nodes out of reach, what is shown is what was known."""
    for node in nodes:
        if node["link"] != "up":
            why = node["trouble"] or "it does not answer"
            yield from folded(
                f"{node['name']} is out of reach: {why}", "", BAD, width, indent=2, most=FOLDED if live else None
            )


def _row(node: View, device: View, held: Mapping[str, Held], now: float) -> Sequence[object]:
    """What runs behind the first is counted: it waits there, or shares the device."""
    parts = [*device["attempts"], *device["chunks"]]
    first = held.get(parts[0], Held(parts[0], None)) if parts else None
    more = f" +{len(parts) - 1}" if len(parts) > 1 else ""
    memory = device["vram_used_gb"], device["vram_gb"]
    on_cpu = device["kind"] == "cpu"
    return (
        device["id"],
        _idle(device) if first is None else f"{clean(first.words)}{more}",
        "" if first is None else how_long(None if first.since is None else now - first.since),
        known(None if device["utilization"] is None else 100 * device["utilization"], ".0f", "%"),
        "" if on_cpu and memory == (None, None) else f"{known(memory[0], '.1f')}/{known(memory[1], '.0f')}",
        "" if on_cpu and device["temperature_c"] is None else known(device["temperature_c"], ".0f", "°"),
        how_long(None if device["told_at"] is None else now - device["told_at"]),
    )


def _idle(device: View) -> str:
    if device["cordon"] is not None:
        return f"idle, {device['cordon']['state']}"
    if device["foreign_use"] is not None:
        what = "others" if device["foreign_use"]["kind"] == "others" else "leftover"
        return f"{what}: {clean(device['foreign_use']['who'])}"
    if device["quarantine"] is not None:
        return "idle, in quarantine"
    if device["canary"] is not None:
        return "idle, not proved yet"
    return "idle" if device["reserved_for"] is None else f"kept for {device['reserved_for']}"


def _style(node: View, device: View) -> str:
    if node["link"] != "up" or device["quarantine"] is not None:
        return BAD
    spared = node["cordon"] is not None or device["cordon"] is not None or device["foreign_use"] is not None
    return ODD if spared or device["canary"] is not None else ""
