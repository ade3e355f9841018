"""Leaving the terminal: a process that goes on in the background, its words in a log."""

from __future__ import annotations

import os
from typing import Callable


def detached(log: str, work: Callable[[], int]) -> None:
    """Do the work in a session without a terminal, and end with its exit status. To be called in a forked child.

    The second fork leaves the session's leader behind: no terminal can ever come to the process.
    """
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    os.chdir("/")
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    status = 1
    try:
        status = work()
    finally:  # this copy must not return to the caller of the first one
        os._exit(status)
