"""The supervisor's event loop: file descriptors, signals and timers in one thread, and nothing else."""

from __future__ import annotations

import heapq
import os
import select
import signal
import time
from itertools import count
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
_LONGEST_WAIT_S = 60.0


class Timer:
    """A callback to come; ``cancel`` forgets it."""

    __slots__ = ("_loop", "callback")

    def __init__(self, loop: Loop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self.callback: Optional[Callable[[], None]] = callback

    def cancel(self) -> None:
        """The callback will not be called."""
        if self.callback is not None:
            self.callback = None
            self._loop.forget_timer()


class _Watch(NamedTuple):
    """The callback of a descriptor, and the number of its registration."""

    callback: Callable[[int], None]
    registration: int


class Loop:
    """Waits for descriptors, signals and timers. Callbacks run one after the other and must not wait."""

    def __init__(self) -> None:
        self.monotonic = time.monotonic
        self.wall = time.time
        self._epoll = select.epoll()
        self._watched: Dict[int, _Watch] = {}
        self._registrations = 0
        self._timers: List[Tuple[float, int, Timer]] = []
        self._forgotten = 0
        self._order = count()
        self._signals: Dict[int, Callable[[], None]] = {}
        self._wakeup: Optional[int] = None

    def watch(self, fd: int, callback: Callable[[int], None], events: int = READ) -> None:
        """Call ``callback(events)`` whenever ``fd`` is ready; a second call changes what is waited for."""
        known = self._watched.get(fd)
        if known is not None:
            self._epoll.modify(fd, events)
            self._watched[fd] = _Watch(callback, known.registration)
        else:
            self._epoll.register(fd, events)
            self._registrations += 1
            self._watched[fd] = _Watch(callback, self._registrations)

    def unwatch(self, fd: int) -> None:
        """Forget ``fd``; must be called before it is closed."""
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` once after ``delay_s`` seconds."""
        timer = Timer(self, callback)
        heapq.heappush(self._timers, (self.monotonic() + delay_s, next(self._order), timer))
        return timer

    def forget_timer(self) -> None:
        """A timer was cancelled. They are swept out together, when they are most of the timers there are."""
        self._forgotten += 1
        if self._forgotten > 100 and 2 * self._forgotten > len(self._timers):
            self._timers = [item for item in self._timers if item[2].callback is not None]
            heapq.heapify(self._timers)
            self._forgotten = 0

    def on_signals(self, callbacks: Dict[int, Callable[[], None]]) -> None:
        """Call these in a turn of the loop after the signal came; several signals of one kind may be one call.

        Signals that were blocked until now are let through.
        """
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._signals = callbacks
        self._wakeup = reader
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in callbacks:
            signal.signal(number, _note)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, callbacks)
        self.watch(reader, self._on_wakeup)

    def turn(self, patience_s: float = _LONGEST_WAIT_S) -> None:
        """Wait for something to happen, at most ``patience_s``, and run what is due."""
        ready = self._epoll.poll(self._patience(patience_s))
        newest = self._registrations
        for fd, events in ready:
            watch = self._watched.get(fd)
            # One registered since the poll only has the number of a descriptor that a callback of this turn closed. The
            # event is not its own, and a read of it could wait for ever.
            if watch is not None and watch.registration <= newest:
                watch.callback(events)
        self._run_timers()

    def _patience(self, patience_s: float) -> float:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
            self._forgotten -= 1
        if not self._timers:
            return patience_s
        return max(0.0, min(patience_s, self._timers[0][0] - self.monotonic()))

    def _run_timers(self) -> None:
        if not self._timers:
            return
        now = self.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            callback, timer.callback = timer.callback, None
            if callback is None:
                self._forgotten -= 1
            else:
                callback()

    def _on_wakeup(self, _events: int) -> None:
        assert self._wakeup is not None
        # In order of their numbers: what was told to end is told so before it is seen what has ended of that.
        for number in sorted(set(os.read(self._wakeup, 4096))):
            callback = self._signals.get(number)
            if callback is not None:
                callback()


def _note(_number: int, _frame: object) -> None:
    """Python needs a handler for the wake-up descriptor to be written to; the loop does the work."""
