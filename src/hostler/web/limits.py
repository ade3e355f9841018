"""How often somebody may be wrong."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict, deque

FAILURES_MOST = 10
"""So many failures of one address ..."""
WINDOW_S = 60.0
"""... within so many seconds, and it waits until the first of them is so long ago."""
ADDRESSES_MOST = 10_000
"""Addresses that are remembered; those that failed longest ago are forgotten first."""


class Failures:
    """Failed attempts by address, in memory of bounded size."""

    def __init__(self) -> None:
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_s(self, address: str, now: float) -> float | None:
        """How long an address has to wait before it may be wrong again; `None` where it need not."""
        times = self._times.get(_network(address))
        if times is None:
            return None
        while times and times[0] <= now - WINDOW_S:
            times.popleft()
        return times[0] + WINDOW_S - now if len(times) >= FAILURES_MOST else None

    def note(self, address: str, now: float) -> None:
        """Somebody at this address was wrong."""
        name = _network(address)
        self._times.setdefault(name, deque(maxlen=FAILURES_MOST)).append(now)
        self._times.move_to_end(name)
        while len(self._times) > ADDRESSES_MOST:
            self._times.popitem(last=False)


def _network(address: str) -> str:
    """One machine has one IPv4 address, and as many IPv6 addresses of its network as it likes."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
