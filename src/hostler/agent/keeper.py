"""The keeper: parent of the supervisor. It starts it again when it dies and sees to the orphans it leaves.

It does so little that there is nothing in it to fail: it waits for children, and it is the sub-reaper to which the
running attempts of a dead supervisor come, so that their exit status is seen and written down.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from typing import Any, Callable, Optional

from . import procs
from .node import log
from .waiter import reap

EXIT_UPGRADE = 64
_SHORTEST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_HEALTHY_S = 10.0
_PASSED_ON = (signal.SIGTERM, signal.SIGINT)
_AWAITED = (signal.SIGCHLD, *_PASSED_ON)
"""Blocked for the whole life of the keeper, and taken where it waits. A handler would run too late for a signal that
comes after Python has looked for signals and before the system call that waits: nothing would end that call."""


class Keeper:
    """Keeps one supervisor alive. ``supervise`` is what the supervisor process does; its result is its exit status.

    ``upgrade`` makes this very process one of newer code, with all its children; it returns where that cannot be.
    """

    def __init__(self, exits: str, supervise: Callable[[], int], upgrade: Callable[[], None]) -> None:
        self._exits = exits
        self._supervise = supervise
        self._upgrade = upgrade
        self._supervisor: Optional[int] = None
        self._stopping = False

    def run(self) -> int:
        """Keep the supervisor running until it ends with exit status 0, or until a signal asked for the end."""
        procs.become_subreaper()
        signal.signal(signal.SIGCHLD, _never_called)  # where it was ignored, no child would leave a zombie
        signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
        pause = _SHORTEST_PAUSE_S
        while True:
            began = time.monotonic()
            self._start()
            status = self._wait_for_supervisor()
            if status == EXIT_UPGRADE:
                self._make_way()
                continue
            if status == 0 or self._stopping:
                return status
            pause = _SHORTEST_PAUSE_S if time.monotonic() - began > _HEALTHY_S else pause
            log("the supervisor ended with status %d; the next one starts in %.1f s" % (status, pause))
            self._reap_orphans(until=time.monotonic() + pause)
            if self._stopping:
                return status
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _make_way(self) -> None:
        """Go on as the other program. Signals wait until that, or this one where it cannot be, can deal with them."""
        if not self._stopping:
            self._upgrade()

    def _start(self) -> None:
        """No signal is lost in between: it stays blocked until this process, or the new one, can deal with it."""
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = self._supervise()
            except BaseException:
                log("the supervisor failed: %s" % traceback.format_exc())
                raise
            finally:  # this copy must never run on as a second keeper
                os._exit(status)
        self._supervisor = pid
        if self._stopping:  # its predecessor had left already, with all it ran still there
            os.kill(pid, signal.SIGTERM)

    def _handle(self, number: int) -> None:
        """Pass SIGTERM and SIGINT on to the supervisor. SIGCHLD only ends a wait: `waitid` finds the child."""
        if number not in _PASSED_ON:
            return
        self._stopping = True
        if self._supervisor is not None:
            os.kill(self._supervisor, number)

    def _wait_for_supervisor(self) -> int:
        while True:
            info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if info is None:
                self._handle(signal.sigwait(_AWAITED))
                continue
            if info.si_pid != self._supervisor:
                self._reap(info)
                continue
            self._supervisor = None
            os.waitpid(info.si_pid, 0)
            code, number = procs.exit_status(info)
            return code if code is not None else 128 + (number or 0)

    def _reap_orphans(self, until: float) -> None:
        while not self._stopping:
            rest_s = until - time.monotonic()
            if rest_s <= 0:
                return
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            except ChildProcessError:
                info = None
            if info is not None:
                self._reap(info)
                continue
            taken = signal.sigtimedwait(_AWAITED, rest_s)
            if taken is not None:
                self._handle(taken.si_signo)

    def _reap(self, info: Any) -> None:
        reap(self._exits, info)


def _never_called(_number: int, _frame: object) -> None:
    """A handler for SIGCHLD, which the keeper blocks and takes by `sigwait`."""
