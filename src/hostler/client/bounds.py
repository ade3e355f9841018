"""Bounds of what an answer may bring: its size, and the time that it takes. A server may send without an end."""

from __future__ import annotations

import math
import time

from hostler.model.errors import AnswerError
from hostler.model.units import file_size

BODY_BYTES_MAX = 1 << 28
"""Of an answer that is read as a whole: 100,000 jobs need a tenth of it."""
LINE_BYTES_MAX = 1 << 25
"""Of a line or an event of a stream: the largest event of the journal is a submission."""
PACE_BYTES_S = 1024
"""What comes for longer than the timeout comes at least so fast on average."""


class Bounds:
    """What came of one answer, or of one line of a stream, and since when."""

    def __init__(self, url: str, timeout_s: float | None, most: float) -> None:
        """`most` bytes come; they may take `timeout_s` and what they need at `PACE_BYTES_S`."""
        self._url = url
        self._timeout_s = math.inf if timeout_s is None else timeout_s
        self._most = most
        self._began_at = time.monotonic()
        self._came = 0

    def count(self, size: int) -> None:
        """Some more bytes have come. Raises `AnswerError` where they are too many, or come too slowly."""
        self._came += size
        if self._came > self._most:
            raise AnswerError(
                f"{self._url} answers with more than {file_size(int(self._most))}, which no controller does. Check the "
                "address"
            )
        took_s = time.monotonic() - self._began_at
        if took_s > self._timeout_s + self._came / PACE_BYTES_S:
            raise AnswerError(
                f"{self._url} answers too slowly: {self._came} bytes in {took_s:.0f} s. Whether it did what was asked "
                "is not known; check the network and the address"
            )


class Lines:
    """The lines of a stream from its pieces, each of them within `LINE_BYTES_MAX`."""

    def __init__(self, url: str, timeout_s: float | None) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._rest = bytearray()
        self._bounds: Bounds | None = None

    def feed(self, piece: bytes) -> list[str]:
        """The lines that have come to their end, without it. Raises `AnswerError`."""
        self._rest += piece
        lines: list[bytes] = []
        came = len(piece)
        if b"\n" in piece:
            *lines, rest = bytes(self._rest).split(b"\n")
            self._rest, self._bounds, came = bytearray(rest), None, len(rest)
        if self._rest:
            if self._bounds is None:
                self._bounds = Bounds(self._url, self._timeout_s, LINE_BYTES_MAX)
            self._bounds.count(came)
        return [line.removesuffix(b"\r").decode(errors="replace") for line in lines]
