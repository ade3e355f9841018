"""How fast work becomes durable: Hostler's journal on SQLite and PostgreSQL beside procrastinate, pgqueuer and huey.

    python benchmarks/store.py [--quick] [--rounds N] [--json FILE]

One PostgreSQL of the run's own (fsync and synchronous_commit on) serves all; each measurement has a new database or
folder and processes of its own. Rounds alternate between all systems, since the machine is shared; the medians count.

"one" and "batch": 1 or 8 clients submit a job (8 clients 100 jobs at once), wait until it is durable, and submit
again; nobody works.
"through": clients submit in the system's fastest way, workers run jobs that do nothing, and it ends when the last is
recorded as done. Peers have the set-up that was fastest here (peers/*_peer.py). What is not the same work:

  Hostler, in process  all of it but HTTP and agents: decisions, journal of about six events a job, projections, a fence
                       in every transaction. Peers' clients write to the database themselves; here they share one
                       process and one group commit, as all clients of a controller do. Jobs are functions, as peers'
  Hostler, HTTP        the same for clients outside, over HTTP to a controller that is a process of its own
  Hostler, chunks      through a controller, its agent and two warm workers; one sweep in chunks of one item
  Hostler, scripts     the same, and each job is a process (`true`); no peer starts one, so it sets no bar
  Hostler, journal     only events through the group commit. The peers' events are their changes of a job's state
  huey                 no results but those asked for; a job that was taken when its consumer died is lost. SQLite with
                       fsync, its own storage; PostgreSQL by its SqlHuey. It cannot submit several at once
  pgqueuer             takes 500 jobs at once (its default is 10) and records their ends together
  procrastinate        keeps all jobs and their events; takes and ends jobs one at a time, in four workers of ten each

CPU time is that of client, workers, controller and database server together, for each job.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import postgres

import peers_env
from common import Bar, Row, command_line, report

HERE = Path(__file__).resolve().parent
SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
CLIENTS = (1, 8)
ROUNDS = 3
SECONDS = 2.0
LIMIT_S = 240.0
OURS = "Hostler, "
IN_PROCESS, HTTP, CHUNKS, SCRIPTS, JOURNAL = (
    f"{OURS}{road}" for road in ("in process", "HTTP", "chunks", "scripts", "journal")
)
ROADS = {IN_PROCESS: "core", HTTP: "http", CHUNKS: "chunks", SCRIPTS: "scripts", JOURNAL: "events"}
ONE, BATCH, THROUGH = "one", "batch", "through"

Line = Mapping[str, Any]  # of peers/clients.py


class Case(NamedTuple):
    """One measurement of a system."""

    kind: str
    clients: int


@dataclass(frozen=True)
class System:
    """What is measured: how it is called and started, on which database, in which cases, with how many jobs."""

    name: str
    store: str
    command: Sequence[str | Path]
    kinds: Sequence[str]
    jobs: int
    clients: Sequence[int] = CLIENTS

    @property
    def is_ours(self) -> bool:
        """Whether it is Hostler."""
        return self.name.startswith(OURS)

    def cases(self) -> list[Case]:
        """All it is measured in."""
        every = (Case(kind, clients) for kind in self.kinds for clients in self.clients)
        return [case for case in every if case.kind != BATCH or case.clients == CLIENTS[-1]]


class Result(NamedTuple):
    """The medians of one system in one case."""

    system: System
    case: Case
    lines: Sequence[Line]

    def of(self, key: str) -> float | None:
        """The median of a figure; `None` where no round has it."""
        known = [line[key] for line in self.lines if line.get(key) is not None]
        return median(known) if known else None

    @property
    def events_per_s(self) -> float | None:
        """Durable changes of state in a second."""
        rate, states = self.of("per_s"), self.of("states") if self.case.kind == THROUGH else 1.0
        return None if rate is None or states is None else rate * states


def main() -> None:
    """Measure, print, write."""
    options = _arguments()
    everyone = systems(peers_env.ensure("peers-store"))
    rounds = 1 if options.quick else options.rounds
    results = measure(everyone, rounds, 1.0 if options.quick else SECONDS, 0.2 if options.quick else 1.0)
    report("store", list(rows(results)), list(bars(results)), options.json)


def systems(python: Path) -> list[System]:
    """Hostler in its ways on both databases, and the peers."""
    made = [
        System(name, store, (sys.executable, HERE / "store_ours.py", road), *_plan(name))
        for store in (SQLITE, POSTGRESQL)
        for name, road in ROADS.items()
    ]
    return [
        *made,
        System("huey", SQLITE, _peer(python, "huey"), (ONE, THROUGH), 1_000),
        System("huey", POSTGRESQL, _peer(python, "huey"), (ONE, THROUGH), 1_000),
        System("procrastinate", POSTGRESQL, _peer(python, "procrastinate"), (ONE, BATCH, THROUGH), 1_000),
        System("pgqueuer", POSTGRESQL, _peer(python, "pgqueuer"), (ONE, BATCH, THROUGH), 5_000),
    ]


def measure(everyone: Sequence[System], rounds: int, seconds: float, share: float) -> list[Result]:
    """All cases of all systems, round after round."""
    lines: dict[tuple[System, Case], list[Line]] = {(each, case): [] for each in everyone for case in each.cases()}
    with postgres.running(durable=True) as server:
        for turn in range(rounds):
            for system, case in _interleaved(everyone):
                line = run(system, case, server, seconds, int(system.jobs * share))
                lines[system, case].append(line)
                print(f"round {turn + 1}: {system.name}, {system.store}, {case}: {json.dumps(line)}", file=sys.stderr)
    return [Result(system, case, found) for (system, case), found in lines.items()]


def run(system: System, case: Case, server: postgres.Server, seconds: float, jobs: int) -> Line:
    """One measurement. Raises what went wrong: no figure is worth more than a wrong one."""
    with _store(system, server) as (place, pid):
        command = [*system.command, f"--case={case.kind}", f"--clients={case.clients}", f"--store={place}"]
        more = [f"--seconds={seconds}", f"--jobs={jobs}", *([f"--server={pid}"] if pid is not None else [])]
        done = subprocess.run(
            [*command, *more], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S
        )
    if done.returncode:
        raise RuntimeError(f"{system.name} on {system.store}, {case}: {done.stderr[-2000:]}")
    line: Line = json.loads(done.stdout.splitlines()[-1])
    return line


def rows(results: Sequence[Result]) -> Iterator[Row]:
    """Submissions, then jobs through the queue, then events, each with Hostler's rate over the peer's."""
    for result in (each for each in results if each.case.kind != THROUGH and each.system.name != JOURNAL):
        yield {"submitted": result.case.kind, **_row(result), **_latency(result), **_ratio(results, result)}
    for result in (each for each in results if each.case.kind == THROUGH):
        yield {"jobs through": "enqueued, taken, done", **_row(result), **_ratio(results, result)}
    for result in results:
        if result.events_per_s is not None and (result.case.kind == THROUGH or result.system.name == JOURNAL):
            told = {"clients": result.case.clients, "events/s": result.events_per_s}
            yield {
                "durable events": _how(result),
                "system": result.system.name,
                "store": result.system.store,
                **told,
                **_latency(result),
            }


def bars(results: Sequence[Result]) -> Iterator[Bar]:
    """Hostler ahead of each peer, on the peer's database, in each case and with each number of clients."""
    for theirs in (each for each in results if not each.system.is_ours):
        kind, clients = theirs.case
        words = f"{clients} client{'s' if clients > 1 else ''}: Hostler > {theirs.system.name}, {theirs.system.store}"
        for name in (IN_PROCESS, HTTP) if kind != THROUGH else (IN_PROCESS,):
            ours = _find(results, name, theirs)
            yield _bar(f"jobs/s, {kind}, {name.removeprefix(OURS)}, {words}", ours, theirs, "per_s")
        if kind == THROUGH:
            yield _bar(f"events/s of jobs through, {words}", _find(results, IN_PROCESS, theirs), theirs, "events")
        else:
            yield _bar(f"events/s, {kind}, {words}", _find(results, JOURNAL, theirs), theirs, "events")


