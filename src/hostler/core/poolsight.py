"""What is known of pools at the moment. Volatile: a controller that begins knows nothing."""

from __future__ import annotations

from dataclasses import field

from hostler.model.pools import Seen
from hostler.model.record import entity


@entity
class PoolSight:
    """What was last seen of pools, each by the name of its node, and what follows from it (`core.pools`)."""

    seen: dict[str, Seen] = field(default_factory=dict)
    times: int = 0
    """How often anything was seen."""
    waiting: dict[str, tuple[tuple[int, int], int]] = field(default_factory=dict)
    """Slots that wait in the cluster's queue, and when they were counted."""
    idle: dict[str, tuple[tuple[int, int], dict[str | None, list[str]]]] = field(default_factory=dict)
    """Slots by class that run and have nothing to do, and when they were looked for."""
