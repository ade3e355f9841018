"""Rows of jobs that have left: found by id and key, in pages, as they were; how PostgreSQL is to keep its tables."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from hostler.model.errors import CorruptState
from hostler.model.past import PastJob
from hostler.model.work import JobState, WorkKind
from hostler.store import Batch, Place, open_journal, past
from tests import postgres
from tests.store.conftest import asked

STATES = [JobState.DONE, JobState.FAILED, JobState.DONE, JobState.CANCELLED, JobState.DONE]


def job(number: int, *, data: str = "{}", work: WorkKind = WorkKind.SCRIPT) -> PastJob:
    key = f"k{number}" if number % 2 else None
    return PastJob(id=f"j{number}", number=number, key=key, work=work, state=STATES[number % 5], data=data)


@pytest.fixture
def filled(place: Place) -> Place:
    journal = open_journal(place)
    jobs = [job(number, work=WorkKind.SWEEP if number in (3, 7) else WorkKind.SCRIPT) for number in range(1, 11)]
    journal.append([Batch(entries=(), jobs=(), left=jobs)])
    journal.close()
    return place


def test_archived_jobs_are_found_by_id_and_key(filled: Place) -> None:
    with asked(filled) as connection:
        found = past.find(connection, ("j2", "k5", "k2", "nobody", "j99"))
        assert {each.id for each in found} == {"j2", "j5"}
        assert past.find(connection, [f"j{number}" for number in range(2000)]) == past.page(connection, None, 0, 99)


def test_texts_of_archived_jobs_are_those_that_were_kept(place: Place) -> None:
    journal = open_journal(place)
    jobs = [job(number, data=f'{{"job":{number},"ü":"€"}}') for number in range(1, 1201)]
    journal.append([Batch(entries=(), jobs=(), left=jobs)])
    journal.close()
    with asked(place) as connection:
        wanted = [f"j{number}" for number in range(601, 1300)]
        assert past.texts(connection, wanted) == {each.id: each.data for each in jobs[600:]}
        assert past.texts(connection, ()) == {}


def test_pages_go_by_state_and_kind(filled: Place) -> None:
    with asked(filled) as connection:

        def numbers(states: set[JobState] | None, after: int, limit: int, work: WorkKind | None = None) -> list[int]:
            return [each.number for each in past.page(connection, states, after, limit, work)]

        assert numbers(None, 3, 4) == [4, 5, 6, 7]
        assert numbers({JobState.FAILED, JobState.CANCELLED}, 0, 9) == [1, 3, 6, 8]
        assert numbers({JobState.DONE}, 4, 2) == [5, 7]
        assert numbers(None, 0, 9, WorkKind.SWEEP) == [3, 7]
        assert numbers({JobState.DONE}, 0, 9, WorkKind.SWEEP) == [7]
        assert past.counts(connection)["script failed"] == 2


def test_archived_job_that_is_archived_again_has_one_row(filled: Place) -> None:
    journal = open_journal(filled)
    journal.append([Batch(entries=(), jobs=(), left=[job(2, data='{"again": true}')])])
    journal.close()
    with asked(filled) as connection:
        (found,) = past.find(connection, ("j2",))
        assert found.data == '{"again": true}'
        assert sum(past.counts(connection).values()) == 10


@pytest.mark.parametrize("said", ["", "{}", "größer ☃ \0", "x" * 100_000])
def test_what_is_packed_comes_back(said: str) -> None:
    assert past.unpacked(past.packed(said)) == said


@pytest.mark.parametrize("damaged", ["?", "AAAA", "zZVLDoMg"])
def test_damage_is_told(damaged: str) -> None:
    with pytest.raises(CorruptState, match="is damaged"):
        past.unpacked(damaged)


def test_postgresql_knows_how_tables_are_written(server: postgres.Server) -> None:
    place = server.database()
    open_journal(place).close()
    with asked(place) as connection:
        query = text("select relname, reloptions from pg_class where relname in ('leader', 'jobs', 'past')")
        options = {name: dict(each.split("=") for each in told) for name, told in connection.execute(query)}
    assert int(options["leader"]["fillfactor"]) < int(options["jobs"]["fillfactor"]) < 100
    assert "autovacuum_vacuum_insert_threshold" in options["past"]
