"""A slow line: carries frames between two network interfaces, late, and no more of them than its rate allows.

Usage: wire.py NEAR FAR BITS_PER_S DELAY_S; runs until its standard input ends. There is no netem in every kernel.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections import deque

QUEUE_S = 1.0
"""Frames that would wait longer than this are dropped, as any router does."""
ETH_P_ALL, SOL_PACKET, PACKET_VNET_HDR = 0x0003, 263, 15
FRAME_MAX = 1 << 17


class Line:
    """One direction."""

    def __init__(self, source: socket.socket, target: socket.socket, bits_per_s: float, delay_s: float) -> None:
        self.source = source
        self._target = target
        self._bits_per_s = bits_per_s
        self._delay_s = delay_s
        self._free_at = 0.0
        self._on_way: deque[tuple[float, bytes]] = deque()

    def take(self, now: float) -> None:
        """A frame comes in; those that this end has sent itself are not meant."""
        frame, (_, _, kind, *_rest) = self.source.recvfrom(FRAME_MAX)
        if kind == socket.PACKET_OUTGOING:
            return
        begins = max(now, self._free_at)
        if begins - now < QUEUE_S:
            self._free_at = begins + 8 * len(frame) / self._bits_per_s
            self._on_way.append((self._free_at + self._delay_s, frame))

    def deliver(self, now: float) -> float | None:
        """Frames whose time has come go out; when the next one's comes."""
        while self._on_way and self._on_way[0][0] <= now:
            self._target.send(self._on_way.popleft()[1])
        return self._on_way[0][0] if self._on_way else None


def main(near: str, far: str, bits_per_s: str, delay_s: str) -> None:
    """Carry."""
    ends = opened(near), opened(far)
    lines = [Line(*pair, float(bits_per_s), float(delay_s)) for pair in (ends, ends[::-1])]
    print("ready", flush=True)
    while True:
        due = [at for line in lines if (at := line.deliver(time.monotonic())) is not None]
        wait_s = max(0.0, min(due) - time.monotonic()) if due else None
        ready, _, _ = select.select([sys.stdin, *(line.source for line in lines)], [], [], wait_s)
        if sys.stdin in ready:
            return
        for line in lines:
            if line.source in ready:
                line.take(time.monotonic())


def opened(name: str) -> socket.socket:
    """All frames of an interface."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    # Before each frame comes what a card would do with it yet: sums, and cutting to size.
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.bind((name, 0))
    return end


if __name__ == "__main__":
    main(*sys.argv[1:])
