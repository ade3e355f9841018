"""What is PostgreSQL's own: addresses, servers that end and come back, rights, time-outs."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from sqlalchemy import create_engine, event, text

from hostler.model.errors import NotFound, StoreBusy, StoreError, StoreFull, StoreLost
from hostler.model.events import Entry, TroubleRecorded
from hostler.store import Batch, Claim, open_journal, postgres as connecting, read_journal
from hostler.store.dialect import engine_of, named
from hostler.store.postgres import parsed, shown
from tests import postgres
from tests.patience import PATIENCE_S
from tests.store.conftest import asked

T = TypeVar("T")

pytest.importorskip("psycopg")


def batch(seq: int) -> Batch:
    return Batch(entries=[Entry(seq=seq, at=float(seq), event=TroubleRecorded(where="test", what="x"))], jobs=())


@pytest.fixture
def own() -> Iterator[postgres.Server]:
    """A server that a test may end."""
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.running(durable=True) as made:
        yield made


def again(do: Callable[[], T]) -> T:
    """Until it works, as the controller's writer tries."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return do()
        except (StoreLost, StoreBusy):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def test_an_append_that_the_server_ends_after_its_connection_is_gone_is_its_own(
    own: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the leader's row when the connection breaks, and is written after it was looked for in vain."""
    journal = open_journal(own.database())
    journal.begin_epoch(1.0, Claim("v"))
    journal.append([batch(1)])
    engine = journal._engine
    taken: list[Any] = []
    event.listen(engine, "checkout", lambda connection, *_: taken.append(connection))
    look = journal._are_there
    with engine.connect() as other, other.begin() as held, ThreadPoolExecutor(1) as threads:
        other.execute(text("select * from leader for update"))
        first = threads.submit(journal.append, [batch(2)])
        until(lambda: _waiting(own, engine.url.database) == 1)
        _break(taken[-1])
        with pytest.raises(StoreLost):
            first.result()

        def looked(entries: Any) -> bool:
            found = look(entries)
            if held.is_active:
                held.commit()
                until(lambda: journal.newest_seq() == 2)
            return found

        monkeypatch.setattr(journal, "_are_there", looked)
        with pytest.raises(StoreBusy, match="an append whose answer was lost came late"):
            journal.append([batch(2)])
    again(lambda: journal.append([batch(2)]))
    journal.append([batch(3)])
    assert [entry.seq for entry in journal.read()] == [1, 2, 3]
    journal.close()


def until(question: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not question():
        assert time.monotonic() < end
        time.sleep(0.02)


def _waiting(own: postgres.Server, database: str | None) -> int:
    """Statements that wait for a lock."""
    asked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = :name"
    engine = create_engine(own.address())
    try:
        with engine.connect() as connection:
            return int(connection.execute(text(asked), {"name": database}).scalar_one())
    finally:
        engine.dispose()


def _break(connection: Any) -> None:
    """As if the network were gone."""
    with socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("address", ["postgres://u@h/n", "postgresql://u@h/n", "postgresql+psycopg://u@h/n"])
def test_the_usual_spellings_of_an_address_are_one(address: str) -> None:
    assert parsed(address).render_as_string() == "postgresql+psycopg://u@h/n"


@pytest.mark.parametrize(
    "address", ["mysql://u@h/n", "postgresql://u@h", "nonsense", "sqlite:///x", "postgresql://h:x/n"]
)
def test_what_is_no_address_says_how_to_write_one(address: str) -> None:
    with pytest.raises(StoreError, match=r"postgresql\+psycopg://USER@HOST/NAME"):
        parsed(address)


def test_passwords_are_shown_to_nobody() -> None:
    address = "postgresql+psycopg://u:secret@h/n"
    assert "secret" not in shown(address)
    assert "secret" not in named(address)


def test_nobody_answers_is_said_and_told_apart_from_everything_else() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        address = f"postgresql+psycopg://hostler@127.0.0.1:{deaf.getsockname()[1]}/none"
        with pytest.raises(StoreLost, match=r"cannot be opened: the database does not answer.*tried again"):
            open_journal(address)


def test_what_the_driver_does_not_take_is_no_lost_connection(server: postgres.Server) -> None:
    """A text with a NUL never gets to the server, however often it is tried."""
    journal = open_journal(server.database())
    with pytest.raises(StoreError) as told, journal.catalogue() as connection:
        connection.execute(text("select cast(:name as text)"), {"name": "a\0b"})
    assert not isinstance(told.value, StoreLost | StoreBusy)
    assert "does not answer" not in str(told.value)
    assert journal.newest_seq() == 0
    journal.close()


def test_an_empty_database_has_no_journal_to_read(server: postgres.Server) -> None:
    with pytest.raises(NotFound, match="a controller makes one when it starts"):
        read_journal(server.database())


def test_a_database_that_is_not_there_is_named(server: postgres.Server) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        open_journal(server.address("nowhere"))


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
def test_a_server_that_ends_and_comes_back_has_all_that_was_confirmed(own: postgres.Server, how: str) -> None:
    journal = open_journal(own.database())
    journal.begin_epoch(1.0, Claim("v"))
    journal.append([batch(1)])
    own.kill() if how == "kill" else own.stop(how)
    with pytest.raises(StoreLost):
        journal.append([batch(2)])
    own.start()
    again(lambda: journal.append([batch(2)]))
    assert [entry.seq for entry in again(lambda: list(journal.read()))] == [1, 2]
    journal.close()


def test_connections_that_the_server_closes_are_made_anew(server: postgres.Server) -> None:
    journal = open_journal(server.database())
    journal.append([batch(1)])
    server.run("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hostler'")
    again(lambda: journal.append([batch(2)]))
    assert journal.newest_seq() == 2
    journal.close()


def test_a_connection_that_has_rested_is_tried_before_it_is_used(
    server: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "RESTED_S", 0.0)
    journal = open_journal(server.database())
    journal.append([batch(1)])
    server.run("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hostler'")
    journal.append([batch(2)])
    assert journal.newest_seq() == 2
    journal.close()


def test_a_replica_is_told_from_the_primary(server: postgres.Server) -> None:
    place = server.database()
    journal = open_journal(place)
    server.run(f"alter database {place.rpartition('/')[2]} set default_transaction_read_only = on")
    journal.close()
    journal = open_journal(place + "?target_session_attrs=any")
    with pytest.raises(StoreFull, match="it may be a replica".replace("it", "It")):
        journal.append([batch(1)])
    journal.close()
    with pytest.raises(StoreLost):
        open_journal(place)


def test_somebody_who_holds_a_lock_is_not_waited_for_for_ever(
    server: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "LOCK_MS", 200)
    place = server.database()
    journal = open_journal(place)
    with asked(place) as connection:
        connection.execute(text("lock table journal in exclusive mode"))
        with pytest.raises(StoreBusy, match="lock timeout"):
            journal.append([batch(1)])
    journal.append([batch(1)])
    journal.close()


def test_commits_wait_for_the_disk_whatever_the_default(server: postgres.Server) -> None:
    place = server.database()
    server.run(f"alter database {place.rpartition('/')[2]} set synchronous_commit = off")
    with asked(place) as connection:
        assert connection.execute(text("show synchronous_commit")).scalar() == "on"
    engine = engine_of(place + "?options=-c%20work_mem%3D9MB")
    with engine.connect() as connection:
        assert connection.execute(text("show work_mem")).scalar() == "9MB"
        assert connection.execute(text("show statement_timeout")).scalar() == "30s"
    engine.dispose()


def test_a_role_that_may_only_work_with_the_tables_is_enough(server: postgres.Server) -> None:
    """docs/guides/postgres.md: one role makes the tables, another one works with them."""
    place = server.database()
    name = place.rpartition("/")[2]
    open_journal(place).close()
    engine = engine_of(place)
    with engine.begin() as connection:
        connection.execute(text("create role worker login"))
        connection.execute(text("grant select, insert, update, delete on all tables in schema public to worker"))
    engine.dispose()
    journal = open_journal(server.address(name, "worker"))
    journal.begin_epoch(1.0, Claim("v"))
    journal.append([batch(1)])
    assert journal.newest_seq() == 1
    journal.close()
