"""A whole sweep through a real `hostler up --until-idle`, beside the bare kernel on two threads; for sieve.py.

Everything the sweep costs counts: the start and the end of controller, agent and workers, their imports and the
loading of the compiled kernel; only its compilation does not, which a small sweep with the same cache has done before.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from measure import become_subreaper, kill_descendants, tree_cpu_s

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.search import search_parallel

SLOTS = 2
SMALL = 1 << 16
LIMIT_S = 1800.0
GRACE_S = 5.0  # for the agent to end after its controller


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU-seconds of all processes and seconds of wall time, both averages over the rounds."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same interval of seeds searched both ways; `start` is what a sweep of almost nothing costs."""

    seeds: int
    bare: Cost
    whole: Cost
    start: Cost


def compare(params: Mapping[str, Any], seeds: int, planted: int, rounds: int) -> Comparison:
    """Search `[0, seeds)` for `params`, by turns bare and whole, beginning and ending with bare.

    Both must find `planted`, if it lies in the interval, and nothing else; SystemExit says who did not.
    """
    become_subreaper()
    with tempfile.TemporaryDirectory(prefix="hostler-sieve-") as folder:
        runs = _Runs(params, Path(folder), planted)
        runs.whole(SMALL)  # compiles
        start = runs.whole(SMALL)
        bare, whole = [runs.bare(seeds)], []
        for _ in range(rounds):
            whole.append(runs.whole(seeds))
            bare.append(runs.bare(seeds))
    around = [_average([before, after]) for before, after in pairwise(bare)]
    return Comparison(seeds, _average(around), _average(whole), start)


class _Runs:
    """Runs of either kind for the same parameters, with one cache of compiled kernels."""

    def __init__(self, params: Mapping[str, Any], folder: Path, planted: int) -> None:
        self._params, self._folder, self._planted = params, folder, planted
        self._number = 0

    def bare(self, seeds: int) -> Cost:
        """The kernel on two threads of this process, without any process, pipe or journal."""
        began = time.process_time(), time.monotonic()
        parts = search_parallel(spec.parse(self._params), 0, seeds, SLOTS, time.monotonic)
        found = [seed for part in parts for seed in part.items]
        cost = Cost(time.process_time() - began[0], time.monotonic() - began[1])
        if found != self._expected(seeds):
            raise SystemExit(f"the bare kernel found {found} below {seeds} instead of {self._expected(seeds)}")
        return cost

    def whole(self, seeds: int) -> Cost:
        """A controller in a state directory of its own, from its start to the end of the last process it started."""
        fleet, state = self._prepare(seeds)
        command = [
            sys.executable,
            "-m",
            "hostler",
            "up",
            "--until-idle",
            "--state-dir",
            str(state),
            "--port",
            "0",
            str(fleet),
        ]
        began = _children_cpu_s(), time.monotonic()
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            wall_s = time.monotonic() - began[1]
        finally:
            left = kill_descendants(grace_s=GRACE_S)
        if left:
            print(
                f"{left} processes of a sweep of {seeds} seeds outlived its controller and were killed", file=sys.stderr
            )
        found = [int(line.split()[1]) for line in ended.stdout.splitlines() if line.split()[:1] == ["found"]]
        if ended.returncode or found != self._expected(seeds):
            raise SystemExit(f"hostler up found {found}, exit status {ended.returncode}:\n{ended.stdout}{ended.stderr}")
        return Cost(_children_cpu_s() - began[0], wall_s)

    def _prepare(self, seeds: int) -> tuple[Path, Path]:
        self._number += 1
        state = self._folder / f"state-{self._number}"
        fleet = state.with_suffix(".yaml")
        node = {"name": "here", "cpu_slots": SLOTS, "env": {"NUMBA_CACHE_DIR": str(self._folder / "numba")}}
        sweep = {"name": "php", "program": "sieve", "range": [0, seeds], "params": self._params}
        fleet.write_text(json.dumps({"nodes": [node], "sweeps": [sweep]}))
        return fleet, state

    def _expected(self, seeds: int) -> list[int]:
        return [self._planted] if self._planted < seeds else []


def _average(costs: list[Cost]) -> Cost:
    return Cost(mean(cost.cpu_s for cost in costs), mean(cost.wall_s for cost in costs))


def _children_cpu_s() -> float:
    """CPU-seconds of everything below this process, which is the subreaper of it all; without its own."""
    own = os.times()
    return float(tree_cpu_s(os.getpid()) - own.user - own.system)
