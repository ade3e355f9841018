"""Checksums of rows on both databases: damage is found, named, and mended in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

import pytest
from sqlalchemy import text

from hostler.core import Core
from hostler.core.snapshot import dump_state
from hostler.model.errors import CorruptState, DamagedEntry, StoreFenced
from hostler.model.events import Entry, TroubleRecorded
from hostler.model.rules import CompactRules
from hostler.runtime.salvage import record_of
from hostler.store import Claim, Journal, Snapshot, open_journal
from hostler.store.checking import checksum, faults, survey
from hostler.store.dialect import Place
from tests.store.conftest import asked
from tests.store.test_journal import batch, trouble

T = TypeVar("T")
ENTRIES = 6


@pytest.fixture
def journal(place: Place) -> Iterator[Journal]:
    opened = open_journal(place)
    opened.begin_epoch(1.0, Claim("test"))
    opened.append([batch(*(trouble(seq, f"what {seq}") for seq in range(1, ENTRIES + 1)))])
    yield opened
    opened.close()


def first(found: Iterator[T]) -> list[T]:
    """What is found, as far as there can be so many: a search that does not end fails."""
    return list(islice(found, 4 * ENTRIES))


def damage(place: Place, statement: str) -> None:
    with asked(place) as connection:
        assert connection.execute(text(statement)).rowcount > 0


CHANGES = {
    "a digit": "update journal set data = replace(data, 'what 4', 'what 9') where seq = 4",
    "the time": "update journal set at = at + 0.001 where seq = 4",
    "the job": "update journal set job = 'j1' where seq = 4",
    "the epoch": "update journal set epoch = null where seq = 4",
    "the checksum": "update journal set checksum = checksum + 1 where seq = 4",
    "no event": "update journal set data = '{}' where seq = 4",
}


@pytest.mark.parametrize("what", CHANGES)
def test_changed_row_is_found_by_every_reader(journal: Journal, place: Place, what: str) -> None:
    damage(place, CHANGES[what])
    with pytest.raises(DamagedEntry, match="entry 4 of the journal is damaged"):
        list(journal.read())
    assert [entry.seq for entry in journal.read(limit=3)] == [1, 2, 3]
    assert [fault.seq for fault in first(journal.faults())] == [4]
    assert [fault.seq for fault in first(journal.faults(load=False))] == [4]
    fault, _ = journal.check(0)
    assert fault is not None
    assert fault.seq == 4
    assert journal.check(4) == (None, ENTRIES)
    assert journal.check(ENTRIES) == (None, None)


def test_missing_rows_are_faults_of_a_survey(journal: Journal, place: Place) -> None:
    damage(place, "delete from journal where seq in (2, 3)")
    found = [(fault.seq, fault.what, fault.data) for fault in first(journal.faults())]
    assert found == [(seq, "its row is missing", None) for seq in (2, 3)]


def packed(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the first four entries into a segment."""
    monkeypatch.setattr("hostler.store.compacting.ENTRIES", 4)
    journal.save_snapshot(Snapshot(seq=ENTRIES, at=6.0, data=b"x"))
    assert journal.compact(CompactRules(after_s=0, keep_entries=0), 1e9) is not None


def surveyed(journal: Journal, after: int) -> list[int | str]:
    return [each.seq if isinstance(each, Entry) else f"{each.seq} {each.what}" for each in first(journal.survey(after))]


