"""What this node is and how it fares. What cannot be read is None, never 0.

Sources: sched_setaffinity(2), proc(5), cgroups(7) versions 1 and 2, ``nvidia-smi --query-gpu`` and the amdgpu driver's
files under /sys/class/drm.
"""

from __future__ import annotations

import glob
import os
import platform
import shutil
from typing import Callable, Iterator, List, Optional

from . import procs
from .loop import Timer
from .node import Node
from .procs import SpawnError, Streams
from .protocol import Json

NVIDIA_QUERY = [
    "nvidia-smi",
    "--query-gpu=index,name,memory.total,uuid",
    "--format=csv,noheader,nounits",
]
_PATIENCE_S = 20.0
_LONGEST_ANSWER = 1 << 20
_AMD_VENDOR = "0x1002"
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
    }


def telemetry(directory: str, now: float) -> Json:
    """The ``telemetry`` message at ``now``, in Unix seconds."""
    return {
        "type": "telemetry",
        "at": now,
        "load": os.getloadavg()[0],
        "memory_free_bytes": _meminfo("MemAvailable"),
        "disk_free_bytes": disk_free_bytes(directory),
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


def disk_free_bytes(directory: str) -> Optional[int]:
    """Bytes an ordinary user can still write in the file system of ``directory``."""
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return None


class DeviceQuery:
    """Asks nvidia-smi without waiting for it, within a bound of time, and reads the AMD devices from /sys.

    ``on_devices`` gets the list of devices, None when nvidia-smi is there but gave no answer.
    """

    def __init__(self, node: Node, on_devices: Callable[[Optional[List[Json]]], None]) -> None:
        self._loop = node.loop
        self._on_devices = on_devices
        self._answer = b""
        self._output, theirs = os.pipe()
        self._pid: Optional[int] = None
        self._timer: Optional[Timer] = None
        try:
            if shutil.which(NVIDIA_QUERY[0], path=node.environ.get("PATH")) is None:
                self._finish([])
                return
            self._pid = procs.spawn(
                node.programs, NVIDIA_QUERY, node.environ, "/", Streams(node.null, theirs, os.devnull)
            )
        except SpawnError:
            self._finish(None)
            return
        finally:
            os.close(theirs)
        self._timer = self._loop.call_later(_PATIENCE_S, self._give_up)
        self._loop.watch(self._output, self._on_output)

    def _on_output(self, _events: int) -> None:
        data = os.read(self._output, 1 << 16)
        self._answer += data
        if not data:
            self._finish(nvidia_devices(self._answer.decode("utf-8", "replace")))
        elif len(self._answer) > _LONGEST_ANSWER:
            self._give_up()

    def _give_up(self) -> None:
        if self._pid is not None:
            procs.signal_group(self._pid, 9)
        self._finish(None)

    def _finish(self, found: Optional[List[Json]]) -> None:
        self._loop.unwatch(self._output)
        os.close(self._output)
        if self._timer is not None:
            self._timer.cancel()
        self._on_devices(None if found is None else found + amd_devices())


def nvidia_devices(text: str) -> Optional[List[Json]]:
    """The devices of an nvidia-smi answer (``index, name, MiB, uuid`` rows); None when it is none."""
    devices = []
    for row in text.splitlines():
        fields = [field.strip() for field in row.split(",")]
        if len(fields) != 4 or not fields[0].isdigit():
            return None
        memory = int(fields[2]) << 20 if fields[2].isdigit() else None
        devices.append(
            {"index": int(fields[0]), "kind": "cuda", "model": fields[1], "vram_bytes": memory, "uuid": fields[3]}
        )
    return devices


def amd_devices(root: str = "/sys/class/drm") -> List[Json]:
    """The AMD devices of the amdgpu driver, numbered by their bus address."""
    devices: List[Json] = []
    paths = {os.path.realpath(path) for path in glob.glob(root + "/card*/device") if _is_amd(path)}
    for path in sorted(paths):
        memory, unique = _text(path + "/mem_info_vram_total"), _text(path + "/unique_id")
        devices.append(
            {
                "index": len(devices),
                "kind": "rocm",
                "model": _text(path + "/product_name") or None,
                "vram_bytes": int(memory) if memory and memory.isdigit() else None,
                "uuid": unique or None,
            }
        )
    return devices


def _is_amd(path: str) -> bool:
    return _text(path + "/vendor") == _AMD_VENDOR and os.path.exists(path + "/mem_info_vram_total")


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
