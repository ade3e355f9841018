"""Hostler's rows of store.py: its core and journal in this process, or a real controller spoken to over HTTP.

  python benchmarks/store_ours.py ROAD --case CASE --store PLACE ...

events   the journal alone: each client appends one event (or 100) through the group commit, and waits
core     core, pump, group commit and journal as a controller has them; clients are tasks of its loop, and the nodes
         are functions here that tell of each attempt at once that it began and ended, as peers' jobs are functions
http     `hostler up`, a process of its own; clients are `AsyncClient`s. Nothing can run there
chunks   `hostler up` with its agent and two warm workers; a job is a chunk of one item of one sweep
scripts  the same; a job is a process, `true`
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from clients import (
    BATCH,
    Asked,
    Measured,
    asked,
    submitted,
    submitted_by_threads,
    tell,
    through,
    through_by_threads,
)

from hostler import __version__
from hostler.client import AsyncClient, Client
from hostler.core import Core
from hostler.model.commands import Command, Launch
from hostler.model.errors import ControllerAbsent, StoreError
from hostler.model.events import AttemptStarted, Entry, JobDone
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.inputs import Begin, Ended, Input, Launched, LinkUp, NodeFound, Started, Submit
from hostler.model.work import DeviceKind, JobSpec, JobState, ScriptPayload
from hostler.runtime.clock import SteadyClock
from hostler.runtime.pump import Pump, refused
from hostler.runtime.writer import Writer
from hostler.store import Batch, Journal, open_journal
from hostler.store.dialect import Place
from hostler.store.leading import Claim
from hostler_runner import script, sweep

NODES, SLOTS = 64, 8
"""What the attempts of `core` are on: about as many at once as pgqueuer's worker has."""
WORKERS = 2
READY_S = 30.0
POLL_S = 0.05


class Shell:
    """Core, pump and journal in this process. Nodes are a function: an attempt is over as soon as it is launched."""

    def __init__(self, journal: Journal) -> None:
        self.clock = SteadyClock()
        self.core = Core()
        self.entries = 0
        self.done = 0
        self._journal = journal
        self._writer = Writer(journal, _trouble, _death)
        self._pump = Pump(self.core, self._writer, self.clock, self._execute, self._publish)

    async def submit(self, _client: int, jobs: int) -> None:
        """Submit jobs; returns once they are durable."""
        error = refused(await self._pump.tell(Submit(specs=(_spec(),) * jobs)))
        if error is not None:
            raise error

    async def all_done(self) -> int:
        """Jobs that are done, durably."""
        return self.done

    async def __aenter__(self) -> "Shell":
        epoch = self._journal.begin_epoch(self.clock.now(), Claim(__version__))
        self._running = asyncio.ensure_future(self._pump.run())
        await self._pump.tell(Begin(version=__version__, epoch=epoch))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        self._writer.close(10.0)
        self._journal.close()

    async def add_nodes(self) -> None:
        """Have devices on which jobs run."""
        for number in range(NODES):
            name = f"n{number}"
            up = LinkUp(node=name, agent=name, incarnation=1, boot=None, attempts=(), chunks=())
            await self._pump.tell(NodeFound(node=_node(name)), up)

    def _execute(self, commands: Sequence[Command]) -> None:
        told = [each for command in commands if isinstance(command, Launch) for each in self._run(command.order.id)]
        if told:
            self._pump.post(*told)

    def _run(self, attempt: str) -> Iterator[Input]:
        now = self.clock.now()
        yield Launched(attempts=(attempt,))
        yield Started(attempt=attempt, pid=1, pid_start=1)
        yield Ended(attempt=attempt, started_at=now, ended_at=now, exit_code=0, result=None)

    def _publish(self, entries: Sequence[Entry]) -> None:
        self.entries += len(entries)
        self.done += sum(isinstance(entry.event, JobDone) for entry in entries)


def main() -> None:
    """Run one case on one road."""
    road = sys.argv.pop(1)
    what, _ = asked(__doc__)
    if road == "events":
        tell(events(what))
    elif road == "core":
        tell(asyncio.run(core(what)))
    else:
        tell(over_http(what, road))


