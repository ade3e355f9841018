"""Daemons in the foreground, as children of this process, and whatever comes of them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from tests.patience import PATIENCE_S

STOP_S = PATIENCE_S
"""The bound on the end of a daemon. A slurmctld that is killed sooner loses the jobs that it has not saved."""


class Daemon:
    """A program that runs until it is told otherwise; what it prints goes to a file."""

    def __init__(self, name: str, *words: str, env: Mapping[str, str], log: Path) -> None:
        self.name, self.words, self.env, self.log = name, words, env, log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the process that runs, or ran last."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Returns at once: whether it works is for others to ask."""
        assert not self.runs, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.words, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def stop(self) -> None:
        """SIGTERM. Not for a slurmd: one that is registered nowhere ignores it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """`kill -9`."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(PATIENCE_S)


def tail(log: Path, lines: int = 30, without: str = "") -> str:
    """The last lines of a file that may not be there, less those that this is found in."""
    if not log.exists():
        return "(nothing)"
    told = log.read_text(errors="replace").splitlines()
    return "\n".join([line for line in told if not without or not re.search(without, line)][-lines:])


def until(holds: Callable[[], object], what: str, patience_s: float, log: Callable[[], str] = str) -> None:
    """Wait for something that comes from outside."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {patience_s:g} s\n{log()}"
        time.sleep(0.05)


def marked(mark: str) -> list[psutil.Process]:
    """Processes whose environment has this text in it, and their descendants; zombies are no processes any more."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and mark in Path(f"/proc/{process.pid}/environ").read_text(errors="replace"):
                found.update((each.pid, each) for each in (process, *process.children(recursive=True)))
    return [process for process in found.values() if _lives(process)]


def end_marked(mark: str, patience_s: float = PATIENCE_S) -> None:
    """Kill them all, and those that they start meanwhile."""
    deadline = time.monotonic() + patience_s
    while left := marked(mark):
        assert time.monotonic() < deadline, f"these do not end: {left}"
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=0.2)


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False
