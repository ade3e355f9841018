"""Garbage collection while a large submission is taken: no search through all objects, which stops every thread.

A submission of 50,000 jobs makes millions of objects that stay. Python would search through all of them again and
again, for up to half a second each time. The youngest objects alone are searched as ever. Objects that are there at
the end count as kept: they are freed by their reference counts, and only rings among them are not found any more.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from hostler.web.answers import LARGE_BYTES

NEVER = 1 << 30


class _Searches:
    """Searches for garbage beyond the youngest objects, of the whole process."""

    def __init__(self) -> None:
        self._inside = 0
        self._before = gc.get_threshold()

    @contextmanager
    def kept_away(self) -> Iterator[None]:
        """Have none until the end. It belongs to the event loop, where several may overlap."""
        if self._inside == 0:
            self._before = gc.get_threshold()
            gc.set_threshold(self._before[0], NEVER, NEVER)
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            gc.freeze()
            if self._inside == 0:
                gc.set_threshold(*self._before)


_searches = _Searches()


def few_searches(body: bytes) -> AbstractContextManager[None]:
    """No search for garbage beyond the youngest objects while a body is taken, if it is a large one."""
    return _searches.kept_away() if len(body) > LARGE_BYTES else nullcontext()
