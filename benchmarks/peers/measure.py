"""How one task system is measured: rate, CPU time of its whole process tree, start-up time; one line of JSON per run.

A system is a *session*: a context manager that starts its two workers and gives a function `run(n)`, which submits n
tasks at once, waits for all results and answers how many succeeded. `main` wraps it into a command line.

The command runs as two processes. The outer one is the root of the tree: it becomes the child subreaper, so that
daemons stay in its tree; moves to a network that has only a loopback, where it may; and at the end, or at the limit,
kills what is left of its own descendants. The inner one holds the session and takes the readings.

CPU time is user + system time of every process of the tree plus that of its ended and awaited children, from
/proc/PID/stat (proc(5)), in clock ticks: about 10 ms per process and reading. Zombies still count, so a child is
lost only if its parent ignores SIGCHLD, and then only when it ends between the two readings.
"""

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, TypedDict

Run = Callable[[int], int]
Session = Callable[[str], AbstractContextManager[Run]]

WORKERS = 2
WARM_UP_S = 5.0
WARM_UP_TASKS = 100
LIMIT_S = 300.0

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_CLONE_NEWNET = 0x40000000  # unshare(2)
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1  # netdevice(7)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_libc = ctypes.CDLL(None, use_errno=True)


class Line(TypedDict):
    """One run. `wall_s` and `cpu_s` lie between the first submit and the last result; `start_s` between the start of
    the system, its import included, and the result of a first task. None is "not measured", and `notes` says why."""

    peer: str
    version: str
    kind: str
    tasks: int
    ok: int | None
    wall_s: float | None
    cpu_s: float | None
    start_s: float | None
    notes: str


class Unsupported(Exception):
    """The system has no task of the kind asked for; the message says why. A session raises it before it starts."""


class Process(NamedTuple):
    """One process: its parent's pid, and the CPU seconds of itself and of its ended and awaited children."""

    parent: int
    cpu_s: float


def main(peer: str, version: str, session: Session, kinds: Sequence[str] = ("noop", "spawn")) -> None:
    """Run the command line of one system and print its Line; the exit status is 1 when the run failed."""
    options = _arguments(kinds)
    line = Line(
        peer=peer,
        version=version,
        kind=options.kind,
        tasks=options.tasks,
        ok=None,
        wall_s=None,
        cpu_s=None,
        start_s=None,
        notes="",
    )
    if options.inside:
        _measure(line, session)
        options.inside.write_text(json.dumps(line))
        return
    line = _supervise(line, options.limit)
    print(json.dumps(line), flush=True)
    sys.exit(line["ok"] == 0)


