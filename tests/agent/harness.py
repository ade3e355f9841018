"""A real agent process and a client of its socket."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hostler.agent import procs
from hostler.agent.connection import connect
from tests.patience import PATIENCE_S

SOURCE = Path(__file__).parents[2] / "src"
WORKER = Path(__file__).with_name("sweeper.py")

Json = dict[str, Any]
EXITING = 0x4
"""PF_EXITING of the kernel, among the flags of proc_pid_stat(5)."""
T = TypeVar("T")
_NUMBERS = itertools.count(1)


def until(question: Callable[[], T], what: str = "the condition", patience_s: float = PATIENCE_S) -> T:
    """The first true answer to a question, asked again and again for a bounded time."""
    deadline = time.monotonic() + patience_s
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true in {patience_s} s")
        time.sleep(0.01)


def alive(pid: int) -> bool:
    start = procs.start_time(pid)
    return start is not None and procs.is_running(procs.Identity(pid, start))


def patched(patch: str) -> tuple[str, ...]:
    """The command of an agent that runs this code first, for instance to replace a timeout."""
    modules = "__main__, connection, contact, farewell, tools"
    return sys.executable, "-c", f"import sys\nfrom hostler.agent import {modules}\n{patch}\nsys.exit(__main__.main())"


PATIENT_WITH_TOOLS = patched(f"tools.Tools.__init__.__defaults__ = ({PATIENCE_S},)")
"""Vendors' tools have PATIENCE_S to answer."""


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with path.open("wb", buffering=0) as ballast:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    ballast.write(b"x" * size)
            except OSError:
                continue


def is_ending(pid: int) -> bool:
    """Whether a process has been killed and only waits for a processor on which to exit."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        flags = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[6])
    except OSError:
        return True
    pending = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    return bool(flags & EXITING) or any(each >> (signal.SIGKILL - 1) & 1 for each in pending)


def fresh_name() -> str:
    """A name that no other attempt, worker or chunk of this test run has."""
    return f"fresh{next(_NUMBERS)}.1"


class Client:
    """Speaks the agent protocol and keeps every message and fact it got."""

    def __init__(self, directory: Path, epoch: int = 1, ack: int = 0, **more: Any) -> None:
        self.facts: list[Json] = []
        self.messages: list[Json] = []
        self._pending = b""
        self._socket = connect(str(directory), PATIENCE_S)
        self.send(type="hello", protocol=1, controller="test", epoch=epoch, ack=ack, **more)
        self.hello = self.receive()

    def send(self, **message: Any) -> None:
        self.send_raw(json.dumps(message).encode() + b"\n")

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def launch(self, *attempts: Json) -> None:
        self.send(type="launch", attempts=list(attempts))

    def receive(self) -> Json:
        """The next message; an empty object when the agent has hung up."""
        while b"\n" not in self._pending:
            try:
                data = self._socket.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                return {}
            self._pending += data
        text, _, self._pending = self._pending.partition(b"\n")
        message: Json = json.loads(text)
        self.messages.append(message)
        self.facts.extend(message.get("facts", []) if message["type"] == "facts" else [])
        return message

    def message(self, kind: str) -> Json:
        """The next message of a kind."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < deadline, f"no message {kind}; the last ones: {self.messages[-3:]}"
            message = self.receive()
            assert message, f"the agent hung up before a message {kind}; the last ones: {self.messages[-3:]}"
            if message["type"] == kind:
                return message

    def fact(self, kind: str, **fields: Any) -> Json:
        """The first fact that fits, waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for fact in self.facts:
                if fact["fact"] == kind and all(fact[key] == value for key, value in fields.items()):
                    return fact
            assert time.monotonic() < deadline, f"no fact {kind} {fields} in {self.facts}"
            assert self.receive(), f"the agent hung up before a fact {kind} {fields}"

    def ended(self, name: str) -> Json:
        return self.fact("ended", attempt=name)

    def ack(self) -> None:
        self.send(type="ack", seq=self.facts[-1]["seq"])

    def read(self, name: str, stream: str = "out", offset: int = 0, limit: int = 1 << 16) -> Json:
        self.send(type="read", id=1, attempt=name, stream=stream, offset=offset, limit=limit)
        return self.message("read")

    def sync(self) -> None:
        """Return when the agent has handled all that was sent before."""
        self.read("none.such")

    def close(self) -> None:
        self._socket.close()


class Agent:
    """An agent in a folder: its front is our child, and of that the waiter, the keeper, the supervisor, in a chain."""

    def __init__(self, directory: Path, program: Sequence[str] = (), **env: str) -> None:
        self.directory = directory
        self._program = program or (sys.executable, "-m", "hostler.agent")
        self._env = {**os.environ, "PYTHONPATH": str(SOURCE), **env}
        self.clients: list[Client] = []
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command(), env=self._env, cwd="/")
        until(self._is_up, "the agent's socket")

    def command(self, *arguments: str) -> list[str]:
        return [*self._program, *arguments, "--dir", str(self.directory)]

    def client(self, epoch: int = 1, ack: int = 0, **more: Any) -> Client:
        client = Client(self.directory, epoch, ack, **more)
        self.clients.append(client)
        return client

    @property
    def supervisor(self) -> int:
        """The pid of the supervisor process, waited for."""
        return until(self._children, "a supervisor")[0]

    def kill_supervisor(self) -> None:
        """Kill it and return when its successor answers."""
        old = self.supervisor
        os.kill(old, signal.SIGKILL)
        until(lambda: [pid for pid in self._children() if pid != old and self._is_up()], "the next supervisor")

    def kill(self) -> None:
        """Kill front, keeper and supervisor, and leave the waiter."""
        supervisor = self.supervisor
        for pid in (self.process.pid, self.keeper, supervisor):
            os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        until(lambda: not alive(supervisor), "the supervisor's end")

    @property
    def waiter(self) -> int:
        """The pid of the waiter, waited for."""
        return until(lambda: self._chain()[:1], "a waiter")[0]

    @property
    def keeper(self) -> int:
        """The pid of the keeper, waited for."""
        return until(lambda: self._chain()[1:2], "a keeper")[0]

    def stop(self) -> int:
        """Stop everything in an orderly way; returns the exit status."""
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def leftovers(self) -> list[int]:
        """Pids of processes that carry this agent's folder in their environment."""
        found = []
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            try:
                environ = Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            if b"=" + os.fsencode(self.directory) + b"/" in environ and not is_ending(pid):
                found.append(pid)
        return found

    def _is_up(self) -> bool:
        try:
            connect(str(self.directory), 5.0).close()
        except OSError:
            return False
        return True

    def _children(self) -> list[int]:
        """The keeper's children that run its own program: attempts it adopted do not."""
        chain = self._chain()
        return self._own_children(chain[1]) if len(chain) > 1 else []

    def _chain(self) -> list[int]:
        """The waiter, the keeper and the supervisor, as far as they are there."""
        chain: list[int] = []
        while len(chain) < 3:
            found = self._own_children(chain[-1] if chain else self.process.pid)
            if not found:
                break
            chain.append(found[0])
        return chain

    def _own_children(self, pid: int) -> list[int]:
        try:
            listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:  # it has ended
            return []
        return [child for child in map(int, listed) if self._is_supervisor(child)]

    def _is_supervisor(self, pid: int) -> bool:
        try:
            return os.fsencode(self.directory) in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
