"""What attempts that run have left as their results so far, told as it changes: the node may be gone by their end."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Optional, Tuple

from .attempts import Attempt, Attempts, read_result
from .node import Node
from .protocol import Json

_LOOK_S = 1.0

Mark = Tuple[int, int, int]


class Interim:
    """Looks at the results of those attempts that are to be told of. Only a controller that listens is told."""

    def __init__(self, node: Node, attempts: Attempts, tell: Callable[[Json], None]) -> None:
        self._node = node
        self._attempts = attempts
        self._tell = tell
        self._told: Dict[str, Tuple[Mark, float]] = {}

    def forget(self) -> None:
        """Another controller listens: it is told everything anew."""
        self._told.clear()

    def look(self) -> None:
        """Tell what has changed, now and from now on."""
        live = self._attempts.live
        for name in [each for each in self._told if each not in live]:
            del self._told[name]
        for attempt in list(live.values()):
            if attempt.spec.tell_s is not None and attempt.process is not None:
                self._look_at(attempt, attempt.spec.tell_s)
        self._node.later(_LOOK_S, self.look)

    def _look_at(self, attempt: Attempt, tell_s: float) -> None:
        name, now = attempt.spec.id, self._node.loop.monotonic()
        path = self._attempts.result_path(name)
        mark, known = _mark(path), self._told.get(name)
        if mark is None or (known is not None and (mark == known[0] or now - known[1] < tell_s)):
            return
        self._told[name] = mark, now
        result: Any
        result, fault = read_result(path, attempt.spec.result_bytes)
        if fault is None:  # else its end will say what is wrong with it
            self._tell({"type": "so_far", "attempt": name, "result": result})


def _mark(path: str) -> Optional[Mark]:
    """What changes whenever a file is replaced or written; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
