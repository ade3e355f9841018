"""How a device is best given its seeds: measured once for a device, a driver and a program, and kept in a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = "HOSTLER_SIEVE_CACHE"
FILE = "opencl-tuning.json"
SCHEMA = 1
GPU_LOCALS, GPU_EACH = (64, 128, 256), (1, 8, 64)
CPU_LOCALS, CPU_EACH = (16, 64), (16, 256)
ENOUGH_S = 0.02
"""How long a launch takes at least that is compared with others."""

FIRST, MOST = 1 << 12, 1 << 30

Timed = Callable[["Setting", int], float]
"""Seconds that a launch of so many items takes with a setting."""


@dataclass(frozen=True, slots=True)
class Setting:
    """``local`` work items in a group, each of which takes ``each`` items."""

    local: int
    each: int


@dataclass(frozen=True, slots=True)
class Tuned:
    """The best setting, and how many operations a second it reached, as :mod:`source` counts them."""

    local: int
    each: int
    rate: float

    @property
    def setting(self) -> Setting:
        return Setting(self.local, self.each)


def settings(is_gpu: bool, most: int) -> list[Setting]:
    """What is tried, groups of up to ``most`` work items."""
    locals_, each = (GPU_LOCALS, GPU_EACH) if is_gpu else (CPU_LOCALS, CPU_EACH)
    return [Setting(local, items) for local in sorted({min(local, most) for local in locals_}) for items in each]


def tuned(candidates: Sequence[Setting], timed: Timed, operations: float = 1.0) -> Tuned:
    """The fastest of the candidates, over as many items as make the first of them take :data:`ENOUGH_S`.

    ``operations`` is what an item costs.
    """
    count = FIRST
    timed(candidates[0], count)  # whatever is made at the first launch
    while timed(candidates[0], count) < ENOUGH_S and count < MOST:
        count *= 4
    seconds = {each: max(timed(each, count), 1e-9) for each in candidates}
    best = min(candidates, key=seconds.__getitem__)
    return Tuned(best.local, best.each, operations * count / seconds[best])


def folder(environ: Mapping[str, str]) -> Path:
    """Where measurements are kept: ``HOSTLER_SIEVE_CACHE``, or ``hostler`` in the user's cache folder."""
    if given := environ.get(FOLDER):
        return Path(given)
    cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or Path.home(), ".cache"))
    return Path(cache, "hostler")


@dataclass(frozen=True, slots=True)
class Kept:
    """The file of measurements in a folder. What it cannot read it forgets, to be measured again."""

    folder: Path

    def get(self, key: str) -> Tuned | None:
        """What was measured under this key."""
        try:
            entry = self._entries()[key]
            found = Tuned(int(entry["local"]), int(entry["each"]), float(entry["rate"]))
        except (KeyError, TypeError, ValueError):
            return None
        return found if found.local > 0 and found.each > 0 and 0 < found.rate < float("inf") else None

    def put(self, key: str, measured: Tuned) -> None:
        """Keep a measurement beside the others; a folder that takes no files is told of, and costs only time."""
        content = {"schema": SCHEMA, "tuned": {**self._entries(), key: asdict(measured)}}
        path = self.folder / FILE
        part = path.with_name(f"{FILE}.{os.getpid()}.part")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with part.open("w", encoding="utf-8") as file:
                json.dump(content, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            print(f"sieve: {path}: measurements cannot be kept ({error.strerror}); set {FOLDER}", file=sys.stderr)

    def _entries(self) -> dict[str, dict[str, float]]:
        try:
            content = json.loads((self.folder / FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(content, dict) or content.get("schema") != SCHEMA or not isinstance(content["tuned"], dict):
            return {}
        return content["tuned"]
