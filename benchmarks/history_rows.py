"""A long history, row by row as the running system leaves it, made without running it.

The first jobs are run by the real core and written by the real journal; all others are their rows again, with other
numbers, times and devices. `tests/benchmarks/test_history.py` compares the rows made so with those of jobs that ran.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from hostler.core import Core, past
from hostler.core.snapshot import dump_state
from hostler.core.views import job_view
from hostler.model import inputs
from hostler.model.events import Entry
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.past import PastJob
from hostler.model.rules import PastRules, Rules
from hostler.model.work import DeviceKind, JobSpec, ScriptPayload
from hostler.store import Batch, Journal, Place, Snapshot, tables
from hostler.store.dialect import FILE, engine_of
from hostler.store.past import row_of

SLOTS = 8
STEP_S = 3.0
"""Between two jobs: ten million are a year."""
BEGAN = 1_760_000_000.0
ALL_LEAVE = Rules(past=PastRules(keep_finished=0, keep_finished_s=60.0))


class Ran(NamedTuple):
    """What differs between two jobs."""

    number: int
    submitted_at: float
    started_at: float
    ended_at: float
    device: str


def spec_of(number: int) -> JobSpec:
    """The job of this number: a script under a key."""
    argv = ("python3", "train.py", "--seed", str(number))
    return JobSpec(name=f"run-{number}", key=f"key-{number}", payload=ScriptPayload(schema=1, argv=argv))


def fleet_node() -> NodeSpec:
    """Where they ran; it is no part of the fleet that is started on the history."""
    devices = tuple(DeviceSpec(id=f"old/cpu{n}", node="old", kind=DeviceKind.CPU, index=n) for n in range(SLOTS))
    return NodeSpec(name="old", backend="local", devices=devices)


def ran_of(number: int) -> Ran:
    """How the job of this number is said to have run."""
    at = BEGAN + number * STEP_S
    return Ran(number, at, at + 0.25, at + 2.25, f"old/cpu{(number - 1) % SLOTS}")


@dataclass
class System:
    """A core with a journal: the running system, without a shell."""

    journal: Journal
    core: Core
    now: float = BEGAN

    def take(self, *given: inputs.Input) -> Sequence[Entry]:
        """Take inputs, and make what follows durable as `runtime.pump` does."""
        outcome = self.core.handle(self.now, *given)
        state = self.core.state
        touched = {name: None for entry in outcome.entries if (name := getattr(entry.event, "job", None)) is not None}
        jobs = [job_view(state, state.jobs[name]) for name in touched if name in state.jobs]
        self.journal.append([Batch(entries=outcome.entries, jobs=jobs, left=outcome.left)])
        return outcome.entries

    def begin(self) -> None:
        """A controller with one node, whose jobs leave soon."""
        self.take(inputs.Begin(version="history", epoch=1), inputs.NodeFound(node=fleet_node()))
        self.take(inputs.LinkUp(node="old", agent="a", incarnation=1, boot="b", attempts=(), chunks=()))
        self.take(inputs.Configure(rules=ALL_LEAVE))

    def run(self, ran: Ran) -> None:
        """Run one job from its submission to its end."""
        self.now = ran.submitted_at
        self.take(inputs.Submit(specs=(spec_of(ran.number),)))
        attempt = self.core.state.jobs[f"j{ran.number}"].attempt
        assert attempt is not None, f"j{ran.number} was not placed"
        self.now = ran.started_at
        self.take(inputs.Launched(attempts=(attempt.id,)), inputs.Started(attempt=attempt.id, pid=7, pid_start=8))
        self.now = ran.ended_at
        ended = inputs.Ended(attempt=attempt.id, started_at=ran.started_at, ended_at=ran.ended_at, exit_code=0)
        self.take(ended)

    def rest(self, seconds: float = 3600.0) -> None:
        """Let all of them leave."""
        self.now += seconds
        while self.core.state.jobs:
            self.now += 60.0
            self.take(inputs.Tick())


class Made:
    """Rows of jobs like one that ran."""

    def __init__(self, sample: PastJob) -> None:
        self._sample = sample
        self._parts = self._cut(sample)

    def data(self, ran: Ran) -> str:
        """All that is kept of such a job."""
        values = (
            str(ran.number),
            json.dumps(ran.submitted_at),
            json.dumps(ran.started_at),
            json.dumps(ran.ended_at),
            ran.device,
        )
        return "".join(part if isinstance(part, str) else values[part] for part in self._parts)

    def past(self, ran: Ran) -> dict[str, Any]:
        """Its row of `past`."""
        return row_of(self.job(ran))

    def job(self, ran: Ran) -> PastJob:
        """The same, as the core gives it."""
        return PastJob(
            id=f"j{ran.number}",
            number=ran.number,
            key=f"key-{ran.number}",
            work=self._sample.work,
            state=self._sample.state,
            data=self.data(ran),
        )

    def jobs(self, ran: Ran) -> dict[str, Any]:
        """Its row of `jobs`."""
        return {
            "id": f"j{ran.number}",
            "number": ran.number,
            "name": f"run-{ran.number}",
            "work": str(self._sample.work),
            "state": str(self._sample.state),
            "priority": 0,
            "submitted_at": ran.submitted_at,
            "started_at": ran.started_at,
            "ended_at": ran.ended_at,
            "attempts": 1,
            "why": None,
        }

    def _cut(self, sample: PastJob) -> list[str | int]:
        """The text of a sample in parts; numbers stand for what differs."""
        was = past.loaded(sample.data).job
        text = sample.data
        for place, words in enumerate(
            (
                (
                    f'"j{was.number}"',
                    f'"number":{was.number},',
                    f'"run-{was.number}"',
                    f'"key-{was.number}"',
                    f'"{was.number}"',
                ),
                (json.dumps(was.submitted_at),),
                (json.dumps(was.started_at),),
                (json.dumps(was.ended_at),),
                (str(was.last_device),),
            )
        ):
            for word in words:
                value = str(was.number) if place == 0 else word
                text = text.replace(word, word.replace(value, f"\0{place}\0"))
        return [int(part) if number % 2 else part for number, part in enumerate(text.split("\0"))]


def snapshot_of(core: Core, made: Made, jobs: int, keep: int, seq: int) -> Snapshot:
    """The state of a controller at the end of the history: the newest `keep` jobs in memory, the others not.

    Its time is that of the last entry, by which a start tells that the journal still has that one.
    """
    state = core.state
    state.next_job, state.seq = jobs + 1, seq
    state.past.seq, state.past.counts = seq, {"script done": jobs - keep}
    for number in range(jobs - keep + 1, jobs + 1):
        job = past.loaded(made.data(ran_of(number))).job
        state.jobs[job.id] = job
        assert job.spec.key is not None
        state.keys[job.spec.key] = job.id
    return Snapshot(seq=seq, at=state.at, data=dump_state(state))


def all_rows(
    made: Made, first: int, beyond: int, some: int
) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Rows of `past` and `jobs`, so many at a time."""
    for begin in range(first, beyond, some):
        every = [ran_of(number) for number in range(begin, min(begin + some, beyond))]
        yield [made.past(ran) for ran in every], [made.jobs(ran) for ran in every]


