"""slurm.py: what is made of the figures, and the count of commands that they rest on."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from tests.slurm.lab import Lab

import slurm
import slurm_cluster
import slurm_ours


def run(items: int, wall_s: float, **commands: int) -> slurm.Run:
    return slurm.Run(items=items, wall_s=wall_s, cpu_s=2.0, slurmctld_s=0.5, commands=commands)


def test_the_row_of_a_system_is_its_run_in_the_middle() -> None:
    row = slurm.row("sbatch", [run(100, 50.0), run(100, 20.0, sbatch=3, srun=4), run(100, 10.0)])
    assert (row["items/s"], row["rounds"], row["items"]) == (5.0, 3, 100)
    assert (row["sbatch"], row["all commands"]) == (3, 7)
    assert (row["caller CPU ms/item"], row["slurmctld CPU ms/item"]) == (20.0, 5.0)


def rows(pilots: float, singles: float, submitit: float) -> list[dict[str, Any]]:
    rates = {
        "Hostler, pilots, scripts": pilots,
        "Hostler, single jobs, scripts": singles,
        "submitit, map_array": submitit,
    }
    return [{"way": way, "items/s": rate} for way, rate in rates.items()]


@pytest.mark.parametrize(
    ("pilots", "commands", "met"), [(100.0, 6.0, [True, True, True]), (59.0, 6.1, [False, False, False])]
)
def test_the_bars(pilots: float, commands: float, met: list[bool]) -> None:
    seen = {"items": 10_000, "commands/min": commands}
    bars = list(slurm.judged(rows(pilots, singles=4.0, submitit=20.0), seen))
    assert [bar.met for bar in bars] == met
    assert [bar.value for bar in bars] == [pilots / 4.0, pilots / 20.0, commands]


def test_fewer_items_tracked_neither_meet_nor_miss_the_bar() -> None:
    seen = {"items": 1000, "commands/min": 1.0}
    assert [bar.met for bar in slurm.judged(rows(100.0, 4.0, 20.0), seen)] == [True, True, None]


def test_what_was_seen_is_per_minute() -> None:
    counted = Counter(squeue=6, sacct=3, sbatch=9, sinfo=1)
    row = slurm.watched("all", 10_000, 180.0, results=77, cpu_s=9.0, counted=counted, queued=5000, mb=150.0)
    assert (row["minutes"], row["commands/min"], row["looks/min"]) == (3.0, 19 / 3, 10 / 3)
    assert (row["squeue/min"], row["sacct/min"], row["sbatch/min"], row["scancel/min"]) == (2.0, 1.0, 3.0, 0.0)
    assert row["controller, of a core"] == 0.05


def test_everybody_gets_the_same_items_but_those_who_need_one_submission_for_each() -> None:
    assert {way.items for way in slurm.ways(quick=False)} == {1000, 200}
    assert [way.name for way in slurm.ways(quick=False) if way.items != 1000] == [
        "submitit, submit",
        "sbatch, single calls",
    ]


class NoLab:
    """As much of a lab as is needed to run commands of its own."""

    def __init__(self, folder: Path) -> None:
        self.env = {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_commands_are_counted_with_their_time_and_run_all_the_same(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    for name in slurm_cluster.COMMANDS:
        (real / name).write_text('#!/bin/sh\necho "$0" "$@"\nexit 3\n')
        (real / name).chmod(0o755)
    bench = slurm_cluster.Bench(cast(Lab, NoLab(real)), tmp_path)
    began = time.time()
    said = subprocess.run(["squeue", "-o", "a  b"], env=bench.env, capture_output=True, text=True, check=False)
    between = time.time()
    subprocess.run(["sbatch"], env=bench.env, capture_output=True, check=False)
    assert (said.returncode, said.stdout) == (3, f"{real}/squeue -o a  b\n")
    assert bench.commands() == {"squeue": 1, "sbatch": 1}
    assert bench.commands(began, between) == {"squeue": 1}
    assert bench.commands(between) == {"sbatch": 1}


def test_pilots_are_as_many_as_there_are_slots_for_everybody() -> None:
    assert slurm_cluster.SLOTS * slurm_cluster.CPUS == slurm_cluster.HOST_CPUS
    node = slurm_ours.partition("bench", "pilot", slurm_cluster.SLOTS, array_limit=2)
    limits = {"max_jobs": 8, "max_pending": 8, "mode": "pilot", "array_limit": 2}
    assert (node["cpu_slots"], node["slurm"]) == (8, limits)
    assert json.dumps(node)


def test_each_item_of_a_sweep_is_a_chunk_of_its_own() -> None:
    (spec,) = slurm_ours.sweep(1000, 1.0)
    payload = spec["payload"]
    assert (payload["stop"] - payload["start"], payload["max_chunk"]) == (1000, 1)
    assert payload["params"] == {"sleep_s": 1.0}
