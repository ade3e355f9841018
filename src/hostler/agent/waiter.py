"""The waiter: the parent of an agent's keeper, which outlives it, so that ends of attempts are known without an agent.

Orphans of an agent whose keeper and supervisor were killed come to it, as it is their sub-reaper. It writes down how
each ended, which the next agent of the folder reads. It does nothing else, and ends with the last of its children.
An agent that runs in the foreground has one process more, the *front*: what started the agent sees that process, which
ends when the keeper does, though attempts and their waiter may run on.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from contextlib import suppress
from typing import Any, Callable, List, Optional, Set

from . import procs
from .exits import record_exit
from .node import log
from .procs import Identity
from .shared import publish

EXITS = "exits.jsonl"
WAITERS = "waiters"
"""The waiters of a folder that may have children, one a line: pid and start time."""
_PASSED_ON = (signal.SIGTERM, signal.SIGINT)
_HEARD = (*_PASSED_ON, signal.SIGHUP)
_BYTES = 4096
_RETRY_S = 1.0
_TRIES = 3600
"""For so long the disk may be full; a waiter has nothing else to do."""

family: Set[int] = set()
"""Processes of this agent: its front and its waiter, as far as this process has been forked from them."""


def in_background(directory: str, let_go: Callable[[], None], keep: Callable[[], int]) -> int:
    """Be the waiter of a keeper, which is forked; `let_go` closes what only the keeper may hold. The exit status."""
    return _Waiter(directory, let_go, keep, None).run()


def in_front(directory: str, let_go: Callable[[], None], keep: Callable[[], int]) -> int:
    """Have a waiter and a keeper beside this process, which passes signals on. The exit status of the keeper."""
    family.add(os.getpid())
    told, tell = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    pid = os.fork()
    if pid == 0:
        os.close(told)
        _leave(_Waiter(directory, let_go, keep, tell).run)
    os.close(tell)
    let_go()
    return _Front(told).run()


def running(directory: str) -> List[Identity]:
    """The waiters of a folder that are there."""
    try:
        with open("%s/%s" % (directory, WAITERS), "rb") as source:
            rows = [row.split() for row in source.read().splitlines()]
    except OSError:
        return []
    found = [Identity(int(row[0]), int(row[1])) for row in rows if len(row) == 2 and all(map(bytes.isdigit, row))]
    return [each for each in found if procs.is_running(each)]


class _Front:
    """What was started in the foreground. It hears of the keeper through a pipe: its pid, then its exit status."""

    def __init__(self, told: int) -> None:
        self._told = told
        self._keeper: Optional[int] = None
        self._pending: List[int] = []

    def run(self) -> int:
        """Until the keeper has ended, or nothing can be heard of it any more."""
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        for number in _PASSED_ON:
            signal.signal(number, self._pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        said = b""
        while said.count(b"\n") < 2:  # a signal that comes before this wait has written into the other pipe
            ready, _, _ = select.select([self._told, woken], [], [])
            if woken in ready:
                os.read(woken, _BYTES)
            if self._told in ready:
                data = os.read(self._told, _BYTES)
                if not data:
                    return 1
                said += data
                self._hear(said)
        return int(said.split()[1])

    def _hear(self, said: bytes) -> None:
        if b"\n" in said and self._keeper is None:
            self._keeper = int(said.split()[0])
            for number in self._pending:
                self._pass_on(number)

    def _pass_on(self, number: int, _frame: object = None) -> None:
        if self._keeper is None:
            self._pending.append(number)
            return
        with suppress(ProcessLookupError):
            os.kill(self._keeper, number)


class _Waiter:
    """The process itself. `tell` is the pipe to its front, if it has one."""

    def __init__(
        self, directory: str, let_go: Callable[[], None], keep: Callable[[], int], tell: Optional[int]
    ) -> None:
        self._directory = directory
        self._let_go = let_go
        self._keep = keep
        self._tell = tell
        self._status = 1
        self._patience = _TRIES

    def run(self) -> int:
        """Until there is no child any more; the exit status of the keeper."""
        procs.become_subreaper()
        family.add(os.getpid())
        self._sign_in()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it was ignored, no child would leave a zombie
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
        keeper = os.fork()
        if keeper == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, set(before) - set(_PASSED_ON))
            _leave(self._keep)
        for number in _HEARD:
            signal.signal(number, signal.SIG_IGN)
        self._let_go()
        os.chdir("/")
        self._say(keeper)
        self._wait(keeper)
        return self._status

    def _sign_in(self) -> None:
        own = Identity(os.getpid(), procs.start_time(os.getpid()) or 0)
        rows = ["%d %d\n" % each for each in [*running(self._directory), own]]
        try:
            publish("%s/%s" % (self._directory, WAITERS), "".join(rows).encode("ascii"))
        except OSError as error:
            log("cannot write %s: %s; the next agent does not look for what this one leaves" % (WAITERS, error))

    def _wait(self, keeper: int) -> None:
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                return
            assert info is not None  # it waits
            if info.si_pid == keeper:
                os.waitpid(keeper, 0)
                self._alone(procs.exit_status(info))
            elif not reap(self._directory + "/" + EXITS, info, self._patience):
                self._patience -= 1
                time.sleep(_RETRY_S)

    def _alone(self, status: Any) -> None:
        """The keeper has ended: nothing that started the agent is to wait for this process."""
        code, number = status
        self._status = code if code is not None else 128 + (number or 0)
        self._say(self._status)
        with suppress(OSError):
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            output = os.open(
                self._directory + "/agent.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
            for source, target in ((null, 0), (output, 1), (output, 2)):
                os.dup2(source, target)
            os.close(null)
            os.close(output)
        if self._tell is not None:
            os.close(self._tell)
            self._tell = None

    def _say(self, number: int) -> None:
        if self._tell is not None:
            with suppress(OSError):  # the front was killed
                os.write(self._tell, b"%d\n" % number)


def reap(exits: str, info: Any, tries: int = 0) -> bool:
    """Let an orphan go. Its end is written down before the zombie, which is its last trace, is gone.

    False where that cannot be, and another of so many tries is worth it: the zombie is still there.
    """
    start = procs.start_time(info.si_pid)
    if start is not None:
        try:
            record_exit(exits, Identity(info.si_pid, start), procs.exit_status(info), time.time())
        except OSError as error:
            if tries > 0 and os.path.isdir(os.path.dirname(exits)):
                return False
            log("cannot write %s: %s; the end of %d is not kept" % (exits, error.strerror, info.si_pid))
    os.waitpid(info.si_pid, 0)
    return True


def _leave(work: Callable[[], int]) -> None:
    """Do the work of a forked copy, and end with its exit status: it must not return to the caller of the first one."""
    status = 1
    try:
        status = work()
    except BaseException:
        log("the agent failed: %s" % traceback.format_exc())
        raise
    finally:
        sys.stdout.flush()
        os._exit(status)
