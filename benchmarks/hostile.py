"""How long a controller keeps others waiting while it takes what is meant to hold it up.

    python benchmarks/hostile.py [--quick] [--json FILE]

A controller of its own, on this machine, is asked for `/healthz` every 5 ms over one kept connection by a process of
its own. Meanwhile another process submits 50,000 jobs at once, a node on a reverse connection sends faulty facts as
fast as it can, or 1,000 connections send half a request. What counts is the longest time without an answer. Other
programs on the machine count in it: so the same without any load is printed, and for each answer the time that it took
without what the controller and the asking process waited for a processor (/proc/PID/task/*/schedstat, Linux).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from common import Bar, arguments, report
from hostler.runtime.statedir import StateDir

JOBS, QUICK_JOBS = 50_000, 10_000
ASK_S = 0.005
IDLE_S = 5.0
CROWD = 1000
START_S, END_S = 120.0, 600.0
HOLD_MS, FLOOD_MS = 100.0, 250.0
FACTS = {
    "host": "evil", "os": "Linux", "arch": "x86_64", "python": "3.11", "cpus": 2, "memory_bytes": 1 << 34,
    "disk_free_bytes": 1 << 40, "boot": "b", "devices": [], "visible": None,
}  # fmt: skip


def poll(port: int, pid: int, token: str, until: Path) -> None:
    """Ask for `/healthz` until the file is there; print the times of all answers, in seconds, with and without waits
    for a processor."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=END_S)
    took: list[tuple[float, float]] = []
    print("ready", flush=True)
    while not until.exists():
        theirs, ours = waited(pid), waited(os.getpid())
        begun = time.perf_counter()
        try:
            connection.request("GET", "/healthz", headers={"Authorization": f"Bearer {token}"})
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):  # it was the oldest without a token, before its first request
            connection.close()
            continue
        whole, now = time.perf_counter() - begun, waited(pid)
        longest = max((now[each] - theirs.get(each, 0.0) for each in now), default=0.0)
        own_s = sum(waited(os.getpid()).values()) - sum(ours.values())
        took.append((whole, max(whole - longest - own_s, 0.0)))
        time.sleep(max(ASK_S - whole, 0.0))
    print(json.dumps(took))


def waited(pid: int) -> dict[str, float]:
    """For how many seconds each thread of a process has waited for a processor; empty where the system does not say."""
    found = {}
    for each in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):
            found[each.parent.name] = int(each.read_text().split()[1]) / 1e9
    return found


