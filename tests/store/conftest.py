"""Every test of the store runs on both databases: on SQLite, and on a real PostgreSQL where one can be started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import Connection

from hostler.store import postgres as connecting
from hostler.store.dialect import POSTGRESQL, Place, engine_of, patiently
from tests import postgres
from tests.journals import new_journal
from tests.patience import PATIENCE_S


@contextmanager
def asked(place: Place) -> Iterator[Connection]:
    """A transaction of the tests' own in a store."""
    engine = engine_of(place)
    try:
        with engine.begin() as connection:
            patiently(connection)  # a test that computes meanwhile is no leader that stands still
            yield connection
    finally:
        engine.dispose()


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL ends no transaction of a test that gets no processor for seconds, and no wait for one."""
    for bound in ("IDLE_MS", "LOCK_MS"):
        monkeypatch.setattr(connecting, bound, int(1000 * PATIENCE_S))


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    """A PostgreSQL for all tests of this process."""
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.running() as made:
        yield made


@pytest.fixture(params=["sqlite", pytest.param(POSTGRESQL, marks=pytest.mark.services)])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Place]:
    """Makes places for stores, each empty."""
    if request.param == POSTGRESQL:
        made: postgres.Server = request.getfixturevalue("server")
        return made.database
    numbers = count(1)

    def folder() -> Path:
        path = tmp_path / f"state{next(numbers)}"
        path.mkdir()
        return path

    return folder


@pytest.fixture
def place(new_place: Callable[[], Place]) -> Place:
    """A place for a store without anything in it yet; in SQLite its tables are there."""
    made = new_place()
    return new_journal(made) if isinstance(made, Path) else made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a PostgreSQL belongs to `make test-services`."""
    postgres.mark_services(items, Path(__file__).parent, {"server", "own"})
