"""`up --detach` and `down`: a controller that runs in the background, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hostler.cli.common import StateDir, client, directory, is_here
from hostler.cli.show import plural
from hostler.model.errors import ControllerAbsent, HostlerError, LinkError, StoreError, UsageError

commands = typer.Typer()

LOG = "up.log"
"""What a controller in the background prints, in its state directory."""
READY_S = 120.0
ENDED_S = 60.0
PAUSE_S = 0.05
LAST = "Next"
"""How the last part of the start screen begins (`runtime.welcome`)."""
RUNNING = ("leased", "launching", "running", "collecting")


@commands.command()
def down(
    now: Annotated[
        bool, typer.Option("--now", help="End it at once; what runs on the nodes runs on, for the next `hostler up`.")
    ] = False,
    state_dir: StateDir = None,
) -> None:
    """Let the controller end once nothing runs; start nothing more meanwhile.

    With --now it ends at once, on this machine only. What runs on the nodes runs on in both cases, and the next
    `hostler up` adopts it.

    \b
    Example:
      hostler down
      hostler down --now
    """
    asked = client(state_dir)
    if not now:
        asked.drain()
        jobs = asked.status()["jobs"]
        running = sum(jobs[state] for state in RUNNING)
        print(f"the controller starts nothing more, and ends once nothing runs ({plural(running, 'job')} under way)")
        return
    if not is_here(state_dir):
        raise UsageError("--now ends a controller on this machine; on its own machine, run `hostler down --now`")
    pid = _pid(directory(state_dir))
    # The first signal drains; the second has it leave.
    for _ in range(2):
        _signal(pid)
        time.sleep(PAUSE_S)
    ends_at = time.monotonic() + ENDED_S
    while _is_alive(pid):
        if time.monotonic() > ends_at:
            raise StoreError(f"the controller (process {pid}) has not ended after {ENDED_S:g} s; look at its log")
        time.sleep(PAUSE_S)
    print("the controller has ended; what runs on the nodes runs on, and `hostler up` adopts it")


def detached(words: Sequence[str], state_dir: Path) -> int:
    """Start `hostler up` with these words in the background; returns its status once it is ready, or has ended.

    Its start screen is printed. Raises `StoreError` where it is not ready in time.
    """
    _expect_none(state_dir)
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = state_dir / LOG
    with log.open("ab") as out:
        begin = out.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "hostler", "up", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    printed = b""
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
                print(f"{'Stop':11}hostler down\n{'Log':11}{log}")
            return status or 0
        time.sleep(PAUSE_S)
    raise StoreError(
        f"the controller (process {process.pid}) is not ready after {READY_S:g} s; {log} has what it has printed"
    )


def _screen(lines: Sequence[str]) -> Sequence[str]:
    """The start screen, to the line behind the one that begins its last part; empty while it is not whole."""
    ends = [at for at, line in enumerate(lines[:-1]) if line.startswith(LAST)]
    return lines[: ends[0] + 2] if ends else ()


def _expect_none(state_dir: Path) -> None:
    """Raise `UsageError` where a controller runs there already."""
    try:
        pid = _pid(state_dir)
    except HostlerError:
        return
    raise UsageError(f"a controller runs for {state_dir} already (process {pid}); `hostler down` ends it")


def _pid(state_dir: Path) -> int:
    """The process of the controller of a state directory. Raises `ControllerAbsent`."""
    try:
        left: Any = json.loads((state_dir / "controller.json").read_bytes())
        pid = int(left["pid"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ControllerAbsent(f"no controller is running for {state_dir}; `hostler up` starts one") from error
    if not _is_alive(pid):
        raise ControllerAbsent(f"no controller is running for {state_dir}; `hostler up` starts one")
    return pid


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError as error:
        raise LinkError(f"process {pid}, the controller, is another user's; ask them to end it") from error


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
