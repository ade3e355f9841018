"""`up --detach` and `down`: a controller that runs in the background, and its end."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, BinaryIO

from hostler.cli.common import StateDir, client, directory, is_here
from hostler.cli.declarations import Option
from hostler.cli.show import plural
from hostler.client.small_files import read_small
from hostler.model.errors import ControllerAbsent, LinkError, StoreError, StoreFull, UsageError

LOG = "up.log"
"""What a controller in the background prints, in its state directory."""
READY_S = 120.0
ENDED_S = 60.0
PAUSE_S = 0.05
LAST = "Next"
"""How the last part of the start screen begins (`runtime.welcome`)."""
STANDING_BY = "hostler: standing by"
"""How the line of a controller begins that stands by while another leads (`runtime.up`)."""
LOCK = "lock"
"""The file in the state directory that a controller holds as long as it runs (`runtime.statedir`)."""
AGAIN_S = 0.5
RUNNING = ("leased", "launching", "running", "collecting")


def down(
    now: Annotated[
        bool, Option("--now", help="End it at once; what runs on the nodes runs on, for the next `hostler up`.")
    ] = False,
    state_dir: StateDir = None,
) -> None:
    """Let the controller end once nothing runs; start nothing more meanwhile.

    With --now it ends at once, on this machine only. What runs on the nodes runs on in both cases, and the next
    `hostler up` adopts it.

    Example:
      hostler down
      hostler down --now
    """
    asked = client(state_dir)
    if not now:
        jobs = asked.status()["jobs"]
        asked.drain()  # one that has nothing to do ends at once, and would answer nothing more
        running = sum(jobs.get(state, 0) for state in RUNNING)
        print(f"the controller starts nothing more, and ends once nothing runs ({plural(running, 'job')} under way)")
        return
    if not is_here(state_dir):
        raise UsageError("--now ends a controller on this machine; on its own machine, run `hostler down --now`")
    state = directory(state_dir)
    pid = _pid(state)
    ends_at, again_at = time.monotonic() + ENDED_S, 0.0
    while _is_held(state) and _holds(pid, state / LOCK):
        if time.monotonic() > ends_at:
            raise StoreError(f"the controller (process {pid}) has not ended after {ENDED_S:g} s; look at its log")
        if time.monotonic() > again_at:
            # The first signal drains, the second ends it at once. Two that follow closely may arrive as one.
            os.kill(pid, signal.SIGTERM)
            again_at = time.monotonic() + AGAIN_S
        time.sleep(PAUSE_S)
    print("the controller has ended; what runs on the nodes runs on, and `hostler up` adopts it")


def detached(words: Sequence[str], state_dir: Path) -> int:
    """Start `hostler up` with these words in the background; returns its status once it is ready, or has ended.

    Its start screen is printed. Raises `StoreError` where it is not ready in time.
    """
    expect_none(state_dir)
    log = state_dir / LOG
    with _opened(log) as out:
        begin = out.tell()
        process = subprocess.Popen(
            # -P: modules are not looked for in the current folder, which is somebody's project.
            [sys.executable, "-P", "-m", "hostler", "up", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    ends_at = time.monotonic() + READY_S
    while time.monotonic() < ends_at:
        status = process.poll()
        with log.open("rb") as written:
            written.seek(begin)
            printed = written.read(1 << 16)
        lines = printed.decode(errors="replace").splitlines()
        screen = _screen(lines)
        if status is not None or screen:
            print("\n".join(lines if status is not None else screen))
            if status is None:
                from hostler.runtime.welcome import at_home

                print(f"{'Stop':11}hostler down\n{'Log':11}{at_home(log)}")
            return status or 0
        time.sleep(PAUSE_S)
    raise StoreError(
        f"the controller (process {process.pid}) is not ready after {READY_S:g} s; {log} has what it has printed"
    )


def _opened(log: Path) -> BinaryIO:
    """The log, opened to be continued. Raises `StoreFull` where that cannot be."""
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if log.exists() and not log.is_file():
            raise StoreFull(f"{log} is not a regular file; remove it")
        return log.open("ab")
    except OSError as error:
        raise StoreFull(
            f"the state directory {log.parent} cannot be written: {error.strerror}. "
            "Make it writable, or name another with --state-dir"
        ) from error


def _screen(lines: Sequence[str]) -> Sequence[str]:
    """The start screen, to the line behind the one that begins its last part; empty while it is not whole."""
    ends = [at + 2 for at, line in enumerate(lines[:-1]) if line.startswith(LAST)]
    ends += [at + 1 for at, line in enumerate(lines) if line.startswith(STANDING_BY)]
    return lines[: ends[0]] if ends else ()


def expect_none(state_dir: Path) -> None:
    """Raise `UsageError` where a controller runs there already."""
    if _is_held(state_dir):
        raise UsageError(
            f"a controller runs for {state_dir} already; `hostler down` lets it end once nothing runs, "
            "`hostler down --now` at once. Or name another directory with --state-dir"
        )


def _is_held(state_dir: Path) -> bool:
    """Whether a controller runs for a state directory: it holds the lock, whatever files say that others left."""
    try:
        lock = os.open(state_dir / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _pid(state_dir: Path) -> int:
    """The process of the controller of a state directory. Raises `ControllerAbsent`.

    The process is proved to be the controller: its number may be another program's after a crash.
    """
    absent = ControllerAbsent(f"no controller is running for {state_dir}; `hostler up --detach` starts one")
    try:  # the lock has the number of its process from its start on, before there is a controller.json
        pid = int(read_small(state_dir / LOCK).split()[0])
    except (OSError, ValueError, IndexError):
        raise absent from None
    if not _is_held(state_dir) or not _holds(pid, state_dir / LOCK):
        raise absent
    return pid


def _holds(pid: int, lock: Path) -> bool:
    """Whether a process has the file of a lock open."""
    try:
        wanted = lock.stat()
        opened = [os.stat(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")] if pid > 1 else []
    except PermissionError as error:
        raise LinkError(f"process {pid} is another user's; that user ends the controller") from error
    except OSError:
        return False
    return any((each.st_dev, each.st_ino) == (wanted.st_dev, wanted.st_ino) for each in opened)
