"""What a tiny work item costs on a Slurm cluster: Hostler's three modes beside submitit and plain sbatch, in one run.

    python benchmarks/slurm.py [--quick] [--json FILE]

One real Slurm (the tests' own: slurmctld, slurmdbd, one host of 32 cores that the machine need not have) serves
everybody, one after the other. Every allocation has 4 of those cores, so that 8 run at a time, whoever asks. Items:

- Hostler, script: a job of one process that ends with status 0 at once, with a log, limits and an exit status of its
  own, journalled before and after. In single jobs and in arrays each has a batch job, or a task, of its own; pilots
  run one after the other. Single jobs and arrays may all wait in Slurm's queue at once, pilots are 8.
- Hostler, chunk: one item of a sweep, which a warm worker answers for; 8 pilots hold the workers.
- submitit: a call of a function that returns 0, pickled, each in an interpreter of its own; `map_array`, then `submit`.
- sbatch: a script of `true` that leaves its exit status in a file; one array, then one call after the other.

Time runs from the first submission to the last result that the caller knows of, the start of allocations included.
The caller's CPU is that of everything it runs on the login node, slurmctld's is its own. Commands are counted by a
wrapper around each of Slurm's, which all use.

*Tracked*: from a minute after submission on, for three minutes, two fifths of the items jobs of 5 s in arrays, the
others chunks of 1 s in pilots, with Hostler's default settings: `poll_s` 30, `calls_per_minute` 6. In the first row all
jobs are in Slurm's queue, in the second as many as `max_jobs` and `max_pending` let in by default, so that arrays are
submitted all the time.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import slurm_ours as ours
from common import Bar, Row, arguments, report
from peers_env import ensure
from slurm_cluster import CPUS, PARTITION, SLOTS, Bench, cluster

HERE = Path(__file__).resolve().parent
WITHIN_S = 1800.0
WATCHED_S = 180.0
SETTLE_S = 60.0
SCRIPT_S, CHUNK_S = 5.0, 1.0
LOOKS = ("squeue", "sacct", "sinfo", "scontrol")


@dataclass(frozen=True)
class Run:
    """One system, once: `wall_s` from first submission to last result."""

    items: int
    wall_s: float
    cpu_s: float
    slurmctld_s: float
    commands: Mapping[str, int]


@dataclass(frozen=True)
class Way:
    """A system, and how it is asked for so many items: the CPU seconds of its side, with the time it took."""

    name: str
    items: int
    rounds: int
    work: Callable[[Bench, int], tuple[float, float]]


def main() -> None:
    """Measure, print, exit 1 if a bar is missed."""
    options = arguments(__doc__)
    with cluster() as bench:
        measured = {way.name: list(_runs(bench, way)) for way in ways(quick=options.quick)}
        count, watched_s = (1_000, WATCHED_S / 3) if options.quick else (10_000, WATCHED_S)
        seen = [
            tracked(bench, "all in arrays and pilots", count, watched_s, jobs_of(count)),
            tracked(bench, "as many jobs as is the default", count, watched_s, None),
        ]
    rows = [row(name, runs) for name, runs in measured.items()]
    bars = list(judged(rows, seen[0]))
    report("slurm", [*rows, *seen], bars, options.json)
    sys.exit(1 if any(bar.met is False for bar in bars) else 0)


def ways(*, quick: bool) -> list[Way]:
    """Everybody, and how many items each gets: those who need a second for each get fewer of them with `quick`."""
    many, few, rounds = (100, 20, 1) if quick else (1000, 200, 3)
    return [
        Way("Hostler, pilots, scripts", many, rounds, _pilots),
        Way("Hostler, pilots, chunks", many, rounds, _chunks),
        Way("Hostler, arrays, scripts", many, 1, _arrays),
        Way("Hostler, single jobs, scripts", many, 1, _singles),
        Way("submitit, map_array", many, 1, lambda bench, count: _submitit(bench, count, "array")),
        Way("submitit, submit", few, 1, lambda bench, count: _submitit(bench, count, "single")),
        Way("sbatch --array", many, 1, _sbatch_array),
        Way("sbatch, single calls", few, 1, _sbatch_singles),
    ]


def row(name: str, runs: Sequence[Run]) -> Row:
    """The run in the middle, by its rate."""
    middle = sorted(runs, key=lambda run: run.items / run.wall_s)[len(runs) // 2]
    counted = Counter(middle.commands)
    return {
        "way": name,
        "items": middle.items,
        "rounds": len(runs),
        "items/s": middle.items / middle.wall_s,
        "caller CPU ms/item": 1000 * middle.cpu_s / middle.items,
        "slurmctld CPU ms/item": 1000 * middle.slurmctld_s / middle.items,
        "sbatch": counted["sbatch"],
        "all commands": counted.total(),
    }


def judged(rows: Sequence[Row], seen: Row) -> Iterator[Bar]:
    """The bars; `seen` is what was seen of tracking."""
    rates = {row["way"]: row["items/s"] for row in rows}
    pilots = rates["Hostler, pilots, scripts"]
    yield Bar("pilots: items/s, times single jobs", pilots / rates["Hostler, single jobs, scripts"], 20.0, ">=")
    yield Bar("pilots: items/s, times submitit's array", pilots / rates["submitit, map_array"], 3.0, ">=")
    whole = seen["items"] >= 10_000
    value, note = (seen["commands/min"], "") if whole else (None, f"{seen['items']} items only")
    yield Bar("10,000 items tracked: Slurm commands per minute", value, 6.0, "<=", note)


def tracked(bench: Bench, name: str, count: int, watched_s: float, slots: int | None) -> Row:
    """Some items are jobs in arrays, the others are chunks in pilots; all settings of tracking are the defaults.

    With `slots`, so many jobs may be in Slurm's queue at once; without, as many as is the default.
    """
    arrays = {"name": "arrays", "partition": PARTITION, "slurm": {"mode": "array", "array_limit": SLOTS // 2}}
    if slots is not None:
        arrays = ours.partition("arrays", "array", slots, array_limit=1)  # several arrays; the pilots want room, too
    nodes = [{**arrays, "work": ["script"]}, {**ours.partition("pilots", "pilot", SLOTS // 2), "work": ["sweep"]}]
    with ours.fleet(bench, f"tracked-{name}", nodes, {}) as fleet:
        jobs = jobs_of(count)
        fleet.client.submit_jobs([*ours.scripts(jobs, "sleep", f"{SCRIPT_S:g}"), *ours.sweep(count - jobs, CHUNK_S)])
        time.sleep(SETTLE_S)
        began, cpu, before = time.time(), fleet.cpu_s(), _results(fleet)
        time.sleep(watched_s)
        spent, results, until = fleet.cpu_s() - cpu, _results(fleet) - before, time.time()
        found = bench.commands(began, until), bench.queued(), fleet.resident_mb()
    return watched(name, count, until - began, results, spent, *found)


def jobs_of(count: int) -> int:
    """How many of the items are jobs: a partition has 4,096 slots at most."""
    return count * 2 // 5


def watched(
    name: str, count: int, seconds: float, results: int, cpu_s: float, counted: Counter[str], queued: int, mb: float
) -> Row:
    """What was seen in so many seconds."""
    minutes = seconds / 60
    looks = sum(counted[each] for each in LOOKS)
    return {
        "tracked": name,
        "items": count,
        "in Slurm's queue": queued,
        "minutes": minutes,
        "results": results,
        "commands/min": counted.total() / minutes,
        "looks/min": looks / minutes,
        **{f"{each}/min": counted[each] / minutes for each in ("squeue", "sacct", "sbatch", "scancel")},
        "controller, of a core": cpu_s / seconds,
        "resident MB": mb,
    }


def _results(fleet: ours.Fleet) -> int:
    """Jobs that are over, and chunks that are done."""
    return fleet.ended() + sum(int(each["done"]) for each in fleet.client.sweeps())


def _runs(bench: Bench, way: Way) -> Iterator[Run]:
    for turn in range(way.rounds):
        slurmctld, began = bench.controller_cpu_s(), time.time()
        cpu_s, wall_s = way.work(bench, way.items)
        run = Run(
            items=way.items,
            wall_s=wall_s,
            cpu_s=cpu_s,
            slurmctld_s=bench.controller_cpu_s() - slurmctld,
            commands=bench.commands(began),
        )
        bench.clear()
        print(f"{way.name}, {turn + 1} of {way.rounds}: {run}", file=sys.stderr, flush=True)
        yield run


def _pilots(bench: Bench, count: int) -> tuple[float, float]:
    return _ours(bench, "pilot", SLOTS, ours.scripts(count), count)


def _chunks(bench: Bench, count: int) -> tuple[float, float]:
    return _ours(bench, "pilot", SLOTS, ours.sweep(count), count)


def _arrays(bench: Bench, count: int) -> tuple[float, float]:
    return _ours(bench, "array", count, ours.scripts(count), count)


def _singles(bench: Bench, count: int) -> tuple[float, float]:
    return _ours(bench, "job", count, ours.scripts(count), count)


def _ours(bench: Bench, mode: str, slots: int, specs: Sequence[ours.Spec], count: int) -> tuple[float, float]:
    name = f"{mode}-{time.time():.0f}"
    with ours.fleet(bench, name, [ours.partition("bench", mode, slots)], {}) as fleet:
        cpu, began = fleet.cpu_s(), time.perf_counter()
        done = fleet.run(specs, WITHIN_S)
        wall_s, cpu_s = time.perf_counter() - began, fleet.cpu_s() - cpu
    assert done == count, f"{done} of {count} items were done"
    return cpu_s, wall_s


def _submitit(bench: Bench, count: int, way: str) -> tuple[float, float]:
    script = HERE / "peers" / "submitit_peer.py"
    words = [str(bench.folder / f"submitit-{way}"), PARTITION, str(SLOTS), str(CPUS), str(count), way]
    command = [str(ensure("peers-slurm")), str(script), *words]
    said = subprocess.run(command, env=bench.env, check=True, stdout=subprocess.PIPE, text=True).stdout
    told = json.loads(said.splitlines()[-1])
    assert told["ok"] == count, told
    return told["cpu_s"], told["wall_s"]


def _sbatch_array(bench: Bench, count: int) -> tuple[float, float]:
    return _sbatch(bench, "array", count, [[f"--array=0-{count - 1}"]], "$SLURM_ARRAY_TASK_ID")


def _sbatch_singles(bench: Bench, count: int) -> tuple[float, float]:
    return _sbatch(bench, "singles", count, [[]] * count, "$SLURM_JOB_ID")


def _sbatch(bench: Bench, way: str, count: int, calls: Sequence[list[str]], each: str) -> tuple[float, float]:
    """The caller knows a result when the file is there: no cheaper way to learn of it."""
    folder = bench.folder / f"sbatch-{way}"
    (folder / "results").mkdir(parents=True)
    script = folder / "script.sh"
    script.write_text(f"#!/bin/bash\ntrue\necho $? > {folder}/results/{each}\n")
    words = ["sbatch", "--parsable", f"--partition={PARTITION}", f"--cpus-per-task={CPUS}", f"--output={folder}/%j.out"]
    began, cpu = time.perf_counter(), sum(os.times()[:4])
    for options in calls:
        subprocess.run([*words, *options, str(script)], env=bench.env, check=True, stdout=subprocess.DEVNULL)
    while len(os.listdir(folder / "results")) < count:
        time.sleep(ours.POLL_S)
    return sum(os.times()[:4]) - cpu, time.perf_counter() - began


if __name__ == "__main__":
    main()
