"""Who must yield? Evaluation, training and its exports may take a device from self-play; never the reverse."""

from __future__ import annotations

from collections.abc import Mapping

from hostler.model.work import WorkKind

YIELDS_TO: Mapping[WorkKind, frozenset[WorkKind]] = {
    # An export is short, and the training behind it waits for it.
    WorkKind.SELFPLAY: frozenset({WorkKind.TRAINING, WorkKind.EVALUATION, WorkKind.EXPORT}),
}
"""Which kinds may take a device from a kind of work; kinds that are not named keep what they have."""
FLOOR = 0.5
"""Part of its share that a kind of work keeps, whoever else is in a hurry."""
SETTLED_S = 3600.0
"""Device time that must have been served before anybody's part of it means something."""


def may_yield(holder: WorkKind, served_s: Mapping[WorkKind, float], shares: Mapping[WorkKind, float]) -> bool:
    """Whether a kind of work has had enough of its share to leave a device before its time.

    `served_s` are device seconds, fading; kinds that have had nothing do not count for the share.
    """
    total_s = sum(served_s.values())
    if total_s < SETTLED_S:
        return True
    whole = sum(shares.get(kind, 0.0) for kind, seconds in served_s.items() if seconds > 0)
    if whole <= 0:
        return True
    return served_s.get(holder, 0.0) / total_s >= FLOOR * shares.get(holder, 0.0) / whole
