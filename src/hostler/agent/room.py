"""Free space for an attempt, looked at where it will write, in the moment before it starts."""

from __future__ import annotations

from typing import Dict, List, Optional

from .probe import disk_free_bytes
from .protocol import AttemptSpec

_GB = 1 << 30


def shortage(spec: AttemptSpec, folder: str, env: Dict[str, str]) -> Optional[str]:
    """Why there is too little room for it, in words; None where there is enough, or nobody can tell.

    ``folder`` holds what it leaves; it may write in the folder it runs in, and to the artifacts of its node, as well.
    """
    if spec.disk_bytes is None:
        return None
    for place in _places(spec, folder, env):
        free = disk_free_bytes(place)
        if free is not None and free < spec.disk_bytes:
            return "it needs %.3g GB of free space, %s has %.3g" % (spec.disk_bytes / _GB, place, free / _GB)
    return None


def _places(spec: AttemptSpec, folder: str, env: Dict[str, str]) -> List[str]:
    return [place for place in (folder, spec.cwd, env.get("HOSTLER_ARTIFACTS")) if place]
