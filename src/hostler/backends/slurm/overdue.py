"""What was asked to end and does not: when is its allocation taken from it? Values in, values out.

Its agent may hang, its host may be gone, an administrator may have suspended it: what was said reaches nobody then.
"""

from __future__ import annotations

from hostler.backends.slurm.berths import Berth

MARGIN_S = 60.0
"""How long after its time of grace something may still go on, and how long an agent may say nothing."""
UNKNOWN_GRACE_S = 600.0
"""Time of grace of what an earlier controller has begun: the journal of batches does not say how long it is."""
AGAIN_S = 180.0
"""How often the same allocation is cancelled: a host that is gone may keep the cluster from ending it for long."""


def overdue(berth: Berth, now: float) -> list[str]:
    """What should have ended by now, where that is reason to cancel the allocation; nothing where it is not.

    What else is wanted in it protects it as long as its agent talks. With one that does not it is given up: nobody
    knows whether anything of it goes on, and it is begun again elsewhere.
    """
    if not berth.is_up or (berth.cancelled_at is not None and now - berth.cancelled_at < AGAIN_S):
        return []
    began_at = now if berth.began_at is None else berth.began_at
    if now - began_at < MARGIN_S:
        return []  # it was reached, or reached again, a moment ago, and is being told
    late = [name for name, stop in berth.stops.items() if berth.awaits(name) and now >= stop.by + MARGIN_S]
    is_silent = now - (began_at if berth.heard_at is None else berth.heard_at) >= MARGIN_S
    return late if is_silent or len(late) == len(berth.orders) + len(berth.chunks) else []
