"""A real controller whose journal lies in a real PostgreSQL: killed, its database killed, taken there and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.model.errors import LinkError, StoreError
from hostler.store import open_journal
from tests import postgres
from tests.integration.conftest import WAIT, Fleet, Hostler, a_fleet, until

pytestmark = pytest.mark.services

if _why := postgres.missing():
    pytest.skip(_why, allow_module_level=True)


@pytest.fixture
def server() -> Iterator[postgres.Server]:
    with postgres.running(durable=True) as made:
        yield made


def test_what_was_confirmed_outlives_controller_and_database(server: postgres.Server, tmp_path: Path) -> None:
    address = server.database()
    with a_fleet(tmp_path) as fleet:
        fleet.settle(store=address)
        fleet.start()
        first = fleet.script("true")
        fleet.state_of(first, "done")
        waiting = fleet.python(WAIT, str(tmp_path / "go"))
        fleet.kill()
        fleet.start()
        (tmp_path / "go").touch()
        fleet.state_of(waiting, "done")
        server.kill()
        server.start()
        last = until(lambda: taken(fleet, "last"), "a job that is taken", log=fleet.log)
        fleet.state_of(last, "done")
        assert [fleet.job(name)["state"] for name in (first, waiting, last)] == ["done"] * 3
    assert not (fleet.state / "journal.sqlite").exists()
    journal = open_journal(address)
    numbers = [entry.seq for entry in journal.read()]
    journal.close()
    assert numbers == list(range(1, len(numbers) + 1))


def taken(fleet: Fleet, key: str) -> str | None:
    """The id of a job that was submitted; none while the controller has no word from its database yet."""
    try:
        return fleet.script("true", key=key)
    except (LinkError, StoreError):
        return None


def test_a_journal_goes_there_and_back_and_its_jobs_with_it(
    server: postgres.Server, tmp_path: Path, hostler: Hostler
) -> None:
    address = server.database()
    with a_fleet(tmp_path) as fleet:
        fleet.start()
        job = fleet.script("true")
        fleet.state_of(job, "done")
        assert hostler(fleet, "journal", "migrate", "--to", address).status != 0, "a controller runs"
        fleet.kill()
        moved = hostler(fleet, "journal", "migrate", "--to", address)
        assert (moved.status, "all the same" in moved.out) == (0, True), moved.err
        assert max(map(len, moved.out.splitlines()[:-1])) <= 80
        assert str(server.port) in hostler(fleet, "journal", "show").out
        fleet.launch()
        assert fleet.ended() == 2, "the fleet file does not name the store"
        fleet.settle(store=address)
        fleet.start()
        fleet.state_of(job, "done")
        fleet.kill()
        assert hostler(fleet, "journal", "migrate", "--to", "sqlite").status == 0
        fleet.settle()
        fleet.start()
        fleet.state_of(job, "done")
