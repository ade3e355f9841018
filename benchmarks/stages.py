"""Stages of the self-improvement loop as the processes they are, run by hand: orders in, results and costs out."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.workloads.alphazero.artifacts import Artifacts
from hostler.workloads.beacons.configs import parameters
from hostler.workloads.beacons.program import PROGRAM

Order = dict[str, Any]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class Ran:
    """What a stage left, the CPU-seconds of its process from its start to its end, and the seconds on the clock."""

    result: Mapping[str, Any]
    cpu_s: float
    wall_s: float


class Stage:
    """A stage that runs: one process on one thread, `python -m hostler.workloads.alphazero STAGE`."""

    def __init__(self, order: Order, artifacts: Path, folder: Path) -> None:
        """Start it; `folder` is its own, for its order and its result."""
        folder.mkdir(parents=True)
        self._order, self._result = order, folder / "result.json"
        inputs = folder / "order.json"
        inputs.write_text(json.dumps(order))
        places = {"HOSTLER_INPUTS": inputs, "HOSTLER_RESULT": self._result, "HOSTLER_ARTIFACTS": artifacts}
        environment = {**os.environ, **ONE_THREAD, **{name: str(path) for name, path in places.items()}}
        command = [sys.executable, "-m", "hostler.workloads.alphazero", order["stage"]]
        self._began = time.monotonic()
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)

    def wait(self) -> Ran:
        """Its result and cost. SystemExit says what it could not do."""
        _, status, usage = os.wait4(self._process.pid, 0)
        wall_s = time.monotonic() - self._began
        self._process.returncode = os.waitstatus_to_exitcode(status)
        result = json.loads(self._result.read_text()) if self._result.exists() else {}
        if self._process.returncode:
            told = result.get("error", "it left no result")
            raise SystemExit(f"{self._order['stage']} of {self._order['config']} ended with status "
                             f"{self._process.returncode}: {told}")  # fmt: skip
        return Ran(result, cpu_s(usage), wall_s)

    def end(self) -> None:
        """Kill it, where it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def cpu_s(usage: resource.struct_rusage) -> float:
    """User and system time together."""
    return usage.ru_utime + usage.ru_stime


def run(order: Order, artifacts: Path, folder: Path) -> Ran:
    """A stage from its start to its end. SystemExit says what it could not do."""
    return run_together([order], artifacts, folder)[0]


def run_together(orders: Sequence[Order], artifacts: Path, folder: Path) -> list[Ran]:
    """Stages side by side, until the last has ended. SystemExit says what one of them could not do."""
    stages = [Stage(each, artifacts, folder / str(number)) for number, each in enumerate(orders)]
    try:
        return [stage.wait() for stage in stages]
    finally:
        for stage in stages:
            stage.end()


def order(stage: str, config: str, seed: int, **fields: Any) -> Order:
    """An order for a config of Beacons, such as `hex8_2p`."""
    game = {"factory": PROGRAM.factory, "params": parameters(config)}
    return {"schema": 1, "stage": stage, "config": config, "seed": seed, "game": game, **fields}


def untrained(config: str, channels: int, blocks: int, artifacts: Path) -> str:
    """Make an untrained model; its SHA-256. In this process: nothing of it is measured."""
    # Here, because torch takes seconds to load, and most runs of stages need it only in their processes.
    from hostler.workloads.alphazero import training

    size = {"channels": channels, "blocks": blocks}
    made = training.run(
        order("training", config, 1, base=None, init=size, dataset=None, steps=0, batch=1, options={}),
        Artifacts(artifacts),
        lambda result: None,  # type: ignore[arg-type]
    )
    return str(made["model"]["sha256"])
