"""What is said to PostgreSQL and what its errors come to, checked without a server."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from sqlalchemy import Connection, Dialect
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, DisconnectionError

from hostler.model.errors import StoreBusy, StoreError, StoreFenced, StoreFull, StoreLost, StoreRefused
from hostler.store import appending, leading, open_journal, postgres, tables
from hostler.store.dialect import ROWS, insertion, patiently, table_bytes, translated
from hostler.store.postgres import shown

psycopg: Any = pytest.importorskip("psycopg")
FENCE = leading.Fence(7, "me")


class Leads(NamedTuple):
    """The row of who leads, as a refusal looks it up."""

    epoch: int
    controller: str


@pytest.fixture
def dialect() -> Dialect:
    return postgresql.dialect(paramstyle="format")  # type: ignore[no-untyped-call, no-any-return]


def test_insertion_takes_all_rows_from_one_parameter(dialect: Dialect) -> None:
    said = insertion(tables.requests, dialect, replacing=False)
    assert said == "insert into requests (seq) select seq from json_to_recordset(%s::json) as given (seq BIGINT)"


def test_insertion_replaces_rows_of_the_same_key(dialect: Dialect) -> None:
    said = insertion(tables.jobs, dialect, replacing=True)
    names = [column.name for column in tables.jobs.columns]
    (key,) = [column.name for column in tables.jobs.primary_key]
    head, _, changed = said.partition(f" on conflict ({key}) do update set ")
    assert head.count("%s") == 1
    assert changed.split(", ") == [f"{name} = excluded.{name}" for name in names if name != key]


@pytest.mark.parametrize(
    ("fence", "where", "given"),
    [
        (None, "", ()),
        (FENCE, "epoch = %s and controller = %s", (7, "me", leading.LEADER)),
        (FENCE._replace(after=3), "max(seq) from journal", (7, "me", leading.LEADER, 3)),
    ],
)
def test_append_writes_only_beside_the_leaders_row(
    dialect: Dialect, fence: leading.Fence | None, where: str, given: tuple[Any, ...]
) -> None:
    condition, wanted = leading.in_sql(fence)
    assert where in condition
    assert tuple(wanted) == given
    names = (tables.journal.name, tables.jobs.name)
    said = appending._statement(condition, names, dialect)
    assert said.count("%s") == len(given) + len(names)
    assert said.startswith(f"with held as ({condition}), of_journal as (insert into journal ")
    assert said.count("held, json_to_recordset") == len(names), "no row without the one that shows who leads"


class Recorded:
    """A connection without a server: it notes each statement, and gives the prepared answers in turn."""

    def __init__(self, dialect: Dialect, *answers: Any) -> None:
        self.dialect = dialect
        self.statements: list[tuple[str, Any]] = []
        self._answers = iter(answers)

    def exec_driver_sql(self, statement: str, parameters: Any = ()) -> Any:
        self.statements.append((statement, parameters))
        return next(self._answers, None)

    def execute(self, statement: Any, parameters: Any = None) -> Any:
        return self.exec_driver_sql(str(statement.compile(dialect=self.dialect)), parameters)


def request_rows(number: int) -> dict[str, list[dict[str, Any]]]:
    return {tables.requests.name: [{"seq": seq} for seq in range(number)]}


def test_append_is_one_statement_of_the_fence_and_all_rows(dialect: Dialect) -> None:
    connection = Recorded(dialect, SimpleNamespace(scalar_one=lambda: 1))
    appending.write(cast(Connection, connection), request_rows(ROWS), FENCE)
    ((said, given),) = connection.statements
    assert said.startswith("with held as (update leader ")
    assert given[:-1] == (7, "me", leading.LEADER)
    assert json.loads(given[-1]) == request_rows(ROWS)[tables.requests.name]


def test_append_without_the_leaders_row_is_refused_and_names_who_leads(dialect: Dialect) -> None:
    another = SimpleNamespace(one_or_none=lambda: Leads(8, "another"))
    connection = Recorded(dialect, SimpleNamespace(scalar_one=lambda: 0), another)
    with pytest.raises(StoreFenced, match="8"):
        appending.write(cast(Connection, connection), request_rows(1), FENCE)


def test_append_of_many_rows_holds_the_leaders_row_first_and_inserts_by_thousands(dialect: Dialect) -> None:
    connection = Recorded(dialect, SimpleNamespace(rowcount=1))
    appending.write(cast(Connection, connection), request_rows(2 * ROWS + 5), FENCE)
    (hold, held), *inserts = connection.statements
    assert hold.startswith("UPDATE leader SET")
    assert held == {"own_epoch": 7, "own_controller": "me", "own_after": None}
    sizes = [len(json.loads(rows)) for said, (rows,) in inserts if said.startswith("insert into requests ")]
    assert sizes == [ROWS, ROWS, 5]


def test_append_of_many_rows_under_another_leader_inserts_none(dialect: Dialect) -> None:
    another = SimpleNamespace(one_or_none=lambda: Leads(8, "another"))
    connection = Recorded(dialect, SimpleNamespace(rowcount=0), another)
    with pytest.raises(StoreFenced):
        appending.write(cast(Connection, connection), request_rows(2 * ROWS), FENCE)
    assert not [said for said, _ in connection.statements if said.startswith("insert")]


def test_long_transaction_may_stand_still_for_minutes(dialect: Dialect) -> None:
    connection = Recorded(dialect)
    patiently(cast(Connection, connection))
    assert connection.statements == [("set local idle_in_transaction_session_timeout = 600000", ())]


def test_lead_is_shown_by_a_lock_of_the_session_and_asked_for_by_trying_it(dialect: Dialect) -> None:
    connection = Recorded(dialect, None, SimpleNamespace(scalar_one=lambda: False))
    leading.hold(cast(Connection, connection), 7)
    assert leading.is_held(cast(Connection, connection), 7), "the lock could not be had: another session has it"
    (holds, held), (asks, asked) = connection.statements
    assert "pg_advisory_lock(" in holds
    assert "pg_try_advisory_xact_lock(" in asks
    assert held == asked == {"number": leading.LEADING, "epoch": 7}


def test_size_of_tables_counts_their_indexes(dialect: Dialect) -> None:
    connection = Recorded(dialect, SimpleNamespace(scalar_one=lambda: 8192), SimpleNamespace(scalar_one=lambda: 100))
    assert table_bytes(cast(Connection, connection), tables.journal, tables.jobs) == 8292
    assert [given for said, given in connection.statements if "pg_total_relation_size" in said] == [
        {"name": "journal"},
        {"name": "jobs"},
    ]


class Pinged(postgresql.dialect):  # type: ignore[misc]
    """A dialect that counts its pings; with `is_lost`, its connections are lost."""

    loaded_dbapi = psycopg
    pings = 0
    is_lost = False

    def do_ping(self, dbapi_connection: Any) -> bool:
        self.pings += 1
        if self.is_lost:
            raise psycopg.OperationalError("server closed the connection")
        return True


@pytest.mark.parametrize(("rested_s", "pings"), [(0.0, 0), (postgres.RESTED_S - 0.5, 0), (postgres.RESTED_S, 1)])
def test_connection_that_has_rested_is_tried_before_its_use(
    monkeypatch: pytest.MonkeyPatch, rested_s: float, pings: int
) -> None:
    now = 1000.0
    monkeypatch.setattr(postgres, "monotonic", lambda: now)
    record, dialect = SimpleNamespace(info={}), Pinged()
    postgres._note_use(None, cast(Any, record))
    now += rested_s
    postgres._try_if_it_rested(dialect, None, cast(Any, record), None)
    assert dialect.pings == pings


def test_connection_that_is_lost_while_it_rests_is_replaced() -> None:
    dialect = Pinged()
    dialect.is_lost = True
    with pytest.raises(DisconnectionError):
        postgres._try_if_it_rested(dialect, None, cast(Any, SimpleNamespace(info={postgres.USED: -1000.0})), None)


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        ("53100", StoreFull, "the disk is full"),
        ("25006", StoreFull, "may be a replica"),
        ("53200", StoreBusy, "another program holds it"),
        ("40001", StoreBusy, "another program holds it"),
        ("55P03", StoreBusy, "another program holds it"),
        ("57014", StoreBusy, "another program holds it"),
        ("53300", StoreLost, "is tried again"),
        ("25P03", StoreLost, "is tried again"),
        ("57P01", StoreLost, "is tried again"),
        ("08006", StoreLost, "is tried again"),
    ],
)
def test_error_code_tells_whether_to_try_again(code: str, kind: type[StoreError], says: str) -> None:
    told = translated(DBAPIError("x", None, psycopg.errors.lookup(code)("what it says")), "it cannot be written")
    assert isinstance(told, kind)
    assert str(told).startswith("it cannot be written: ")
    assert says in str(told)


def test_error_without_a_code_is_a_lost_connection_only_where_the_driver_had_no_answer() -> None:
    lost = translated(DBAPIError("x", None, psycopg.OperationalError("refused")), "x")
    own = translated(DBAPIError("x", None, psycopg.DataError("a NUL")), "x")
    assert (type(lost), type(own)) == (StoreLost, StoreRefused)


def test_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install 'hostler\[postgres\]'"):
        open_journal("postgresql+psycopg://u@127.0.0.1/n")


def test_address_that_is_none_is_not_shown() -> None:
    assert shown("secret nonsense") == "the store"
