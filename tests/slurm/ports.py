"""Blocks of ports for labs beside one another."""

from __future__ import annotations

import contextlib
import random
import socket

from tests.ports import SLURM

SIZE = 20


class Ports:
    """A block of `SIZE` ports that no other lab of this machine takes while this one lives."""

    def __init__(self) -> None:
        blocks = list(SLURM[::SIZE])
        random.shuffle(blocks)
        for first in blocks:
            claim = _claim(first)
            if claim is not None:
                self.first = first
                self._claim = claim
                return
        raise AssertionError(f"no {SIZE} free ports in a row in {SLURM}")

    def __getitem__(self, at: int) -> int:
        if not 0 <= at < SIZE:
            raise IndexError(at)
        return self.first + at

    def close(self) -> None:
        """Let others have them."""
        self._claim.close()


def _claim(first: int) -> socket.socket | None:
    """A name that only one process can have, and that goes with it; `None` where the block is taken."""
    claim = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(OSError):
        claim.bind(f"\0hostler-slurm-lab-{first}")
        for port in range(first, first + SIZE):
            _try(port)
        return claim
    claim.close()
    return None


def _try(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("0.0.0.0", port))
