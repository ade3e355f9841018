"""How to get to a node, in words that `ssh` understands as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hostler.model.errors import LinkRefused
from hostler.model.record import record


@record
class Target:
    """A node behind SSH. What is `None` is what `ssh` would take: from its configuration, or its defaults."""

    host: str
    """A name of `~/.ssh/config`, or an address."""
    port: int | None = None
    user: str | None = None
    identity: Path | None = None
    """A private key; by default those of the agent and the usual files."""
    via: tuple[str, ...] | None = None
    """Jump hosts as `[user@]host[:port]`, the first one nearest; `None`: as configured, `()`: none."""

    def __str__(self) -> str:
        user = "" if self.user is None else f"{self.user}@"
        return f"{user}{self.host}" + ("" if self.port is None else f":{self.port}")


@record
class Habits:
    """What holds for all connections of a controller."""

    config: tuple[Path, ...]
    """Files in the form of `~/.ssh/config`; those that are not there count for nothing."""
    known_hosts: tuple[Path, ...]
    """Where host keys are known from; new ones are written to the first."""
    handshakes: int = 8
    """How many connections are made at once over one jump host: a server drops more than ten (`MaxStartups`)."""
    fleet_file: str = "FLEET"
    """How a remedy names the fleet file."""
    connect_s: float = 20.0
    keepalive_s: float = 10.0
    """How long a connection is silent until it is asked for a sign of life; three that fail end it."""


def jump(text: str) -> Target:
    """A jump host as `[user@]host[:port]`, IPv6 addresses in brackets. Raises `LinkRefused`."""
    user, _, rest = text.rpartition("@")
    host, bracket, port = rest.rpartition(":") if not rest.endswith("]") and ":" in rest else (rest, "", "")
    if not host.strip("[]") or (bracket and not port.isdigit()):
        raise LinkRefused(f"{text!r} is no jump host; write [user@]host[:port]")
    return Target(host=host.strip("[]"), port=int(port) if port else None, user=user or None, via=())


def jumps(text: str) -> Iterator[str]:
    """The jump hosts of a `ProxyJump` line, the nearest first."""
    return (each.strip() for each in text.split(",") if each.strip().lower() != "none")
