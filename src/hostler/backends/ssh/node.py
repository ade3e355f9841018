"""A node behind SSH: one kept connection; the agent is pushed, started, and reached through its Unix socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Unpack

import asyncssh
import structlog

from hostler.backends.agented import Options
from hostler.backends.base import Facts
from hostler.backends.channel import Channel, opened
from hostler.backends.courier import Courier
from hostler.backends.packing import Packer
from hostler.backends.remote import DIAL_S, RemoteNode, Streams, dialling
from hostler.backends.ssh.bootstrap import boot
from hostler.backends.ssh.network import Network
from hostler.backends.ssh.openssh import Client
from hostler.backends.ssh.streams import AnyPeer, Peer, Pieces, open_program, open_socket
from hostler.backends.ssh.target import Target
from hostler.model.errors import LinkLost
from hostler.model.fleet import NodeSpec

SOCKET_PATH_MAX = 104
"""Bytes of a path that every system can connect a Unix socket to."""


class SshNode(RemoteNode):
    """The agent in `folder` of the node (`~` is the home there), started by `python` after the lines of `setup`."""

    kind = "ssh"

    def __init__(
        self,
        name: str,
        target: Target,
        network: Network,
        *,
        folder: str,
        packer: Packer,
        python: str = "python3",
        setup: Sequence[str] = (),
        **others: Unpack[Options],
    ) -> None:
        super().__init__(name, packer=packer, python=python, **others)
        self._target = target
        self._network = network
        self._log = structlog.get_logger()
        self._folder = folder
        self._setup = tuple(setup)
        self._executable: str | None = None
        """The interpreter as the node itself names it, once it is known."""
        self._connection: asyncssh.SSHClientConnection | None = None
        self._socket: str | None = None
        """Where the agent listens, once that is known."""
        self._bridge: str | None = None
        """A command whose input and output are the agent's, where its socket cannot be had."""
        self._guest: str | None = None
        """A command whose input and output are a connection for files; `None`: OpenSSH's client does not get there."""

    async def connect(self, epoch: int) -> Channel:
        """A channel to the agent over the kept connection; the agent is put there and started where none answers."""
        self._epoch = epoch
        connection = await self._connected()
        if self._socket is not None:
            with suppress(LinkLost):
                return await self._dial(connection, self._socket, epoch)
            connection = await self._connected()
        booted = await boot(connection, self.name, python=self._python, folder=self._folder, setup=self._setup)
        self._zipapp = booted.facts["zipapp"], booted.digest
        self._executable = booted.facts["executable"]
        self._socket, self._bridge = f"{booted.facts['dir']}/agent.sock", None
        self._guest = booted.guest
        if len(self._socket.encode()) <= SOCKET_PATH_MAX:
            with suppress(LinkLost):
                return await self._dial(connection, self._socket, epoch)
            connection = await self._connected()
        # It listens, for it was asked: then this server forwards no sockets.
        self._bridge = booted.bridge
        return await self._dial(connection, self._socket, epoch)

    def describe(self, facts: Facts) -> NodeSpec:
        """The node; its interpreter is named as it names it: `~` is known to its shell alone."""
        return replace(super().describe(facts), python=self._executable or self._python)

    def _agent_folder(self) -> str:
        if self._socket is None:
            raise LinkLost(f"node {self.name} is not connected")
        return self._socket.removesuffix("/agent.sock")

    async def _courier(self) -> Courier:
        """A connection for files; what breaks below asyncssh is a lost link as well."""
        try:
            return await super()._courier()
        except asyncssh.Error as error:
            raise LinkLost(f"no connection for files to {self.name}: {error}") from error

    async def _courier_for_much(self) -> Courier | None:
        """By OpenSSH's client, where that gets there as well."""
        words = None if self._guest is None else self._network.command(self._target, self._guest)
        if words is None:
            return None
        client = Client()
        try:
            async with dialling(self.name):
                return await self._courier_over((client, await client.start(words)), guest=True)
        except (LinkLost, ValueError) as error:  # the latter: its shell prints what nobody has asked for
            self._guest = None
            why = await client.last_words() or str(error)
            self._log.info("files go by our own connection, however many", node=self.name, why=why)
            return None

    async def _further(self) -> Streams:
        if self._connection is None or self._socket is None:
            raise LinkLost(f"node {self.name} is not connected")
        peer = await self._open(self._connection, self._socket, Pieces)
        return peer, peer.writer()

    async def _connected(self) -> asyncssh.SSHClientConnection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._network.connect(self._target)
        return self._connection

    async def _open(self, connection: asyncssh.SSHClientConnection, path: str, kind: Callable[[], AnyPeer]) -> AnyPeer:
        """Straight to the socket, or through a program beside it, where the server forwards no sockets."""
        if self._bridge is None:
            return await open_socket(connection, path, kind)
        return await open_program(connection, self._bridge, kind)

    async def _dial(self, connection: asyncssh.SSHClientConnection, path: str, epoch: int) -> Channel:
        """A channel through the agent's socket. Where that cannot be had, the connection is given up as well."""
        try:
            async with asyncio.timeout(DIAL_S):
                peer = await self._open(connection, path, lambda: Peer(self._bounds.longest_read))
                return await opened(*peer.streams(), self._controller, epoch)
        except asyncssh.ChannelOpenError as error:
            raise LinkLost(f"no agent answers in {path} on {self.name}: {error.reason}") from error
        except TimeoutError as error:
            connection.abort()
            raise LinkLost(f"the agent on {self.name} does not answer within {DIAL_S:g} s") from error
        except (OSError, asyncssh.Error) as error:
            connection.abort()
            raise LinkLost(f"the connection to {self.name} broke: {error}") from error
