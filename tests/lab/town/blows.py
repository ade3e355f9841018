"""Carries a plan out: each blow for as long as it says, several at a time where they overlap."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tests.lab.disks import Disk
from tests.lab.host import Host
from tests.lab.network import Place, cut
from tests.lab.town.plan import DATABASE, HOSTS, LEADER, STANDBY, Blow
from tests.lab.town.town import Seat, Town, agents, stopped

AT_ONCE = 24
"""Blows that may be under way at the same time; a long plan has about ten."""


@dataclass(frozen=True)
class Struck:
    """A blow that was struck, on whom, and from when until when by the monotonic clock."""

    blow: Blow
    whom: str
    began: float
    ended: float

    def __str__(self) -> str:
        return f"{self.blow}: {self.whom}, {self.ended - self.began:.2f} s"


@dataclass
class Blows:
    """What befalls a town."""

    town: Town
    struck: list[Struck] = field(default_factory=list)
    passed_over: list[Blow] = field(default_factory=list)
    """Whoever was meant had the same already."""
    _had: set[tuple[str, str]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _boot: threading.Lock = field(default_factory=threading.Lock)
    """No process of a host is looked for while it boots."""

    def carry_out(self, plan: Sequence[Blow]) -> None:
        """All of it; everything is well again when this returns. Raises what went wrong with striking."""
        began = time.monotonic()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            under_way: list[Future[None]] = []
            for blow in plan:
                time.sleep(max(0.0, began + blow.at_s - time.monotonic()))
                under_way.append(pool.submit(self._strike, blow))
        for each in under_way:
            each.result()

    def _strike(self, blow: Blow) -> None:
        with self._alone(blow) as whom:
            if whom is None:
                return
            began = time.monotonic()
            with self._befalls(blow, whom):
                time.sleep(blow.seconds)
            with self._lock:
                self.struck.append(Struck(blow, whom, began, time.monotonic()))

    @contextmanager
    def _alone(self, blow: Blow) -> Iterator[str | None]:
        """Whom it meets by name; `None`: that one has the same already."""
        whom = self._whom(blow.on)
        # Whoever is killed or started anew has nothing else of that kind meanwhile.
        mine = (whom, "end" if blow.kind in ("kill", "restart", "reboot") else blow.kind)
        with self._lock:
            free = mine not in self._had or blow.kind == "cut"
            self._had.add(mine)
            if not free:
                self.passed_over.append(blow)
        try:
            yield whom if free else None
        finally:
            if free:
                with self._lock:
                    self._had.discard(mine)

    def _whom(self, on: str) -> str:
        if on in (LEADER, STANDBY):
            return (self.town.leader if on == LEADER else self.town.standby).name
        return on

    @contextmanager
    def _befalls(self, blow: Blow, whom: str) -> Iterator[None]:
        with ExitStack() as stack:
            if blow.kind == "cut":
                for at, far in enumerate(self._places(blow.far)):
                    label = f"{id(blow):x}-{at}"
                    stack.enter_context(cut(self.town.seats[whom].place, far, blow.way, label))
            elif blow.kind == "fill":
                stack.enter_context(self._disk(whom).full())
            elif blow.kind == "restart":
                stack.enter_context(self._down(blow.how))
            elif whom in self.town.seats:
                stack.enter_context(_on_controller(blow, self.town.seats[whom]))
            else:
                stack.enter_context(self._on_host(blow, self._host(whom)))
            yield

    @contextmanager
    def _on_host(self, blow: Blow, host: Host) -> Iterator[None]:
        with ExitStack() as stack:
            with self._boot:
                if blow.kind == "stop":
                    stack.enter_context(stopped(agents(host)))
                elif blow.kind == "reboot":
                    self.town.switch.submit(host.reboot).result()
                else:
                    _end_on(blow, host)
            yield

    @contextmanager
    def _down(self, how: str) -> Iterator[None]:
        database = self.town.database
        with database.lock:
            if database.server.is_up:  # a full disk may have ended it
                database.server.kill() if how == "kill" else database.server.stop(how)
            yield
            database.start()  # or the keeper does, later

    def _places(self, far: str) -> Sequence[Place]:
        if far == DATABASE:
            return [self.town.database.place]
        return [host.place for host in self.town.lab.hosts if far in (HOSTS, host.name)]

    def _disk(self, whom: str) -> Disk:
        if whom == DATABASE:
            return self.town.database.disk
        return self.town.seats[whom].disk if whom in self.town.seats else self._host(whom).disk

    def _host(self, whom: str) -> Host:
        return next(host for host in self.town.lab.hosts if host.name == whom)


def _on_controller(blow: Blow, seat: Seat) -> contextlib.AbstractContextManager[None]:
    return seat.killed() if blow.kind == "kill" else seat.frozen()


def _end_on(blow: Blow, host: Host) -> None:
    if blow.how == "agent":
        host.kill_agent()
    elif blow.how == "supervisor":
        host.kill_supervisor()
    else:
        host.kill({"worker": "worker.py", "script": "task.py"}[blow.how])
