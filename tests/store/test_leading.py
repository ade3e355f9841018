"""The leader's row: taken over only as it was seen, renewed, given up; then it is another's. On both databases."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
from sqlalchemy import text

from hostler.model.errors import Conflict, SchemaMismatch, StoreBusy, StoreFenced, StoreForked, StoreLost
from hostler.store import Claim, Journal, Leader, leading, migrating, open_journal, postgres as connecting
from hostler.store.dialect import Place, engine_of
from tests import postgres
from tests.patience import PATIENCE_S
from tests.store.conftest import asked
from tests.store.test_journal import batch, trouble

A, B = Claim("v", "a", "host-a:1"), Claim("v", "b", "host-b:2")


@pytest.fixture
def two(place: Place) -> Iterator[tuple[Journal, Journal]]:
    first, second = open_journal(place), open_journal(place)
    yield first, second
    first.close()
    second.close()


def test_nobody_leads_a_new_journal(two: tuple[Journal, Journal]) -> None:
    assert two[0].leader() == Leader()
    assert two[0].begin_epoch(1.0, A, seen=Leader()) == 1
    assert two[1].leader() == Leader(1, 0, "a", "host-a:1")


def test_of_two_who_saw_the_same_one_takes_over(two: tuple[Journal, Journal]) -> None:
    first, second = two
    seen = first.leader()
    assert first.begin_epoch(1.0, A, seen=seen) == 1
    with pytest.raises(StoreBusy, match="another controller leads"):
        second.begin_epoch(1.0, B, seen=seen)
    assert second.leader().controller == "a"


def test_who_has_shown_since_that_it_lives_is_not_taken_over_from(two: tuple[Journal, Journal]) -> None:
    first, second = two
    first.begin_epoch(1.0, A)
    seen = second.leader()
    first.renew()
    with pytest.raises(StoreBusy):
        second.begin_epoch(2.0, B, seen=seen)
    seen = second.leader()
    first.append([batch(trouble(1))])
    with pytest.raises(StoreBusy):
        second.begin_epoch(2.0, B, seen=seen)
    assert second.begin_epoch(2.0, B, seen=second.leader()) == 2
    with pytest.raises(StoreFenced, match="controller 1 leads no more: 2 has taken over"):
        first.renew()


def test_an_epoch_that_was_lost_and_given_again_is_the_last_ones_alone(
    place: Place, two: tuple[Journal, Journal]
) -> None:
    """A fail-over to a replica that lagged loses a take-over, too: two have begun an epoch of the same number then."""
    lost, led = two
    lost.begin_epoch(1.0, A)
    lost.append([batch(trouble(1))])
    with asked(place) as connection:
        for table in ("journal", "controllers", "leader"):
            connection.execute(text(f"delete from {table}"))
    assert led.begin_epoch(2.0, B) == 1
    led.append([batch(trouble(1, "of b"))])
    for call in (lost.renew, lambda: lost.append([batch(trouble(2))]), lambda: lost.note_told({})):
        with pytest.raises(StoreFenced, match="controller 1 leads no more: another has taken over"):
            call()
    led.append([batch(trouble(2, "of b"))])
    assert list(led.read()) == [trouble(1, "of b"), trouble(2, "of b")]


@pytest.mark.parametrize("call", ["append", "renew"])
def test_who_finds_that_entries_are_lost_has_the_next_one_know_it(
    place: Place, two: tuple[Journal, Journal], call: str
) -> None:
    first, second = two
    first.begin_epoch(1.0, A)
    first.append([batch(trouble(1)), batch(trouble(2))])
    with asked(place) as connection:
        connection.execute(text("delete from journal where seq = 2"))
    with pytest.raises(StoreForked, match="ends at entry 1, and this controller has written up to 2"):
        first.renew() if call == "renew" else first.append([batch(trouble(3))])
    assert second.leader().lost
    assert second.begin_epoch(2.0, B, seen=second.leader()) == 2
    assert second.leader().lost, "it is not done by taking over"
    second.left_out()
    assert not second.leader().lost


def test_that_entries_are_lost_is_noted_by_anybody_and_crossed_out_by_the_leader(
    two: tuple[Journal, Journal],
) -> None:
    first, second = two
    first.begin_epoch(1.0, A)
    second.note_lost()
    assert first.leader().lost
    second.begin_epoch(2.0, B)
    first.left_out()
    assert second.leader().lost
    second.left_out()
    assert not first.leader().lost


def test_giving_up_and_answering_are_for_the_one_that_leads(two: tuple[Journal, Journal]) -> None:
    first, second = two
    first.begin_epoch(1.0, A)
    first.answer_at("http://a")
    assert second.leader().shown == "http://a"
    second.begin_epoch(2.0, B)
    first.give_up()
    first.answer_at("http://a")
    assert second.leader() == Leader(2, 0, "b", "host-b:2")
    second.give_up()
    assert first.leader() == Leader(2, 0, "b", "", None)
    assert first.leader().shown == "controller 2"


def test_a_journal_keeps_the_identity_that_it_was_given_first(two: tuple[Journal, Journal]) -> None:
    assert two[0].identity("one") == "one"
    assert two[1].identity("other") == "one"
    two[1].begin_epoch(1.0, B)
    assert two[0].leader().identity == "one"


def test_a_journal_that_is_taken_elsewhere_is_led_by_nobody(two: tuple[Journal, Journal]) -> None:
    first, second = two
    first.begin_epoch(1.0, A)
    second.begin_epoch(2.0, Claim("v", holder="moving", moved_to="elsewhere"))
    for seen in (None, first.leader()):
        with pytest.raises(Conflict, match="taken to elsewhere"):
            first.begin_epoch(3.0, A, seen=seen)
    assert second.begin_epoch(3.0, Claim("v", holder="moving", moved_to="elsewhere")) == 3, "it may be tried again"
    second.stay()
    assert first.begin_epoch(4.0, A, seen=first.leader()) == 4
    second.arrive("its name")
    assert first.leader().identity == "its name"


def test_many_who_want_to_lead_get_an_epoch_each(place: Place) -> None:
    """And the journal only ever takes what the newest of them writes."""
    journals = [open_journal(place) for _ in range(4)]
    epochs: list[int] = []

    def lead(journal: Journal, own: int) -> None:
        for _ in range(5):
            epochs.append(journal.begin_epoch(1.0, Claim("v", str(own), "x")))

    threads = [threading.Thread(target=lead, args=(journal, at)) for at, journal in enumerate(journals)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(epochs) == list(range(1, 21))
    written = []
    for journal in journals:
        try:
            journal.append([batch(trouble(1))])
        except StoreFenced:
            continue
        written.append(journal)
    assert len(written) == 1
    for journal in journals:
        journal.close()


def test_whoever_changes_the_tables_takes_the_lead_away(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller of an older version, that still runs, writes nothing into tables that it does not know."""
    old = open_journal(place)
    old.begin_epoch(1.0, A)
    with asked(place) as connection:
        connection.execute(text("update alembic_version set version_num = '0005'"))
    monkeypatch.setattr(migrating, "migrate", Mock())
    open_journal(place).close()
    with pytest.raises(StoreFenced):
        old.append([batch(trouble(1))])
    assert old.leader().holder == ""
    with pytest.raises(SchemaMismatch, match="upgrade this controller"):
        old.begin_epoch(2.0, B)
    old.close()


