"""Explanations of jobs and devices as lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostler.cli.nodes import pressure_text
from hostler.cli.show import clean, clock, duration, paragraph

if TYPE_CHECKING:
    from hostler.client import View

LISTED = 12
"""With more devices than that, those alike are told of together."""
WHEN = 12
"""Columns for when something changes."""
NAME_WIDE = 30
"""Columns for the name of a device, at most."""


def job_lines(told: View, now: float) -> Iterator[str]:
    """Why a job waits or runs, when it should start, what would change that, and what the devices say."""
    yield from paragraph(told["summary"], rest="  ")
    for reason in told["reasons"]:
        yield from paragraph(reason, "- ", "  ")
    if told["start"] is not None:
        yield from paragraph(_start(told["start"], now), "- ", "  ")
    if told["changes"]:
        yield from ("", "what would change it:")
        for change in told["changes"]:
            yield from paragraph(change["what"], f"  {_when(change['at'], now):<{WHEN}}  ", " " * (WHEN + 4))
    if len(told["devices"]) > LISTED:
        yield ""
        for group in told["groups"]:
            yield from paragraph(_group(group), "- ", "  ")
        yield "`--json` has what each device says"
    elif told["devices"]:
        wide = min(max(map(len, told["devices"])), NAME_WIDE)
        yield ""
        for name, says in told["devices"].items():
            yield from paragraph(_without(says, name), f"{clean(name):<{wide}}  ", " " * (wide + 2))


def device_lines(told: View, now: float) -> Iterator[str]:
    """Why a device does what it does: what it holds and why, what presses, what is kept off it."""
    yield from paragraph(told["summary"], rest="  ")
    for reason in told["reasons"]:
        yield from paragraph(reason, "- ", "  ")
    for each in told["pressures"]:
        yield from paragraph(pressure_text(each, now), "- ", "  ")
    for held in told["held"]:
        ends = "until when is not known" if held["ends_at"] is None else f"until about {clock(held['ends_at'], now)}"
        name = held["name"] if held["name"].startswith(held["work"]) else f"{held['work']} {held['name']}"
        about = f"{held['id']}: {name}, for {duration(now - held['since'])}, {ends}"
        yield ""
        yield from paragraph(about, rest="  ")
        yield from paragraph(held["why"], "  ", "  ")
    if told["waiting"]:
        yield ""
        counts = ", ".join(f"{gate} {count}" for gate, count in told["waiting"].items())
        yield from paragraph(f"waiting jobs that are excluded, by filter: {counts}", rest="  ")


def _group(group: View) -> str:
    """The devices of a class that say the same, in the words of the first."""
    return f"{group['count']} × {group['cls']}: {_without(group['says'], group['devices'][0])}"


def _without(says: str, device: str) -> str:
    """What a device says, without its name where that is the subject: it stands beside it."""
    return re.sub(rf"(^|[,;:] ){re.escape(device)} ", r"\1", says)


def _start(start: View, now: float) -> str:
    if start["at"] is None:
        return f"no start can be estimated: {start['why']}"
    soon = f"expected to start about {_clock_in(start['at'], now)}"
    late = "" if start["late_at"] is None else f", hardly later than {_clock_in(start['late_at'], now)}"
    return f"{soon}{late}: {start['why']}"


def _clock_in(at: float, now: float) -> str:
    return f"{clock(at, now)} (in {duration(max(at - now, 0.0))})"


def _when(at: float | None, now: float) -> str:
    return "" if at is None else f"{clock(at, now)} ({duration(max(at - now, 0.0))})"
