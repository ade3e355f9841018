"""A journal that cannot be written: the controller says why, shows nothing as done, and ends when it is told to."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hostler.store.opening import FILE
from tests.integration.conftest import Fleet, until


@contextmanager
def locked(state: Path) -> Iterator[None]:
    """Another program holds the journal."""
    with closing(sqlite3.connect(state / FILE, isolation_level=None)) as other:
        other.execute("pragma busy_timeout = 60000")
        other.execute("begin immediate")
        yield
        other.execute("rollback")


def test_sigterm_ends_a_controller_whose_journal_cannot_be_written(fleet: Fleet) -> None:
    """The lock is held until the end: a controller that waited for it would never end."""
    fleet.start()
    with locked(fleet.state):
        fleet.signal(signal.SIGTERM)
        assert fleet.ended() == 1, fleet.printed()
    assert "the journal cannot be written" in fleet.printed(), fleet.printed()
    assert "leaving without what it lacks" in fleet.log()
    fleet.start()
    assert fleet.over(fleet.script("true"))["job"]["state"] == "done"


def test_finished_work_is_kept_by_its_node_until_the_journal_has_it(fleet: Fleet) -> None:
    """Reports acknowledged before the commit would be forgotten by the agent, and the work done once more."""
    fleet.start()
    tries = fleet.path / "tries"
    jobs = [fleet.python(f"open({str(tries)!r}, 'a').write('x'); import time; time.sleep(1.5)") for _ in range(2)]
    for job in jobs:
        fleet.state_of(job, "running")
    with locked(fleet.state):
        until(lambda: all(fleet.job(job)["state"] == "done" for job in jobs), "the ends in the state", log=fleet.log)
        fleet.kill()
    fleet.start()
    for job in jobs:
        assert fleet.over(job)["job"]["attempts"] == 1
    assert tries.read_text() == "xx"
