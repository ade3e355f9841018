"""Several controllers on one real PostgreSQL, and nodes behind real SSH servers that each of them can reach."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from hostler.core import Core
from hostler.model.errors import LinkError, StandsBy, StoreError
from hostler.store import Leader, read_journal
from tests import postgres
from tests.backends.ssh import sshd
from tests.backends.ssh.sshd import Sshd
from tests.integration.conftest import START_S, Fleet, until
from tests.patience import PATIENCE_S

CONTROLLERS = ("a", "b")


class Town:
    """The database, the nodes, and the controllers by name; each has a state directory of its own."""

    def __init__(self, folder: Path, database: postgres.Server, nodes: Sequence[Sshd], names: Sequence[str]) -> None:
        self.folder = folder
        self.database = database
        self.nodes = nodes
        self.address = database.database()
        self.controllers = {name: Seat(folder / name, self.address, self._settings()) for name in names}

    def start(self, name: str, *options: str) -> Seat:
        """Start a controller, and wait until it leads or stands by."""
        seat = self.controllers[name]
        seat.launch(*options)
        until(seat.answers, f"the answer of controller {name}", START_S, log=seat.log)
        return seat

    def leading(self) -> Seat | None:
        """The controller that says that it leads and has all nodes, if there is one."""
        for seat in self.controllers.values():
            if not seat.is_running or seat.is_frozen:
                continue  # the system would take a question for it, and nobody answer
            with suppress(LinkError, FileNotFoundError):
                status = seat.client.status()
                if status["leader"] is None and status["nodes_up"] == len(self.nodes):
                    return seat
        return None

    def leader(self) -> Leader:
        """Who leads, as the database has it."""
        journal = read_journal(self.address)
        try:
            return journal.leader()
        finally:
            journal.close()

    def epochs(self) -> list[tuple[int, int]]:
        """Number and epoch of every entry of the journal, in order."""
        from sqlalchemy import select

        from hostler.store import tables
        from hostler.store.dialect import engine_of

        engine = engine_of(self.address)
        try:
            with engine.connect() as connection:
                table = tables.journal
                rows = connection.execute(select(table.c.seq, table.c.epoch).order_by(table.c.seq))
                return [(row.seq, row.epoch) for row in rows]
        finally:
            engine.dispose()

    def lose(self, after: int) -> None:
        """Take all entries beyond this one from the database, as one does that takes over without them."""
        from sqlalchemy import delete

        from hostler.store import tables
        from hostler.store.dialect import engine_of

        engine = engine_of(self.address)
        try:
            with engine.begin() as connection:
                connection.execute(delete(tables.journal).where(tables.journal.c.seq > after))
        finally:
            engine.dispose()

    def replayed(self) -> Core:
        """What the journal comes to, without snapshots."""
        journal, core = read_journal(self.address), Core()
        try:
            core.replay(journal.read())
        finally:
            journal.close()
        return core

    def ran(self, job: str) -> int:
        """How often a job of `counted` was started."""
        file = self.folder / f"ran-{job}"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def counted(self, name: str, seconds: float = 0.0, **more: Any) -> dict[str, Any]:
        """A script that notes that it was started, and ends after so long or as soon as `go-NAME` is there."""
        body = f"echo $HOSTLER_ATTEMPT >> {self.folder}/ran-{name}; sleep {seconds}"
        if not seconds:
            body += f"; n=0; while [ ! -e {self.folder}/go-{name} ] && [ $n -lt 9000 ]; do sleep 0.1; n=$((n+1)); done"
        payload = {"kind": "script", "schema": 1, "argv": ["sh", "-c", body]}
        return {"name": name, "key": name, "payload": payload, **more}

    def clean_up(self) -> None:
        """End everything, by process id."""
        for seat in self.controllers.values():
            seat.clean_up()
        left = [each for each in psutil.process_iter() if self._is_ours(each)]
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, PATIENCE_S)

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return any(word.startswith(f"{self.folder}/on-") for word in process.cmdline())
        except psutil.Error:
            return False

    def _settings(self) -> dict[str, Any]:
        nodes = [
            {
                "name": f"rig-{at}",
                "backend": "ssh",
                "host": "127.0.0.1",
                "port": each.port,
                "identity": str(each.folder / "client"),
                "dir": f"{self.folder}/on-{at}",
                "cpu_slots": 2,
                "gpus": "none",
            }
            for at, each in enumerate(self.nodes)
        ]
        known = [str(each.known_hosts) for each in self.nodes]
        return {"name": "town", "ssh": {"config": [], "known_hosts": known}, "nodes": nodes}


class Seat(Fleet):
    """One of the controllers."""

    def __init__(self, path: Path, address: str, settings: dict[str, Any]) -> None:
        path.mkdir()
        self.is_frozen = False
        super().__init__(path, store=address, **settings)

    @property
    def is_running(self) -> bool:
        """Whether its process is there and goes on."""
        return self.controller is not None and self.controller.poll() is None

    def answers(self) -> bool:
        """Whether it answers by HTTP."""
        assert self.controller is not None
        assert self.controller.poll() is None, f"the controller ended with {self.controller.returncode}: {self.log()}"
        try:
            left = json.loads((self.state / "controller.json").read_bytes())
            return left["pid"] == self.controller.pid and self.client.status()["seq"] >= 0
        except (FileNotFoundError, LinkError):
            return False

    def leads(self) -> bool:
        """Whether it says that it leads."""
        try:
            return self.client.status()["leader"] is None
        except (FileNotFoundError, LinkError):
            return False

    def freeze(self) -> None:
        """Stop its process where it stands."""
        self.signal(signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)
        self.is_frozen = False


@contextmanager
def a_town(folder: Path, names: Sequence[str] = CONTROLLERS, nodes: int = 2) -> Iterator[Town]:
    """A database and nodes that run, and controllers that were not started; nothing of it is left running."""
    with ExitStack() as stack:
        database = stack.enter_context(postgres.running(durable=True))
        servers = [stack.enter_context(sshd.running(folder / f"sshd-{at}")) for at in range(nodes)]
        town = Town(folder, database, servers, names)
        try:
            yield town
        finally:
            town.clean_up()


def submitted(town: Town, jobs: Sequence[Mapping[str, Any]]) -> Seat:
    """The leader that has taken these jobs, each of which has a key: under it nothing is submitted twice.

    A leader may lose its lease or its database before it answers, so jobs are submitted until one takes them.
    """

    def taken() -> Seat | None:
        seat = town.leading()
        if seat is None:
            return None
        try:
            seat.client.submit_jobs(jobs)
        except (LinkError, StandsBy, StoreError, FileNotFoundError):
            return None
        return seat

    return until(taken, "a leader that takes jobs", START_S, log=lambda: town_log(town))


def take_over_s(town: Town, dead: Seat) -> float:
    """How long until another controller has all nodes and answers, counted from now."""
    begun = time.monotonic()
    until(lambda: (seat := town.leading()) is not None and seat is not dead, "a new leader", log=lambda: town_log(town))
    return time.monotonic() - begun


def town_log(town: Town) -> str:
    """What all controllers have printed."""
    return "\n".join(f"--- {name}\n{seat.log()}" for name, seat in town.controllers.items())


def gone(pid: int) -> bool:
    """Whether a process is no more."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