def adder(place: Place) -> Callable[[str, Sequence[dict[str, Any]]], None]:
    """Puts many rows into a table of a store, as fast as its database takes them."""
    return _into_sqlite(place) if isinstance(place, Path) else _into_postgres(place)


def _into_sqlite(place: Path) -> Callable[[str, Sequence[dict[str, Any]]], None]:
    connection = sqlite3.connect(place / FILE)
    connection.execute("pragma synchronous = off")

    def add(table: str, rows: Sequence[dict[str, Any]]) -> None:
        columns = [column.name for column in tables.metadata.tables[table].columns]
        marks = ", ".join("?" * len(columns))
        with connection:
            connection.executemany(
                f"insert into {table} ({', '.join(columns)}) values ({marks})",
                [tuple(row[name] for name in columns) for row in rows],
            )

    return add


def _into_postgres(place: str) -> Callable[[str, Sequence[dict[str, Any]]], None]:
    engine = engine_of(place)

    def add(table: str, rows: Sequence[dict[str, Any]]) -> None:
        columns = [column.name for column in tables.metadata.tables[table].columns]
        with engine.begin() as connection:
            raw: Any = connection.connection.driver_connection
            with raw.cursor().copy(f"copy {table} ({', '.join(columns)}) from stdin") as copy:
                for row in rows:
                    copy.write_row([row[name] for name in columns])

    return add
