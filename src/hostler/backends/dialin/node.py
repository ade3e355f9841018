"""A node that calls: its connections are taken from the switchboard, the first one for its agent, others for files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Unpack

from hostler.backends.agented import Options
from hostler.backends.base import Report
from hostler.backends.channel import Channel, opened
from hostler.backends.courier import Parcel
from hostler.backends.dialin.switchboard import Call, Switchboard
from hostler.backends.packing import Packer
from hostler.backends.remote import DIAL_S, RemoteNode, Streams
from hostler.model.errors import FilesError, LinkLost
from hostler.model.inputs import Trouble

CALL_S = 20.0
CHECK_S = 5.0
"""Whoever was let in by a token that is revoked goes within about two telemetries."""


class DialinNode(RemoteNode):
    """The agent at the other end of whatever calls as this node. `program` is our agent, for those of other code."""

    kind = "dialin"

    def __init__(
        self,
        name: str,
        switchboard: Switchboard,
        program: Parcel,
        *,
        packer: Packer,
        python: str = "python3",
        **others: Unpack[Options],
    ) -> None:
        super().__init__(name, packer=packer, python=python, **others)
        self._switchboard = switchboard
        self._program = program
        self._call: Call | None = None
        self._not_brought: str | None = None
        """Why our agent could not be brought there."""

    async def connect(self, epoch: int) -> Channel:
        """A channel over a connection that the node has made."""
        self._epoch = epoch
        self._call = await self._switchboard.take(self.name, CALL_S)
        channel = await self._greeted(self._call, epoch)
        try:
            await self._bring_agent(channel)
        except BaseException:
            channel.close()
            raise
        return channel

    async def observe(self, epoch: int) -> AsyncGenerator[Report, None]:
        """Connect, then report what the agent tells; before it, that it could not be renewed.

        Raises `LinkLost` as well once the token of the connection counts no more.
        """
        clock = asyncio.get_running_loop()
        checked_at = clock.time()
        async with aclosing(super().observe(epoch)) as reports:
            async for report in reports:
                if clock.time() - checked_at > CHECK_S:
                    checked_at = clock.time()
                    self._check_token()
                if self._not_brought is not None:
                    what = f"its agent stays of another version: {self._not_brought}"
                    yield Report(inputs=(Trouble(where=f"node {self.name}", what=what),))
                    self._not_brought = None
                yield report

    async def _further(self) -> Streams:
        call = self._connected()
        further = await self._switchboard.take(self.name, CALL_S, call.dialler)
        return further.reader, further.writer

    def _check_token(self) -> None:
        call = self._connected()
        if not self._switchboard.is_own(self.name, call.token):
            call.writer.transport.abort()
            raise LinkLost(
                f"{self.name} was let in by a token that counts no more; `hostler node invite` shows the new one"
            )

    def _agent_folder(self) -> str:
        return self._connected().folder

    def _connected(self) -> Call:
        if self._call is None:
            raise LinkLost(f"node {self.name} is not connected")
        return self._call

    async def _greeted(self, call: Call, epoch: int) -> Channel:
        try:
            async with asyncio.timeout(DIAL_S):
                return await opened(call.reader, call.writer, self._controller, epoch)
        except BaseException as error:
            call.writer.transport.abort()
            if isinstance(error, TimeoutError):
                raise LinkLost(f"the agent on {self.name} does not answer within {DIAL_S:g} s") from error
            if isinstance(error, OSError):
                raise LinkLost(f"the connection of {self.name} broke: {error}") from error
            raise

    async def _bring_agent(self, channel: Channel) -> None:
        """Have our agent there, for one of other code to go on as.

        Also where it is there already: files that are not asked for in weeks are cleaned up.
        """
        code = channel.hello.get("code")
        if code is None:
            return  # it runs from sources, whoever's they are
        try:
            courier = await self._courier()
            try:
                await courier.put([self._program])
            finally:
                courier.close()
        except FilesError as error:
            self._not_brought = str(error)
            return
        self._zipapp = f"{self._agent_folder()}/{self._program.path}", self._program.sha256
