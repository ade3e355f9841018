"""The rows of a long history are those that the running system would have written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.store.conftest import asked

from hostler.core import Core
from hostler.store import open_journal, tables
from hostler.store.past import find

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from history_rows import Made, System, ran_of, snapshot_of

JOBS = 250


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, System]:
    place = tmp_path_factory.mktemp("history")
    made = System(open_journal(place), Core())
    made.begin()
    for number in range(1, JOBS + 1):
        made.run(ran_of(number))
    made.rest()
    return place, made


def test_rows_are_made_as_the_system_writes_them(system: tuple[Path, System]) -> None:
    place, made = system
    with asked(place) as connection:
        (sample,) = find(connection, (f"j{JOBS // 2}",))
        bulk = Made(sample)
        for table, make in ((tables.past, bulk.past), (tables.jobs, bulk.jobs)):
            rows = [dict(row._mapping) for row in connection.execute(table.select().order_by(table.c.number))]
            assert rows == [make(ran_of(number)) for number in range(1, JOBS + 1)]
    made.core.validate()


def test_the_state_at_its_end_is_a_whole_one(system: tuple[Path, System]) -> None:
    place, made = system
    with asked(place) as connection:
        (sample,) = find(connection, ("j7",))
    core = Core()
    core.replay(made.journal.read())
    snapshot_of(core, Made(sample), 5000, 100, core.state.seq)
    again = Core(core.state)
    again.validate()
    assert sum(again.index.counts.values()) == 5000
    assert len(again.state.jobs) == 100
