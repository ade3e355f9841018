"""Hostler's side of benchmarks/slurm.py: a real `hostler up` with one partition, spoken to over HTTP."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from measure import tree_cpu_s

from hostler.client import Client
from hostler.model.codec import digest
from hostler.model.errors import HostlerError
from slurm_cluster import CPUS, PARTITION, Bench

HERE = Path(__file__).resolve().parent
UP_WITHIN_S = 60.0
POLL_S = 0.1
FINAL = ("done", "failed", "cancelled")
Spec = dict[str, Any]


class Fleet:
    """A controller that is up."""

    def __init__(self, process: subprocess.Popen[bytes], client: Client) -> None:
        self.client = client
        self._pid = process.pid

    def cpu_s(self) -> float:
        """What the controller, its desk and the commands they gave have used."""
        return tree_cpu_s(self._pid)

    def resident_mb(self) -> float:
        """Memory of the controller."""
        return psutil.Process(self._pid).memory_info().rss / 1e6

    def ended(self) -> int:
        """Jobs that are over."""
        jobs = self.client.status()["jobs"]
        return sum(jobs[state] for state in FINAL)

    def run(self, specs: Sequence[Spec], within_s: float) -> int:
        """Submit these, wait for all of them; how many items were done. Raises `TimeoutError`."""
        names = self.client.submit_jobs(specs)
        deadline = time.monotonic() + within_s
        while self.ended() < len(specs):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.ended()} of {len(specs)} jobs ended within {within_s:g} s")
            time.sleep(POLL_S)
        if specs[0]["payload"]["kind"] == "sweep":
            return sum(int(self.client.sweep(name)["done"]) for name in names)
        return int(self.client.status()["jobs"]["done"])


@contextmanager
def fleet(bench: Bench, name: str, nodes: Sequence[Mapping[str, Any]], slurm: Mapping[str, Any]) -> Iterator[Fleet]:
    """Bring a controller up, and take it down again with everything it has asked of the cluster.

    `slurm` goes over the settings of the cluster; what neither says keeps its default.
    """
    folder = bench.folder / name
    folder.mkdir()
    (folder / "fleet.yaml").write_text(json.dumps(_file(folder, nodes, slurm)))
    command = [sys.executable, "-m", "hostler", "up", str(folder / "fleet.yaml")]
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(command, env=bench.env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        client = Client.from_state_dir(folder / "state")
        _wait(client, process, folder / "said")
        yield Fleet(process, client)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        bench.clear()


def scripts(count: int, *argv: str) -> list[Spec]:
    """Jobs of one process each; by default one that succeeds at once."""
    payload = {"kind": "script", "schema": 1, "argv": list(argv or ("true",))}
    return [{"name": f"item {at}", "payload": payload} for at in range(count)]


def sweep(count: int, sleep_s: float = 0.0) -> list[Spec]:
    """One sweep of so many items, each a chunk of its own."""
    params = {"sleep_s": sleep_s}
    payload = {
        "kind": "sweep",
        "schema": 1,
        "start": 0,
        "stop": count,
        "worker": [sys.executable, str(HERE / "noop_worker.py")],
        "params": params,
        "digest": digest(params),
        "max_chunk": 1,
    }
    return [{"name": "no-op", "payload": payload}]


def partition(name: str, mode: str, slots: int, **more: Any) -> dict[str, Any]:
    """A node of a fleet file: so many slots, of which none is kept back."""
    limits = {"max_jobs": slots, "max_pending": slots, "mode": mode}
    return {"name": name, "partition": PARTITION, "cpu_slots": slots, "slurm": {**limits, **more}}


def _file(folder: Path, nodes: Sequence[Mapping[str, Any]], slurm: Mapping[str, Any]) -> dict[str, Any]:
    share = {"cpus_least": CPUS, "cpus_most": CPUS, "memory_gb": 1}
    settings = {"shared_root": str(folder), "resources": {"script": share, "sweep": share}, **slurm}
    return {
        "name": "bench",
        "state_dir": str(folder / "state"),
        "api": {"port": 0},
        "classes": {"cluster": {"backend": "slurm", "gpus": "none", "python": sys.executable, "slurm": settings}},
        "nodes": [{"class": "cluster", **node} for node in nodes],
    }


def _wait(client: Client, process: subprocess.Popen[bytes], said: Path) -> None:
    deadline = time.monotonic() + UP_WITHIN_S
    while time.monotonic() < deadline:
        assert process.poll() is None, said.read_text()
        try:
            if all(node["link"] == "up" for node in client.nodes()):
                return
        except HostlerError:
            pass  # it has not begun to answer
        time.sleep(POLL_S)
    raise AssertionError(f"the partition did not come up within {UP_WITHIN_S:g} s:\n{said.read_text()}")
