"""Controllers, their database and hosts behind SSH, each on a machine of its own as far as the network goes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from hostler.client import Client
from hostler.model.errors import HostlerError
from tests import postgres
from tests.integration.conftest import Fleet, command
from tests.lab import datacentre
from tests.lab.datacentre import PREFIX, Datacentre
from tests.lab.disks import Disk
from tests.lab.host import Host
from tests.lab.network import Place, plug_in
from tests.lab.tools import until

HERE = Path(__file__).parent
CONTROLLERS = ("a", "b")
FIRST_STATION = 20
"""Places of machines that are no hosts."""
PORT, DATABASE_PORT = 8765, 5432
LEASE_S = 10.0
KEEPALIVE_S = 1.0
SLOTS = 2
START_S = 150.0
KEEP_S = 0.5
"""How often it is looked whether controllers run, and who leads."""
ASK_S = 2
ANSWER_S = 5.0
CONNECTING = f"user={postgres.USER} connect_timeout={ASK_S} options='-c statement_timeout={ASK_S}s'"


@dataclass(frozen=True)
class Exit:
    """A controller ended by itself."""

    name: str
    at: float
    ran_s: float
    status: int
    said: str

    @property
    def last_words(self) -> str:
        """The last line that it printed."""
        return self.said.rstrip().rpartition("\n")[2]

    def __str__(self) -> str:
        return f"{self.name} ended with {self.status} after {self.ran_s:.1f} s: {self.last_words[:300]}"


class Seat(Fleet):
    """A controller's machine: its network, its disk, and the process that is to run there, as a service would be."""

    def __init__(self, name: str, folder: Path, place: Place) -> None:
        self.name = name
        self.place = place
        folder.mkdir()
        self.disk = Disk(folder / "disk", place.name)
        self.wanted = False
        self.is_frozen = False
        self.began = 0.0
        self.exits: list[Exit] = []
        self._lock = threading.Lock()
        super().__init__(folder, state=folder / "disk" / "state")
        self.client = Client.from_state_dir(self.state, timeout_s=ANSWER_S)

    def launch(self, *options: str) -> subprocess.Popen[bytes]:
        """Start it on its machine."""
        words = [sys.executable, "-m", "hostler", "up", "--state-dir", str(self.state), *options, str(self.file)]
        with (self.path / "up.log").open("ab") as log:
            self.controller = subprocess.Popen(
                [*self.place.enter, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        self.began = time.monotonic()
        self.is_frozen = False
        self.wanted = True
        return self.controller

    def keep(self) -> None:
        """Start it again if it has ended and is wanted; that it ended by itself is noted."""
        with self._lock:
            if not self.wanted or self.controller is None or (status := self.controller.poll()) is None:
                return
            now = time.monotonic()
            self.exits.append(Exit(self.name, now, now - self.began, status, self.log()[-3000:]))
            self.launch()

    @contextmanager
    def killed(self) -> Iterator[None]:
        """`kill -9`, and nobody starts it again before the end."""
        with self._lock:
            self.wanted = False
            self.kill()
        try:
            yield
        finally:
            with self._lock:
                self.launch()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stopped where it stands."""
        with self._lock:
            process = self.controller
            assert process is not None
            process.send_signal(signal.SIGSTOP)
            self.is_frozen = True
        try:
            yield
        finally:
            with self._lock:
                process.send_signal(signal.SIGCONT)
                self.is_frozen = self.is_frozen and self.controller is not process

    def leave(self) -> None:
        """Have it end in good order; one that waits for something is told once more, which has it leave at once."""
        with self._lock:
            self.wanted = False
        assert self.controller is not None
        self.signal(signal.SIGTERM)
        try:
            status = self.controller.wait(20)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGTERM)
            status = self.controller.wait(60)
        assert status == 0, f"it ended with {status}: {self.log()}"


class Database:
    """The machine of the database: small, so that it can be full."""

    def __init__(self, folder: Path, place: Place) -> None:
        self.place = place
        self.disk = Disk(folder / "database", place.name, "1g")
        shutil.chown(self.disk.path, "postgres", "postgres")
        postgres.make(self.disk.path, anybody_from=f"{place.gateway}/24")
        self.server = postgres.Server(self.disk.path, DATABASE_PORT, True, place.address, place.enter)
        self.lock = threading.Lock()

    def keep(self) -> None:
        """Start it if it has ended, as a service would be."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            if not self.server.is_up:
                self.start()
        finally:
            self.lock.release()

    def start(self) -> None:
        """Start it; where it cannot be for now (its disk is full, children of the last one are there), later."""
        with contextlib.suppress(RuntimeError):
            self.server.start()


class Town:
    """All of it, and who leads."""

    def __init__(self, lab: Datacentre, database: Database, seats: Sequence[Seat]) -> None:
        self.lab = lab
        self.database = database
        self.address = database.server.database()
        self.seats = {seat.name: seat for seat in seats}
        self.leaders: dict[int, str] = {}
        """Who led, by epoch, as far as somebody looked."""
        self.switch = ThreadPoolExecutor(1)
        """Who switches hosts on: they die with the thread that did."""
        self._leader: tuple[int, str] = (0, CONTROLLERS[0])
        self._over = threading.Event()
        for seat in seats:
            seat.settle(**self._settings(seat))

    @property
    def leader(self) -> Seat:
        """Who leads, as the database had it last."""
        return self.seats[self._leader[1]]

    @property
    def standby(self) -> Seat:
        """The other one."""
        return next(seat for seat in self.seats.values() if seat is not self.leader)

    def begin(self) -> None:
        """Have both run, and every host be linked."""
        for seat in self.seats.values():
            said = command("node", "trust", "--state-dir", seat.state, seat.file, "--yes")
            assert said.status == 0, said.err
            seat.launch()
            until(lambda seat=seat: self._is_there(seat), f"controller {seat.name}", START_S, log=seat.log)  # type: ignore[misc]
        until(self.all_linked, "all hosts", START_S, log=self.log)

    def all_linked(self) -> bool:
        """Whether the leader says that it reaches every host."""
        self.look()
        with contextlib.suppress(HostlerError, OSError):
            status = self.leader.client.status()
            return status["leader"] is None and status["nodes_up"] == len(self.lab.hosts)
        return False

    @contextmanager
    def kept(self) -> Iterator[None]:
        """What ends is started again, and who leads is looked at."""
        thread = threading.Thread(target=self._keep, name="keeper")
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def look(self) -> None:
        """See who leads; nothing where the database does not answer."""
        name = self.address.rpartition("/")[2]
        with (
            contextlib.suppress(psycopg.Error),
            psycopg.connect(f"host={self.database.place.address} dbname={name} {CONNECTING}") as connection,
        ):
            row = connection.execute("select epoch, holder from leader").fetchone()
            if row is not None and row[1]:
                self._note(int(row[0]), int(str(row[1]).rpartition(":")[2]))

    def log(self) -> str:
        """What the controllers have printed."""
        return "\n".join(f"--- {name}\n{seat.log()}" for name, seat in self.seats.items())

    def _note(self, epoch: int, pid: int) -> None:
        for seat in self.seats.values():
            if seat.controller is not None and seat.controller.pid == pid:
                self.leaders[epoch] = seat.name
                self._leader = (epoch, seat.name)

    def _keep(self) -> None:
        while not self._over.wait(KEEP_S):
            self.database.keep()
            for seat in self.seats.values():
                seat.keep()
            self.look()

    def _is_there(self, seat: Seat) -> bool:
        assert seat.controller is not None
        assert seat.controller.poll() is None, f"the controller ended with {seat.controller.returncode}: {seat.log()}"
        with contextlib.suppress(HostlerError, OSError):
            return bool(seat.client.status()["seq"] >= 0)
        return False

    def _settings(self, seat: Seat) -> dict[str, Any]:
        return {
            "name": "town",
            "store": self.address,
            "api": {"host": seat.place.address, "port": PORT, "insecure_remote": True},
            "ssh": {"config": [], "known_hosts": [], "keepalive_s": KEEPALIVE_S, "connect_s": 5},
            "nodes": self.lab.fleet(cpu_slots=SLOTS, scripts=1, canary="none", lease_s=LEASE_S),
        }


def missing() -> str | None:
    """Why there can be no town here; `None`: there can."""
    from tests.lab.host import no_firewall

    return datacentre.missing() or no_firewall() or postgres.missing()


@contextmanager
def running(hosts: int = 4) -> Iterator[Town]:
    """A town whose controllers were not started; nothing of it is left running."""
    with ExitStack() as stack:
        lab = stack.enter_context(datacentre.running(*[[]] * hosts))
        lab.folder.chmod(0o711)  # the database runs as somebody else, and has a folder below
        places = [Place(PREFIX, lab.number, FIRST_STATION + at) for at in range(1 + len(CONTROLLERS))]
        for place in places:
            plug_in(place)
        database = Database(lab.folder, places[0])
        database.server.start()
        stack.callback(_end, database)
        seats = [
            Seat(name, lab.folder / f"controller-{name}", place)
            for name, place in zip(CONTROLLERS, places[1:], strict=True)
        ]
        for seat in seats:
            stack.callback(seat.clean_up)
        made = Town(lab, database, seats)
        stack.callback(made.switch.shutdown)
        yield made


def _end(database: Database) -> None:
    if database.server.is_up:
        database.server.stop("immediate")


def agents(host: Host) -> list[int]:
    """Processes of the host's agent: keeper and supervisor."""
    return [process.pid for process in host.processes("agent-", ".pyz")]


@contextmanager
def stopped(pids: Sequence[int]) -> Iterator[None]:
    """These processes stand still."""
    _tell(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _tell(pids, signal.SIGCONT)


def _tell(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
