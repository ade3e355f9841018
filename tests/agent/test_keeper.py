"""The keeper by itself: signals that come at the worst instant."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hostler.agent import procs

from .harness import PATIENCE_S, SOURCE

PROGRAM = """
import ctypes, os, signal, sys, time
from hostler.agent.keeper import Keeper

number, libc, wait, rounds = int(sys.argv[2]), ctypes.CDLL(None), os.waitid, []

def waitid(*given):
    # Both are called from C, one after the other: Python does not look for signals in between.
    rounds.append(given)
    if len(rounds) > 1:
        return wait(*given)
    return list(map(Call.__call__, [Call(libc.kill, os.getpid(), number), Call(wait, *given)]))[1]

from functools import partial as Call

def supervise():
    signal.signal(number, lambda *_: os._exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    while True:
        time.sleep(1.0)

os.waitid = waitid
sys.exit(Keeper(sys.argv[1], supervise, lambda: None).run())
"""


@pytest.mark.parametrize("number", [15, 2])
def test_keeper_passes_on_a_signal_that_comes_as_it_begins_to_wait(tmp_path: Path, number: int) -> None:
    """After Python has looked for signals, and before the system call is one that a signal would end."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "exits.jsonl"), str(number)]
    with subprocess.Popen(command, env={"PYTHONPATH": str(SOURCE)}, start_new_session=True) as keeper:
        try:
            assert keeper.wait(PATIENCE_S) == 0
        finally:
            procs.signal_group(keeper.pid, signal.SIGKILL)
