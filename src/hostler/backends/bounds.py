"""What the controller takes of one node: sizes, numbers, and how fast; `limits:` of the fleet file sets most of it.

A node is not trusted to keep a limit. One that breaks one loses its link, and the fault is recorded; a backlog within
the limits is read at the rate that they allow.
"""

from __future__ import annotations

from hostler.model.errors import LinkLost
from hostler.model.record import record

SLICE = 200
"""Facts that are taken in one step: other work of the controller goes on between two."""
BYTES_PER_FACT = 4096
"""A line counts as one fact for so many bytes, beside the facts in it."""
FACTS_PER_LINE, FACTS_PER_MESSAGE = 5, 20
"""A line of facts counts as so many at least, any other message as so many: each is a step of the core."""
BEHIND_S = 60.0
"""A node that reports faster than it may for so long, without a pause, loses its link."""
FILES_LINE = 8 << 20
"""Bytes of the longest answer about files."""
ENVELOPE_LEVELS = 4
"""Levels of a message around a value of its owner's."""


class NodeFault(LinkLost):
    """A node said what cannot be understood. Its link is closed, and made again later than one that was lost by
    chance."""


class LimitBroken(NodeFault):
    """A node went beyond a limit."""


@record
class Bounds:
    """The limits of one node."""

    line_bytes: int = 1 << 20
    """Longest line that has neither a result nor hits in it."""
    facts_per_s: float = 2000.0
    facts_burst: int = 10_000
    """Facts that may come at once, or in one line."""
    result_bytes: int = 1 << 20
    hits_bytes: int = 6 << 20
    """Of one chunk, the results of calls among them."""
    error_bytes: int = 4096
    log_bytes: int = 10 << 20
    """Of each output stream that is kept here."""
    outputs: int = 20_000
    """Files that one attempt may leave."""
    depth: int = 64
    """Levels of a result, of hits."""

    @property
    def longest_line(self) -> int:
        """Bytes of a line with one result, which may take twice its size in ASCII, or with the hits of one chunk."""
        return self.line_bytes + max(2 * self.result_bytes, self.hits_bytes)

    @property
    def longest_read(self) -> int:
        """Bytes that a reader keeps of a line before it gives up; answers about files come on such connections, too."""
        return max(self.longest_line, FILES_LINE)


USUAL = Bounds()


CARRIERS = frozenset({"facts", "so_far", "progress"})
"""Messages with results or hits in them, which may be longer than others."""
CONTAINERS_MOST = 1 << 17
"""Lists and objects in one line: each costs more time than its bytes."""


def expect_bearable(line: bytes, bounds: Bounds) -> None:
    """Raise `LimitBroken` where a line would take too long to be read."""
    if len(line) > bounds.longest_line:
        raise LimitBroken(
            f"a line has more than {bounds.longest_line} bytes (`limits.line_bytes`, `limits.hits_bytes`)"
        )
    if line.count(b"[") + line.count(b"{") > CONTAINERS_MOST:
        raise LimitBroken(f"a line has more than {CONTAINERS_MOST} lists and objects")


def expect_carrier(kind: object, facts: int, size: int, bounds: Bounds) -> None:
    """Raise `LimitBroken` where a long line has more in it than one result, or the hits of one chunk."""
    if size > bounds.line_bytes and (kind not in CARRIERS or facts > 1):
        raise LimitBroken(f"a line of {size} bytes is no single result; {bounds.line_bytes} are allowed")


class Pace:
    """How fast one link reports: a bucket of facts that fills at the rate that settings allow."""

    def __init__(self, bounds: Bounds, now: float) -> None:
        self._bounds = bounds
        self._left = float(bounds.facts_burst)
        self._at = now
        self._behind_since: float | None = None

    def wait_s(self, facts: int | None, size: int, now: float) -> float:
        """How long to wait after a line of so many facts and bytes; `None`: it is no line of facts, but of telemetry
        for example. Raises `LimitBroken`."""
        bounds = self._bounds
        if facts is not None and facts > bounds.facts_burst:
            raise LimitBroken(f"a line has {facts} facts, {bounds.facts_burst} are allowed (`limits.facts_burst`)")
        self._left = min(self._left + (now - self._at) * bounds.facts_per_s, float(bounds.facts_burst))
        self._at = now
        cost = FACTS_PER_MESSAGE if facts is None else max(facts, FACTS_PER_LINE)
        self._left -= cost + size // BYTES_PER_FACT
        if self._left >= 0:
            self._behind_since = None
            return 0.0
        if self._behind_since is None:
            self._behind_since = now
        if now - self._behind_since > BEHIND_S:
            raise LimitBroken(
                f"it has reported more than {bounds.facts_per_s:g} facts per second for {BEHIND_S:g} s "
                "(`limits.facts_per_s`)"
            )
        return -self._left / bounds.facts_per_s
