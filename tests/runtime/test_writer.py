"""Group commit: in order, all of it, and a store that cannot be written loses nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import chain
from unittest.mock import Mock

import pytest

from hostler.model.errors import StoreError, StoreFenced, StoreFull, StoreLost, StoreRefused
from hostler.model.events import Entry, TroubleRecorded
from hostler.policy.leadership import Tenure
from hostler.runtime import writer as writing
from hostler.runtime.clock import monotonic
from hostler.runtime.controller import WRITER_PATIENCE_S
from hostler.runtime.writer import Writer
from hostler.store import Batch
from tests.patience import PATIENCE_S


def unrenewed() -> Tenure:
    """A tenure that is over, and that one renewal makes good for longer than any test takes."""
    return Tenure(-1e9, lease_s=1e6)


class FakeJournal:
    """Keeps what is appended; refuses while `broken`; `gate` holds it up."""

    def __init__(self) -> None:
        self.transactions: list[list[int]] = []
        self.broken = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def append(self, batches: Sequence[Batch]) -> None:
        assert self.gate.wait(PATIENCE_S)
        if self.broken.is_set():
            raise StoreFull("the disk is full")
        self.transactions.append([entry.seq for batch in batches for entry in batch.entries])


def writer_on(journal: FakeJournal, on_trouble: Callable[[StoreError | None], None] = lambda error: None) -> Writer:
    return Writer(journal, on_trouble, lambda error: None)  # type: ignore[arg-type]


def batch(seq: int) -> Batch:
    return Batch(entries=(Entry(seq=seq, at=1.0, event=TroubleRecorded(where="", what="")),), jobs=())


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "RETRY_S", (0.001,))


def test_batches_that_come_together_share_a_transaction_and_keep_their_order() -> None:
    journal, done = FakeJournal(), []
    journal.gate.clear()
    writer = writer_on(journal)
    for seq in range(1, 101):
        writer.write(batch(seq), lambda seq=seq: done.append(seq))  # type: ignore[misc]
    journal.gate.set()
    assert writer.close(PATIENCE_S)
    assert done == list(range(1, 101))
    assert list(chain.from_iterable(journal.transactions)) == done
    assert len(journal.transactions) <= 3


def test_nothing_to_write_is_durable_in_its_turn_without_a_transaction() -> None:
    journal, done = FakeJournal(), []
    writer = writer_on(journal)
    writer.write(batch(1), lambda: done.append("first"))
    writer.write(Batch(entries=(), jobs=()), lambda: done.append("second"))
    assert writer.close(PATIENCE_S)
    assert done == ["first", "second"]
    assert journal.transactions == [[1]]


def test_a_full_disk_is_told_and_waited_out() -> None:
    journal, done, told = FakeJournal(), [], []
    heard = threading.Event()

    def on_trouble(error: StoreError | None) -> None:
        told.append(error)
        heard.set()

    journal.broken.set()
    writer = writer_on(journal, on_trouble)
    writer.write(batch(1), lambda: done.append(1))
    assert heard.wait(PATIENCE_S)
    assert done == []
    journal.broken.clear()
    assert writer.close(PATIENCE_S)
    assert done == [1]
    assert isinstance(told[0], StoreFull)
    assert told[-1] is None


def test_store_that_stays_broken_is_tried_after_the_longest_rest_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "RETRY_S", (0.001, 0.002))
    journal, done, told = FakeJournal(), [], []

    def on_trouble(error: StoreError | None) -> None:
        told.append(error)
        if len(told) == 6:
            journal.broken.clear()

    journal.broken.set()
    writer = writer_on(journal, on_trouble)
    writer.write(batch(1), lambda: done.append(1))
    assert writer.close(PATIENCE_S)
    assert done == [1]
    assert [type(each) for each in told] == [StoreFull] * 6 + [type(None)]


def test_closing_gives_up_a_store_that_stays_broken_and_says_so() -> None:
    journal, done = FakeJournal(), []
    journal.broken.set()
    writer = writer_on(journal)
    writer.write(batch(1), lambda: done.append(1))
    assert not writer.close(0.05)
    assert done == []


def test_closing_waits_six_seconds_at_most_for_a_database_that_does_not_return() -> None:
    """Five for what can still be written, and one more for the call that is under way."""
    journal = FakeJournal()
    waits: list[float] = []
    journal.gate.clear()
    writer = writer_on(journal)
    writer.write(batch(1), lambda: None)
    thread = writer._thread
    writer._thread = Mock(join=waits.append, is_alive=lambda: True)
    assert not writer.close(WRITER_PATIENCE_S)
    assert waits == [5.0, 1.0]
    journal.gate.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


class Led(FakeJournal):
    """One that can be renewed, as long as nobody else leads."""

    def __init__(self) -> None:
        super().__init__()
        self.renewals = 0
        self.overtaken = False
        self.hinted = threading.Event()

    def hold(self) -> None:
        self.hinted.set()

    def renew(self) -> None:
        if self.broken.is_set():
            raise StoreLost("it does not answer")
        if self.overtaken:
            raise StoreFenced("another one leads")
        self.renewals += 1


def until(condition: Callable[[], bool]) -> None:
    end = monotonic() + PATIENCE_S
    while not condition():
        assert monotonic() < end
        time.sleep(0.001)


def leading_on(
    journal: Led, tenure: Tenure, told: list[StoreError | None], dead: list[Exception], heard: threading.Event
) -> Writer:
    def on_trouble(error: StoreError | None) -> None:
        told.append(error)
        heard.set()

    def on_death(error: Exception) -> None:
        dead.append(error)
        heard.set()

    return Writer(journal, on_trouble, on_death, tenure)  # type: ignore[arg-type]


def test_a_leader_with_nothing_to_write_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "RENEW_S", 0.001)
    told: list[StoreError | None] = []
    dead: list[Exception] = []
    journal, tenure, heard = Led(), unrenewed(), threading.Event()
    writer = leading_on(journal, tenure, told, dead, heard)
    until(lambda: tenure.holds(monotonic()))
    journal.broken.set()
    assert heard.wait(PATIENCE_S)
    journal.broken.clear()
    until(lambda: told[-1] is None)
    assert isinstance(told[0], StoreLost)
    assert journal.hinted.wait(PATIENCE_S), "a database that was started anew knows of no hint"
    heard.clear()
    journal.overtaken = True
    assert heard.wait(PATIENCE_S)
    assert not writer.close(PATIENCE_S)
    assert isinstance(dead[0], StoreFenced)


def test_what_comes_often_and_has_nothing_to_write_keeps_nobody_from_renewing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "RENEW_S", 1e6)  # no pause is long enough for a renewal of its own
    journal, tenure = Led(), unrenewed()
    writer = leading_on(journal, tenure, [], [], threading.Event())
    writer.write(Batch(entries=(), jobs=()), lambda: None)
    assert writer.close(PATIENCE_S)
    assert (journal.renewals, tenure.holds(monotonic())) == (1, True)


def test_what_has_nothing_to_write_does_not_say_that_all_is_well() -> None:
    journal, told = Led(), list[StoreError | None]()
    journal.broken.set()
    writer = leading_on(journal, unrenewed(), told, [], threading.Event())
    for _ in range(3):
        writer.write(Batch(entries=(), jobs=()), lambda: None)
    assert writer.close(PATIENCE_S)
    assert [type(each) for each in told] == [StoreLost] * len(told)
    assert told


def test_what_is_written_renews_as_well() -> None:
    done = threading.Event()
    tenure = unrenewed()
    writer = leading_on(Led(), tenure, [], [], threading.Event())
    writer.write(batch(1), done.set)
    assert done.wait(PATIENCE_S)
    assert tenure.holds(monotonic())
    assert writer.close(PATIENCE_S)


class Refusing(FakeJournal):
    """Refuses the data of every batch, and counts the tries."""

    def __init__(self) -> None:
        super().__init__()
        self.tries = 0
        self.decided = threading.Event()
        """The writer has ended, or tries again."""

    def append(self, batches: Sequence[Batch]) -> None:
        self.tries += 1
        if self.tries > 1:
            self.decided.set()
        raise StoreRefused("the journal cannot be written: the database refuses the data (no NUL)")


def test_refused_data_end_the_writer_at_once_with_what_the_database_says() -> None:
    journal, done = Refusing(), []
    deaths: list[Exception] = []

    def on_death(error: Exception) -> None:
        deaths.append(error)
        journal.decided.set()

    writer = Writer(journal, lambda error: None, on_death)  # type: ignore[arg-type]
    writer.write(batch(1), lambda: done.append(1))
    assert journal.decided.wait(PATIENCE_S)
    assert (journal.tries, done) == (1, [])
    assert "no NUL" in str(deaths[0])
    assert not writer.close(PATIENCE_S)


def test_closing_leaves_a_write_that_does_not_return_to_its_thread() -> None:
    journal = FakeJournal()
    journal.gate.clear()
    writer = writer_on(journal)
    writer.write(batch(1), lambda: None)
    assert not writer.close(0.05)
    journal.gate.set()


def test_trouble_of_the_writer_is_what_the_store_said_last() -> None:
    journal, told = FakeJournal(), threading.Event()
    journal.broken.set()
    writer = writer_on(journal, lambda error: told.set())
    writer.write(batch(1), lambda: None)
    assert told.wait(PATIENCE_S)
    assert "the disk is full" in str(writer.trouble)
    journal.broken.clear()
    assert writer.close(PATIENCE_S)
    assert writer.trouble is None
