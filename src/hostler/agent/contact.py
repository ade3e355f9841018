"""When a controller was heard last: what the leases of attempts and workers are counted from.

Counted by the clock that neither anybody sets nor a sleeping machine stops. It goes on over a restart of the agent, and
begins anew with the machine.
"""

from __future__ import annotations

import time
from typing import Callable, Optional

from .node import Node

_NOTED_EVERY_S = 30.0


def uptime() -> float:
    """Seconds since the machine was started, those it slept among them where the system counts them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def over(silence_s: float, lease_s: float) -> str:
    """What is said of the end of a lease."""
    return "no word from a controller for %.0f s, its lease of %g s is over" % (silence_s, lease_s)


class Contact:
    """The last word of a controller, kept in the journal.

    ``noted`` is when the journal says that was; None if it does not say, or that was before the machine's last start.
    """

    def __init__(self, node: Node, noted: Optional[float], clock: Callable[[], float] = uptime) -> None:
        self._node = node
        self._clock = clock
        self._noted = self._heard = clock() if noted is None else noted

    def heard(self) -> None:
        """A controller has said something."""
        self._heard = self._clock()

    def note(self, due_s: float = _NOTED_EVERY_S) -> None:
        """Put it into the journal if what stands there is so much older: what is lost of that shortens leases."""
        if self._heard - self._noted >= due_s:
            self._noted = self._heard
            self._node.record({"op": "contact", "at": self._heard})

    def silence_s(self) -> float:
        """For how long no controller has said anything."""
        return max(0.0, self._clock() - self._heard)
