"""How full a disk is, that of the state directory or a node's, in the words of `policy.pressure`: one definition."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hostler.model.rules import Targets
from hostler.model.telemetry import Level
from hostler.policy import pressure
from hostler.policy.pressure import DISK, DISK_FREE, STORE, Reading

GB = 2.0**30


class Disk(NamedTuple):
    """What was measured just now, and what it means. `None`: it could not be."""

    total_bytes: int | None
    free_bytes: int | None
    used: float | None
    level: Level
    says: str
    own: Level
    """The level by the share taken alone, which it keeps until that is better by a margin."""


def measured(roots: Mapping[str, Path], before: Level, targets: Targets) -> Disk:
    """The disk that the roots lie on; `before` is the level that it had."""
    return of_bytes(*_numbers(roots), STORE, before, targets)


def of_bytes(total: int | None, free: int | None, name: str, before: Level, targets: Targets) -> Disk:
    """A disk of so many bytes; `name` is the signal that its share is judged as, `before` the level which that had."""
    gb = (None, None) if total is None or free is None else (total / GB, free / GB)
    used = pressure.used_share(*gb)
    readings = [
        Reading(name, used, most=pressure.most_of_share(gb[1], targets)),
        Reading(DISK_FREE, gb[1]),
    ]
    signals = pressure.judge(readings, {name: before}, targets)
    worst = pressure.worst(signals) or signals[0]
    return Disk(total, free, used, worst.level, pressure.words(worst), signals[0].level)


def over_by(disk: Disk, targets: Targets) -> int:
    """Bytes that have to go until the state directory's disk is well below the level where it is cleaned, and has the
    free space it needs."""
    return _over(disk, targets, min(targets.disk_store, targets.disk_critical) * (1 - pressure.MARGINS[STORE]))


def over_warning(disk: Disk, targets: Targets) -> int:
    """Bytes that have to go until a node's disk is well below its warning, and has the free space it needs."""
    return _over(disk, targets, targets.disk_warning * (1 - pressure.MARGINS[DISK]))


def _over(disk: Disk, targets: Targets, limit: float) -> int:
    if disk.total_bytes is None or disk.free_bytes is None:
        return 0
    used = disk.total_bytes - disk.free_bytes
    share = (
        0 if pressure.most_of_share(disk.free_bytes / GB, targets) < Level.CLEAN else used - limit * disk.total_bytes
    )
    return max(int(share), int(targets.disk_free_gb * GB) - disk.free_bytes, 0)


def _numbers(roots: Mapping[str, Path]) -> tuple[int | None, int | None]:
    """Free for who may not use what is kept for root, which counts as taken."""
    for root in roots.values():
        try:
            told = os.statvfs(root)
        except OSError:
            continue
        free = told.f_bavail * told.f_frsize
        taken = (told.f_blocks - told.f_bfree) * told.f_frsize
        return taken + free, free
    return None, None