def _arguments() -> argparse.Namespace:
    parser = command_line(__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds, of which the medians count ({ROUNDS})")
    return parser.parse_args()


def _plan(name: str) -> tuple[Sequence[str], int, Sequence[int]]:
    """Cases, jobs and numbers of clients of one of our ways."""
    if name in (CHUNKS, SCRIPTS):
        return (THROUGH,), 5_000 if name == CHUNKS else 1_000, CLIENTS[:1]
    return ((ONE, BATCH, THROUGH) if name == IN_PROCESS else (ONE, BATCH)), 5_000, CLIENTS


def _peer(python: Path, name: str) -> Sequence[str | Path]:
    return python, HERE / "peers" / f"{name}_peer.py"


def _interleaved(everyone: Iterable[System]) -> Iterator[tuple[System, Case]]:
    """Those of one case one after the other, so that what is compared is close together."""
    pairs = [(system, case) for system in everyone for case in system.cases()]
    yield from sorted(pairs, key=lambda pair: pair[1])


@contextmanager
def _store(system: System, server: postgres.Server) -> Iterator[tuple[str, int | None]]:
    """A new place for a store, and the process of its server."""
    if system.store == SQLITE:
        with tempfile.TemporaryDirectory(prefix="hostler-store-") as folder:
            yield folder, None
        return
    address = server.database()
    pid = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    try:
        yield address, pid
    finally:
        server.run(f"drop database {address.rpartition('/')[2]} with (force)")


def _row(result: Result) -> Row:
    return {
        "system": result.system.name,
        "store": result.system.store,
        "clients": result.case.clients,
        "jobs/s": result.of("per_s"),
        "CPU ms/job": result.of("cpu_ms"),
        "of it the server's": result.of("server_cpu_ms") if result.system.store == POSTGRESQL else None,
    }


def _latency(result: Result) -> Row:
    return {"p50 ms": result.of("p50_ms"), "p99 ms": result.of("p99_ms")}


def _ratio(results: Sequence[Result], theirs: Result) -> Row:
    """By how much Hostler in process is faster, on the same database in the same case."""
    ours = _find(results, IN_PROCESS, theirs)
    return {"Hostler in process / it": _over(ours, theirs, "per_s")}


def _over(ours: Result | None, theirs: Result, key: str) -> float | None:
    mine, other = (_figure(each, key) for each in (ours, theirs))
    return None if mine is None or other is None else mine / other


def _figure(result: Result | None, key: str) -> float | None:
    if result is None:
        return None
    return result.events_per_s if key == "events" else result.of(key)


def _find(results: Iterable[Result], name: str, like: Result) -> Result | None:
    """Ours on the same database in the same case."""
    wanted = name, like.system.store, like.case
    return next((each for each in results if (each.system.name, each.system.store, each.case) == wanted), None)


def _bar(name: str, ours: Result | None, theirs: Result, key: str) -> Bar:
    target = _figure(theirs, key)
    assert target is not None
    return Bar(name, _figure(ours, key), target, ">")


def _how(result: Result) -> str:
    return {ONE: "one at a time", BATCH: "100 at a time", THROUGH: "of jobs through"}[result.case.kind]


if __name__ == "__main__":
    main()