def test_a_leader_that_is_connected_can_be_seen(server: postgres.Server) -> None:
    place = server.database()
    first, second = open_journal(place), open_journal(place)
    first.begin_epoch(1.0, A)
    assert not second.is_held(1)
    first.hold()
    assert second.is_held(1)
    assert second.is_held(1), "to look takes nothing"
    first.close()
    end = time.monotonic() + PATIENCE_S
    while second.is_held(1):
        assert time.monotonic() < end
    second.close()


def test_hints_that_are_given_at_once_are_one(server: postgres.Server) -> None:
    journal = open_journal(server.database())
    journal.begin_epoch(1.0, A)
    threads = [threading.Thread(target=journal.hold) for _ in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE_S)
    assert journal._engine.pool.checkedout() == 1  # type: ignore[attr-defined]
    assert journal.is_held(1)
    journal.close()


def test_a_leader_that_stands_still_in_the_middle_is_not_waited_for_for_ever(
    server: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the row in an open transaction; PostgreSQL ends that, and what it had written with it."""
    place = server.database()
    second = open_journal(place)
    second.begin_epoch(1.0, A)
    with monkeypatch.context() as impatient:
        impatient.setattr(connecting, "IDLE_MS", 300)
        first = Journal(engine_of(place))  # nothing is asked of PostgreSQL yet
    taken: list[int] = []

    def stand_still() -> None:
        with first._writing("it stands still") as connection:
            leading.hold_row(connection, leading.Fence(1, A.controller))
            # It waits for the row itself, no longer than for any lock.
            taken.append(second.begin_epoch(2.0, B, seen=second.leader()))
            connection.execute(text("select 1"))

    end = time.monotonic() + PATIENCE_S
    while not taken:  # on a busy machine PostgreSQL may end the transaction before it holds the row
        assert time.monotonic() < end
        with pytest.raises(StoreLost):
            stand_still()
    assert taken == [2]
    with asked(place) as connection:
        assert connection.execute(text("select epoch, beat, controller from leader")).one() == (2, 0, "b")
    first.close()
    second.close()
