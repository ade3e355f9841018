"""What this node is and how it fares. What cannot be read is None, never 0.

Sources: sched_setaffinity(2), proc(5) and cgroups(7) versions 1 and 2. Its devices are told of in ``devices``.
"""

from __future__ import annotations

import os
import platform
import shutil
from typing import Iterator, List, Optional

from . import procs
from .protocol import Json

_UNLIMITED = 1 << 60


def node_facts(directory: str, devices: Optional[List[Json]]) -> Json:
    """FACTS of the protocol."""
    return {
        "host": platform.node(),
        "os": "%s %s" % (platform.system(), platform.release()),
        "arch": platform.machine(),
        "python": platform.python_version(),
        "cpus": cpus(),
        "memory_bytes": memory_bytes(),
        "disk_free_bytes": disk_free_bytes(directory),
        "boot": procs.boot_id(),
        "devices": devices,
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


def telemetry(directory: str, now: float, backlog_s: float, devices: List[Json]) -> Json:
    """The ``telemetry`` message at ``now``, in Unix seconds."""
    return {
        "type": "telemetry",
        "at": now,
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
        "memory_bytes": memory_bytes(),
        "memory_free_bytes": memory_free_bytes(),
        "disk_bytes": disk_bytes(directory),
        "disk_free_bytes": disk_free_bytes(directory),
        "backlog_s": round(backlog_s, 3),
        "devices": devices,
    }


def cpus() -> int:
    """CPUs this process may use: its affinity, less where a cgroup's quota allows less; at least 1."""
    allowed = len(os.sched_getaffinity(0))
    quotas = [quota for quota in _quotas() if quota > 0]
    return max(1, min([allowed] + [int(quota) for quota in quotas]))


def memory_bytes() -> Optional[int]:
    """Memory this process may use: the machine's, less where a cgroup allows less."""
    known = [limit for limit in _memory_limits() if 0 < limit < _UNLIMITED]
    total = _meminfo("MemTotal")
    if total is not None:
        known.append(total)
    return min(known) if known else None


def memory_free_bytes() -> Optional[int]:
    """Memory this process and its like could still take: the machine's, less where a cgroup allows less."""
    known = list(_memory_left())
    available = _meminfo("MemAvailable")
    if available is not None:
        known.append(available)
    return min(known) if known else None


def disk_bytes(directory: str) -> Optional[int]:
    """Size of the file system of ``directory``."""
    try:
        usage = shutil.disk_usage(directory)
        # As df reckons: what is kept back for root, or by a quota, is neither used nor free.
        return usage.used + usage.free
    except OSError:
        return None


def disk_free_bytes(directory: str) -> Optional[int]:
    """Bytes an ordinary user can still write in the file system of ``directory``."""
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return None


def _quotas() -> Iterator[float]:
    for folder in _cgroup_folders(""):
        fields = (_text(folder + "/cpu.max") or "max").split()
        if fields[0] != "max" and len(fields) == 2:
            yield max(1.0, int(fields[0]) / int(fields[1]))
    for folder in _cgroup_folders("cpu"):
        quota, period = _text(folder + "/cpu.cfs_quota_us"), _text(folder + "/cpu.cfs_period_us")
        if quota and period and int(quota) > 0:
            yield max(1.0, int(quota) / int(period))


def _memory_limits() -> Iterator[int]:
    for folder in _cgroup_folders(""):
        text = _text(folder + "/memory.max")
        if text and text != "max":
            yield int(text)
    for folder in _cgroup_folders("memory"):
        text = _text(folder + "/memory.limit_in_bytes")
        if text:
            yield int(text)


def _memory_left() -> Iterator[int]:
    """What each cgroup with a limit has left; pages of files that nobody uses just now can be had at any time."""
    names = (
        ("", "/memory.max", "/memory.current", "inactive_file"),
        ("memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"),
    )
    for controller, limit, usage, idle in names:
        for folder in _cgroup_folders(controller):
            most, used = _text(folder + limit), _text(folder + usage)
            if most and used and most.isdigit() and used.isdigit() and int(most) < _UNLIMITED:
                spare = _row(_text(folder + "/memory.stat"), idle)
                yield max(0, int(most) - int(used) + spare)


def _row(text: Optional[str], name: str) -> int:
    for row in (text or "").splitlines():
        key, _, value = row.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return 0


def _cgroup_folders(controller: str) -> Iterator[str]:
    """This process's cgroup and all above it, in the hierarchy of ``controller`` (empty: the unified one)."""
    base = "/sys/fs/cgroup" + ("/" + controller if controller else "")
    for row in (_text("/proc/self/cgroup") or "").splitlines():
        _, names, path = row.split(":", 2)
        if controller not in names.split(","):
            continue
        while True:
            yield base + path.rstrip("/")
            if path in ("/", ""):
                return
            path = os.path.dirname(path)


def _meminfo(name: str) -> Optional[int]:
    for row in (_text("/proc/meminfo") or "").splitlines():
        key, _, value = row.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return None


def _text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read().strip()
    except OSError:
        return None
