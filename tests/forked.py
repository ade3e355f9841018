"""Controllers without the start of an interpreter for each: forks of one process that has imported all they need.

It has compiled the agent of local nodes, too.

Importing the controller takes longer than most tests run one. Each test process starts one such parent, when it
first needs a controller; from there on a controller is what `python -m hostler` is once its modules are imported: a
process of its own with its own arguments, folder, variables and output. What happens before is tested with
`python -m hostler` itself (`integration/test_wheel`, `test_ssh`, `test_dialin`, the guides).
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PAUSE_S = 0.02


class Forked:
    """A process that the parent has forked, as `subprocess.Popen` has it."""

    def __init__(self, parent: Parent, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._parent = parent

    def poll(self) -> int | None:
        """The exit status, negative after a signal; none while it runs."""
        if self.returncode is None:
            self.returncode = self._parent.ask({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises `subprocess.TimeoutExpired` if it does not come in time."""
        ends_at = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if ends_at is not None and time.monotonic() > ends_at:
                raise subprocess.TimeoutExpired("a controller", timeout or 0.0)
            time.sleep(PAUSE_S)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if it has not ended."""
        # What has ended and is not asked for keeps its process id: it is still no other process.
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """`kill -9`."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)


class Parent:
    """The process that has everything imported, and forks on demand."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # Ctrl-C in a terminal is for the tests.
                start_new_session=True,
            )
        self._answers = ours.makefile("r")
        self._asking = ours
        self._one_at_a_time = threading.Lock()
        atexit.register(self.close)

    def start(self, arguments: Sequence[str | Path], cwd: Path, log: Path) -> Forked:
        """Start `hostler` with these arguments, and the variables of this process; its output is appended to a file."""
        asked = {
            "arguments": [str(each) for each in arguments],
            "cwd": str(cwd),
            "log": str(log),
            "environ": dict(os.environ),
        }
        pid = self.ask(asked)
        assert pid is not None
        return Forked(self, pid)

    def ask(self, question: Mapping[str, object]) -> int | None:
        """One question and its answer."""
        with self._one_at_a_time:
            self._asking.sendall(json.dumps(question).encode() + b"\n")
            line = self._answers.readline()
        assert line, f"the parent of controllers has ended with {self._process.poll()}"
        answer: int | None = json.loads(line)
        return answer

    def close(self) -> None:
        """End it; what it has forked runs on."""
        self._answers.close()
        self._asking.close()
        self._process.wait()


_parents: list[Parent] = []


def start(arguments: Sequence[str | Path], cwd: Path, log: Path) -> Forked:
    """Start `hostler` with these arguments as a fork of this process's parent of controllers."""
    if not _parents:
        _parents.append(Parent())
    return _parents[0].start(arguments, cwd, log)


def serve(connection: socket.socket) -> None:
    """Answer questions until the connection ends. In a fork, return: the fork becomes a controller."""
    with connection.makefile("r") as questions:
        while line := questions.readline():
            question = json.loads(line)
            if "poll" in question:
                pid, status = os.waitpid(question["poll"], os.WNOHANG)
                answer = os.waitstatus_to_exitcode(status) if pid else None
            else:
                answer = os.fork()
                if answer == 0:
                    _become(question)
                    return
            connection.sendall(json.dumps(answer).encode() + b"\n")
    os._exit(0)


def _become(asked: Mapping[str, object]) -> None:
    os.setsid()
    os.chdir(str(asked["cwd"]))
    os.environ.clear()
    os.environ.update(asked["environ"])  # type: ignore[call-overload]
    output = os.open(str(asked["log"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    sys.argv = ["hostler", *asked["arguments"]]  # type: ignore[misc]
    sys.path[0] = os.getcwd()


def _main() -> None:
    from importlib import import_module

    from hostler.backends.local.node import compiled_zipapp
    from hostler.cli.main import main

    for name in ("runtime.up", "settings.loading", "store.migrating", "backends.ssh", "backends.dialin"):
        import_module(f"hostler.{name}")
    compiled_zipapp()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        serve(connection)
    main()


if __name__ == "__main__":
    _main()
