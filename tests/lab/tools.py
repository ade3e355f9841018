"""Programs of the system, whose word is believed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from tests.patience import PATIENCE_S

POLL_S = 0.1


def command(*words: str) -> str:
    """What a program prints; raises `CalledProcessError`, with what it said, where it fails."""
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, words, done.stdout, done.stderr)
    return done.stdout


def succeeds(*words: str) -> bool:
    """Whether it does."""
    return subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode == 0


def until(holds: Callable[[], object], what: str, patience_s: float = PATIENCE_S, log: Callable[[], str] = str) -> None:
    """Wait for something that comes from outside."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {patience_s:g} s\n{log()}"
        time.sleep(POLL_S)
