"""A real Ray cluster for tests, in processes of its own that need nothing of this Python; and a gate in front of it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Literal

import psutil

from tests.patience import PATIENCE_S
from tests.ports import quiet_port
from tests.servers import QuietServer
from tests.tiers import demand_services

TOKEN = "a-token-of-the-tests-of-hostler-0123456789"
STARTS_S = 180.0
SAYS_S = 120.0
QUICK = {
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_worker_niceness": "0",
}
"""A dead node is told of within seconds. Not sooner: on a crowded machine the living are slow, too. Workers are not
behind all others in the queue for the processors, as Ray has it (15)."""


BARE = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
"""Arguments of the head of a `ray.cluster_utils.Cluster` whose programs ask Ray itself and nothing else."""


def ray_python() -> str | None:
    """A Python that has Ray: one that is named, or this one; `None`: there is none."""
    if named := os.environ.get("TESTS_RAY_PYTHON"):
        return named
    return sys.executable if importlib.util.find_spec("ray") is not None else None


class Town:
    """A cluster that runs. Its machines are counted from 0, the head aside."""

    def __init__(self, python: str, cpus: Sequence[int | str], port: int | None = None) -> None:
        self.python = python
        self.port = port or quiet_port()
        self.folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # sockets lie below it, whose paths are short
        self._said: queue.Queue[str] = queue.Queue()
        self._process = self._started(cpus)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._hear(STARTS_S)

    @property
    def address(self) -> str:
        """Of its dashboard."""
        return f"http://127.0.0.1:{self.port}"

    def tell(self, *words: str) -> None:
        """Have something done, and wait until it is."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        self._hear(SAYS_S)

    def jobs(self, prefix: str = "") -> list[dict[str, Any]]:
        """Jobs whose submission ids begin so."""
        found = self.ask("GET", "/api/jobs/")
        return [job for job in found if str(job.get("submission_id")).startswith(prefix)]

    def nodes(self) -> list[dict[str, Any]]:
        """All machines."""
        return list(self.ask("GET", "/api/v0/nodes?detail=1")["data"]["result"]["result"])

    def ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        """One request, decoded."""
        return json.loads(asked(self.address, method, path, body)[1])

    def stop_all(self) -> None:
        """End the jobs that are not over: the next test finds an empty cluster."""
        for job in self.jobs():
            if job["status"] in ("PENDING", "RUNNING"):
                self.ask("POST", f"/api/jobs/{job['submission_id']}/stop", b"")

    def head(self) -> list[psutil.Process]:
        """What answers, and what knows."""
        names = ("gcs_server", "dashboard.py")
        return [each for each in self._tree() if any(name in word for name in names for word in _words(each))]

    def close(self) -> None:
        """End everything, by process id."""
        processes = self._tree()
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGKILL)
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, PATIENCE_S)
        self._process.wait(PATIENCE_S)
        self._listener.join(PATIENCE_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _started(self, cpus: Sequence[int | str]) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PYTHON", "COV_"))}
        own = {"HOME": str(self.folder), "RAY_TMPDIR": str(self.folder), "RAY_USAGE_STATS_ENABLED": "0"}
        own |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, **QUICK}
        words = [self.python, str(Path(__file__).with_name("machines.py")), str(self.port), str(quiet_port())]
        words += map(str, cpus)
        with (self.folder / "log").open("w") as log:
            return subprocess.Popen(
                words, env={**kept, **own}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._said.put(line)
        self._said.put("")

    def _hear(self, within_s: float) -> None:
        try:
            said = self._said.get(timeout=within_s)
        except queue.Empty:
            said = ""
        if not said:
            log = (self.folder / "log").read_text(errors="replace")[-3000:]
            self.close()
            raise RuntimeError(f"the Ray cluster did not answer within {within_s:g} s:\n{log}")

    def _tree(self) -> list[psutil.Process]:
        """All that belongs to it, wherever that has gone: it knows the folder."""
        mark = f"RAY_TMPDIR={self.folder}"
        return [each for each in psutil.process_iter() if mark in _environ(each)]


class Gate:
    """In front of a cluster: a submission may be held back there, or its answer."""

    def __init__(self, address: str) -> None:
        self.hold: Literal["", "request", "answer"] = ""
        self.held = threading.Event()
        self.let_go = threading.Event()
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
                submits = self.command == "POST" and self.path == "/api/jobs/"
                if submits and gate.hold == "request":
                    gate.stand()
                    self.close_connection = True
                    return
                token = self.headers.get("Authorization")
                try:
                    status, answer = asked(address, self.command, self.path, body, token)
                except OSError:  # the cluster behind it is gone, or killed just now
                    self.close_connection = True
                    return
                if submits and gate.hold == "answer":
                    gate.stand()
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)

            do_GET = do_POST = do_PUT = do_DELETE = do

            def log_message(self, *_: Any) -> None:
                pass

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stand(self) -> None:
        """Hold this one until it may go on."""
        self.held.set()
        self.let_go.wait(PATIENCE_S)

    def close(self) -> None:
        """Let nobody through any more."""
        self.let_go.set()
        self._server.shutdown()
        self._server.server_close()


def asked(address: str, method: str, path: str, body: bytes | None, token: str | None = None) -> tuple[int, bytes]:
    """One request, with the token of the cluster unless another is given."""
    request = urllib.request.Request(address + path, data=body, method=method)
    request.add_header("Authorization", token or f"Bearer {TOKEN}")
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@contextlib.contextmanager
def town(python: str, cpus: Sequence[int | str], port: int | None = None) -> Iterator[Town]:
    """A cluster of machines with so many CPUs each (`2/1`: two, and a GPU), beside a head that has none."""
    demand_services("Ray")
    found = Town(python, cpus, port)
    try:
        yield found
    finally:
        found.close()


@contextlib.contextmanager
def gate(address: str) -> Iterator[Gate]:
    """A gate in front of a cluster."""
    found = Gate(address)
    try:
        yield found
    finally:
        found.close()


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    return quiet_port()


def until_empty(found: Town, within_s: float = PATIENCE_S) -> None:
    """Wait until no job of the cluster runs."""
    deadline = time.monotonic() + within_s
    while any(job["status"] in ("PENDING", "RUNNING") for job in found.jobs()):
        assert time.monotonic() < deadline, found.jobs()
        time.sleep(0.2)


def _environ(process: psutil.Process) -> list[str]:
    try:
        return [f"{name}={value}" for name, value in process.environ().items()]
    except psutil.Error:
        return []


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
