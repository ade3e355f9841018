"""What a node with an agent tells, kept for a test to look at."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from hostler.backends.remote import RemoteNode
from hostler.model.errors import LinkError
from hostler.model.inputs import DeviceProved, Ended, Input, LinkUp, NodeFound, Started, Trouble
from tests.patience import PATIENCE_S

Told = TypeVar("Told", DeviceProved, Ended, LinkUp, NodeFound, Started, Trouble)


class Watch:
    """Observes a node in the background and keeps what it tells."""

    def __init__(self, node: RemoteNode, epoch: int = 1) -> None:
        self.node = node
        self.told: list[Input] = []
        self.lost: LinkError | None = None
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._observe(epoch))

    async def _observe(self, epoch: int) -> None:
        try:
            async for report in self.node.observe(epoch):
                self.told.extend(report.inputs)
                self._news.set()
        except LinkError as error:
            self.lost = error
        self._news.set()

    async def first(self, kind: type[Told]) -> Told:
        """The first of its kind; the link must hold until then."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for each in self.told:
                    if isinstance(each, kind):
                        return each
                if self.lost is not None:
                    raise self.lost
                self._news.clear()
                await self._news.wait()

    async def broken(self) -> LinkError:
        """Why the link was lost, or refused."""
        async with asyncio.timeout(PATIENCE_S):
            await self._task
        assert self.lost is not None
        return self.lost

    async def leave(self) -> None:
        """End the agent, and everything it runs."""
        await self.node._open_channel().send({"type": "shutdown", "when": "now"})
        await self.broken()
