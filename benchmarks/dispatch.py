"""What one task costs: Hostler beside Ray, Parsl, dask.distributed and HyperQueue, in turn, in one run.

    python benchmarks/dispatch.py [--quick] [--json FILE]

Each system has two workers and gets 10,000 tasks at once (1,000 with --quick): first tasks that do nothing, then tasks
that run the program `true` as a process. Every system runs twice, the rounds alternating, and shows its lowest CPU
time, highest rate and shortest start-up. CPU time is that of the whole process tree (peers/measure.py). The bare rows
are the price of starting processes without any task system; they are no peers and set no bar.
"""

import json
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import peers_env
from common import Bar, arguments, report

HERE = Path(__file__).resolve().parent
ROUNDS = 2
RUN_LIMIT_S = 300.0
GRACE_S = 60.0  # for a runner to clean up after its own limit

Line = dict[str, Any]  # class Line of peers/measure.py
Lines = dict[str, list[Line]]  # by column, "noop" or "spawn"

PEERS = {"Ray": "ray", "Parsl HTEX": "parsl", "dask.distributed": "dask", "HyperQueue": "hyperqueue"}
COLUMNS = {
    "system": "system",
    "version": "version",
    "noop_per_s": "no-op tasks/s",
    "spawn_per_s": "`true` tasks/s",
    "noop_cpu_ms": "CPU ms/task no-op",
    "spawn_cpu_ms": "CPU ms/task `true`",
    "start_s": "start-up s",
    "notes": "notes",
}
BARS: Mapping[str, Literal["<", ">"]] = {"noop_cpu_ms": "<", "spawn_cpu_ms": "<", "noop_per_s": ">", "spawn_per_s": ">"}


@dataclass(frozen=True)
class System:
    """One row: a script that prints a Line, the python that runs it, and the kind of task to ask it for per column."""

    name: str
    script: Path
    python: Path
    is_peer: bool = True
    kinds: Mapping[str, str] = field(default_factory=lambda: {"noop": "noop", "spawn": "spawn"})


@dataclass(frozen=True)
class Row:
    """The best figures of one system. None: it has none, and `notes` says why."""

    system: str
    version: str | None
    noop_per_s: float | None
    spawn_per_s: float | None
    noop_cpu_ms: float | None
    spawn_cpu_ms: float | None
    start_s: float | None
    notes: str


def main() -> None:
    """Run the command line described above."""
    options = arguments(__doc__)
    everyone = systems(peers_env.ensure())
    lines = measure(everyone, tasks=1_000 if options.quick else 10_000)
    rows = [row(system.name, lines[system.name]) for system in everyone]
    peers = [each for system, each in zip(everyone, rows, strict=True) if system.is_peer]
    shown = [{COLUMNS[key]: value for key, value in asdict(each).items()} for each in rows]
    report("dispatch", shown, list(bars(rows[0], peers)), options.json)


def systems(peers_python: Path) -> list[System]:
    """Return what is compared: Hostler first, then its peers, then the bare floor."""
    bare = HERE / "peers" / "bare_peer.py"
    return [
        System("Hostler", HERE / "hostler_runner.py", Path(sys.executable), is_peer=False),
        *(System(name, HERE / "peers" / f"{script}_peer.py", peers_python) for name, script in PEERS.items()),
        System("bare subprocess.run", bare, peers_python, is_peer=False, kinds={"spawn": "spawn"}),
        System("bare posix_spawn", bare, peers_python, is_peer=False, kinds={"spawn": "posix_spawn"}),
    ]


def measure(everyone: Sequence[System], tasks: int) -> dict[str, Lines]:
    """Run every system on every kind of task, ROUNDS times in turn; return the lines by system and column."""
    lines: dict[str, Lines] = {system.name: {column: [] for column in system.kinds} for system in everyone}
    for turn in range(ROUNDS):
        for system in everyone:
            for column, kind in system.kinds.items():
                line = run(system, kind, tasks)
                lines[system.name][column].append(line)
                print(f"round {turn + 1}: {system.name}: {json.dumps(line)}", file=sys.stderr)
    return lines


def run(system: System, kind: str, tasks: int) -> Line:
    """Run one script once and return its line; without a usable one, a line of None that says why."""
    line: Line = {"version": None, "tasks": tasks, "ok": None, "wall_s": None, "cpu_s": None, "start_s": None}
    if not system.script.exists():
        return line | {"notes": "not built yet"}
    command: list[str | Path] = [
        system.python,
        system.script,
        f"--tasks={tasks}",
        f"--kind={kind}",
        f"--limit={RUN_LIMIT_S}",
    ]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as runner:
        try:
            output, _ = runner.communicate(timeout=RUN_LIMIT_S + GRACE_S)
        except subprocess.TimeoutExpired:
            runner.terminate()  # not kill: a runner answers SIGTERM by killing what it started
            return line | {"notes": "did not keep to its own time limit"}
    if not output.strip():
        return line | {"notes": f"printed nothing; exit status {runner.returncode}"}
    answer: Line = json.loads(output)
    return answer


def row(name: str, lines: Lines) -> Row:
    """Return the best figures of a system. Runs in which a task failed do not count and are named in the notes."""
    good = {column: [line for line in runs if line["ok"] == line["tasks"]] for column, runs in lines.items()}
    noop, spawn = good.get("noop", []), good.get("spawn", [])
    every_line = [line for runs in lines.values() for line in runs]
    return Row(
        system=name,
        version=next((line["version"] for line in every_line if line["version"]), None),
        noop_per_s=max((line["ok"] / line["wall_s"] for line in noop), default=None),
        spawn_per_s=max((line["ok"] / line["wall_s"] for line in spawn), default=None),
        noop_cpu_ms=min((1000 * line["cpu_s"] / line["ok"] for line in noop), default=None),
        spawn_cpu_ms=min((1000 * line["cpu_s"] / line["ok"] for line in spawn), default=None),
        start_s=min((line["start_s"] for line in noop + spawn), default=None),
        notes="; ".join(dict.fromkeys(filter(None, map(_remark, every_line)))),
    )


def bars(ours: Row, peers: Iterable[Row]) -> Iterator[Bar]:
    """Yield one bar per peer and figure that the peer has; our own missing figure misses its bar."""
    for peer in peers:
        for figure, op in BARS.items():
            value, target = getattr(ours, figure), getattr(peer, figure)
            if target is None:
                continue
            missing = math.inf if op == "<" else 0.0
            yield Bar(f"{COLUMNS[figure]} {op} {peer.system}", missing if value is None else value, target, op)


def _remark(line: Line) -> str:
    failed = line["ok"] is not None and line["ok"] != line["tasks"]
    return f"{line['ok']} of {line['tasks']} tasks succeeded; {line['notes']}" if failed else line["notes"]


if __name__ == "__main__":
    main()
