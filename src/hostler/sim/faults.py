"""What goes wrong in a virtual fleet, and how often."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from random import Random
from typing import Annotated, Any, TypeAlias

from pydantic import Field, ValidationError

from hostler.model import codec
from hostler.model.record import record
from hostler.model.units import printable
from hostler.model.work import SECONDS_MAX, Rest, Seconds

HOUR_S, DAY_S = 3600.0, 86_400.0
REPLACE_S = 1200.0
Every: TypeAlias = Annotated[float, Field(ge=1, le=SECONDS_MAX)]
"""Mean seconds between two of a kind; of faults that come faster than that, no run would ever see the end."""
Part: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Remaining: TypeAlias = Annotated[float, Field(gt=0, le=1)]
EXAMPLE = '{"link_cut_every_s": 600}'
SHOWN = 40
"""Characters that are shown of what somebody wrote."""
_MOMENT = re.compile(r"[0-9]{1,18}")


@record
class Lives:
    """How long ephemeral nodes live, and how long it takes until another one stands in for a dead one (seconds)."""

    mean_s: float | None = None
    """Of an exponential distribution; `None`: what the node says of itself, or `lives_s`."""
    lives_s: tuple[float, ...] = ()
    """Lives that were seen; each new one is drawn from them."""
    scale: float = 1.0
    replace_s: float = REPLACE_S
    """Mean, of an exponential distribution."""

    def drawn_s(self, random: Random, own_s: float | None) -> float | None:
        """The life of a node that says so of itself; `None`: it does not die."""
        if self.lives_s:
            return random.choice(self.lives_s) * self.scale
        mean_s = own_s if self.mean_s is None else self.mean_s
        return None if mean_s is None else random.expovariate(1 / (mean_s * self.scale))


@record
class Faults:
    """Times are virtual seconds. `…_every_s` is the mean time between two such faults anywhere; `None` is never.

    The types say what a file may ask for (`faults_of`); tests of small worlds may go beyond.
    """

    link_cut_every_s: Every | None = None
    outage_s: Seconds = 20.0
    """Mean time until a cut link is there again."""
    partition_every_s: Every | None = None
    """A link is cut for long, as behind a NAT that forgot it; what runs there runs on."""
    partition_s: Seconds = 2 * HOUR_S
    agent_lost_every_s: Every | None = None
    """The node comes back with an empty directory: another agent, which knows nothing."""
    agent_restart_every_s: Every | None = None
    reboot_every_s: Every | None = None
    worker_killed_every_s: Every | None = None
    process_killed_every_s: Every | None = None
    """An attempt ends by signal 9; what it had left by then is told."""
    controller_crash_every_s: Every | None = None
    clock_jump_every_s: Every | None = None
    clock_jump_s: Rest = 7200.0
    """The controller's clock is set by at most this much, forwards or backwards."""
    straggler_every_s: Every | None = None
    straggler_s: Seconds = 2 * HOUR_S
    straggler_speed: Remaining = 0.35
    """What is left of a device's speed for that long."""
    hang_every_s: Every | None = None
    hang_s: Seconds = 360.0
    """A device does nothing for so long, and then goes on."""
    disk_full_every_s: Every | None = None
    disk_full_s: Seconds = HOUR_S
    """Whatever ends on a node in this time cannot write its result."""
    lie_every_s: Every | None = None
    lie_s: Seconds = HOUR_S
    """A node tells telemetry that is not true: nothing but zeros, never anything new, or nonsense."""
    crash_at_commit: Part = 0.0
    """Share of the controller's steps in which it dies: before its journal is written, or after and before it acts."""
    told_again: Part = 0.0
    """Share of facts that are told a second time, up to `late_s` later."""
    late_s: Rest = 60.0
    wrong_digest: Part = 0.0
    """Share of chunks searched with other parameters."""
    bad_devices: frozenset[str] = frozenset()
    """Devices on which no worker ever starts."""
    until_s: Rest = 300.0
    """Nothing goes wrong after that, so that every run can end."""


def all_kinds(scale: float = 1.0, until_s: float = 300.0) -> Faults:
    """Every fault at once; `scale` is how rare they are."""
    return Faults(
        link_cut_every_s=40 * scale,
        agent_lost_every_s=120 * scale,
        agent_restart_every_s=80 * scale,
        reboot_every_s=200 * scale,
        worker_killed_every_s=30 * scale,
        controller_crash_every_s=60 * scale,
        clock_jump_every_s=60 * scale,
        crash_at_commit=0.01 / scale,
        told_again=0.1 / scale,
        wrong_digest=0.03 / scale,
        until_s=until_s,
    )


