"""A journal that cannot be written: the controller says why, shows nothing as done, and ends when it is told to."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hostler.store.opening import FILE
from tests.integration.conftest import Fleet, Hostler, until


@contextmanager
def locked(state: Path) -> Iterator[None]:
    """Another program holds the journal."""
    with closing(sqlite3.connect(state / FILE, isolation_level=None)) as other:
        other.execute("pragma busy_timeout = 60000")
        other.execute("begin immediate")
        yield
        other.execute("rollback")


def kept(state: Path) -> int:
    """The newest entry that is in the journal."""
    with closing(sqlite3.connect(f"file:{state / FILE}?mode=ro", uri=True)) as reader:
        return int(reader.execute("select max(seq) from journal").fetchone()[0])


def test_sigterm_ends_a_controller_whose_journal_cannot_be_written(fleet: Fleet) -> None:
    """The lock is held until the end: a controller that waited for it would never end."""
    fleet.start()
    job = fleet.script("sleep", "1.5")
    fleet.state_of(job, "running")
    with locked(fleet.state):
        until(lambda: fleet.job(job)["state"] == "done", "an event that cannot be written", log=fleet.log)
        fleet.signal(signal.SIGTERM)
        assert fleet.ended() == 1, fleet.printed()
    assert "the journal cannot be written" in fleet.printed(), fleet.printed()
    assert "leaving without what it lacks" in fleet.log()
    fleet.start()
    assert fleet.over(job)["job"]["attempts"] == 1


def test_finished_work_is_kept_by_its_node_until_the_journal_has_it(fleet: Fleet, hostler: Hostler) -> None:
    """Reports acknowledged before the commit would be forgotten by the agent, and the work done once more."""
    fleet.start()
    tries = fleet.path / "tries"
    jobs = [fleet.python(f"open({str(tries)!r}, 'a').write('x'); import time; time.sleep(1.5)") for _ in range(2)]
    for job in jobs:
        fleet.state_of(job, "running")
    with locked(fleet.state):
        until(lambda: all(fleet.job(job)["state"] == "done" for job in jobs), "the ends in the state", log=fleet.log)
        status = fleet.client.status()
        assert (status["jobs"].get("done", 0), status["seq"]) == (0, kept(fleet.state)), "nothing that may be lost"
        assert "does not answer" in status["unwritten"]
        shown = " ".join(hostler(fleet, "status").out.split())
        assert "cannot be written: its database or disk does not answer; what follows is as of entry" in shown
        fleet.kill()
    fleet.start()
    for job in jobs:
        assert fleet.over(job)["job"]["attempts"] == 1
    assert tries.read_text() == "xx"