def events(what: Asked) -> dict[str, Any]:
    """Events appended by group commit, each client waiting for its own."""
    journal = open_journal(_place(what))
    journal.begin_epoch(time.time(), Claim(__version__))
    writer = Writer(journal, _trouble, _death)
    numbers, lock = count(1), threading.Lock()

    def append(_client: int, events: int) -> None:
        durable = threading.Event()
        with lock:  # entries are numbered in the order in which they are given
            entries = [_entry(next(numbers)) for _ in range(events)]
            writer.write(Batch(entries=entries, jobs=()), durable.set)
        durable.wait()

    made = submitted_by_threads(what, append)
    writer.close(10.0)
    stored = journal.newest_seq()
    journal.close()
    assert stored == next(numbers) - 1, "not all events are in the journal"
    return made.line(__version__)


async def core(what: Asked) -> dict[str, Any]:
    """Jobs through core and journal in this process."""
    async with Shell(open_journal(_place(what))) as shell:
        if what.case != "through":
            return (await submitted(what, shell.submit)).line(__version__)
        await shell.add_nodes()
        made = await through(what, shell.submit, shell.all_done, BATCH)
        assert all(job.state is JobState.DONE for job in shell.core.state.jobs.values())
        return made.line(__version__, states=shell.entries / len(shell.core.state.jobs))


def over_http(what: Asked, road: str) -> dict[str, Any]:
    """Jobs through a controller that is a process of its own."""
    slots = 0 if road == "http" else WORKERS
    with (
        tempfile.TemporaryDirectory(prefix="hostler-store-") as folder,
        _controller(Path(folder), what, slots) as state,
    ):
        if what.case != "through":
            return asyncio.run(_submitted(what, state)).line(__version__)
        clients = [Client.from_state_dir(state) for _ in range(what.clients)]

        def submit(client: int, jobs: int) -> None:
            clients[client].submit([sweep(jobs)] if road == "chunks" else [script(0)] * jobs)

        done, size = (_chunks_done, what.jobs) if road == "chunks" else (_jobs_done, BATCH)
        return through_by_threads(what, submit, lambda: done(clients[0]), size).line(__version__)


async def _submitted(what: Asked, state: Path) -> Measured:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(AsyncClient.from_state_dir(state)) for _ in range(what.clients)]

        async def submit(client: int, jobs: int) -> None:
            await clients[client].submit([script(0)] * jobs)

        return await submitted(what, submit)


@contextmanager
def _controller(folder: Path, what: Asked, slots: int) -> Iterator[Path]:
    """A controller's state directory, for as long as it runs."""
    place = _place(what)
    state = place if isinstance(place, Path) else folder / "state"
    fleet = folder / "fleet.yaml"
    nodes = [{"name": "here", "cpu_slots": slots, "gpus": "none"}]
    fleet.write_text(json.dumps({"nodes": nodes, **({} if isinstance(place, Path) else {"store": place})}))
    command = [sys.executable, "-m", "hostler", "up", "--state-dir", str(state), "--port", "0", str(fleet)]
    with subprocess.Popen(command, stdout=sys.stderr) as controller:
        try:
            _await(Client.from_state_dir(state))
            yield state
            Client.from_state_dir(state).drain()
            controller.wait(READY_S)
        finally:
            controller.kill()


def _await(client: Client) -> None:
    end = time.monotonic() + READY_S
    while True:
        try:
            client.status()
        except ControllerAbsent:
            if time.monotonic() > end:
                raise
            time.sleep(POLL_S)
        else:
            return


def _jobs_done(client: Client) -> int:
    return int(client.status()["jobs"]["done"])


def _chunks_done(client: Client) -> int:
    return sum(int(sweep["done"]) for sweep in client.sweeps())


def _spec() -> JobSpec:
    return JobSpec(name="nothing", payload=ScriptPayload(schema=1, argv=("true",)))


def _entry(number: int) -> Entry:
    return Entry(seq=number, at=time.time(), event=AttemptStarted(attempt=f"j{number}.1", pid=number, pid_start=number))


def _node(name: str) -> NodeSpec:
    devices = (
        DeviceSpec(id=f"{name}/cpu{index}", node=name, kind=DeviceKind.CPU, index=index) for index in range(SLOTS)
    )
    return NodeSpec(name=name, backend="bench", devices=tuple(devices))


def _place(what: Asked) -> Place:
    return what.store if "://" in what.store else Path(what.store)


def _trouble(error: StoreError | None) -> None:
    if error is not None:
        raise error


def _death(error: Exception) -> None:
    print(f"the writer ended: {error!r}", file=sys.stderr, flush=True)
    os._exit(1)  # nobody would be answered any more


if __name__ == "__main__":
    main()
