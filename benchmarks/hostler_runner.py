"""Hostler's row of dispatch.py: a real `hostler up` with two CPU slots, spoken to over HTTP, its journal on disk.

`spawn` submits n script jobs that run `true`; `noop` one sweep of n items in chunks of one item on two warm workers.
Every task is journalled before and after it runs, and each has a durable, accepted result.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from measure import WORKERS, Run, main

from hostler import __version__
from hostler.client import Client
from hostler.model.codec import digest
from hostler.model.errors import ControllerAbsent

NOOP_WORKER = Path(__file__).resolve().parent / "noop_worker.py"
POLL_S = 0.05
FINAL = ("done", "failed", "cancelled")


@contextmanager
def session(kind: str) -> Iterator[Run]:
    """Start a controller and give a function that runs n tasks of the kind."""
    state = Path(os.environ["HOME"]) / "state"
    fleet = state.with_name("fleet.yaml")
    fleet.write_text(json.dumps({"nodes": [{"name": "here", "cpu_slots": WORKERS}]}))
    command = [sys.executable, "-m", "hostler", "up", "--state-dir", str(state), "--port", "0", str(fleet)]
    controller = subprocess.Popen(command)
    try:
        client = _client(state)
        yield lambda n: _run(client, kind, n)
        client.drain()
        controller.wait(30)
    finally:
        controller.kill()
        controller.wait()


def _client(state: Path) -> Client:
    client = Client.from_state_dir(state)
    while True:
        try:
            client.status()
        except ControllerAbsent:
            time.sleep(POLL_S)
        else:
            return client


def _run(client: Client, kind: str, n: int) -> int:
    before = client.status()["jobs"]
    ended = _ended(before) + (1 if kind == "noop" else n)
    names = client.submit_jobs([sweep(n)] if kind == "noop" else [script(at) for at in range(n)])
    while _ended(client.status()["jobs"]) < ended:
        time.sleep(POLL_S)
    if kind == "noop":
        return int(client.sweep(names[0])["done"])
    return int(client.status()["jobs"]["done"] - before["done"])


def _ended(jobs: dict[str, int]) -> int:
    return sum(jobs[state] for state in FINAL)


def script(number: int) -> dict[str, Any]:
    """A job that does nothing, in a process."""
    return {"name": f"true {number}", "payload": {"kind": "script", "schema": 1, "argv": ["true"]}}


def sweep(items: int) -> dict[str, Any]:
    """A range in chunks of one item, of which each takes no time."""
    payload = {
        "kind": "sweep",
        "schema": 1,
        "start": 0,
        "stop": items,
        "worker": [sys.executable, str(NOOP_WORKER)],
        "params": {},
        "digest": digest({}),
        "max_chunk": 1,
    }
    return {"name": "no-op", "payload": payload}


if __name__ == "__main__":
    main("hostler", __version__, session)
