"""Data that a database refuses: the store says so at once, quotes the database, and has written nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

from hostler.model.errors import StoreError, StoreRefused
from hostler.model.events import Entry, ResultRefused
from hostler.model.past import PastJob
from hostler.model.usage import HourRow
from hostler.model.work import DeviceKind, JobState, WorkKind
from hostler.store import Batch, Claim, Journal, open_journal
from hostler.store.dialect import Place, refuse_nul, translated
from tests.store.test_journal import batch, script, submitted, trouble


@pytest.fixture
def journal(place: Place) -> Iterator[Journal]:
    opened = open_journal(place)
    opened.begin_epoch(1.0, Claim("test"))
    yield opened
    opened.close()


def refused_batches() -> Iterator[tuple[str, Batch]]:
    _, given = submitted(script("a"))
    view = given.jobs[0]
    past = PastJob(id="j1", number=1, key="a", work=WorkKind.SCRIPT, state=JobState.DONE, data="{}")
    yield "name of a job", replace(given, jobs=(replace(view, name="a\0b"),))
    yield "reason of a job", replace(given, jobs=(replace(view, why="\0"),))
    yield "key of a job that has left", replace(given, left=(replace(past, key="a\0"),))
    yield "job of an entry", batch(Entry(seq=1, at=1.0, event=ResultRefused(of="j\0.1", why="late")))
    yield "half of a surrogate pair", replace(given, jobs=(replace(view, name="a\ud800"),))
    yield "number beyond any column", replace(given, jobs=(replace(view, id=f"j{2**70}"),))
    yield "null in a column without it", replace(given, jobs=(replace(view, name=None),))  # type: ignore[arg-type]
    hour = HourRow(
        hour=1, node="n\0", device="d", kind=DeviceKind.CPU, model=None, pool=None, provider=None, price_per_h=None,
        work=None, device_s=1.0, up_s=1.0,
    )  # fmt: skip
    yield "name of a node in hours of usage", replace(given, hours=(hour,))


@pytest.mark.parametrize("given", [pytest.param(given, id=name) for name, given in refused_batches()])
def test_data_that_no_column_takes_are_refused_and_nothing_of_them_is_written(journal: Journal, given: Batch) -> None:
    with pytest.raises(StoreRefused, match=r"the journal cannot be written: .*Another try cannot help"):
        journal.append([given])
    assert journal.newest_seq() == 0
    journal.append([batch(trouble(1))])
    assert [entry.seq for entry in journal.read()] == [1]


@pytest.mark.parametrize("code", ["22P05", "22021", "22003", "23505", "23502", "54000"])
def test_code_of_postgresql_about_data_is_refused_and_quoted(code: str) -> None:
    error = DBAPIError("x", None, psycopg.errors.lookup(code)("unsupported Unicode escape sequence"))
    told = translated(error, "the journal cannot be written")
    assert type(told) is StoreRefused
    assert "unsupported Unicode escape sequence" in str(told)
    assert "disk" not in str(told)


@pytest.mark.parametrize(
    "statement",
    [
        "insert into t values ('x', 'y')",
        "insert into t values (1, null)",
        "insert into t values (1, 'a'), (1, 'b')",
        "insert into t values (1, zeroblob(2000000000))",
    ],
)
def test_error_of_sqlite_about_data_is_refused_and_quoted(statement: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (a integer primary key, b text not null)")
    with pytest.raises(sqlite3.Error) as raised:
        connection.execute(statement)
    told = translated(DBAPIError("x", None, raised.value), "the journal cannot be written")
    assert type(told) is StoreRefused
    assert str(raised.value) in str(told)


@pytest.mark.parametrize("statement", ["insert into nowhere values (1)", "not sql"])
def test_error_of_sqlite_about_anything_else_is_not(statement: str) -> None:
    with pytest.raises(sqlite3.Error) as raised:
        sqlite3.connect(":memory:").execute(statement)
    assert type(translated(DBAPIError("x", None, raised.value), "x")) is StoreError


@pytest.mark.parametrize("text", [r'[{"a": "\\u0000"}]', r'[{"a": "\\\\u0000"}]', '[{"a": "u0000"}]'])
def test_escape_of_nul_inside_a_text_is_no_nul(text: str) -> None:
    refuse_nul(text)


@pytest.mark.parametrize("text", [r'[{"a": "\u0000"}]', r'[{"a": "\\\u0000"}]', r'[{"\u0000": 1}]'])
def test_nul_in_rows_is_found(text: str) -> None:
    with pytest.raises(ValueError, match="NUL"):
        refuse_nul(text)