def submit(port: int, token: str, count: int) -> None:
    """Submit so many jobs in one request."""
    jobs = [
        {
            "name": f"job-{number}",
            "payload": {"kind": "script", "schema": 1, "argv": ["python", "train.py", f"--seed={number}"]},
            "resources": {"device": "gpu"},
        }
        for number in range(count)
    ]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=END_S)
    connection.request("POST", "/api/v1/jobs", json.dumps(jobs).encode(), {"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    assert answer.status == http.client.CREATED, answer.read()[:300]


def crowd(port: int) -> None:
    """Hold 1,000 connections with half a request each, twice."""
    for _ in range(2):
        held = [socket.create_connection(("127.0.0.1", port), timeout=END_S) for _ in range(CROWD)]
        for each in held:
            with suppress(OSError):
                each.sendall(b"GET / HTTP/1.1\r\n")
        time.sleep(1.0)
        for each in held:
            each.close()


class Node:
    """A node on a reverse connection that says what it likes."""

    def __init__(self, port: int, token: str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._stream = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=60))
        self._input = self._stream.makefile("rb")
        self._seq = 0
        self.say({"type": "dial", "protocol": 1, "node": "evil", "token": token, "dir": "/nowhere", "dialler": "d"})

    def say(self, message: dict[str, Any]) -> None:
        """One line."""
        self._stream.sendall(json.dumps(message).encode() + b"\n")

    def hear(self, wanted: str) -> dict[str, Any]:
        """The next message of a type. Raises `OSError` where the controller has closed the connection."""
        while line := self._input.readline():
            heard: dict[str, Any] = json.loads(line)
            if heard["type"] == wanted:
                return heard
        raise ConnectionResetError

    def flood(self, until: float) -> None:
        """Answer a probe, and then send faulty facts up to a time."""
        self.hear("take")
        self.say({"type": "taken"})
        words = {"type": "hello", "protocol": 1, "agent": "evil", "incarnation": 1, "boot": "b", "version": "0.2.0"}
        more = {"tells": True, "sets_up": True, "merges": False, "attempts": [], "chunks": []}
        self.say({**words, **more, "leaving": None, "code": None, "seq": 0})
        self.say({"type": "probe", "id": self.hear("probe")["id"], "facts": FACTS})
        while time.monotonic() < until:
            self._seq += 2000
            self.say(
                {"type": "facts", "facts": [{"seq": self._seq + at, "at": 1.0, "fact": "?"} for at in range(2000)]}
            )


def flood(port: int, token: str, seconds: float) -> None:
    """Be a node that floods, again after each loss of its link."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(OSError):
            Node(port, token).flood(until)
        time.sleep(0.2)


@contextmanager
def controller(folder: Path) -> Iterator[tuple[int, int, int, StateDir]]:
    """The process of a controller and its two ports: of its API, and of nodes that call."""
    fleet = folder / "fleet.yaml"
    nodes = [
        {"name": "evil", "backend": "dialin", "cpu_slots": 2, "gpus": "none", "dir": str(folder), "canary": "none"}
    ]
    fleet.write_text(json.dumps({"nodes": nodes, "dialin": {"listen": "127.0.0.1:0"}, "api": {"port": 0}}))
    state = StateDir(folder / "state")
    command = [sys.executable, "-m", "hostler", "up", "--state-dir", str(state.path), str(fleet)]
    with (folder / "up.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline, about = time.monotonic() + START_S, state.path / "controller.json"
        while not about.exists():
            assert process.poll() is None, (folder / "up.log").read_text()
            assert time.monotonic() < deadline, "the controller does not start"
            time.sleep(0.1)
        told = json.loads(about.read_text())
        yield process.pid, int(told["url"].rpartition(":")[2]), int(told["dialin"].rpartition(":")[2]), state
    finally:
        process.kill()
        process.wait()


def gaps(
    port: int, pid: int, token: str, folder: Path, load: Sequence[str] | None
) -> tuple[list[tuple[float, float]], float]:
    """How long answers took while a load ran (`None`: nothing, for a while), and for how long it ran."""
    over = folder / "over"
    over.unlink(missing_ok=True)
    asking = own("poll", str(port), str(pid), token, str(over))
    assert asking.stdout is not None
    asking.stdout.readline()
    begun = time.monotonic()
    if load is None:
        time.sleep(IDLE_S)
    else:
        working = own(*load)
        working.communicate(timeout=END_S)
        assert working.returncode == 0, load
    took = time.monotonic() - begun
    over.touch()
    return json.loads(asking.communicate(timeout=END_S)[0]), took


def own(*words: str) -> subprocess.Popen[str]:
    """A process of this program for one part."""
    return subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True)


def measured(quick: bool) -> Iterator[tuple[str, list[tuple[float, float]], float]]:
    """Answers and length of each load, every one on a controller of its own."""
    count = QUICK_JOBS if quick else JOBS
    for name in ("nothing", f"a submission of {count} jobs", "a node that floods", f"{CROWD} slow connections"):
        with (
            tempfile.TemporaryDirectory(prefix="hostile-") as folder,
            controller(Path(folder)) as (pid, port, calls, state),
        ):
            loads = {
                "nothing": None,
                "a node that floods": ("flood", str(calls), state.make_call_token("evil"), "5" if quick else "15"),
                f"{CROWD} slow connections": ("crowd", str(port)),
            }
            usual = ("submit", str(port), state.token(), str(count))
            yield name, *gaps(port, pid, state.token(), Path(folder), loads.get(name, usual))


def main() -> None:
    """Measure, print and compare."""
    if len(sys.argv) > 1 and sys.argv[1] in PARTS:
        PARTS[sys.argv[1]](*sys.argv[2:])
        return
    asked: argparse.Namespace = arguments(__doc__)
    rows, longest = [], []
    for name, times, took in measured(asked.quick):
        ms = sorted(1000 * each for each, _ in times)
        alone = max(1000 * each for _, each in times)
        longest.append(ms[-1])
        row = {"load": name, "lasted s": round(took, 1), "answers": len(ms), "p50 ms": round(ms[len(ms) // 2], 1)}
        rows.append(
            {
                **row,
                "p99 ms": round(ms[int(len(ms) * 0.99)], 1),
                "longest ms": round(ms[-1], 1),
                "of it held ms": round(alone, 1),
            }
        )
        print(rows[-1], f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    bars = [
        Bar("longest wait for /healthz during a submission, ms", longest[1], HOLD_MS, "<="),
        Bar("longest wait for /healthz during a flood, ms", longest[2], FLOOD_MS, "<="),
        Bar("longest wait for /healthz with slow connections, ms", longest[3], FLOOD_MS, "<="),
    ]
    report("hostile", rows, bars, asked.json)


PARTS: Mapping[str, Callable[..., None]] = {
    "poll": lambda port, pid, token, until: poll(int(port), int(pid), token, Path(until)),
    "submit": lambda port, token, count: submit(int(port), token, int(count)),
    "flood": lambda port, token, seconds: flood(int(port), token, float(seconds)),
    "crowd": lambda port: crowd(int(port)),
}

if __name__ == "__main__":
    main()
