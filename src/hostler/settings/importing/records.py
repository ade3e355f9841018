"""What a foreign list of machines tells, before it becomes nodes."""

from __future__ import annotations

from typing import TypeAlias

from hostler.model.record import record
from hostler.settings.reading import Origin

Via: TypeAlias = tuple[str, ...]
Place: TypeAlias = tuple[str, ...]
"""What two names of one machine have in common."""


@record
class Machine:
    """A machine as its list tells of it. What is `None` is not said there."""

    name: str
    """What the list calls it; by that SSH finds it, unless there is a `host`."""
    origin: Origin
    host: str | None = None
    port: int | None = None
    user: str | None = None
    identity: str | None = None
    via: Via | None = None
    """Jump hosts, the nearest first; `()`: straight on, whatever the configuration says."""
    python: str | None = None
    local: bool = False
    """Whether it is the very machine that reads this."""
    groups: tuple[str, ...] = ()
    place: Place | None = None
    """Where it is, if that takes more to tell than `host`, `port` and `via`."""
    secrets: tuple[str, ...] = ()
    """Names of passwords that its list has, which stay there."""
    remarks: tuple[str, ...] = ()
    """What else is said of it and was not taken over."""


@record
class LeftOut:
    """Something in a list that becomes no node."""

    name: str
    why: str


@record
class Listing:
    """Everything that a list tells."""

    machines: tuple[Machine, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    jumps: frozenset[str] = frozenset()
    """Jump hosts on the way to machines that do not say so themselves."""
    notes: tuple[str, ...] = ()
    """What concerns the whole."""
