"""Many nodes behind SSH and one controller, for benchmarks/ssh.py: what it takes while nothing is to be done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from common import Row
from hostler.client import Client
from hostler.runtime.statedir import StateDir

if TYPE_CHECKING:
    from tests.backends.ssh.sshd import Sshd

UP_WITHIN_S = 900.0
SETTLE_S = 30.0
IDLE_S = 60.0


def fleet(server: Sshd, folder: Path, count: int) -> list[Row]:
    """Bring so many nodes up, let them idle, and take them down again."""
    folder.mkdir()
    (folder / "fleet.yaml").write_text(_file(server, folder, count))
    command = [sys.executable, "-m", "hostler.cli", "up", "fleet.yaml"]
    with (folder / "said").open("w") as said:
        controller = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
    try:
        began = time.perf_counter()
        _wait(folder, count, controller)
        up_s = time.perf_counter() - began
        time.sleep(SETTLE_S)
        return [_measured(controller.pid, count, up_s)]
    finally:
        _end(controller, folder)


def _file(server: Sshd, folder: Path, count: int) -> str:
    ssh = f"{{config: [], known_hosts: [{server.known_hosts}]}}"
    lines = ["name: bench", "state_dir: state", "api: {port: 0}", f"ssh: {ssh}", "nodes:"]
    way = f"backend: ssh, host: 127.0.0.1, port: {server.port}, identity: {server.folder}/client"
    nodes = [f"  - {{name: n{at}, {way}, dir: {folder}/nodes, cpu_slots: 1}}" for at in range(count)]
    return "\n".join([*lines, *nodes]) + "\n"


def _wait(folder: Path, count: int, controller: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + UP_WITHIN_S
    state = StateDir(folder / "state")
    while time.monotonic() < deadline:
        assert controller.poll() is None, (folder / "said").read_text()
        if state.controller_file.exists():
            up = sum(node["link"] == "up" for node in Client.from_state_dir(state.path).nodes())
            if up == count:
                return
        time.sleep(1.0)
    raise AssertionError(f"not all of {count} nodes came up within {UP_WITHIN_S:g} s")


def _measured(pid: int, count: int, up_s: float) -> Row:
    process = psutil.Process(pid)
    before, began = process.cpu_times(), time.perf_counter()
    time.sleep(IDLE_S)
    after, wall = process.cpu_times(), time.perf_counter() - began
    spent = after.user + after.system - before.user - before.system
    return {
        "nodes": count,
        "all up after s": up_s,
        "resident MB": process.memory_info().rss / 1e6,
        "idle, of a core": spent / wall,
        "descriptors": process.num_fds(),
    }


def _end(controller: subprocess.Popen[bytes], folder: Path) -> None:
    """The controller first, then the agents, which are known by the folder they serve."""
    if controller.poll() is None:
        controller.send_signal(signal.SIGKILL)
        controller.wait()
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in word for word in process.info["cmdline"] or ()) and process.pid != os.getpid():
            process.kill()
