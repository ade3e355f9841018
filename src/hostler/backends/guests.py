"""Connections of another kind, for much: each is a process of this machine's that takes a moment to get there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from hostler.backends.courier import Courier

DialForMuch: TypeAlias = Callable[[], Awaitable[Courier | None]]
MUCH = 4 << 20
"""Bytes for which one is worth its handshake, which takes a tenth of a second at least..."""
MORE = 256 << 10
"""...and those that are worth the use of one that is there."""
SOON = 64 << 20
"""Bytes that are waited for sooner than for the handshake of another one."""
KEPT_S = 10.0
"""How long one waits for more: there may be a thousand nodes."""


class Guests:
    """Those of one node. `dial` makes a greeted one, if there can be any."""

    def __init__(self, dial: DialForMuch) -> None:
        self._dial = dial
        self._guests: list[_Guest] = []

    @asynccontextmanager
    async def for_bytes(self, size: int) -> AsyncIterator[Courier | None]:
        """One for so many bytes, of which one has sole use; `None`: there is none, or too little to be sent for it."""
        guest = self._chosen(size)
        if guest is None:
            yield None
            return
        guest.due += size
        try:
            async with guest.turn:
                yield await self._there(guest)
                guest.is_sound = True
        finally:
            guest.due -= size
            if not guest.due:
                self._keep(guest)

    def close(self) -> None:
        """Hang up."""
        for guest in self._guests:
            guest.hang_up()
        self._guests.clear()

    def _chosen(self, size: int) -> _Guest | None:
        """The one that is through with its work first, or a new one where that takes too long."""
        if size < MORE:
            return None
        first = min(self._guests, key=lambda guest: guest.due, default=None)
        if first is not None and (not first.due or (size >= MUCH and first.due <= SOON)):
            return first if size >= MUCH or first.is_of_use else None
        return self._another() if size >= MUCH else None

    def _another(self) -> _Guest:
        self._guests.append(_Guest())
        return self._guests[-1]

    async def _there(self, guest: _Guest) -> Courier | None:
        """Until it is known that it was used to the end nobody shall use it again."""
        guest.wait_no_more()
        if not guest.is_of_use:
            guest.hang_up()
            guest.courier = await self._dial()
        guest.is_sound = False
        return guest.courier

    def _keep(self, guest: _Guest) -> None:
        """For a while, if it is of use still."""
        if guest.is_of_use:
            guest.waits = asyncio.get_running_loop().call_later(KEPT_S, self._let_go, guest)
        else:
            self._let_go(guest)

    def _let_go(self, guest: _Guest) -> None:
        guest.hang_up()
        if guest in self._guests:
            self._guests.remove(guest)


class _Guest:
    """One connection, or what shall be one."""

    def __init__(self) -> None:
        self.courier: Courier | None = None
        self.turn = asyncio.Lock()
        self.due = 0
        """Bytes that are on their way, and that wait for that."""
        self.is_sound = False
        self.waits: asyncio.TimerHandle | None = None

    @property
    def is_of_use(self) -> bool:
        return self.courier is not None and self.is_sound and not self.courier.broken

    def wait_no_more(self) -> None:
        if self.waits is not None:
            self.waits.cancel()
            self.waits = None

    def hang_up(self) -> None:
        self.wait_no_more()
        if self.courier is not None:
            self.courier.close()
            self.courier = None