def usual(nodes: int, until_s: float, often: float = 1.0) -> Faults:
    """What a rented fleet of so many nodes sees within days; `often` times as often as a good one does."""
    unit_s = DAY_S / (max(nodes, 1) * often)
    return Faults(
        link_cut_every_s=unit_s / 2,
        outage_s=60.0,
        partition_every_s=unit_s * 5,
        agent_restart_every_s=unit_s * 5,
        reboot_every_s=unit_s * 10,
        process_killed_every_s=unit_s * 2,
        controller_crash_every_s=DAY_S * 3.5 / often,
        straggler_every_s=unit_s * 3,
        hang_every_s=unit_s * 5,
        disk_full_every_s=unit_s * 15,
        lie_every_s=unit_s * 5,
        told_again=0.01 * often,
        until_s=until_s,
    )


LEVELS = ("none", "light", "heavy")
HEAVY = 6.0


def level(name: str, nodes: int, until_s: float) -> Faults:
    """The faults of one of the `LEVELS`."""
    if name == "none":
        return Faults(until_s=until_s)
    return usual(nodes, until_s, HEAVY if name == "heavy" else 1.0)


def faults_of(text: str, until_s: float) -> Faults:
    """The faults that a JSON object asks for by the names of `Faults`; over at `until_s`, or when it says, if earlier.

    Raises `ValueError` naming every key that is none or whose value is not allowed, and what is.
    """
    try:
        found: Faults = codec.adapter(Faults).validate_json(text, strict=True)
    except ValidationError as error:
        raise ValueError("; ".join(map(_refusal, _faults_by_key(error)))) from error
    ends = "until_s" in json.loads(text)
    return replace(found, until_s=min(found.until_s, until_s) if ends else until_s)


def _faults_by_key(error: ValidationError) -> Iterator[Mapping[str, Any]]:
    """One fault of each key: of the items of a list, the first tells enough."""
    seen = set()
    for fault in error.errors(include_url=False):
        key = fault["loc"][:1]
        if key not in seen:
            seen.add(key)
            yield dict(fault)


def _refusal(fault: Mapping[str, Any]) -> str:
    """What is wrong with a file of faults, or with one of its keys."""
    if fault["type"] == "json_invalid":
        return f"is no JSON ({fault['ctx']['error']}); write an object, such as {EXAMPLE}"
    if not fault["loc"]:
        return f"should be an object, such as {EXAMPLE}"
    key = str(fault["loc"][0])
    allowed = _allowed()
    if key not in allowed:
        return f"{printable(key, SHOWN)}: is no setting (allowed here: {', '.join(allowed)})"
    what, hint = allowed[key]
    return f"{key}: should be {what} (found {printable(json.dumps(fault['input']), SHOWN)}){hint}"


def _allowed() -> dict[str, tuple[str, str]]:
    """What each setting may be, and a hint for those that may be left out."""
    shapes = codec.adapter(Faults).json_schema()["properties"]
    return {each.name: _range(shapes[each.name]) for each in fields(Faults)}


def _range(shape: Mapping[str, Any]) -> tuple[str, str]:
    number = shape.get("anyOf", [shape])[0]
    if number["type"] != "number":
        return "a list of texts", ""
    low = f"from {number['minimum']:g}" if "minimum" in number else f"above {number['exclusiveMinimum']:g} and up"
    return f"a number {low} to {number['maximum']:g}", "; leave it out for never" if "anyOf" in shape else ""


def lives_of(lines: Iterable[str]) -> tuple[float, ...]:
    """Lives, in seconds, of the instances of a spot trace of lines `milliseconds,add|remove,instance`.

    Instances that were still there at its end are left out. Raises `ValueError` for a line of another form, for one
    that removes what was not there for a moment, and for a trace in which nothing ends.
    """
    since: dict[str, float] = {}
    lives = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        at, event, name = _traced(line, number)
        if event == "add":
            since[name] = at
        elif name in since:
            lives.append(_life_s(name, since.pop(name), at, number))
    if not lives:
        raise ValueError("no instance of it is removed: nothing to learn lives from")
    return tuple(lives)


def _life_s(name: str, since: float, until: float, number: int) -> float:
    if until <= since:
        raise ValueError(
            f"line {number}: {name[:SHOWN]!r} is removed at {until:g} s, not after it was added at {since:g} s; "
            "put the lines in order, and leave out what was never there"
        )
    return until - since


def _traced(line: str, number: int) -> tuple[float, str, str]:
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != 3 or not _MOMENT.fullmatch(parts[0]) or parts[1] not in ("add", "remove"):
        raise ValueError(f"line {number}: {line.strip()[:60]!r} is not `milliseconds,add|remove,instance`")
    return int(parts[0]) / 1000, parts[1], parts[2]
