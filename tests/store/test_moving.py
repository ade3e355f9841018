"""A journal goes from one database to another whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from hostler.model.errors import Conflict, CorruptState, StoreFenced
from hostler.model.events import Entry, TroubleRecorded
from hostler.store import Batch, Claim, Place, Snapshot, moving, open_journal
from hostler.store.moving import move
from tests import postgres
from tests.store.conftest import asked


def batch(*numbers: int) -> Batch:
    entries = [Entry(seq=seq, at=seq / 3, event=TroubleRecorded(where="test", what=f"ü\u2028{seq}")) for seq in numbers]
    return Batch(entries=entries, jobs=())


@pytest.fixture(params=["to sqlite", pytest.param("to postgresql", marks=pytest.mark.services)])
def other(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """Another empty place."""
    if request.param == "to postgresql":
        server: postgres.Server = request.getfixturevalue("server")
        return server.database()
    folder = tmp_path / "other"
    folder.mkdir()
    return folder


def filled(place: Place) -> None:
    journal = open_journal(place)
    journal.begin_epoch(0.1, Claim("v"))
    journal.append([batch(*range(1, 26))])
    journal.save_snapshot(Snapshot(seq=20, at=0.1 + 0.2, data=bytes(range(256))))
    journal.close()


def test_everything_is_taken_there_and_back(
    place: Place, other: Place, new_place: Callable[[], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.store.copying.ROWS", 7)
    filled(place)
    there = move(place, other, 5.0, "v")
    assert (there.rows["journal"], there.rows["snapshots"], there.seq) == (25, 1, 25)
    back = new_place()
    returned = move(other, back, 6.0, "v")
    assert returned.sha256["journal"] == there.sha256["journal"]
    assert returned.sha256["snapshots"] == there.sha256["snapshots"]
    before, after = open_journal(place), open_journal(back)
    assert list(before.read()) == list(after.read())
    assert [each.data for each in after.snapshots()] == [bytes(range(256))]
    assert after.begin_epoch(7.0, Claim("v")) == 4
    before.close()
    after.close()


def test_who_wrote_the_source_writes_it_no_more(place: Place, other: Place) -> None:
    filled(place)
    writer = open_journal(place)
    writer.begin_epoch(1.0, Claim("v"))
    move(place, other, 2.0, "v")
    with pytest.raises(StoreFenced):
        writer.append([batch(26)])
    writer.close()


def test_a_journal_that_is_there_is_left_as_it_is(place: Place, other: Place) -> None:
    filled(place)
    open_journal(other).close()
    with pytest.raises(Conflict, match="already"):
        move(place, other, 2.0, "v")
    journal = open_journal(other)
    assert journal.newest_seq() == 0
    journal.close()


def test_what_reads_back_otherwise_is_not_taken_over(
    place: Place, other: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(place)
    inner = moving._copy

    def damaged(theirs: object, ours: object, table: object) -> tuple[int, str]:
        found = inner(theirs, ours, table)  # type: ignore[arg-type]
        ours.execute(text("update journal set at = at + 1 where seq = 3"))  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(moving, "_copy", damaged)
    with pytest.raises(CorruptState, match="nothing was taken over"):
        move(place, other, 2.0, "v")
    if isinstance(other, Path):
        assert list(other.iterdir()) == []
    else:
        with asked(other) as connection:
            assert connection.execute(text("select count(*) from pg_tables where schemaname = 'public'")).scalar() == 0
