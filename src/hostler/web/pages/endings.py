"""The last lines that a failed attempt wrote, for the page of its job.

They are read once for all who look, and kept: an attempt that has ended writes no more. A node that does not answer is
asked again after a rest, so that a page which is followed does not ask it every second.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from typing import NamedTuple

from hostler.model.errors import HostlerError
from hostler.model.units import printable
from hostler.web.desk import Desk

LINES = 20
READ_BYTES = 8192
LINE_SHOWN = 1000
PATIENCE_S = 2.0
REST_S = 10.0
KEPT = 200
STREAMS = {"err": "standard error", "out": "standard output"}
"""Standard error comes first; where it is empty, standard output is shown."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Ending(NamedTuple):
    """The end of an attempt's output."""

    attempt: str
    stream: str | None
    """Its stream in words; `None` where the attempt wrote none, or that is unknown."""
    lines: tuple[str, ...]
    unread: str | None = None
    """The reason for which the output is unknown."""


class Endings:
    """Reads and keeps ends of outputs."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Ending, float | None]] = OrderedDict()
        """With the time of the loop after which it is read again; `None`: never."""

    async def of(self, desk: Desk, attempt: str) -> Ending:
        """The end of what an attempt wrote."""
        now = asyncio.get_running_loop().time()
        kept = self._kept.get(attempt)
        if kept is not None and (kept[1] is None or kept[1] > now):
            return kept[0]
        found, has_ended = await _read(desk, attempt)
        self._kept[attempt] = found, None if has_ended else now + REST_S
        self._kept.move_to_end(attempt)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found


def last_lines(data: bytes, *, is_cut: bool) -> tuple[str, ...]:
    """The last lines of an output, without colours; `is_cut` where the first of them is the end of one."""
    text = COLOURS.sub("", data.decode("utf-8", "replace")).replace("\r\n", "\n")
    lines = text.rstrip("\n").split("\n") if text.strip() else []
    whole = lines[1:] if is_cut and len(lines) > 1 else lines
    return tuple(_shown(line) for line in whole[-LINES:])


def _shown(line: str) -> str:
    # A progress bar writes one line again and again.
    return printable(line.rstrip("\r").rpartition("\r")[2].expandtabs(4), LINE_SHOWN)


async def _read(desk: Desk, attempt: str) -> tuple[Ending, bool]:
    """The end of an output, and whether the attempt writes no more."""
    has_ended = True
    try:
        async with asyncio.timeout(PATIENCE_S):
            for stream, words in STREAMS.items():
                chunk = await desk.log(attempt, stream, -READ_BYTES, READ_BYTES)
                has_ended = has_ended and chunk.ended
                lines = last_lines(chunk.data, is_cut=chunk.offset > 0)
                if lines:
                    return Ending(attempt, words, lines), has_ended
    except TimeoutError:
        return Ending(attempt, None, (), f"no answer within {PATIENCE_S:.0f} s"), False
    except HostlerError as error:
        return Ending(attempt, None, (), str(error)), False
    return Ending(attempt, None, ()), has_ended
