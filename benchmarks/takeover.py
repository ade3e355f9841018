"""How long until another controller leads: real ones on a real PostgreSQL, whose leader is struck again and again.

    python benchmarks/takeover.py [--quick] [--kills N] [--freezes N] [--cuts N] [--json FILE]

Two controllers, a node behind SSH, a database that waits for its disk. Each time the leader is struck, and the clock
runs from there to (a) the next epoch in the database, and (b) a submission that the new leader has confirmed over HTTP,
which is when people can go on. Whoever was killed is started again and stands by for the next turn.

killed     kill -9
stopped    SIGSTOP while it writes as fast as it can, for as long as it takes; inside a transaction that holds the
           leader's row, where it is met in one: an append is a single statement, in which nobody can be stopped
cut off    its packets to and from the database are dropped in silence; all machines are namespaces (root only)

After all of that everything that was confirmed is done, and no entry of the journal is of an epoch that was over.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import TypeVar

from sqlalchemy import Connection, create_engine, text

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import postgres
from tests.backends.ssh import sshd
from tests.integration.standbys import Seat, Town, a_town
from tests.lab.network import cut
from tests.lab.town import town as streets

from common import Bar, Row, command_line, report
from hostler.client import Client
from hostler.model.errors import HostlerError

POLL_S = 0.02
LIMIT_S = 120.0
ANSWER_S = 5.0
MOST_S = 10.0
STOPS, SENT_S = 40, 0.05
"""Looks for a leader that is met in a transaction; what it had sent before a stop is over after so long."""
FREE = "select count(*) from (select 1 from leader for update skip locked) as free"
T = TypeVar("T")


@dataclass
class Taken:
    """Seconds from each blow to the next epoch, and to the first submission that was confirmed."""

    how: str
    epoch_s: list[float] = field(default_factory=list)
    answer_s: list[float] = field(default_factory=list)
    inside: int | None = None
    """How often it held its row; `None`: it was not looked at."""

    def time(self, strike: Callable[[], object], epoch: Callable[[], int], confirmed: Callable[[], bool]) -> None:
        """Strike, and see how long both take."""
        before = epoch()
        strike()
        struck_at = time.monotonic()
        _until(lambda: epoch() > before, "another epoch")
        self.epoch_s.append(time.monotonic() - struck_at)
        _until(confirmed, "a submission confirmed")
        self.answer_s.append(time.monotonic() - struck_at)
        print(f"{self.how} {len(self.epoch_s)}: {self.epoch_s[-1]:.2f} s, {self.answer_s[-1]:.2f} s", flush=True)

    def rows(self) -> Iterator[Row]:
        """Both, as rows of the table."""
        for until, times in (("epoch in the database", self.epoch_s), ("submission confirmed", self.answer_s)):
            if times:
                told = {"leader": self.how, "until": until, "times": len(times), "holding its row": self.inside}
                yield {**told, **_spread(times)}


class Bench:
    """The town, what was submitted to it, and a connection of our own to its database."""

    def __init__(self, town: Town, database: Connection) -> None:
        self.town = town
        self._database = database
        self._number = 0
        self.confirmed: list[str] = []

    def epoch(self) -> int:
        """The newest one."""
        return _epoch(self._database)

    def holds_row(self) -> bool:
        """Whether somebody stands inside a transaction that holds the leader's row."""
        return not self._database.execute(text(FREE)).scalar_one()

    def leading(self) -> Seat:
        """Whoever leads and has the node."""
        return _until(self.town.leading, "a leader")

    def other(self, seat: Seat) -> Seat:
        """The other controller."""
        return next(each for each in self.town.controllers.values() if each is not seat)

    def submitted(self, seat: Seat) -> bool:
        """Whether this controller has confirmed one more job."""
        name = f"job-{self._number}"
        client = Client.from_state_dir(seat.state, timeout_s=ANSWER_S)
        with suppress(HostlerError, OSError):
            client.submit_jobs([self.town.counted(name, 0.01)], key=name)
            self._number += 1
            self.confirmed.append(name)
            return True
        return False

    def timed(self, taken: Taken, strike: Callable[[], object], heir: Seat) -> None:
        """Strike, and see how long it takes until another one leads."""
        taken.time(strike, self.epoch, lambda: self.submitted(heir))

    def check(self) -> None:
        """All that was confirmed is done, once; epochs never fall."""
        last = self.leading()
        for name in self.confirmed:
            _until(lambda name=name: last.job(name)["state"] == "done", f"{name} done")  # type: ignore[misc]
        ran = {name: self.town.ran(name) for name in self.confirmed}
        assert set(ran.values()) <= {1}, {name: times for name, times in ran.items() if times != 1}
        epochs = [epoch for _, epoch in self.town.epochs()]
        assert epochs == sorted(epochs), "an entry of an epoch that was over"


def killed(bench: Bench, times: int) -> Taken:
    """The leader is killed and started again as a standby, so that both take turns."""
    taken = Taken("killed")
    for _ in range(times):
        leader = bench.leading()
        bench.timed(taken, leader.kill, bench.other(leader))
        bench.town.start(_name(bench.town, leader))
    return taken


