"""The processes that use a device: whose they are, and what they are called. Format: proc(5)."""

from __future__ import annotations

import os
from typing import Dict, Optional

from . import procs
from .protocol import Json

_LONGEST_NAME = 64
_MARK = "HOSTLER_ATTEMPT_DIR"


def process_of(pid: int, vram_bytes: Optional[int], directory: str) -> Json:
    """A process as telemetry lists it.

    ``ours`` is None where no such process can be seen: it has ended, or lives in another pid namespace. ``attempt`` is
    the attempt of this agent that started it.
    """
    ours = procs.belongs_to(pid, directory)
    mark = procs.variable_of(pid, _MARK) if ours else None
    return {
        "pid": pid,
        "vram_bytes": vram_bytes,
        "ours": ours,
        "name": _name(pid),
        "user": _user(pid),
        "attempt": os.path.basename(mark) if mark is not None and mark.startswith(directory + "/attempts/") else None,
    }


def _name(pid: int) -> Optional[str]:
    try:
        with open("/proc/%d/comm" % pid, "rb") as source:
            return source.read(256).decode("utf-8", "replace").strip()[:_LONGEST_NAME] or None
    except OSError:
        return None


def _user(pid: int) -> Optional[str]:
    """The owner's name by /etc/passwd alone: a directory service that hangs would hold up the agent."""
    try:
        uid = os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return None
    return _names().get(uid, "uid %d" % uid)


def _names() -> Dict[int, str]:
    found: Dict[int, str] = {}
    try:
        with open("/etc/passwd", encoding="utf-8", errors="replace") as source:
            for line in source:
                parts = line.split(":")
                if len(parts) > 2 and parts[2].isdigit() and len(parts[2]) < 12:
                    found.setdefault(int(parts[2]), parts[0][:_LONGEST_NAME])
    except OSError:
        pass
    return found
