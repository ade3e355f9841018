"""Starts the desk of a cluster: on this machine, or on a login node over a kept SSH connection."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import asyncssh

from hostler.agent.build import archive, build_zipapp
from hostler.backends.channel import DESK_LINE_MAX
from hostler.backends.slurm.desk import Streams
from hostler.backends.ssh.bootstrap import boot
from hostler.backends.ssh.network import Network
from hostler.backends.ssh.streams import DeskPeer, open_program
from hostler.backends.ssh.target import Target
from hostler.model.errors import LinkLost, LinkRefused

ENDED_S = 5.0
CODE = "code"
"""The folder below the cluster's that has our agents, each under its hash."""


def agent_name() -> str:
    """What the file of this version's agent is called."""
    return f"agent-{hashlib.sha256(archive()).hexdigest()[:16]}.pyz"


class Here:
    """Desks on this machine, which has Slurm's commands and the shared folder; one at a time."""

    def __init__(self, root: Path, python: str = sys.executable) -> None:
        self._root = root
        self._python = python
        self._process: asyncio.subprocess.Process | None = None

    async def open(self) -> Streams:
        """Start one. Raises `LinkLost`, `LinkRefused`, `OSError`."""
        await self.ended()
        self._process = await _start(_desk(self._python, str(await _put(self._root)), str(self._root)))
        return _streams(self._process)

    async def ended(self) -> None:
        """Wait until the one that was told to end has. Raises `LinkLost` where it does not for long.

        What keeps it is a file system, which would keep its successors, too.
        """
        if self._process is None:
            return
        try:
            async with asyncio.timeout(ENDED_S):
                await self._process.wait()
        except TimeoutError as error:
            words = f"process {self._process.pid}, the desk before, does not end; {self._root} may hang"
            raise LinkLost(words) from error


async def files_here(root: Path, python: str = sys.executable) -> Streams:
    """A connection for files, on this machine."""
    return _streams(await _start(_files(python, str(await _put(root)), str(root))))


async def there(network: Network, target: Target, where: str, root: str, python: str) -> Streams:
    """A desk on a login node. Raises `LinkLost`, `LinkRefused`."""
    return await _opened(network, target, where, root, python, _desk)


async def files_there(network: Network, target: Target, where: str, root: str, python: str) -> Streams:
    """A connection for files, on a login node."""
    return await _opened(network, target, where, root, python, _files)


async def _opened(
    network: Network,
    target: Target,
    where: str,
    root: str,
    python: str,
    command: Callable[[str, str, str], list[str]],
) -> Streams:
    connection = await network.connect(target)
    booted = await boot(connection, where, python=python, folder=f"{root}/{CODE}", start=False)
    words = command(booted.facts["executable"], booted.facts["zipapp"], root)
    try:
        return (await open_program(connection, shlex.join(words), DeskPeer)).streams()
    except asyncssh.Error as error:
        raise LinkLost(f"nothing can be started on {where}: {error}") from error


async def _start(words: Sequence[str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=DESK_LINE_MAX,
        start_new_session=True,
    )


def _streams(process: asyncio.subprocess.Process) -> Streams:
    assert process.stdout is not None
    assert process.stdin is not None
    return process.stdout, process.stdin


async def _put(root: Path) -> Path:
    """Our agent, where the cluster finds it."""
    zipapp = root / CODE / agent_name()
    await asyncio.to_thread(_write, zipapp)
    return zipapp


def _write(zipapp: Path) -> None:
    if zipapp.exists():
        return
    try:
        zipapp.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        build_zipapp(zipapp)
    except OSError as error:
        raise LinkRefused(
            f"nothing can be written to the shared file system: {error}; `slurm.shared_root` must be a folder that "
            "you may write to, and be there under this name on every node"
        ) from error


def _desk(python: str, zipapp: str, root: str) -> list[str]:
    return [python, zipapp, "post", "--root", root]


def _files(python: str, zipapp: str, root: str) -> list[str]:
    return ["env", f"PYTHONPATH={zipapp}", python, "-S", "-m", "hostler.agent.files", "serve", root]