def stopped(bench: Bench, times: int) -> Taken:
    """The leader stands still while it writes; once overtaken it goes on, and stands by."""
    taken = Taken("stopped while writing", inside=0)
    for _ in range(times):
        leader = bench.leading()
        with _busy(bench, leader):
            _meet(bench, leader)
            taken.inside = (taken.inside or 0) + bench.holds_row()
            bench.timed(taken, lambda: None, bench.other(leader))
        leader.thaw()
        _until(lambda leader=leader: leader.answers() and not leader.leads(), "a standby again")  # type: ignore[misc]
    return taken


def cut_off(times: int) -> Taken:
    """The leader and its database lose each other, on machines of their own."""
    taken = Taken("cut off from the database")
    if not times or (why := streets.missing()):
        print(f"no cuts: {why if times else 'none are asked for'}")
        return taken
    with ExitStack() as stack:
        town = stack.enter_context(streets.running(hosts=1))
        engine = create_engine(town.address, isolation_level="AUTOCOMMIT")
        stack.callback(engine.dispose)
        town.begin()
        database = stack.enter_context(engine.connect())
        for _ in range(times):
            _until(town.all_linked, "a leader")
            leader, heir = town.leader, town.standby
            with ExitStack() as apart:
                off = cut(leader.place, town.database.place)
                taken.time(partial(apart.enter_context, off), partial(_epoch, database), partial(_takes, heir))
            _until(partial(_stands_by, leader), "a standby again")
    return taken


def main() -> int:
    """Measure, print."""
    options = _options()
    if why := postgres.missing() or sshd.MISSING:
        print(f"nothing can be measured here: {why}")
        return 0
    with _bench() as bench:
        taken = [killed(bench, options.kills), stopped(bench, options.freezes)]
        bench.check()
    taken.append(cut_off(options.cuts))
    rows = [row for each in taken for row in each.rows()]
    report("takeover", rows, list(_bars(rows)), options.json)
    return 0


def _options() -> argparse.Namespace:
    parser = command_line(__doc__)
    for name, many in (("kills", 100), ("freezes", 10), ("cuts", 10)):
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"how many ({many}; with --quick a tenth)")
    options = parser.parse_args()
    for name, many in (("kills", 100), ("freezes", 10), ("cuts", 10)):
        if getattr(options, name) is None:
            setattr(options, name, many // 10 if options.quick else many)
    return options


@contextmanager
def _bench() -> Iterator[Bench]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hostler-takeover-")))
        town = stack.enter_context(a_town(folder, nodes=1))
        engine = create_engine(town.address, isolation_level="AUTOCOMMIT")
        stack.callback(engine.dispose)
        town.start("a")  # makes the tables
        _until(town.leading, "a leader")
        town.start("b")
        yield Bench(town, stack.enter_context(engine.connect()))


@contextmanager
def _busy(bench: Bench, leader: Seat) -> Iterator[None]:
    """The leader has something to write all the time: jobs that are cancelled as soon as they are there."""
    over = threading.Event()
    client = Client.from_state_dir(leader.state, timeout_s=ANSWER_S)

    def submit() -> None:
        while not over.is_set():
            with suppress(HostlerError, OSError):
                client.cancel(client.submit_jobs([_held()])[0])

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _epoch(database: Connection) -> int:
    return int(database.execute(text("select coalesce(max(epoch), 0) from leader")).scalar_one())


def _takes(seat: streets.Seat) -> bool:
    with suppress(HostlerError, OSError):
        return bool(
            seat.client.submit_jobs([{"name": "after", "payload": {"kind": "script", "schema": 1, "argv": ["true"]}}])
        )
    return False


def _stands_by(seat: streets.Seat) -> bool:
    with suppress(HostlerError, OSError):
        return seat.client.status()["leader"] is not None
    return False


def _held() -> dict[str, object]:
    """A job that never begins: there is no such device."""
    payload = {"kind": "script", "schema": 1, "argv": ["true"]}
    return {"name": "never", "payload": payload, "resources": {"device": "gpu"}}


def _meet(bench: Bench, leader: Seat) -> None:
    """Stop it inside a transaction, or after some looks wherever it is."""
    for _ in range(STOPS):
        leader.freeze()
        time.sleep(SENT_S)
        if bench.holds_row():
            return
        leader.thaw()
        time.sleep(POLL_S)
    leader.freeze()


def _name(town: Town, seat: Seat) -> str:
    return next(name for name, each in town.controllers.items() if each is seat)


def _bars(rows: Sequence[Row]) -> Iterator[Bar]:
    for row in rows:
        if row["leader"] == "killed":
            yield Bar(f"killed, until {row['until']}: p99 s of {row['times']}", row["p99 s"], MOST_S, "<")


def _spread(times: Sequence[float]) -> Row:
    cuts = quantiles(times, n=100, method="inclusive") if len(times) > 1 else [times[0]] * 99
    return {"p50 s": cuts[49], "p90 s": cuts[89], "p99 s": cuts[98], "max s": max(times)}


def _until(question: Callable[[], T | None], what: str) -> T:
    deadline = time.monotonic() + LIMIT_S
    while not (answer := question()):
        assert time.monotonic() < deadline, f"{what} did not come within {LIMIT_S:g} s"
        time.sleep(POLL_S)
    return answer


if __name__ == "__main__":
    sys.exit(main())
