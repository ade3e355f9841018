"""What job groups cost: a grid of 1,000 jobs submitted, and the results of 10,000 jobs compared.

    python benchmarks/groups.py [--jobs N] [--quick] [--json FILE]

A real controller on this machine, spoken to by the real command, each command in a process of its own:

- `submit --grid`: two parameters, a folder of one file, twice: first its files are sent, then the controller has them.
  The only slot is taken by another job, so that the jobs wait and no process of theirs is counted.
- `results`: of a group of 10,000 jobs (`--jobs`), each of which has run and left a JSON of three fields; as a table,
  sorted by a field, as CSV and as JSON. The same is asked once more when the jobs have left the controller's memory
  for its store, as they do a day after they ended.

Each command runs twice and shows its lowest figures. CPU seconds of the command are those of its process, of its
start and imports, too; those of the controller are what its process used while the command ran, without the agents and
the process that writes snapshots of its state, beside it. On a busy machine the wall time says nothing; `alone s` is
the sum of both, which is about the wall time of an idle machine, as they wait for each other.

HyperQueue's package on PyPI has its Python API and no command line (`hq`): its row is one process with client and
server in it, without a worker and without a journal. It keeps no results of tasks, so that the bars of `results` are
absolute ones.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

import peers_env
from common import Bar, Row, command_line, report
from hostler import __version__
from hostler.client import Client
from hostler.model.errors import ControllerAbsent

HERE = Path(__file__).resolve().parent
GRID, QUICK_GRID = 1000, 200
JOBS, QUICK_JOBS = 10_000, 1000
SLOTS = 4
TIMES = 2
POLL_S = 0.5
WITHIN_S = 3600.0
"""For the jobs to run, on a machine that is busy."""
SUBMIT_BAR_S, RESULTS_BAR_S = 2.0, 1.0
TRAIN = "python train.py --lr {lr} --seed {seed}"
LEAVE = 'echo "{\\"accuracy\\": 0.9{seed}, \\"loss\\": 0.{lr}, \\"note\\": \\"lr {lr}\\"}" > "$HOSTLER_RESULT"'
"""The program of a job, which leaves its result: the shell sees the values of its parameters."""
WAYS: Mapping[str, Sequence[str]] = {
    "results": (),
    "results --sort": ("--sort", "-accuracy"),
    "results --csv": ("--csv",),
    "results --json": ("--json",),
}


def main() -> None:
    """Run the command line described above."""
    parser = command_line(__doc__)
    parser.add_argument("--jobs", type=int, help=f"jobs of the group whose results are compared (default {JOBS})")
    options = parser.parse_args()
    grid = QUICK_GRID if options.quick else GRID
    jobs = options.jobs or (QUICK_JOBS if options.quick else JOBS)
    with tempfile.TemporaryDirectory(prefix="hb-groups-") as name:
        home = Path(name)
        submits = list(submitted(home, grid))
        shown = list(compared(home, jobs))
    rows = [*submits, hyperqueue(grid), *shown]
    report("groups", rows, list(bars(submits, shown, grid, jobs)), options.json)


def submitted(home: Path, count: int) -> Iterator[Row]:
    """Submit grids while the only slot is taken."""
    work = home / "work"
    work.mkdir()
    (work / "train.py").write_text("print('training')\n")
    with controller(home / "submit", {"nodes": [{"name": "here", "cpu_slots": 1}]}) as process:
        run(process, home / "submit", ["submit", "--device", "cpu", "--own-dir", "--", "sleep", "3600"], work)
        command = ["submit", "--device", "cpu", *grid_options(count), "--", *TRAIN.split()]
        first = run(process, home / "submit", command, work)
        yield row(f"submit --grid of {count:,}, files new", count, [first])
        again = [run(process, home / "submit", command, work) for _ in range(TIMES)]
        yield row(f"submit --grid of {count:,}", count, again)
        client = Client.from_state_dir(home / "submit")
        for group in client.groups():
            client.cancel_group(group["id"])
        client.cancel("j1")
        while client.job("j1")["job"]["state"] != "cancelled":  # else its process would outlive the controller
            time.sleep(POLL_S)


def compared(home: Path, count: int) -> Iterator[Row]:
    """Run the jobs of a group, and compare their results: from memory, and from the store."""
    place = home / "results"
    fleet: dict[str, Any] = {"nodes": [{"name": "here", "cpu_slots": SLOTS}]}
    with controller(place, fleet) as process:
        command = ["submit", "--device", "cpu", "--own-dir", *grid_options(count), "--", "sh", "-c", LEAVE]
        run(process, place, command, home, may_fail=True)  # a controller without CPU time answers too late
        await_end(Client.from_state_dir(place))
        yield from looked_at(process, place, count, "in memory")
    with controller(place, {**fleet, "journal": {"keep_finished": 1, "keep_finished_s": 60}}) as process:
        await_left(place, count - 1)  # the last job stays
        yield from looked_at(process, place, count, "in the store")


def looked_at(process: subprocess.Popen[bytes], place: Path, count: int, where: str) -> Iterator[Row]:
    """Each way to show the results of a group."""
    for name, options in WAYS.items():
        times = [run(process, place, ["results", "g1", *options], place) for _ in range(TIMES)]
        yield row(f"{name} of {count:,}, {where}", count, times)


def grid_options(count: int) -> list[str]:
    """Options of a grid of so many jobs."""
    seeds = 10
    values = {"lr": range(count // seeds), "seed": range(seeds)}
    return [word for name, some in values.items() for word in ("--grid", f"{name}={','.join(map(str, some))}")]


@contextmanager
def controller(place: Path, fleet: Mapping[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """A controller whose state is in this folder."""
    settings = place.with_name(f"{place.name}.yaml")
    settings.write_text(json.dumps(fleet))
    words = ["up", "--state-dir", str(place), "--port", "0", str(settings)]
    with place.with_name(f"{place.name}.log").open("ab") as log:
        process = subprocess.Popen([sys.executable, "-m", "hostler", *words], stdout=log, stderr=log)
    try:
        client = Client.from_state_dir(place)
        while True:
            try:
                client.status()
                break
            except ControllerAbsent:
                if process.poll() is not None:
                    raise SystemExit(f"the controller has ended: {log.name}") from None
                time.sleep(POLL_S)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run(
    process: subprocess.Popen[bytes], place: Path, words: Sequence[str], cwd: Path, *, may_fail: bool = False
) -> dict[str, float]:
    """Run a command; its wall time, its CPU seconds, and those of the controller meanwhile."""
    before, started = own_cpu_s(process), time.monotonic()
    # Files, as pipes would be filled while nobody reads them.
    with tempfile.TemporaryFile() as said:
        command = [sys.executable, "-m", "hostler", words[0], "--state-dir", str(place), *words[1:]]
        child = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - started
        if child.returncode and not may_fail:
            said.seek(0)
            raise SystemExit(f"`hostler {' '.join(words)[:100]}` failed: {said.read().decode()[-500:]}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return {"wall_s": wall_s, "cpu_s": cpu_s, "controller_s": own_cpu_s(process) - before}


def own_cpu_s(process: subprocess.Popen[bytes]) -> float:
    """CPU seconds of a process, without its children."""
    used = psutil.Process(process.pid).cpu_times()
    return float(used.user + used.system)


def row(what: str, count: int, times: Sequence[Mapping[str, float]]) -> Row:
    """The lowest figures of a command."""
    print(f"{what}: {json.dumps(times)}", file=sys.stderr, flush=True)
    best = {name: min(each[name] for each in times) for name in times[0]}
    return shown("Hostler", __version__, what, count, best["cpu_s"], best["controller_s"], best["wall_s"])


def shown(system: str, version: str, what: str, count: int, cpu_s: float, server_s: float | None, wall_s: float) -> Row:
    """A row of the table."""
    return {
        "system": system,
        "version": version,
        "what": what,
        "jobs": count,
        "CPU s command": cpu_s,
        "CPU s controller": server_s,
        "alone s": cpu_s + (server_s or 0.0),
        "wall s": wall_s,
    }


def hyperqueue(count: int) -> Row:
    """The best of HyperQueue."""
    python = peers_env.ensure("peers-groups")
    script = str(HERE / "peers" / "hyperqueue_group.py")
    command = [str(python), script, str(count)]
    outputs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(TIMES)]
    lines = [json.loads(output.splitlines()[-1]) for output in outputs]  # the server prints a table before
    best = {name: min(line[name] for line in lines) for name in ("cpu_s", "wall_s")}
    what = f"submit of {count:,} tasks, client and server in one process"
    return shown("HyperQueue", lines[0]["version"], what, count, best["cpu_s"], None, best["wall_s"])


def await_end(client: Client) -> None:
    """Wait until the only group has ended. Raises `SystemExit` unless all of its jobs are done."""
    ends_at = time.monotonic() + WITHIN_S
    while (seen := next(iter(client.groups()), None)) is None or seen["ended_at"] is None:
        if time.monotonic() > ends_at:
            raise SystemExit(f"the jobs have not ended after {WITHIN_S:.0f} s: {seen}")
        time.sleep(POLL_S)
    if seen["jobs"]["done"] != seen["size"]:
        raise SystemExit(f"not all jobs are done: {dict(seen['jobs'])}")


def await_left(place: Path, count: int) -> None:
    """Wait until so many jobs have left the memory of the controller."""
    ends_at = time.monotonic() + WITHIN_S
    journal = f"file:{place / 'journal.sqlite'}?mode=ro"
    while time.monotonic() < ends_at:
        with sqlite3.connect(journal, uri=True) as connection:
            if connection.execute("select count(*) from past").fetchone()[0] >= count:
                return
        time.sleep(POLL_S)
    raise SystemExit("the jobs have not left the controller's memory")


def bars(submits: Sequence[Row], shown: Sequence[Row], grid: int, jobs: int) -> Iterator[Bar]:
    """A bar for the submission, and one for each way to show the results; of smaller runs than they are for, none."""
    note = "command and controller"
    value = submits[-1]["alone s"] if grid == GRID else None
    yield Bar("CPU seconds to submit a grid of 1,000", value, SUBMIT_BAR_S, "<", note)
    for each in shown:
        value = each["alone s"] if jobs == JOBS else None
        yield Bar(f"CPU seconds of {each['what']}", value, RESULTS_BAR_S, "<=", note)


if __name__ == "__main__":
    main()
