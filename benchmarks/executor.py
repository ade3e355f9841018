"""What a function call costs with `hostler.Executor`, beside the pools of Python, Ray and submitit.

    python benchmarks/executor.py [--quick] [--json FILE]

Two slots on this machine, 1,000 calls (`--quick`: 200) of a function that sleeps for 1 ms, and of one that computes for
about 1 ms; and single calls one after the other (their median). Hostler is a real controller and its agent:
each call is in its journal before its result is given. `ProcessPoolExecutor` has two warm processes and keeps nothing;
Ray and submitit (its local executor) run where they are installed. Each figure is the best of three; `ratio` is the
wall time beside that of `ProcessPoolExecutor` with chunks of one call.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor as AnyExecutor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from common import Bar, Row, arguments, report
from groups import controller
from hostler import __version__
from hostler.client import Client
from hostler.client.executor import Executor

CALLS, QUICK_CALLS = 1000, 200
SINGLES = 10
SLOTS = 2
TIMES = 3
BAR_S = 10.0
RESULT_BYTES = 1 << 20
LARGE = 32


def rest(at: int) -> int:
    """A call that waits for 1 ms."""
    time.sleep(0.001)
    return at


def compute(at: int) -> int:
    """A call that computes for about 1 ms."""
    return sum(range(at, at + 30_000)) & 1


def large(_: int) -> str:
    """A call with a result of 1 MiB."""
    return "x" * RESULT_BYTES


def main() -> None:
    """Run the command line described above."""
    options = arguments(__doc__)
    calls = QUICK_CALLS if options.quick else CALLS
    figures = {name: measured(session, calls) for name, session in SESSIONS.items()}
    base = figures["ProcessPoolExecutor"]
    rows = [row(name, found, base) for name, found in figures.items() if found]
    ours = figures["Hostler"]["rest"]
    report("executor", rows, [Bar(f"s for {calls:,} calls of 1 ms on {SLOTS} slots", ours, BAR_S, "<=")], options.json)


def measured(session: Callable[[], Any], calls: int) -> dict[str, float]:
    """Seconds of each kind; empty where the system is not installed."""
    try:
        with session() as run:
            run(rest, range(2 * SLOTS))  # warm
            found = {kind.__name__: best(partial(run, kind, range(calls))) for kind in (rest, compute)}
            singles = [best(lambda: run(rest, range(1)), 1) for _ in range(SINGLES)]
            return {**found, "single": statistics.median(singles), "large": best(lambda: run(large, range(LARGE)), 1)}
    except PackageNotFoundError:
        return {}


def best(act: Callable[[], Any], times: int = TIMES) -> float:
    """The shortest wall time of several."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        taken.append(time.perf_counter() - began)
    return min(taken)


def row(name: str, found: dict[str, float], base: dict[str, float]) -> Row:
    """A system's figures, as ratios to the pool of processes."""
    return {
        "system": name,
        "version": VERSIONS.get(name) or "Python's",
        "calls of 1 ms, s": found["rest"],
        "ratio": found["rest"] / base["rest"],
        "computing, s": found["compute"],
        "computing, ratio": found["compute"] / base["compute"],
        "one call, s": found["single"],
        f"{LARGE} results of 1 MiB, s": found["large"],
    }


def checked(results: Sequence[Any], arguments: Sequence[int]) -> None:
    """Every call has a result."""
    if len(results) != len(arguments):
        raise SystemExit(f"{len(results)} results of {len(arguments)} calls")


@contextmanager
def hostler() -> Iterator[Callable[..., None]]:
    """A controller of two slots."""
    with tempfile.TemporaryDirectory(prefix="hb-executor-") as folder:
        place = Path(folder) / "state"
        with controller(place, {"nodes": [{"name": "here", "cpu_slots": SLOTS, "gpus": "none"}]}):
            client = Client.from_state_dir(place)
            while not client.status()["nodes_up"]:
                time.sleep(0.1)
            with Executor(client) as executor:
                yield through(executor)


@contextmanager
def processes() -> Iterator[Callable[..., None]]:
    """Python's pool of processes."""
    with ProcessPoolExecutor(SLOTS) as executor:
        yield through(executor)


def through(executor: AnyExecutor) -> Callable[..., None]:
    """Calls by an executor."""
    return lambda kind, values: checked(list(executor.map(kind, values)), values)


@contextmanager
def ray() -> Iterator[Callable[..., None]]:
    """Remote functions of Ray."""
    VERSIONS["Ray"] = version("ray")
    import ray as system

    system.init(num_cpus=SLOTS, num_gpus=0, include_dashboard=False, log_to_driver=False)
    try:

        def run(kind: Callable[[int], Any], values: Sequence[int]) -> None:
            task = system.remote(kind)
            checked(system.get([task.remote(at) for at in values]), values)

        yield run
    finally:
        system.shutdown()


@contextmanager
def submitit() -> Iterator[Callable[..., None]]:
    """The local executor of submitit: a process for each call."""
    VERSIONS["submitit"] = version("submitit")
    import submitit as system  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory(prefix="hb-submitit-") as folder:
        executor = system.LocalExecutor(folder)

        def run(kind: Callable[[int], Any], values: Sequence[int]) -> None:
            jobs = executor.map_array(kind, values)
            checked([job.result() for job in jobs], values)

        yield run


VERSIONS = {"Hostler": __version__}
SESSIONS: dict[str, Callable[[], Any]] = {
    "Hostler": hostler,
    "ProcessPoolExecutor": processes,
    "Ray": ray,
    "submitit": submitit,
}

if __name__ == "__main__":
    main()
