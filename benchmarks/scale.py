"""How the core bears a big fleet: 1,000 devices, up to 100,000 pending jobs, and one sweep of 10^15 items.

    python benchmarks/scale.py [--quick] [--json FILE]

Nothing is started: the core is driven through `handle` alone, with a virtual clock, and every figure is CPU time. A
"step" of scripts is what one finished attempt costs: its end, the decision what its device does next, and the start of
that. A "step" of the sweep is one finished chunk and the lease of the next. Each row is a process of its own. The
growth exponent is the slope of log(CPU time of the whole drain) over log(jobs): 1 is linear.
"""

import heapq
import math
import multiprocessing
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from common import Bar, Row, arguments, report
from hostler.core import Core
from hostler.model.codec import digest
from hostler.model.commands import Command, Launch, Lend
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.inputs import Begin, Ended, Input, Launched, LinkUp, NodeFound, Searched, Started, Submit
from hostler.model.work import DeviceKind, JobSpec, ScriptPayload, SweepPayload
from standing import recovery, standing

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
QUICK_SIZES = (1_000, 3_000, 10_000)
NODES = 125
DEVICES_PER_NODE = 8
BATCH = 10_000
SWEEP_ITEMS = 10**15
LENGTHS_S = (20.0, 60.0)
MOST_EXPONENT = 1.1


class Driven:
    """A core with a fleet of 1,000 devices; `handle` takes note of the CPU time of each call."""

    def __init__(self) -> None:
        self.core = Core()
        self.now = 1_000_000.0
        self.times: list[float] = []
        self.handle(Begin(version="bench", epoch=1))
        for number in range(NODES):
            name = f"n{number}"
            self.handle(NodeFound(node=_node(name)))
            self.handle(LinkUp(node=name, agent=name, incarnation=1, boot=None, attempts=(), chunks=()))

    def handle(self, *inputs: Input) -> Sequence[Command]:
        """Give inputs to the core; returns its commands."""
        began = time.process_time()
        outcome = self.core.handle(self.now, *inputs)
        self.times.append(time.process_time() - began)
        return outcome.commands

    def taken(self) -> list[float]:
        """The times since the last call."""
        times, self.times = self.times, []
        return times


def drain(jobs: int) -> Row:
    """Submit `jobs` scripts, then run them all on 1,000 devices."""
    driven, random, before = Driven(), Random(jobs), _resident_mb()
    driven.taken()
    started: deque[Command] = deque()
    for first in range(0, jobs, BATCH):
        started.extend(driven.handle(Submit(specs=_scripts(first, min(BATCH, jobs - first)))))
    submits, resident = driven.taken(), _resident_mb() - before
    ends = [_begun(driven, random, command) for command in started]
    heapq.heapify(ends)
    driven.taken()
    ended = 0
    while ends:
        driven.now, attempt = heapq.heappop(ends)
        done = Ended(
            attempt=attempt, started_at=driven.now - 30.0, ended_at=driven.now, exit_code=0, result={"n": ended}
        )
        for command in driven.handle(done):
            heapq.heappush(ends, _begun(driven, random, command))
        ended += 1
    driven.core.validate()
    assert ended == jobs, f"{ended} of {jobs} jobs ended"
    return _row("scripts", jobs, ended, driven.taken(), submits, resident)


def search(chunks: int) -> Row:
    """Search one sweep of 10^15 items on 1,000 devices until `chunks` chunks are done."""
    driven, random, before = Driven(), Random(chunks), _resident_mb()
    speeds = {device: random.choice([2e8, 1e9, 5e9]) for device in driven.core.state.devices}
    free_at = dict.fromkeys(speeds, driven.now)
    driven.taken()
    spec = _sweep()
    ends = [_lent(driven, speeds, free_at, command) for command in driven.handle(Submit(specs=(spec,)))]
    submits = driven.taken()
    heapq.heapify(ends)
    for _ in range(chunks):
        driven.now, chunk, start, stop, elapsed_s = heapq.heappop(ends)
        assert isinstance(spec.payload, SweepPayload)
        done = Searched(
            chunk=chunk, digest=spec.payload.digest, start=start, stop=stop, hits=(), elapsed_s=elapsed_s
        )  # fmt: skip
        for command in driven.handle(done):
            heapq.heappush(ends, _lent(driven, speeds, free_at, command))
    driven.core.validate()
    return _row("sweep", chunks, chunks, driven.taken(), submits, _resident_mb() - before)


