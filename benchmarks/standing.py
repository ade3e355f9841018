"""The second half of scale.py: a real controller on a real journal. Recovery, `/status`, submission, bytes, memory.

Two state directories are made, each by driving the core and the journal directly: one whose journal holds a million
events, one with 1,000 devices and 100,000 jobs waiting. Then the real thing opens them: recovery in a process of its
own, and `hostler up` with no devices of its own, asked over HTTP.
"""

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from common import Bar, Row
from hostler.client import Client, address_in
from hostler.core import Core
from hostler.core.views import job_view
from hostler.model.commands import Launch
from hostler.model.errors import ControllerAbsent
from hostler.model.events import subject
from hostler.model.inputs import Begin, Ended, Input, Launched, LinkUp, NodeFound, Started, Submit
from hostler.model.work import JobSpec, ScriptPayload
from hostler.runtime.snapshots import recovered, snapshot_of
from hostler.store import Batch, Journal, open_journal

SNAPSHOT_EVERY = 50_000
"""As the settings have it by default."""
MOST_RECOVERY_S = 10.0
REQUESTS = 1_000
SUBMITTED = 10_000
BATCH = 2_000


class Journalled:
    """A core whose entries go to a journal, as a controller's do, snapshots included."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.journal: Journal = open_journal(directory)
        self.core = Core()
        self.now = 1_000_000.0
        self._snapshot_seq = 0

    def handle(self, *inputs: Input) -> Sequence[object]:
        """Give inputs, journal what follows; returns the commands."""
        outcome = self.core.handle(self.now, *inputs)
        touched = {subject(entry.event): None for entry in outcome.entries}
        jobs = self.core.state.jobs
        views = [job_view(self.core.state, jobs[name]) for name in touched if name in jobs]
        self.journal.append([Batch(entries=outcome.entries, jobs=views)])
        if self.core.state.seq - self._snapshot_seq >= SNAPSHOT_EVERY:
            self._snapshot_seq = self.core.state.seq
            self.journal.save_snapshot(snapshot_of(self.core))
        return outcome.commands


def recovery(folder: Path, events: int) -> tuple[list[Row], list[Bar]]:
    """Make a journal of `events` events, and time a start from it."""
    made = Journalled(folder / "recovery")
    _live(made, events)
    jobs, seq = len(made.core.state.jobs), made.core.state.seq
    made.journal.close()
    size = sum(path.stat().st_size for path in (folder / "recovery").iterdir())
    done = subprocess.run(
        [sys.executable, __file__, str(folder / "recovery")], capture_output=True, text=True, check=True
    )
    figures = json.loads(done.stdout)
    assert figures["seq"] == seq, f"{figures['seq']} of {seq} entries recovered"
    row: Row = {
        "what": f"start from a journal of {seq:,} events ({jobs:,} jobs)",
        "wall s": figures["wall_s"],
        "CPU s": figures["cpu_s"],
        "memory MB": figures["memory_mb"],
        "bytes a job": size / jobs,
        "bytes an event": size / seq,
    }
    bar = Bar(f"start from {seq:,} events, seconds", figures["wall_s"], MOST_RECOVERY_S, "<=")
    return [row], [bar] if events >= 1_000_000 else []


def standing(folder: Path, pending: int, nodes: Sequence[NodeFound]) -> list[Row]:
    """Start `hostler up` on a state with `nodes` and `pending` jobs; ask it over HTTP."""
    made = Journalled(folder / "standing")
    made.handle(Begin(version="bench", epoch=1), *nodes)
    for first in range(0, pending, BATCH):
        made.handle(Submit(specs=tuple(_script(at) for at in range(first, min(first + BATCH, pending)))))
    made.journal.save_snapshot(snapshot_of(made.core))
    made.journal.close()
    with _controller(folder / "standing") as (client, pid):
        rows = [_asked(folder / "standing", path, pending) for path in ("/status", "/api/v1/jobs?limit=100")]
        rows.append(_submitted(client, pending))
        rows.append({"what": f"controller with {pending + SUBMITTED:,} pending jobs", "memory MB": _memory_mb(pid)})
        return rows


def _live(made: Journalled, events: int) -> None:
    """Submit and run scripts on two devices until the journal holds `events` events."""
    from scale import _node

    waiting = list(
        made.handle(
            Begin(version="bench", epoch=1),
            NodeFound(node=_node("n0")),
            LinkUp(node="n0", agent="a", incarnation=1, boot=None, attempts=(), chunks=()),
        )
    )
    number = 0
    while made.core.state.seq < events:
        if len(waiting) < BATCH // 10:
            waiting += made.handle(Submit(specs=tuple(_script(at) for at in range(number, number + BATCH))))
            number += BATCH
        made.now += 1.0
        waiting = list(made.handle(*_run([command for command in waiting if isinstance(command, Launch)], made.now)))


def _run(commands: Sequence[Launch], now: float) -> Iterator[Input]:
    yield Launched(attempts=tuple(command.order.id for command in commands))
    for command in commands:
        yield Started(attempt=command.order.id, pid=1, pid_start=1)
        yield Ended(attempt=command.order.id, started_at=now, ended_at=now + 0.01, exit_code=0, result={"n": 1})


def _asked(state: Path, path: str, pending: int) -> Row:
    url, token, *_ = address_in(state)
    connection = HTTPConnection(urlsplit(url).netloc)
    times = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        times.append(time.perf_counter() - began)
        assert answer.status == 200, f"{path}: {answer.status}"
    connection.close()
    times.sort()
    return {
        "what": f"GET {path}, {pending:,} pending jobs",
        "p50 ms": statistics.median(times) * 1e3,
        "p99 ms": times[int(REQUESTS * 0.99)] * 1e3,
    }


def _submitted(client: Client, pending: int) -> Row:
    specs = [{"name": f"n{at}", "payload": {"kind": "script", "schema": 1, "argv": ["x"]}} for at in range(SUBMITTED)]
    began = time.perf_counter()
    names = client.submit_jobs(specs)
    assert len(names) == SUBMITTED
    return {"what": f"submit {SUBMITTED:,} jobs to {pending:,}, durable", "wall s": time.perf_counter() - began}


@contextmanager
def _controller(state: Path) -> Iterator[tuple[Client, int]]:
    fleet = state.with_suffix(".yaml")
    fleet.write_text(json.dumps({"nodes": [{"name": "here", "cpu_slots": 0, "gpus": "none"}]}))
    command = [sys.executable, "-m", "hostler", "up", "--state-dir", str(state), "--port", "0", str(fleet)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        client = Client.from_state_dir(state)
        _await(client)
        yield client, process.pid
        client.drain()
        process.wait(60)
    finally:
        process.kill()
        process.wait()


def _await(client: Client) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            client.status()
        except ControllerAbsent:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


def _script(number: int) -> JobSpec:
    payload = ScriptPayload(schema=1, argv=("python", "train.py", "--seed", str(number)))
    return JobSpec(name=f"train {number}", payload=payload)


def _memory_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def _recover(directory: Path) -> None:
    """The measured process: recover, say what it took."""
    began = time.perf_counter()
    core = recovered(open_journal(directory), sys.exit)
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "seq": core.state.seq,
        "wall_s": time.perf_counter() - began,
        "cpu_s": used.ru_utime + used.ru_stime,
        "memory_mb": used.ru_maxrss / 1e3,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    _recover(Path(sys.argv[1]))
