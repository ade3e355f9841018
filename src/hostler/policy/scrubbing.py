"""How fast must stored copies be read again, and which now? Each within a promised time, the longest unread first.

Whoever reads has a budget of bytes, which grows with time at a rate: the least at which every copy's turn comes before
it is due. Copies are due some time before the promise ends, so that what is in good order never ceases to count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hostler.model.record import record

AIM = 0.75
"""The part of the promised time within which copies are read again; the rest is for stores that do not answer."""
DAY_S = 86_400.0
GB, MB = 1e9, 1e6


class Age(NamedTuple):
    """Copies in a place that were last read at about the same time."""

    verified_at: float
    """When the last of them was read (Unix time)."""
    bytes: int
    copies: int = 1


@record
class Pace:
    """How fast a place is read."""

    bytes: int
    """All that lies there."""
    needed: float
    """Bytes a second at which every copy's turn comes in time; infinite where one is due already."""
    allowed: float
    """Bytes a second at which it is read: what is needed, and no more than the bound."""
    overdue_bytes: int
    """What was not read for longer than it should have been."""
    why: str | None = None
    """Why the promise cannot be kept, with the arithmetic; `None`: it can."""


def pace(place: str, ages: Sequence[Age], at: float, promise_s: float, bound: float, saved: float = 0.0) -> Pace:
    """How fast `place` should be read at `at`, with at most `bound` bytes a second; `saved` is budget that is left."""
    aim_s = promise_s * AIM
    needed = demand(ages, at, aim_s, saved)
    whole = sum(each.bytes for each in ages)
    overdue = sum(each.bytes for each in ages if each.verified_at + aim_s <= at)
    made = Pace(bytes=whole, needed=needed, allowed=min(needed, bound), overdue_bytes=overdue)
    if needed <= bound:
        return made
    steady = whole / aim_s
    words = _never(place, whole, promise_s, bound) if steady > bound else _late(place, ages, at, promise_s, bound)
    return Pace(bytes=whole, needed=needed, allowed=bound, overdue_bytes=overdue, why=words)


def demand(ages: Iterable[Age], at: float, aim_s: float, saved: float = 0.0) -> float:
    """The least bytes a second at which all are read before they are due, if the oldest go first.

    That of the worst beginning of the queue: what is in it, over the time until its last is due. Never less than what
    reads everything once in `aim_s`, so that what was written in one day is not read in one day for ever.
    `saved` is budget that there is for the first of them.
    """
    before, most, whole = -saved, 0.0, 0
    for each in sorted(ages):
        before += each.bytes
        whole += each.bytes
        if before <= 0 or each.bytes == 0:
            continue
        left_s = each.verified_at + aim_s - at
        if left_s <= 0:
            return float("inf")
        most = max(most, before / left_s)
    return max(most, whole / aim_s)


def turn(sizes: Sequence[int], budget: float) -> tuple[int, float]:
    """How many of these, which are in order, may be read now, and what of the budget is left.

    Nothing is read before there is budget for all of it, and nothing overtakes: a large one would wait for ever.
    """
    taken = 0
    for size in sizes:
        if size > budget:
            break
        budget -= size
        taken += 1
    return taken, budget


def wait_s(sizes: Sequence[int], budget: float, rate: float) -> float:
    """How long until there is budget for the first of these; infinite where there is none, or nothing grows."""
    if not sizes:
        return float("inf")
    lacking = sizes[0] - budget
    if lacking <= 0:
        return 0.0
    return lacking / rate if rate > 0 else float("inf")


def _never(place: str, whole: int, promise_s: float, bound: float) -> str:
    """More lies there than can be read in the time, ever."""
    least_s = whole / bound / AIM
    return (
        f"copies in {place} cannot all be read every {promise_s / DAY_S:.3g} days: {whole / GB:,.4g} GB in "
        f"{AIM:g} of that take {whole / (promise_s * AIM) / MB:.3g} MB/s, and replication.scrub_mb_per_s allows "
        f"{bound / MB:.3g}; allow more, or set replication.reread_s to {least_s:.0f} or more"
    )


def _late(place: str, ages: Sequence[Age], at: float, promise_s: float, bound: float) -> str | None:
    """It could be, but was not for a while: said only if copies will cease to count meanwhile."""
    before, latest = 0, 0.0
    for each in sorted(ages):
        before += each.bytes
        latest = max(latest, before / bound - (each.verified_at + promise_s - at))
    if latest <= 0:
        return None
    return (
        f"copies in {place} are read late: at the {bound / MB:.3g} MB/s of replication.scrub_mb_per_s some are reached "
        f"{latest / DAY_S:.2g} days after replication.reread_s, and do not count meanwhile; allow more to be sooner"
    )
