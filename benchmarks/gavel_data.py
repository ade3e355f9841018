"""The public training traces of Gavel (OSDI 2020) as jobs, and the published figures. Read from `shared/data`."""

from __future__ import annotations

import csv
import json
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

TYPES = ("v100", "p100", "k80")
WINDOW = range(4000, 5000)
"""The jobs whose completion times the paper's experiments measure."""


@dataclass(frozen=True, slots=True)
class Job:
    """One training job: when it arrives, what it is, how many steps, and its speed on each type of GPU."""

    number: int
    arrival_s: float
    model: str
    devices: int
    steps: float
    per_s: Mapping[str, float]
    """Steps per second by type; types it cannot run on are left out."""

    @property
    def best_s(self) -> float:
        """How long it takes on its best type."""
        return self.steps / max(self.per_s.values())


class Tables:
    """Speeds by model, number of GPUs and type."""

    def __init__(self, folder: Path, name: str = "simulation_throughputs") -> None:
        self._table = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        self.models: list[str] = json.loads((folder / "models.json").read_text(encoding="utf-8"))

    def speeds(self, model: str, devices: int) -> dict[str, float]:
        """Steps per second by type; empty if it was not measured for so many GPUs."""
        key = str((model, devices))
        found = {cls: self._table[cls][key]["null"] for cls in TYPES if key in self._table[cls]}
        return {cls: per_s for cls, per_s in found.items() if per_s > 0}


def folder() -> Path | None:
    """Where the traces are: `HOSTLER_BENCH_DATA`, or `../shared/data` beside the repository; `None` if nowhere."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    place = Path(os.environ.get("HOSTLER_BENCH_DATA", beside)) / "gavel"
    return place if place.is_dir() else None


def continuous(tables: Tables, seed: int, per_h: float, count: int = 12_500) -> list[Job]:
    """The single-GPU jobs that Gavel's generator draws: Poisson arrivals, uniform models, heavy-tailed durations."""
    draws, gaps = random.Random(seed + 2), random.Random(seed + 3)
    times = accumulate((gaps.expovariate(1.0) for _ in range(count - 1)), initial=0.0)
    return [_drawn(tables, draws, number, at * 3600 / per_h, False) for number, at in enumerate(times)]


def static(tables: Tables, seed: int, count: int = 500) -> list[Job]:
    """Jobs of one to eight GPUs, all there at the start, as Gavel's generator draws them."""
    draws = random.Random(seed + 2)
    return [_drawn(tables, draws, number, 0.0, True) for number in range(count)]


def published_list(place: Path, tables: Tables, per_h: float) -> list[Job]:
    """The list of seed 0 as it is stored with the data, to check the generator against."""
    with (place / "continuous_single_seed0.csv").open(encoding="utf-8") as lines:
        return [
            _job(
                tables,
                int(row["job"]),
                float(row["t_unit"]) * 3600 / per_h,
                tables.models[int(row["model"])],
                1,
                float(row["v100_seconds"]),
            )
            for row in csv.DictReader(lines)
        ]


def trace(path: Path, tables: Tables) -> tuple[list[Job], int]:
    """A trace file of 10 or (older) 7 columns: its jobs, and how many were left out for want of a speed."""
    jobs, dropped = [], 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        cells = line.split("\t")
        model, steps = cells[0], float(cells[5] if len(cells) == 10 else cells[4])
        devices, arrival_s = (int(cells[6]), float(cells[9])) if len(cells) == 10 else (int(cells[6]), float(cells[5]))
        speeds = tables.speeds(model, devices)
        if speeds:
            jobs.append(Job(number, arrival_s, model, devices, steps, speeds))
        else:
            dropped += 1
    return jobs, dropped


def published(place: Path) -> dict[tuple[str, str], float]:
    """Average completion time in hours by (jobs per hour, policy), as the paper's notebooks printed it."""
    with (place / "published_jct_single_gpu.csv").open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["metric"] == "avg_jct_h"]
    return {(row["jobs_per_hour"], row["policy"]): float(row["value"]) for row in rows}


def rerun(place: Path) -> list[dict[str, str]]:
    """What the published simulator gave when it was run again."""
    with (place / "local_runs.csv").open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _drawn(tables: Tables, draws: random.Random, number: int, arrival_s: float, gangs: bool) -> Job:
    devices = _scale(draws.random()) if gangs else (draws.random(), 1)[1]
    minutes = 10 ** (3 + draws.random()) if draws.random() >= 0.8 else 10 ** (1.5 + 1.5 * draws.random())
    model = draws.choice(tables.models)
    while devices > 1 and not tables.speeds(model, devices):
        model = draws.choice(tables.models)
    return _job(tables, number, arrival_s, model, devices, minutes * 60)


def _job(tables: Tables, number: int, arrival_s: float, model: str, devices: int, v100_s: float) -> Job:
    speeds = tables.speeds(model, devices)
    return Job(number, arrival_s, model, devices, float(int(v100_s * speeds["v100"])), speeds)


def _scale(chance: float) -> int:
    """GPUs of a job: 70 % one, 10 % two, 15 % four, 5 % eight."""
    return 1 if chance < 0.7 else 2 if chance < 0.8 else 4 if chance < 0.95 else 8
