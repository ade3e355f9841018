"""A Ray cluster without Ray: its dashboard's HTTP, and jobs that really run here, each in a folder of its own.

It is what `rest.py` was written for, Ray 2.60, as far as that is used: what it answers was read off a real one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.servers import QuietServer

TOKEN = "a-token"


class FakeRay:
    """Machines with so many CPUs each; `down` hangs up on everybody, `lost` are submissions that nobody hears of."""

    def __init__(self, folder: Path, cpus: tuple[int, ...] = (2, 2)) -> None:
        self.folder = folder
        self.cpus = cpus
        self.dead: set[int] = set()
        self.down = False
        self.submissions: list[str] = []
        self.jobs: dict[str, dict[str, Any]] = {}
        self.packages: dict[str, bytes] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        ray = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if ray.down:
                    self.close_connection = True
                    return
                status, answer = ray.answer(self.command, self.path, body, self.headers.get("Authorization"))
                data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            do_GET = do_POST = do_PUT = do

            def log_message(self, *_: Any) -> None:
                pass

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, method: str, path: str, body: bytes, shown: str | None) -> tuple[int, Any]:
        """What it says to a request."""
        if shown is None:
            return 401, "Unauthorized: Missing authentication token"
        if shown != f"Bearer {TOKEN}":
            return 403, "Forbidden: Invalid authentication token"
        path = path.partition("?")[0]
        if path == "/api/version":
            return 200, {"version": "4", "ray_version": "2.60.0"}
        if path == "/api/v0/nodes":
            return 200, {"data": {"result": {"result": [self._machine(at) for at in range(len(self.cpus))]}}}
        if path == "/api/cluster_status":
            return 200, {"data": {"clusterStatus": {"loadMetricsReport": {"usage": {"CPU": [1.0, sum(self.cpus)]}}}}}
        if path.startswith("/api/packages/gcs/"):
            return self._package(method, path.rpartition("/")[2], body)
        return self._job(method, path, body)

    def end(self, name: str, status: str, message: str, *, machine: int | None = None) -> None:
        """A job is over, its process dies with it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._processes[name].pid, signal.SIGKILL)
        self._processes[name].wait()
        self.jobs[name] |= {"status": status, "message": message}
        if machine is not None:
            self.jobs[name]["driver_node_id"] = f"id{machine}"
            self.dead.add(machine)

    def close(self) -> None:
        """End what runs, and answer no more."""
        for name in list(self._processes):
            self.end(name, "STOPPED", "")
        self._server.shutdown()
        self._server.server_close()

    def _machine(self, at: int) -> dict[str, Any]:
        state = "DEAD" if at in self.dead else "ALIVE"
        return {
            "node_id": f"id{at}", "node_ip": f"10.0.0.{at}", "state": state, "is_head_node": at == 0,
            "state_message": "health check failed" if at in self.dead else None,
            "resources_total": {"CPU": float(self.cpus[at])}, "labels": {"place": f"p{at}"},
        }  # fmt: skip

    def _package(self, method: str, name: str, body: bytes) -> tuple[int, Any]:
        if method == "PUT":
            self.packages[name] = body
        return (200, "") if name in self.packages else (404, "Package does not exist")

    def _job(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        name, _, what = path.removeprefix("/api/jobs/").partition("/")
        if method == "POST" and not name:
            return self._submit(json.loads(body))
        if name not in self.jobs:
            return 404, f"Job {name} does not exist"
        if what == "stop":
            if not self._look(name)["over"]:
                self._processes[name].terminate()
                self.jobs[name]["stopped"] = True
            return 200, {"stopped": True}
        if what == "logs":
            return 200, {"logs": (self.folder / name / "log").read_text()}
        return 200, self._look(name)

    def _submit(self, asked: dict[str, Any]) -> tuple[int, Any]:
        name = asked["submission_id"]
        self.submissions.append(name)
        if name in self.jobs:
            return 500, f"ValueError: Job with submission_id {name} already exists. Please use a different one."
        folder = self.folder / name
        folder.mkdir(parents=True)
        package = folder / "package.zip"
        package.write_bytes(self.packages[asked["runtime_env"]["working_dir"].removeprefix("gcs://")])
        zipfile.ZipFile(package).extractall(folder)
        self.jobs[name] = {"status": "RUNNING", "message": "", "driver_node_id": "id0", "asked": asked}
        env = {**os.environ, **asked["runtime_env"].get("env_vars", {}), "RAY_ADDRESS": "10.0.0.0:6379"}
        with (folder / "log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                asked["entrypoint"], shell=True, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True
            )
        return 200, {"submission_id": name}

    def _look(self, name: str) -> dict[str, Any]:
        job = self.jobs[name]
        code = self._processes[name].poll()
        if code is not None and job["status"] == "RUNNING":
            log = (self.folder / name / "log").read_text()
            told = ("STOPPED", "") if job.get("stopped") else ("SUCCEEDED", "") if code == 0 else ("FAILED", log)
            job["status"], job["message"] = told
        return {**job, "over": job["status"] != "RUNNING"}


@contextlib.contextmanager
def fake_ray(folder: Path, cpus: tuple[int, ...] = (2, 2)) -> Iterator[FakeRay]:
    """One that runs jobs of this Python."""
    assert sys.platform == "linux"
    made = FakeRay(folder, cpus)
    try:
        yield made
    finally:
        made.close()
