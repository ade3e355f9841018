"""Nodes that call: the switchboard of a controller, and what a node must know to call it."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from hostler.backends.dialin import Switchboard, context, fingerprint, self_signed
from hostler.client.small_files import read_small
from hostler.model.errors import UsageError
from hostler.model.record import record
from hostler.runtime.nodes import bounds
from hostler.runtime.statedir import StateDir
from hostler.settings import Loaded
from hostler.settings.nodes import Node

WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on


@record
class Invitation:
    """All that a node must know to call the controller."""

    node: str
    to: str
    fingerprint: str
    token: str
    folder: str
    """For the agent, on the node; `~` is the home there."""
    python: str


def switchboard(loaded: Loaded, directory: StateDir) -> Switchboard:
    """Knows the nodes of a fleet file; it takes no calls yet."""
    callers = frozenset(node.name for node in loaded.fleet.nodes if node.backend == "dialin")
    called = any(node.backend in ("dialin", "ray") for node in loaded.fleet.nodes)
    journal = directory.identity() if called else ""
    longest = bounds(loaded).longest_read
    limits = loaded.fleet.limits
    return Switchboard(
        journal,
        lambda name: directory.call_token(name) if name in callers else None,
        longest,
        limits.unauthenticated,
        limits.head_s,
    )


@asynccontextmanager
async def answering(
    loaded: Loaded, directory: StateDir, calls: Switchboard, record: Callable[[str, str], None]
) -> AsyncIterator[str | None]:
    """Take calls, if the fleet file says where; the address. Raises `Conflict`, `UsageError` where that cannot be."""
    listen = loaded.fleet.dialin.listen
    if listen is None:
        yield None
        return
    host, port = split(listen)
    bound = calls.open(host, port, context(*identity(loaded, directory)), record)
    try:
        yield joined(host, bound)
    finally:
        await calls.close()


def invitation(loaded: Loaded, directory: StateDir, node: Node, *, new: bool) -> Invitation:
    """What a node must know; `new` makes another token, and the old one counts no more. Raises `UsageError`."""
    certificate, _ = identity(loaded, directory)
    token = None if new else directory.call_token(node.name)
    return Invitation(
        node=node.name,
        to=address(loaded, directory),
        fingerprint=fingerprint(certificate),
        token=token or directory.make_call_token(node.name),
        folder=f"{node.dir.rstrip('/')}/{node.name}",
        python=node.python or "python3",
    )


def identity(loaded: Loaded, directory: StateDir) -> tuple[Path, Path]:
    """The files of the controller's certificate and of its key; made if nobody has named any."""
    asked = loaded.fleet.dialin
    if asked.certificate is not None:
        return loaded.base_dir / asked.certificate, loaded.base_dir / (asked.key or asked.certificate)
    if not directory.certificate.exists():
        directory.make_certificate(self_signed(loaded.fleet.name))
    return directory.certificate, directory.certificate


def address(loaded: Loaded, directory: StateDir) -> str:
    """What nodes call. Raises `UsageError` where that is not known."""
    asked = loaded.fleet.dialin
    if asked.address is not None:
        return asked.address
    if asked.listen is None:
        raise UsageError("this fleet takes no calls; say where it is to listen for them: `dialin: {listen: ...}`")
    host, port = split(asked.listen)
    if port == 0:
        port = _announced_port(directory)
    return joined(socket.getfqdn() if host in WILDCARDS else host, port)


def split(text: str) -> tuple[str, int]:
    """`HOST:PORT` of the settings."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def joined(host: str, port: int) -> str:
    """As it was before `split`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _announced_port(directory: StateDir) -> int:
    """The one that a running controller has chosen."""
    try:
        return split(json.loads(read_small(directory.controller_file))["dialin"])[1]
    except (FileNotFoundError, KeyError, AttributeError) as error:
        raise UsageError(
            "the port is chosen when the controller starts (`dialin.listen` ends in :0); start it first, or name a port"
        ) from error