def exponent(rows: Iterable[Row]) -> float:
    """Slope of log(total CPU time) over log(size)."""
    points = [(math.log(row["size"]), math.log(row["total s"])) for row in rows]
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def measured(case: Callable[[int], Row], sizes: Sequence[int]) -> list[Row]:
    """A row per size, each from a fresh process."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, max_tasks_per_child=1, mp_context=fresh) as pool:
        return list(pool.map(case, sizes))


def main() -> None:
    """Measure, print, write."""
    options = arguments(__doc__)
    sizes = QUICK_SIZES if options.quick else SIZES
    scripts, sweep = measured(drain, sizes), measured(search, sizes)
    bars = [
        Bar(f"growth exponent of scripts, {sizes[0]:,} to {sizes[-1]:,} jobs", exponent(scripts), MOST_EXPONENT, "<="),
        Bar(f"growth exponent of a sweep, {sizes[0]:,} to {sizes[-1]:,} chunks", exponent(sweep), MOST_EXPONENT, "<="),
    ]
    with TemporaryDirectory(prefix="hostler-scale-") as folder:
        recovered, recovery_bars = recovery(Path(folder), 60_000 if options.quick else 1_000_000)
        nodes = [NodeFound(node=_node(f"n{number}")) for number in range(NODES)]
        stood = standing(Path(folder), sizes[-1], nodes)
    report("scale", [*scripts, *sweep, *recovered, *stood], [*bars, *recovery_bars], options.json)


def _row(work: str, size: int, steps: int, times: Sequence[float], submits: Sequence[float], resident: float) -> Row:
    ordered = sorted(times)
    return {
        "work": work,
        "size": size,
        "handle p50 µs": statistics.median(ordered) * 1e6,
        "handle p99 µs": ordered[int(len(ordered) * 0.99)] * 1e6,
        "step µs": sum(times) / steps * 1e6,
        "total s": sum(submits) + sum(times),
        "submit ms": max(submits) * 1e3,
        "memory MB": resident,
    }


def _begun(driven: Driven, random: Random, command: Command) -> tuple[float, str]:
    """The node took the order and started the process; returns when it ends."""
    assert isinstance(command, Launch)
    name = command.order.id
    driven.handle(Launched(attempts=(name,)), Started(attempt=name, pid=1, pid_start=1))
    return driven.now + random.uniform(*LENGTHS_S), name


def _lent(
    driven: Driven, speeds: dict[str, float], free_at: dict[str, float], command: Command
) -> tuple[float, str, int, int, float]:
    """The chunk stands in its device's queue; returns when it will be done."""
    assert isinstance(command, Lend)
    chunk, device = command.chunk, f"{command.node}/{command.worker.queue}"
    elapsed_s = (chunk.stop - chunk.start) / speeds[device]
    free_at[device] = max(free_at[device], driven.now) + elapsed_s
    return free_at[device], chunk.id, chunk.start, chunk.stop, elapsed_s


def _node(name: str) -> NodeSpec:
    devices = (
        DeviceSpec(id=f"{name}/cuda{index}", node=name, kind=DeviceKind.CUDA, index=index, vram_gb=24.0)
        for index in range(DEVICES_PER_NODE)
    )
    return NodeSpec(name=name, backend="bench", devices=tuple(devices))


def _scripts(first: int, count: int) -> tuple[JobSpec, ...]:
    payloads = (ScriptPayload(schema=1, argv=("train", str(number))) for number in range(first, first + count))
    return tuple(JobSpec(name=f"job {first + number}", payload=each) for number, each in enumerate(payloads))


def _sweep() -> JobSpec:
    params: dict[str, Any] = {"of": "bench"}
    payload = SweepPayload(
        schema=1, start=0, stop=SWEEP_ITEMS, worker=("search",), params=params, digest=digest(params)
    )  # fmt: skip
    return JobSpec(name="sweep", payload=payload)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    main()
