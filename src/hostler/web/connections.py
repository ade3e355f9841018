"""Connections of whoever comes: so many at most, and none for ever without a request; nobody is known yet here."""

from __future__ import annotations

import asyncio
import logging
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 1000
HEAD_S = 20.0
"""How long the head of a request may take, from the connection or from its first byte on."""
ANSWERING = (h11.SEND_RESPONSE, h11.SEND_BODY)


def most() -> int:
    """Connections at most: files that the scheduler needs must be left, however many come."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if files == resource.RLIM_INFINITY else min(MOST, files // 2)


class Bounded(H11Protocol):
    """One connection. What is no HTTP is answered and not logged: anybody may send it, as often as they like."""

    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self.logger = logging.getLogger("hostler.http")
        self.logger.setLevel(logging.ERROR)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has connected."""
        super().connection_made(transport)
        if len(self.connections) > most():
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        """Some of a request, or of a body that nobody wants any more."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        super().connection_lost(exc)
        self._unwatch()

    def _watch(self) -> None:
        if self.conn.our_state in ANSWERING:
            self._unwatch()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(HEAD_S, self._hang_up)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _hang_up(self) -> None:
        self._deadline = None
        if self.conn.our_state not in ANSWERING:
            self.transport.abort()
