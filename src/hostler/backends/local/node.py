"""This machine: the agent is a process that outlives the controller, reached through its Unix socket."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Unpack

from hostler.agent import compiled, environments
from hostler.agent.build import archive
from hostler.agent.files import TREES
from hostler.agent.shared import publish
from hostler.backends.agented import AgentedNode, Options
from hostler.backends.base import Removed
from hostler.backends.channel import Channel, opened
from hostler.backends.local.workspaces import Workspaces
from hostler.model.commands import AttemptOrder, WorkerOrder
from hostler.model.errors import FilesError, LinkLost, LinkRefused
from hostler.model.files import Fetch, FileRef

START_S = 20.0
ALREADY_RUNNING = 3
CLIENTS = "HOSTLER_TOKEN"
"""Nothing that runs on a node needs it."""


class LocalNode(AgentedNode):
    """The agent in `directory`, started from a zipapp beside it if none runs there.

    `python` is the interpreter of agent and workers. `withheld` names variables of this process that none of them gets.
    """

    kind = "local"
    apart = False

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        python: str = sys.executable,
        withheld: Collection[str] = (),
        **others: Unpack[Options],
    ) -> None:
        super().__init__(name, python=python, **others)
        self._directory = directory
        self._workspaces = Workspaces(self._store, lambda: directory / TREES)
        self._withheld = {CLIENTS, *withheld}

    async def connect(self, epoch: int) -> Channel:
        """A channel to the agent; the agent is started first if its socket does not answer."""
        await asyncio.to_thread(self._put_agent)
        with suppress(LinkLost):
            return await self._dial(epoch)
        await self._start()
        return await self._dial(epoch)

    async def fetch(self, attempt: str, what: Fetch, cwd: str | None) -> tuple[FileRef, ...]:
        """Copy what an attempt has left from where it ran; artifacts are here already."""
        folder = self._directory / "attempts" / attempt if cwd is None else Path(cwd)
        return await asyncio.to_thread(self._workspaces.copied, attempt, what, folder)

    async def supply(self, order: AttemptOrder) -> AttemptOrder:
        """Lay out the files of an order's snapshot."""
        return await asyncio.to_thread(self._workspaces.supplied, order)

    async def clear(self, attempt: str) -> None:
        """Delete what was laid out for an attempt, or for the workers of a sweep."""
        await asyncio.to_thread(self._workspaces.clear, attempt)

    async def keep(self, attempts: Sequence[str], sweeps: Sequence[str]) -> None:
        """Delete what was laid out for all others."""
        await asyncio.to_thread(self._workspaces.keep, (*attempts, *sweeps))

    async def drop_environments(self, wanted_bytes: int, unused_s: float) -> Removed:
        """Remove Python environments of the agent's folder that were not used of late. Raises `FilesError`."""
        return await asyncio.to_thread(self._drop_environments, wanted_bytes, unused_s)

    def _drop_environments(self, wanted_bytes: int, unused_s: float) -> Removed:
        root, attempts = self._directory / environments.FOLDER, self._directory / "attempts"
        try:
            gone = environments.make_room(str(root), str(attempts), wanted_bytes, unused_s)
            disk = os.statvfs(self._directory)
        except OSError as error:
            raise FilesError(f"Python environments in {root} cannot be removed: {error.strerror}") from error
        return Removed(gone=dict(gone), left={}, free_bytes=disk.f_bavail * disk.f_frsize)

    async def _supplied(self, worker: WorkerOrder) -> WorkerOrder:
        """Lay out the files of a worker's snapshot."""
        return await asyncio.to_thread(self._workspaces.shared, worker)

    async def _dial(self, epoch: int) -> Channel:
        try:
            async with asyncio.timeout(START_S):
                peer = await _unix_socket(self._directory)
                reader, writer = await asyncio.open_unix_connection(sock=peer, limit=self._bounds.longest_read)
                return await opened(reader, writer, self._controller, epoch)
        except TimeoutError as error:
            raise LinkLost(f"the agent in {self._directory} does not answer; end it if it hangs") from error
        except OSError as error:
            raise LinkLost(f"no agent answers in {self._directory}: {error}") from error

    def _put_agent(self) -> None:
        if self._zipapp is not None and Path(self._zipapp[0]).exists():
            return
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            data, digest = zipapp()
            path = self._directory / "code" / digest[:16] / "agent.pyz"
            path.parent.mkdir(parents=True, exist_ok=True)
            publish(str(path), data, 0o755)
        except OSError as error:
            raise LinkRefused(f"the agent cannot be put into {self._directory}: {error}") from error
        beside = compiled.path_of(str(path))
        if self._python == sys.executable and not os.path.exists(beside):
            with suppress(OSError):  # the agent runs without it, too, and reports a full disk itself
                publish(beside, compiled_zipapp())
        self._zipapp = str(path), digest

    async def _start(self) -> None:
        """Start the agent, detached: it returns once the agent listens."""
        assert self._zipapp is not None
        command = [self._python, self._zipapp[0], "run", "--dir", str(self._directory), "--detach"]
        said, status = await asyncio.to_thread(_output, command, self._withheld)
        if status not in (0, ALREADY_RUNNING):
            raise LinkRefused(f"the agent in {self._directory} did not start (exit status {status}): {said}")


@cache
def zipapp() -> tuple[bytes, str]:
    """The agent's file and its SHA-256. Raises OSError."""
    data = archive()
    return data, hashlib.sha256(data).hexdigest()


@cache
def compiled_zipapp() -> bytes:
    """The same, compiled for this Python: an agent starts in a third of the time. Raises OSError."""
    return compiled.archive(zipapp()[0])


def _output(command: list[str], withheld: Collection[str]) -> tuple[str, int]:
    """What a command says, and its exit status. It gets nothing of this process: it will outlive it."""
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Whatever runs there can read this, and print it.
            env={name: value for name, value in os.environ.items() if name not in withheld},
            timeout=START_S,
            start_new_session=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error), 1
    return ended.stdout.decode(errors="replace").strip(), ended.returncode


async def _unix_socket(directory: Path) -> socket.socket:
    """A connected socket. The path goes through /proc, because a socket's path may be no longer than 107 bytes."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(peer, f"/proc/self/fd/{folder}/agent.sock")
    except BaseException:
        peer.close()
        raise
    finally:
        os.close(folder)
    return peer
