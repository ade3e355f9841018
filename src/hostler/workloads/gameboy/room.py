"""How many CPUs there are for this process: those that it may be on, or less where its control group allows less."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def cpus(own: Path = OWN, groups: Path = GROUPS) -> int:
    """At least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([allowed, *(int(quota) for quota in _quotas(own, groups))]))


def crowded(workers: int, room: int) -> str | None:
    """Why so many workers should not be begun on this machine; `None`: there is room for them."""
    if workers <= room:
        return None
    return (
        f"{workers} workers (`workers`, RAY_WORKERS) are to be processes of this machine, where {room} "
        f"CPU{'s are' if room > 1 else ' is'} for this one: more only wait for each other. Ask for {room}, name the "
        "cluster that they are to be on (`ray`), or say `crowded: true` if that is what you want"
    )


def _quotas(own: Path, groups: Path) -> Iterator[float]:
    """In CPUs, of its control group and all that this one is in (cgroup v2, `cpu.max`)."""
    for folder in _folders(own, groups):
        with suppress(OSError, ValueError):  # not there, or without a quota: `max`
            quota, period = (folder / "cpu.max").read_text().split()
            yield int(quota) / int(period)


def _folders(own: Path, groups: Path) -> Iterator[Path]:
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("0::"):
            folder = groups / line.removeprefix("0::").lstrip("/")
            yield from (folder, *(each for each in folder.parents if each.is_relative_to(groups)))
