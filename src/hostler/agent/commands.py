"""Commands that are run for somebody else: bounded in time, in output, and in what is left of them."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from typing import Any, BinaryIO, Dict, List, NamedTuple, Optional, Set, cast

from .procs import signal_group
from .protocol import Json, RequestError

MOST_OUTPUT_BYTES = 16 << 20
_READ_BYTES = 1 << 16
_STEP_S = 0.1
_LAST_READS = 4  # a pipe of 64 KiB may be full when its writer ends; others may go on writing to it for ever
_MOST_S = 3600.0


class Order(NamedTuple):
    """A command; its environment is laid over this process's own, None takes a variable away."""

    argv: List[str]
    timeout_s: float
    stdin: Optional[str]
    env: Dict[str, Optional[str]]


class Commands:
    """Runs orders, in as many threads as call it."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._running: Set[int] = set()
        self._is_over = False

    def run(self, order: Order) -> Json:
        """The answer to a ``run``: what became of it."""
        began = time.monotonic()
        try:
            with self._start(order) as process:
                talk = _Talk(process, order)
                try:
                    talk.run(began + order.timeout_s)
                finally:
                    self._end(process)
        except OSError as error:
            return _answer(None, b"", ("cannot start %.200r: %s" % (order.argv[0], error.strerror)).encode(), began)
        answer = _answer(_status(process.returncode), bytes(talk.out), bytes(talk.err), began)
        if talk.timed_out:
            answer.update(status=None, timed_out=True)
        return {**answer, "cut": talk.cut}

    def end_all(self) -> None:
        """Kill what runs, and start nothing more."""
        with self._mutex:
            self._is_over = True
            for pid in self._running:
                signal_group(pid, signal.SIGKILL)

    def _start(self, order: Order) -> subprocess.Popen[bytes]:
        env = dict(os.environ)
        for key, value in order.env.items():
            if value is None:
                env.pop(key, None)
            else:
                env[key] = value
        with self._mutex:
            if self._is_over:
                raise InterruptedError("this process ends")
            process = subprocess.Popen(
                order.argv,
                stdin=subprocess.DEVNULL if order.stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                start_new_session=True,
            )
            self._running.add(process.pid)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """With what it has left behind. The group's name is its own as long as it has not been reaped."""
        with self._mutex:
            signal_group(process.pid, signal.SIGKILL)
            self._running.discard(process.pid)


class _Talk:
    """Writes what a process is to read, and reads what it writes, until it has ended or its time is over."""

    def __init__(self, process: subprocess.Popen[bytes], order: Order) -> None:
        self.out, self.err = bytearray(), bytearray()
        self.cut = self.timed_out = False
        self._process = process
        self._unsaid = memoryview((order.stdin or "").encode("utf-8", "surrogateescape"))
        self._into = {process.stdout: self.out, process.stderr: self.err}
        self._selector = selectors.DefaultSelector()

    def run(self, until: float) -> None:
        """Talk, until then at the latest."""
        process, reading = self._process, selectors.EVENT_READ
        with self._selector:
            for pipe, events in (
                (process.stdin, selectors.EVENT_WRITE),
                (process.stdout, reading),
                (process.stderr, reading),
            ):
                if pipe is not None:
                    os.set_blocking(pipe.fileno(), False)
                    self._selector.register(pipe, events)
            while not (has_ended(process.pid) or self.timed_out):
                self._step()
                self.timed_out = time.monotonic() > until
            for _ in range(_LAST_READS):
                self._step(0)

    def _step(self, patience_s: float = _STEP_S) -> None:
        if not self._selector.get_map():  # it has closed all of them, and ends mostly
            time.sleep(min(patience_s, 0.01))
        else:
            for key, _ in self._selector.select(patience_s):
                self._serve(cast(BinaryIO, key.fileobj))

    def _serve(self, pipe: BinaryIO) -> None:
        if pipe not in self._into:
            self._say(pipe)
            return
        data = os.read(pipe.fileno(), _READ_BYTES)
        if not data:
            self._selector.unregister(pipe)
        room = MOST_OUTPUT_BYTES - len(self.out) - len(self.err)
        self.cut = self.cut or len(data) > room
        self._into[pipe] += data[:room]

    def _say(self, pipe: BinaryIO) -> None:
        try:
            self._unsaid = self._unsaid[os.write(pipe.fileno(), self._unsaid) :]
        except BrokenPipeError:  # it does not read it
            self._unsaid = memoryview(b"")
        if not self._unsaid:
            self._selector.unregister(pipe)
            pipe.close()


def order_of(request: Json) -> Order:
    """The order of a ``run`` request; raises RequestError."""
    argv, env, text = request.get("argv"), request.get("env") or {}, request.get("stdin")
    if type(argv) is not list or not argv or not all(map(_is_text, argv)) or not argv[0]:
        raise RequestError("argv must be a list of texts without NUL, the first one not empty")
    if type(env) is not dict or not all(_is_name(key) and (_is_text(env[key]) or env[key] is None) for key in env):
        raise RequestError("env must be an object of texts or nulls")
    if text is not None and type(text) is not str:
        raise RequestError("stdin must be a text or null")
    timeout_s = request.get("timeout_s")
    if type(timeout_s) not in (int, float) or not 0 < timeout_s <= _MOST_S:  # type: ignore[operator]
        raise RequestError("timeout_s must be a number of seconds, %g at most" % _MOST_S)
    return Order(argv, float(cast(float, timeout_s)), text, env)


def has_ended(pid: int) -> bool:
    """Whether a child has ended; it is not reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _is_text(value: Any) -> bool:
    return type(value) is str and "\0" not in value


def _is_name(value: str) -> bool:
    return value != "" and "\0" not in value and "=" not in value


def _status(returncode: int) -> int:
    """As a shell tells it: 128 and the number of the signal that ended it."""
    return returncode if returncode >= 0 else 128 - returncode


def _answer(status: Optional[int], out: bytes, err: bytes, began: float) -> Json:
    return {
        "status": status,
        "out": out.decode("utf-8", "replace"),
        "err": err.decode("utf-8", "replace"),
        "timed_out": False,
        "cut": False,
        "seconds": round(time.monotonic() - began, 3),
    }
