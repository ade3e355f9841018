"""How much training do new positions allow, and how far may self-play run ahead of it?

The limiter of off-policy learners: each new position is to be trained on neither too rarely nor too often. After the
rate limiter of Reverb (Cassirer et al., 2021), with samples per insert bounded on both sides.
"""

from __future__ import annotations

from hostler.model.record import record


@record
class Pace:
    """The bounds of a config: `least <= steps × batch / new positions <= most`."""

    least: float
    most: float
    batch: int
    max_steps: int


def steps_allowed(pace: Pace, new_positions: int) -> int:
    """Optimiser steps that so many new positions are good for."""
    return min(int(pace.most * new_positions / pace.batch), pace.max_steps)


def ahead(pace: Pace, untrained_positions: int) -> str | None:
    """Why self-play should wait for training; `None` while training can still catch up in one job."""
    owed = pace.least * untrained_positions / pace.batch
    if owed <= pace.max_steps:
        return None
    return (
        f"self-play is ahead: {untrained_positions} positions not trained on want {owed:.0f} steps at least, "
        f"one training takes {pace.max_steps}"
    )