def become_subreaper() -> None:
    """Make this process the parent of every descendant whose own parent ends (PR_SET_CHILD_SUBREAPER, prctl(2))."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed; CPU times need Linux 3.4 or newer")


def tree(root: int) -> dict[int, Process]:
    """Return `root` and all its descendants, zombies included, by pid."""
    everyone = _processes()
    children: dict[int, list[int]] = {}
    for pid, process in everyone.items():
        children.setdefault(process.parent, []).append(pid)
    found, queue = {}, [root]
    while queue:
        pid = queue.pop()
        found[pid] = everyone[pid]
        queue += children.get(pid, [])
    return found


def tree_cpu_s(root: int) -> float:
    """Return the CPU seconds that `root`, its descendants and their ended children have used until now."""
    return sum(process.cpu_s for process in tree(root).values())


def kill_descendants(grace_s: float = 0.0, limit_s: float = 10.0) -> int:
    """Kill and reap what is below this process, which must be a subreaper, after `grace_s` to end by itself.

    Returns how many processes were killed. Raises TimeoutError when some are still there after `limit_s` (a process in
    an uninterruptible wait).
    """
    killed: set[int] = set()
    start = time.monotonic()
    while left := _reap_and_list():
        waited_s = time.monotonic() - start
        if waited_s > limit_s:
            raise TimeoutError(f"processes {sorted(left)} outlived SIGKILL by {limit_s} s; look at them by hand")
        if waited_s >= grace_s:
            _kill(left)
            killed |= left
        time.sleep(0.01)
    return len(killed)


def _arguments(kinds: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure one task system; print one line of JSON.")
    parser.add_argument("--tasks", type=int, default=10_000, help="tasks to submit at once (default 10000)")
    parser.add_argument("--kind", choices=kinds, default="spawn", help="spawn: run `true` as a process")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds after which the run is killed")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure(line: Line, session: Session) -> None:
    """Fill in `line`. A session that fails leaves its traceback on stderr, for the outer process to find."""
    started = time.monotonic()
    try:
        with session(line["kind"]) as run:
            run(1)
            line["start_s"] = time.monotonic() - started
            _warm_up(run)
            _read_around(line, run)
    except Unsupported as reason:
        line["notes"] = str(reason)


def _warm_up(run: Run) -> None:
    """Run tasks until both workers must have loaded what they need and start-up work has died down."""
    end = time.monotonic() + WARM_UP_S
    while time.monotonic() < end:
        run(WARM_UP_TASKS)


def _read_around(line: Line, run: Run) -> None:
    root = os.getppid()
    cpu_s, start = tree_cpu_s(root), time.monotonic()
    line["ok"] = run(line["tasks"])
    line["wall_s"] = time.monotonic() - start
    line["cpu_s"] = tree_cpu_s(root) - cpu_s


def _supervise(line: Line, limit_s: float) -> Line:
    """Run this same script once more, inside, and answer its line, or `line` with the reason why there is none."""
    become_subreaper()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    notes = [] if _leave_network() else ["network not isolated: needs root"]
    with tempfile.TemporaryDirectory(prefix="hb-", ignore_cleanup_errors=True) as home:
        try:
            line, problem = _run_inside(line, Path(home), limit_s)
        finally:
            left = kill_descendants(grace_s=1.0)
    notes += [problem] if problem else []
    notes += [f"processes left over and killed: {left}"] if left else []
    line["notes"] = "; ".join(filter(None, [line["notes"], *notes]))
    return line


def _run_inside(line: Line, home: Path, limit_s: float) -> tuple[Line, str]:
    result, log = home / "line.json", home / "log.txt"
    with log.open("wb") as output:
        inner = subprocess.Popen(
            [sys.executable, Path(sys.argv[0]).resolve(), *sys.argv[1:], "--inside", result],
            cwd=home,
            env=_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            status = inner.wait(limit_s)
            problem = f"exit status {status}: {_tail(log)}" if status else ""
        except subprocess.TimeoutExpired:
            problem = f"killed at the limit of {limit_s:g} s: {_tail(log)}"
    if result.exists():
        return json.loads(result.read_text()), problem
    return {**line, "ok": 0}, problem


def _environment(home: Path) -> dict[str, str]:
    """A small environment: an empty home, the interpreter's own programs first, and this folder to import from."""
    return {
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": str(Path(__file__).resolve().parent),
    }


def _leave_network() -> bool:
    """Move this process to a network namespace with a loopback only; False when the system does not allow that."""
    if _libc.unshare(_CLONE_NEWNET) != 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
    return True


def _processes() -> dict[int, Process]:
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and (process := _process(entry.path)):
            found[int(entry.name)] = process
    return found


def _process(folder: str) -> Process | None:
    """Read one /proc/PID/stat; the second field, the name, may hold spaces and brackets. None: it has just ended."""
    try:
        text = Path(folder, "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return Process(parent=int(fields[1]), cpu_s=sum(map(int, fields[11:15])) / _TICKS_PER_S)


def _reap_and_list() -> set[int]:
    """Reap this process's ended children; return the pids still below it."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return set()
    return set(tree(os.getpid())) - {os.getpid()}


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself just now
            os.kill(pid, signal.SIGKILL)


def _tail(log: Path, size: int = 300) -> str:
    return log.read_text(errors="replace")[-size:].strip()
