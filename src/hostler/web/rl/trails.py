"""Reads what attempts write, as it comes: once for all who look, by offset, and of old output only the end.

An attempt's output is asked for no more than once in `REST_S`, however many look; each time only what is new. So
nobody who looks is known to the job, and a node hears of many viewers as of one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from hostler.model.errors import HostlerError
from hostler.web.desk import Desk
from hostler.web.rl.account import Account
from hostler.workloads.gameboy.shown import LINE_MAX

TAIL = 256 << 10
"""How much of old output is read."""
PIECE = 1 << 20
"""How much of new output is read at once; of what has got further away than that, the end."""
LINES_MAX = 4096
"""Lines of JSON in a piece that are understood; of more, the last ones. Trainings write a few."""
REST_S = 1.0
FAULT_REST_S = 5.0
"""After it could not be read."""
PATIENCE_S = 3.0
"""A node that takes longer is as one that does not answer."""
KEPT = 128
"""Those that the controller listens to, and as many more."""
BREATH = 64
"""So many lines are read without letting others go on."""


@dataclass
class Trail:
    """An attempt's output, as far as it was read."""

    account: Account = field(default_factory=Account)
    next: int | None = None
    """Where to read on; `None`: nothing was read yet."""
    rest: bytes = b""
    """A line that is not whole yet."""
    is_cut: bool = False
    """Up to the end of this line nothing is read: its beginning is not known."""
    is_over: bool = False
    """There will be no more."""
    pending: deque[tuple[bytes, bool]] = field(default_factory=deque)
    """Lines that were read and not understood yet, and whether they are new: whoever looks may go away meanwhile."""
    fault: str | None = None
    due_at: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def lines(self, offset: int, data: bytes) -> list[bytes]:
        """Whole lines of a piece of output. What does not follow on what was read before begins with half a line."""
        if offset != (self.next or 0):
            self.rest, self.is_cut = b"", True
        self.next = offset + len(data)
        found = data.split(b"\n")
        found[0] = self.rest + found[0]
        self.rest = found.pop()
        if self.is_cut and found:
            found, self.is_cut = found[1:], False
        if self.is_cut:
            self.rest = b""
        elif len(self.rest) > LINE_MAX:
            self.account.skipped += 1
            self.rest, self.is_cut = b"", True
        return found


class Trails:
    """The trails that somebody looked at of late."""

    def __init__(self, desk: Desk, now: Callable[[], float] | None = None) -> None:
        self._desk = desk
        self._now = now or (lambda: asyncio.get_running_loop().time())
        self._kept: OrderedDict[str, Trail] = OrderedDict()

    async def look(self, attempt: str) -> Trail:
        """An attempt's output as it is now, or was a moment ago."""
        trail = self._trail(attempt)
        async with trail.lock:
            if not trail.is_over and self._now() >= trail.due_at:
                await self._read(attempt, trail)
            await self._understand(trail)
        return trail

    def _trail(self, attempt: str) -> Trail:
        trail = self._kept.setdefault(attempt, Trail())
        self._kept.move_to_end(attempt)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return trail

    async def _read(self, attempt: str, trail: Trail) -> None:
        is_first = trail.next is None
        offset, limit = (-TAIL, TAIL) if trail.next is None else (trail.next, PIECE)
        try:
            async with asyncio.timeout(PATIENCE_S):
                piece = await self._desk.log(attempt, "out", offset, limit)
                if piece.size > piece.offset + len(piece.data) + PIECE:
                    piece = await self._desk.log(attempt, "out", -TAIL, TAIL)
                elif is_first and piece.offset and piece.data.count(b"\n") < 2:
                    # Not one whole line: they are long.
                    piece = await self._desk.log(attempt, "out", -PIECE, PIECE)
        except (HostlerError, TimeoutError) as error:
            trail.fault = str(error) or f"its node did not answer within {PATIENCE_S:.0f} s"
            trail.due_at = self._now() + FAULT_REST_S
            return
        trail.fault, trail.due_at = None, self._now() + REST_S
        lines = trail.lines(piece.offset, piece.data)
        trail.is_over = piece.ended and piece.offset + len(piece.data) >= piece.size
        if trail.is_over and trail.rest:
            lines.append(trail.rest)
            trail.rest = b""
        told = [line for line in lines if line.lstrip().startswith(b"{")]
        trail.account.skipped += max(len(told) - LINES_MAX, 0)
        trail.pending.extend((line, not is_first) for line in told[-LINES_MAX:])

    async def _understand(self, trail: Trail) -> None:
        now = self._desk.status().at
        while trail.pending:
            for _ in range(min(BREATH, len(trail.pending))):
                line, is_new = trail.pending.popleft()
                trail.account.take(line, now, is_new=is_new)
            await asyncio.sleep(0)