@pytest.mark.parametrize("in_segment", [False, True])
@pytest.mark.parametrize("after", range(ENTRIES + 1))
def test_survey_gives_every_entry_beyond_a_number(
    journal: Journal, after: int, in_segment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_segment:
        packed(journal, monkeypatch)
    expected = [trouble(seq, f"what {seq}") for seq in range(after + 1, ENTRIES + 1)]
    assert first(journal.survey(after)) == expected


def test_survey_without_a_number_begins_with_the_first_entry(journal: Journal) -> None:
    with journal.catalogue() as connection:
        assert [each.seq for each in first(survey(connection))] == list(range(1, ENTRIES + 1))
        assert first(faults(connection)) == []


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (0, [1, "2 its row is missing", "3 its row is missing", "4 its checksum does not match its content", 5, 6]),
        (1, ["2 its row is missing", "3 its row is missing", "4 its checksum does not match its content", 5, 6]),
        (3, ["4 its checksum does not match its content", 5, 6]),
        (4, [5, 6]),
    ],
)
def test_survey_names_what_is_wrong_in_the_place_of_each_entry(
    journal: Journal, place: Place, after: int, found: list[int | str]
) -> None:
    damage(place, "delete from journal where seq in (2, 3)")
    damage(place, CHANGES["a digit"])
    assert surveyed(journal, after) == found


def test_faults_behind_a_segment_are_found_and_its_own_entries_are_not_missing(
    journal: Journal, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(journal, monkeypatch)
    assert first(journal.faults()) == []
    damage(place, "delete from journal where seq = 5")
    assert [(each.seq, each.what) for each in first(journal.faults())] == [(5, "its row is missing")]
    assert surveyed(journal, 0) == [1, 2, 3, 4, "5 its row is missing", 6]


def test_rows_without_a_checksum_are_believed_where_they_load(journal: Journal, place: Place) -> None:
    damage(place, "update journal set checksum = null")
    assert [entry.seq for entry in journal.read()] == list(range(1, ENTRIES + 1))
    assert first(journal.faults()) == []


def test_damaged_row_is_not_packed_into_a_segment(
    journal: Journal, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.store.compacting.ENTRIES", 4)
    journal.save_snapshot(Snapshot(seq=ENTRIES, at=6.0, data=b"x"))
    damage(place, CHANGES["a digit"])
    with pytest.raises(CorruptState, match="entry 4 of the journal is damaged"):
        journal.compact(CompactRules(after_s=0, keep_entries=0), 1e9)
    assert journal.sizes().packed.segments == 0


def test_mended_journal_reads_to_its_end_and_keeps_what_stood_there(journal: Journal, place: Place) -> None:
    damage(place, CHANGES["a digit"])
    (fault,) = first(journal.faults())
    base = Snapshot(seq=ENTRIES, at=6.0, data=dump_state(Core().state))
    journal.repair([(fault, record_of(fault, 6.0))], base, ())
    entries = list(journal.read())
    assert [(entry.seq, entry.at) for entry in entries] == [(seq, float(seq if seq != 4 else 3)) for seq in range(1, 7)]
    mended = entries[3].event
    assert isinstance(mended, TroubleRecorded)
    assert "entry 4 was set aside" in mended.what
    assert (journal.base(), [each.seq for each in journal.snapshots()]) == (ENTRIES, [ENTRIES])
    with asked(place) as connection:
        (data,) = connection.execute(text("select data from set_aside where seq = 4")).scalars()
    assert b"what 9" in bytes(data)
    journal.save_snapshot(Snapshot(seq=ENTRIES, at=6.0, data=b"later"))
    assert journal.base() == ENTRIES, "it is kept for ever"


def test_repair_is_fenced_as_every_write(journal: Journal, place: Place) -> None:
    other = open_journal(place)
    other.begin_epoch(2.0, Claim("other"))
    other.close()
    with pytest.raises(StoreFenced):
        journal.repair([], Snapshot(seq=ENTRIES, at=6.0, data=b"x"), ())


def test_checksum_tells_every_column_apart() -> None:
    rows = [(1, 1.0, "j1", 1, b"x"), (2, 1.0, "j1", 1, b"x"), (1, 1.5, "j1", 1, b"x"), (1, 1.0, None, 1, b"x")]
    rows += [(1, 1.0, "j1", None, b"x"), (1, 1.0, "j1", 1, b"y"), (11, 1.0, "j1", 1, b"x"), (1, 1.0, "None", 1, b"x")]
    assert len({checksum(*row) for row in rows}) == len(rows) - 1, "a job is never called None"
