"""Looking at a controller again and again, as soon as something happens there; and what is known while it is away."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from hostler.model.errors import Conflict, LinkError

if TYPE_CHECKING:
    from hostler.client import View

T = TypeVar("T")

LEAST_S = 1.0
"""Between two looks, however much happens."""
SHARE = 0.2
"""Of the time that looks may take: who looks at a large fleet must not be what keeps it busy."""
AGAIN_S = 2.0
ENTRIES_KEPT = 50


class Sight(NamedTuple, Generic[T]):
    """What was seen last and when (Unix seconds); `lost` tells since when nothing has been, and why."""

    seen: T
    at: float
    lost: tuple[float, str] | None = None


class Follower(Generic[T]):
    """Looks in threads of its own, so that whoever shows it is never kept waiting.

    `with Follower(first, look, stream, every_s) as follower` begins and ends it. `look` and `stream` may raise
    `LinkError`: they are asked again. Anything else they raise is raised by `sight`.
    """

    def __init__(
        self,
        first: T,
        look: Callable[[], T],
        stream: Callable[[], Iterator[View]],
        every_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._look, self._stream, self._every_s, self._clock = look, stream, every_s, clock
        self._sight: Sight[T] = Sight(first, clock())
        self._fault: Exception | None = None
        self._stirred, self._changed, self._closed = threading.Event(), threading.Event(), threading.Event()
        self._entries: deque[View] = deque(maxlen=ENTRIES_KEPT)

    def __enter__(self) -> Follower[T]:
        for work in (self._keep_looking, self._keep_listening):
            threading.Thread(target=self._guarded, args=(work,), daemon=True, name=work.__name__).start()
        return self

    def __exit__(self, *exception: object) -> None:
        # The threads may wait for an answer; they are daemons and end with the process.
        self._closed.set()
        self._stirred.set()

    @property
    def sight(self) -> Sight[T]:
        """What was seen last. Raises what ended the looking, if something did."""
        if self._fault is not None:
            raise self._fault
        return self._sight

    @property
    def entries(self) -> list[View]:
        """The newest entries of the journal, oldest first: those since it began to listen."""
        return list(self._entries)

    def wait(self, within_s: float) -> None:
        """Wait until something else is to be seen, but no longer than that."""
        self._changed.wait(within_s)
        self._changed.clear()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  it is raised where it is seen
            self._fault = error
            self._changed.set()

    def _keep_looking(self) -> None:
        took_s = 0.0
        while not self._closed.wait(max(LEAST_S, took_s / SHARE - took_s)):
            self._stirred.wait(self._every_s - LEAST_S if self._sight.lost is None else 0.0)
            self._stirred.clear()
            began = time.monotonic()
            self._sight = self._once()
            took_s = time.monotonic() - began
            self._changed.set()

    def _once(self) -> Sight[T]:
        before = self._sight
        try:
            return Sight(self._look(), self._clock())
        except LinkError as error:
            since = self._clock() if before.lost is None else before.lost[0]
            return Sight(before.seen, before.at, (since, str(error)))

    def _keep_listening(self) -> None:
        while not self._closed.is_set():
            try:
                for entry in self._stream():
                    self._entries.append(entry)
                    self._stirred.set()
                    if self._closed.is_set():
                        return
            except (LinkError, Conflict):  # looks tell of it; another journal is heard from now on
                self._stirred.set()
            self._closed.wait(AGAIN_S)
