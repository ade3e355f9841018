"""What a backend has to tell: reports in order, and what is to be done once they are in the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from hostler.backends.base import Report
from hostler.model.errors import LinkLost
from hostler.model.inputs import Input


class Outbox:
    """A queue of reports. Each that somebody waits for has a receipt."""

    def __init__(self, receipts: Iterator[int]) -> None:
        """`receipts` go on from link to link: one of a link that is over must not be taken for one of this."""
        self._reports: asyncio.Queue[Report | None] = asyncio.Queue()
        self._receipts = receipts
        self._awaited: dict[int, Callable[[], None]] = {}
        self._why = ""
        self.ended = False

    def post(self, *inputs: Input, then: Callable[[], None] | None = None) -> None:
        """Tell this, and do `then` once it is durable; in the order in which it was told.

        Raises `LinkLost` after the end: what nobody will hear must not be taken for told.
        """
        if self.ended:
            raise LinkLost(self._why)
        receipt = None
        if then is not None:
            receipt = next(self._receipts)
            self._awaited[receipt] = then
        self._reports.put_nowait(Report(inputs=inputs, receipt=receipt))

    def acknowledge(self, receipt: int) -> None:
        """Everything up to this receipt is durable; after the end, that is for others to deal with."""
        if self.ended:
            return
        for number in [each for each in self._awaited if each <= receipt]:
            self._awaited.pop(number)()

    def end(self, why: str) -> None:
        """Nothing more can be told on this link."""
        if self.ended:
            return
        self._why, self.ended = why, True
        self._reports.put_nowait(None)

    async def next(self) -> Report:
        """The next report. Raises `LinkLost` at the end."""
        report = await self._reports.get()
        if report is None:
            raise LinkLost(self._why)
        return report
