"""What people and Prometheus look at ten times a minute, on a big fleet: 1,000 devices, 100,000 jobs.

    python benchmarks/api_paths.py [--quick] [--json FILE]

A real controller, a real journal and a real HTTP server, in a process of their own; only the nodes are made up: 125 of
them with 8 GPUs each, which take what they are given, run it for ever, and tell how they are every five seconds. Each
path is asked over one kept connection, as a browser would.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

from common import Bar, Row, arguments, report
from hostler.backends.base import Report
from hostler.model.commands import AttemptOrder
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.inputs import Ended, Input, LinkUp, NodeFound, Started, Submit, Telemetry
from hostler.model.telemetry import DeviceTelemetry
from hostler.model.work import DeviceKind, JobSpec, ScriptPayload
from hostler.runtime.clock import SteadyClock
from hostler.runtime.controller import Controller
from hostler.runtime.statedir import StateDir
from hostler.web.app import make_app
from hostler.web.door import Door
from hostler.web.server import serve

NODES, QUICK_NODES = 125, 12
DEVICES_PER_NODE = 8
JOBS, QUICK_JOBS = 100_000, 5_000
BATCH = 2_000
TELL_S = 5.0
PATHS = ("/status", "/queue/status", "/daemons/health")
OTHERS = ("/metrics", "/api/v1/queue?limit=50", "/api/v1/jobs?limit=50", "/api/v1/jobs/j50", "/api/v1/nodes")
"""Asked for beside them; no bar was set for these."""
REQUESTS = {"/metrics": 60, "/api/v1/nodes": 60}
USUAL_REQUESTS = 500
REST_S = 0.01
MOST_MS = 20.0


class MadeUp:
    """A node that takes everything and never ends anything."""

    kind = "bench"

    def __init__(self, name: str) -> None:
        self.name = name
        self._begun: asyncio.Queue[Input] = asyncio.Queue()

    async def probe(self) -> NodeSpec:
        """What it is made of."""
        devices = (
            DeviceSpec(id=f"{self.name}/cuda{at}", node=self.name, kind=DeviceKind.CUDA, index=at, vram_gb=24.0)
            for at in range(DEVICES_PER_NODE)
        )
        return NodeSpec(name=self.name, backend=self.kind, devices=tuple(devices), provider="p", price_per_h=2.0)

    async def launch(self, orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
        """Begin at once."""
        for order in orders:
            self._begun.put_nowait(Started(attempt=order.id, pid=1, pid_start=1))
        return ()

    async def observe(self, epoch: int) -> AsyncIterator[Report]:
        """Tell of beginnings at once, and of itself every few seconds."""
        spec = await self.probe()
        linked = LinkUp(node=self.name, agent=self.name, incarnation=1, boot=None, attempts=(), chunks=())
        yield Report(inputs=(NodeFound(node=spec), linked))
        while True:
            yield Report(inputs=(self._telemetry(spec),))
            end = time.monotonic() + TELL_S
            while (left_s := end - time.monotonic()) > 0:
                try:
                    async with asyncio.timeout(left_s):
                        yield Report(inputs=(await self._begun.get(),))
                except TimeoutError:
                    break

    async def stop(self, attempts: Sequence[str], reason: str) -> None:
        """It does not stop."""

    def _telemetry(self, spec: NodeSpec) -> Telemetry:
        told = DeviceTelemetry(utilization=0.8, vram_used_gb=12.5, temperature_c=61.0)
        return Telemetry(
            node=self.name,
            at=time.time(),
            load=0.5,
            memory_total_gb=256.0,
            memory_free_gb=128.0,
            disk_total_gb=1000.0,
            disk_free_gb=500.0,
            backlog_s=0.0,
            devices={device.id: told for device in spec.devices},
        )


def main() -> None:
    """Serve in another process, ask from here."""
    options = arguments(__doc__)
    nodes, jobs = (QUICK_NODES, QUICK_JOBS) if options.quick else (NODES, JOBS)
    with TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, __file__, "--serve", folder, str(nodes), str(jobs)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            port, token = process.stdout.readline().split()
            rows = [asked(int(port), token, path) for path in PATHS + OTHERS]
        finally:
            process.terminate()
            process.wait(60)
    name = f"{nodes * DEVICES_PER_NODE:,} devices, {jobs:,} jobs"
    bars = [Bar(f"GET {row['path']}, {name}, p99 ms", row["p99 ms"], MOST_MS, "<") for row in rows[: len(PATHS)]]
    report("api_paths", rows, [] if options.quick else bars, options.json)


def asked(port: int, token: str, path: str) -> Row:
    """How long answers take."""
    connection = HTTPConnection("127.0.0.1", port)
    times, size = [], 0
    for _ in range(REQUESTS.get(path, USUAL_REQUESTS)):
        time.sleep(REST_S)
        began = time.perf_counter()
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        size = len(answer.read())
        times.append(time.perf_counter() - began)
        assert answer.status == 200, f"{path}: {answer.status}"
    connection.close()
    times.sort()
    return {
        "path": path,
        "p50 ms": statistics.median(times) * 1e3,
        "p90 ms": times[int(len(times) * 0.9)] * 1e3,
        "p99 ms": times[int(len(times) * 0.99)] * 1e3,
        "least ms": times[0] * 1e3,
        "kB": size / 1e3,
    }


async def _serve(folder: Path, nodes: int, jobs: int) -> None:
    directory = StateDir(folder / "state")
    directory.take()
    backends = {name: MadeUp(name) for name in (f"n{at}" for at in range(nodes))}
    clock = SteadyClock()
    async with Controller(directory, "bench", backends, clock, 10**9) as controller:
        for first in range(0, jobs, BATCH):
            await controller.tell(Submit(specs=tuple(_script(at) for at in range(first, min(first + BATCH, jobs)))))
        while controller.status().devices_busy < nodes * DEVICES_PER_NODE:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.2)
        door = Door(token=directory.token(), key=directory.session_key(), now=clock.now)
        served = await serve(make_app(controller, door), "127.0.0.1", 0)
        print(served.port, directory.token(), flush=True)
        await asyncio.Event().wait()


def _script(number: int) -> JobSpec:
    payload = ScriptPayload(schema=1, argv=("python", "train.py", "--seed", str(number)))
    return JobSpec(name=f"train {number}", payload=payload)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(_serve(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
    else:
        main()
