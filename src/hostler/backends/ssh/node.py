"""A node behind SSH: one kept connection; the agent is pushed, started, and reached through its Unix socket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import asyncssh

from hostler.backends.agented import AgentedNode, devices_of
from hostler.backends.base import Facts
from hostler.backends.channel import Channel, opened
from hostler.backends.ssh.bootstrap import boot
from hostler.backends.ssh.network import Network
from hostler.backends.ssh.streams import open_program, open_socket
from hostler.backends.ssh.target import Target
from hostler.model.errors import LinkLost
from hostler.model.fleet import NodeSpec

DIAL_S = 20.0
SOCKET_PATH_MAX = 104
"""Bytes of a path that every system can connect a Unix socket to."""


class SshNode(AgentedNode):
    """The agent in `folder` of the node (`~` is the home there), started by `python` after the lines of `setup`.

    `cpu_slots` overrides the number of CPU slots; `terms` has what settings say of the node.
    """

    kind = "ssh"

    def __init__(
        self,
        name: str,
        target: Target,
        network: Network,
        *,
        controller: str,
        folder: str,
        python: str = "python3",
        setup: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cpu_slots: int | None = None,
        gpus: bool = True,
        log_bytes: int = 10 << 20,
        result_bytes: int = 1 << 20,
        terms: NodeSpec | None = None,
    ) -> None:
        super().__init__(name, log_bytes=log_bytes, result_bytes=result_bytes)
        self._target = target
        self._network = network
        self._controller = controller
        self._folder = folder
        self._python = python
        self._setup = tuple(setup)
        self._env = dict(env or {})
        self._cpu_slots = cpu_slots
        self._gpus = gpus
        self._terms = terms or NodeSpec(name=name, backend=self.kind, devices=())
        self._connection: asyncssh.SSHClientConnection | None = None
        self._socket: str | None = None
        """Where the agent listens, once that is known."""
        self._bridge: str | None = None
        """A command whose input and output are the agent's, where its socket cannot be had."""

    async def connect(self, epoch: int) -> Channel:
        """A channel to the agent over the kept connection; the agent is put there and started where none answers."""
        connection = await self._connected()
        if self._socket is not None:
            with suppress(LinkLost):
                return await self._dial(connection, self._socket, epoch)
            connection = await self._connected()
        booted = await boot(connection, self.name, python=self._python, folder=self._folder, setup=self._setup)
        self._socket, self._bridge = f"{booted.facts['dir']}/agent.sock", None
        if len(self._socket.encode()) <= SOCKET_PATH_MAX:
            with suppress(LinkLost):
                return await self._dial(connection, self._socket, epoch)
            connection = await self._connected()
        # It listens, for it was asked: then this server forwards no sockets.
        self._bridge = booted.bridge
        return await self._dial(connection, self._socket, epoch)

    def describe(self, facts: Facts) -> NodeSpec:
        """Its GPUs and CPU slots."""
        seen = facts if self._gpus else {**facts, "devices": ()}
        devices = devices_of(self.name, seen, self._cpu_slots)
        cpus = float(facts["cpus"]) if self._terms.cpus is None and facts["cpus"] else self._terms.cpus
        return replace(self._terms, devices=devices, python=self._python, env=self._env, cpus=cpus)

    async def _connected(self) -> asyncssh.SSHClientConnection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._network.connect(self._target)
        return self._connection

    async def _streams(
        self, connection: asyncssh.SSHClientConnection, path: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Straight to the socket, or through a program beside it, where the server forwards no sockets."""
        if self._bridge is None:
            return await open_socket(connection, path)
        return await open_program(connection, self._bridge)

    async def _dial(self, connection: asyncssh.SSHClientConnection, path: str, epoch: int) -> Channel:
        """A channel through the agent's socket. Where that cannot be had, the connection is given up as well."""
        try:
            async with asyncio.timeout(DIAL_S):
                reader, writer = await self._streams(connection, path)
                return await opened(reader, writer, self._controller, epoch)
        except asyncssh.ChannelOpenError as error:
            raise LinkLost(f"no agent answers in {path} on {self.name}: {error.reason}") from error
        except TimeoutError as error:
            connection.abort()
            raise LinkLost(f"the agent on {self.name} does not answer within {DIAL_S:g} s") from error
        except (OSError, asyncssh.Error) as error:
            connection.abort()
            raise LinkLost(f"the connection to {self.name} broke: {error}") from error
