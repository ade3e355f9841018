"""What is said where nodes call that nobody can connect to: by strangers, by callers that are known, and to them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from hostler.agent.protocol import RequestError
from hostler.agent.uplink import Controller, Refused, Uplink
from hostler.backends.channel import LINE_MAX
from hostler.backends.dialin.switchboard import Stranger, Switchboard, Waiting, _first_line
from hostler.model.errors import LinkLost

from .base import Target
from .controller_lines import deaf
from .samples import said

WORDS = {"type": "dial", "protocol": 1, "node": "n", "token": "t" * 20, "dir": "/x", "dialler": "d"}


def target(data: bytes) -> None:
    """A caller is who it says, or a stranger; whatever it says later ends its own call at most."""
    asyncio.run(_called(data))
    uplink = Uplink(Controller("h", 1, "0" * 64))
    uplink._stream = _Said(data)  # type: ignore[assignment]
    with suppress(Refused, OSError, RequestError):
        uplink.call({})


class _Said:
    """A stream out of which this comes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def settimeout(self, within_s: float) -> None:
        """Nothing waits."""

    def sendall(self, data: bytes) -> None:
        """Nobody hears it."""

    def recv(self, size: int) -> bytes:
        """The next bytes."""
        found, self._data = self._data[:size], self._data[size:]
        return found


async def _called(data: bytes) -> None:
    writer = deaf(_reader(b""))
    try:
        await _heard(data, writer)
    finally:
        writer.close()


async def _heard(data: bytes, writer: asyncio.StreamWriter) -> None:
    board = Switchboard("journal", lambda node: "t" * 20 if node == "n" else None)
    first, _, rest = data.partition(b"\n")
    try:
        words = await _first_line(_reader(first + b"\n"))
        known = board._known(words, _reader(rest), writer)
    except Stranger as error:
        assert 0 < len(str(error)) < 1000
        return
    assert words["token"] == "t" * 20
    with suppress(Exception):  # what ends a call is logged, and ends nothing else
        await board._wait(known)
    assert known.answer.done()
    assert isinstance(known, Waiting)
    if known.answer.exception() is None:
        assert known.answer.result()["type"] in ("taken", "failed")
    else:
        assert isinstance(known.answer.exception(), LinkLost)


def _reader(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=LINE_MAX)
    reader.feed_data(data)
    reader.feed_eof()
    return reader


def _dialled(*more: Any) -> bytes:
    return said(WORDS, *more)


TARGET = Target(
    name="dial_in",
    run=target,
    seeds=(
        _dialled({"type": "ping"}, {"type": "ping"}, {"type": "taken"}),
        _dialled({"type": "failed", "reason": "r"}),
        said({"type": "welcome", "journal": "j1"}, {"type": "take"}),
        said({"type": "refused", "reason": "no"}),
        said({**WORDS, "protocol": 2}),
        b"GET / HTTP/1.1\r\n\r\n",
    ),
    reads=("hostler.backends.dialin.switchboard", "hostler.agent.uplink"),
    large={
        "one line": lambda: b"x" * (1 << 20),
        "pings": lambda: _dialled() + said({"type": "ping"}) * 60_000,
        "deep": lambda: _dialled() + b"[" * (1 << 20) + b"\n",
    },
)
