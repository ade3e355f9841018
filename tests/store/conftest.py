"""Every test of the store runs on both databases: on SQLite, and on a real PostgreSQL where one can be started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import Connection

from hostler.store.dialect import POSTGRESQL, Place, engine_of, patiently
from tests import postgres


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


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    """A PostgreSQL for all tests of this process."""
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.running() as made:
        yield made


@pytest.fixture(params=["sqlite", POSTGRESQL])
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
    """An empty place for a store."""
    return new_place()
