"""How busy the devices are: asked now and then, one question at a time, and never so often that it costs them much.

Sources: ``nvidia-smi --query-gpu``, and the amdgpu driver's files under /sys. The latter are read by another program,
because a driver that is in trouble lets a reader hang.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Callable, Dict, Iterator, List, Optional

from .node import Node
from .probe import amd_folders
from .protocol import Json
from .queries import Query, is_installed

NVIDIA_QUERY = [
    "nvidia-smi",
    "--query-gpu=index,utilization.gpu,memory.used,temperature.gpu",
    "--format=csv,noheader,nounits",
]
_AMD_FILES = {
    "gpu_busy_percent": "utilization",
    "mem_info_vram_used": "vram_used_bytes",
    "temp1_input": "temperature_c",
}
_PATIENCE_S = 10.0
_FRESH_S = 60.0
_REST_PER_S = 10.0
_LONGEST_REST_S = 300.0
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?\Z")
_HEADER = re.compile(r"==> (.*) <==\Z")


class Sampler:
    """The newest sample of every device."""

    def __init__(self, node: Node) -> None:
        self._sources = [
            Source(node, lambda: NVIDIA_QUERY if is_installed(node, NVIDIA_QUERY[0]) else None, nvidia_samples),
            Source(node, amd_query, amd_samples),
        ]

    def refresh(self) -> None:
        """Ask anew where an answer has come and a rest is over. Does not wait."""
        for source in self._sources:
            source.refresh()

    def stop(self) -> None:
        """End what has been asked and has not answered."""
        for source in self._sources:
            source.stop()

    def devices(self) -> List[Json]:
        """What is known of the devices now; one of which nothing is known, or nothing new, is left out."""
        return [device for source in self._sources for device in source.devices()]


class Source:
    """One way to learn of devices. It rests ten times as long as it took, and ever longer while it fails."""

    def __init__(
        self,
        node: Node,
        question: Callable[[], Optional[List[str]]],
        read: Callable[[str], Optional[List[Json]]],
    ) -> None:
        self._node = node
        self._question = question
        self._read = read
        self._query: Optional[Query] = None
        self._is_open = False
        self._asked_at = 0.0
        self._next_at = 0.0
        self._failures = 0
        self._devices: List[Json] = []
        self._known_at = 0.0

    def refresh(self) -> None:
        """Ask, unless it is too early, nobody is there to ask, or the one asked before is there still."""
        now = self._node.loop.monotonic()
        if self._is_open or now < self._next_at or (self._query is not None and self._query.is_running()):
            return
        argv = self._question()
        if argv is None:
            return
        self._is_open, self._asked_at = True, now
        self._query = Query(self._node, argv, _PATIENCE_S, self._on_answer)
        self._query.start()

    def stop(self) -> None:
        """End what has been asked and has not answered."""
        if self._query is not None:
            self._query.stop()

    def devices(self) -> List[Json]:
        """The newest answer, unless it is old."""
        return self._devices if self._node.loop.monotonic() - self._known_at < _FRESH_S else []

    def _on_answer(self, text: Optional[str]) -> None:
        now = self._node.loop.monotonic()
        found = None if text is None else self._read(text)
        self._is_open = False
        self._failures = 0 if found is not None else self._failures + 1
        rest_s = _REST_PER_S * (now - self._asked_at)
        if found is None:
            rest_s = max(rest_s, _REST_PER_S * 2.0 ** min(self._failures, 10))
        else:
            at = self._node.loop.wall()
            self._devices, self._known_at = [{**device, "at": at} for device in found], now
        self._next_at = now + min(rest_s, _LONGEST_REST_S)


def nvidia_samples(text: str) -> Optional[List[Json]]:
    """The rows of an nvidia-smi answer that can be read; None if there is text and no such row.

    Of a device that has been lost, others are told of all the same.
    """
    rows = [[field.strip() for field in row.split(",")] for row in text.splitlines()]
    devices = [_sample("cuda", *row) for row in rows if len(row) == 4 and row[0].isdigit()]
    return devices if devices or not text.strip() else None


def amd_query(root: str = "/sys/class/drm") -> Optional[List[str]]:
    """What tells of the AMD devices; None if there are none."""
    files = [path for folder in amd_folders(root) for path in _files(folder)]
    return ["head", "-v", "-n", "1", *files] if files else None


def amd_samples(text: str, root: str = "/sys/class/drm") -> Optional[List[Json]]:
    """The devices of an answer to ``amd_query``."""
    values: Dict[str, str] = {}
    path = None
    for row in text.splitlines():
        header = _HEADER.match(row)
        if header is not None:
            path = header.group(1)
        elif path is not None and row.strip():
            values[path] = row.strip()
    return [_amd_sample(index, folder, values) for index, folder in enumerate(amd_folders(root))]


def _amd_sample(index: int, folder: str, values: Dict[str, str]) -> Json:
    found = {name: values.get(path, "") for path in _files(folder) for name in [_AMD_FILES[os.path.basename(path)]]}
    device = _sample("rocm", str(index), found.get("utilization", ""), "", "")
    temperature = _number(found.get("temperature_c", ""))
    device["vram_used_bytes"] = _whole(_number(found.get("vram_used_bytes", "")))
    device["temperature_c"] = None if temperature is None else temperature / 1000  # hwmon counts thousandths
    return device


def _files(folder: str) -> Iterator[str]:
    yield folder + "/gpu_busy_percent"
    yield folder + "/mem_info_vram_used"
    yield from sorted(glob.glob(folder + "/hwmon/hwmon*/temp1_input"))[:1]


def _sample(kind: str, index: str, percent: str, mebibytes: str, celsius: str) -> Json:
    """A device as the protocol tells of it; what is no number is unknown."""
    busy, used = _number(percent), _number(mebibytes)
    return {
        "index": int(index),
        "kind": kind,
        "utilization": busy / 100 if busy is not None and busy <= 100 else None,
        "vram_used_bytes": None if used is None else _whole(used * (1 << 20)),
        "temperature_c": _number(celsius),
    }


def _number(text: str) -> Optional[float]:
    return float(text) if _NUMBER.match(text) and len(text) < 20 else None


def _whole(value: Optional[float]) -> Optional[int]:
    return None if value is None else int(value)
