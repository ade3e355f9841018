"""Ports for servers that have to know theirs before they listen, or that listen again on the same one.

The ranges lie below `ip_local_port_range`, from which the kernel assigns ports, and do not overlap: the port of a
server that is stopped for a while stays free.
"""

from __future__ import annotations

import random
import socket

SSHD = range(10_000, 19_000)
"""For servers of tests/backends/ssh."""
OTHERS = range(19_000, 28_000)
"""For `quiet_port`."""
SLURM = range(28_000, 32_000)
"""For labs of tests/slurm, each of which claims a block."""


def quiet_port() -> int:
    """A port of loopback on which nobody listens."""
    while True:
        port = random.choice(OTHERS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
