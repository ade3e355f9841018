"""All rows of a journal go out and come back, of one point, and the writer does not wait."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hostler.model.errors import CorruptState, NotFound, SchemaMismatch
from hostler.model.events import Entry, TroubleRecorded
from hostler.store import Batch, Claim, open_journal, read_journal
from hostler.store.archive import ArchiveWriter, opened, writing
from hostler.store.copying import Copied, copy_in, copy_out
from hostler.store.opening import FILE
from tests.patience import PATIENCE_S

NONE = dict.fromkeys(("artifacts", "controllers", "copies", "hits", "jobs", "lineage", "requests"), 0)


def trouble(seq: int) -> Entry:
    """An entry; its text is anybody's."""
    return Entry(seq=seq, at=seq / 3, event=TroubleRecorded(where="te\0st\n", what=f"\u202e{seq}\U0001f600"))


def filled(directory: Path, entries: int) -> Path:
    """A state directory with so many entries."""
    directory.mkdir()
    journal = open_journal(directory)
    journal.begin_epoch(1.5, Claim("test"))
    journal.append([Batch(entries=[trouble(seq) for seq in range(1, entries + 1)], jobs=())])
    journal.close()
    return directory


def packed(directory: Path, path: Path) -> Copied:
    """An archive of it."""
    with writing(path, 1.0) as out:
        copied = copy_out(directory, out)
        out.seal({"schema": copied.schema, "rows": copied.rows})
    return copied


def dump(directory: Path) -> list[str]:
    """The database, in words, without what is not copied."""
    with closing(sqlite3.connect(directory / FILE)) as connection:
        return sorted(connection.iterdump())


@pytest.mark.parametrize(
    "entries", [0, 1, 9, *(pytest.param(entries, marks=pytest.mark.long) for entries in (2, 3, 4))]
)
def test_what_goes_out_comes_back(tmp_path: Path, entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.store.copying.ROWS", 3)
    directory = filled(tmp_path / "one", entries)
    copied = packed(directory, tmp_path / "packed")
    assert (copied.seq, copied.epoch, copied.rows["journal"]) == (entries, 1, entries)
    assert copied.at == (entries / 3 if entries else None)
    (tmp_path / "two").mkdir()
    with opened(tmp_path / "packed") as made:
        copy_in(made, tmp_path / "two")
    assert dump(tmp_path / "two") == dump(directory)


def test_entries_that_come_meanwhile_are_not_in_it_and_do_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer appends while the copy is half done, from another thread, as a controller would."""
    monkeypatch.setattr("hostler.store.copying.ROWS", 2)
    directory = filled(tmp_path / "one", 10)
    journal = open_journal(directory)
    seqs = iter(range(11, 1000))

    def append() -> None:
        journal.append([Batch(entries=[trouble(next(seqs))], jobs=())])

    class Busy(ArchiveWriter):
        def add(self, name: str, data: bytes) -> None:
            writer = threading.Thread(target=append, daemon=True)
            writer.start()
            writer.join(PATIENCE_S)
            assert not writer.is_alive(), "the writer waits for the copy"
            super().add(name, data)

    monkeypatch.setattr("hostler.store.archive.ArchiveWriter", Busy)
    copied = packed(directory, tmp_path / "packed")
    assert journal.newest_seq() > 10
    assert (copied.seq, copied.rows["journal"]) == (10, 10)
    journal.close()


def test_a_reader_keeps_no_writer_out(tmp_path: Path) -> None:
    directory = filled(tmp_path / "one", 3)
    journal = read_journal(directory)
    with journal.catalogue() as connection, closing(sqlite3.connect(directory / FILE, timeout=0)) as other:
        connection.exec_driver_sql("select count(*) from journal")
        other.execute("begin immediate")
    journal.close()


def test_where_there_is_no_journal_none_is_made(tmp_path: Path) -> None:
    for ask in (lambda: packed(tmp_path, tmp_path / "packed"), lambda: read_journal(tmp_path)):
        with pytest.raises(NotFound, match="no journal"):
            ask()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def told(tmp_path: Path) -> dict[str, Any]:
    """What the manifest of a good archive would say."""
    directory = filled(tmp_path / "one", 3)
    copied = packed(directory, tmp_path / "packed")
    (tmp_path / "two").mkdir()
    return {"schema": copied.schema, "rows": copied.rows}


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"schema": "9999"}, SchemaMismatch),
        ({"rows": {**NONE, "journal": 4}}, CorruptState),
        ({"schema": "0001"}, CorruptState),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    tmp_path: Path, told: dict[str, Any], changed: dict[str, Any], error: type[Exception]
) -> None:
    with writing(tmp_path / "other", 1.0) as out:
        copy_out(tmp_path / "one", out)
        out.seal({**told, **changed})
    with opened(tmp_path / "other") as made, pytest.raises(error):
        copy_in(made, tmp_path / "two")


def test_an_older_schema_comes_back_as_it_was_and_is_brought_up_to_date_when_it_is_opened(tmp_path: Path) -> None:
    from hostler.store.dialect import sqlite_engine
    from hostler.store.migrating import migrate

    (tmp_path / "one").mkdir()
    engine = sqlite_engine(tmp_path / "one" / FILE)
    with engine.begin() as connection:
        migrate(connection, None, tmp_path, "0002")
        connection.exec_driver_sql("insert into requests values (7)")
    engine.dispose()
    with pytest.raises(SchemaMismatch, match="0002"):
        read_journal(tmp_path / "one")
    copied = packed(tmp_path / "one", tmp_path / "packed")
    assert copied.schema == "0002"
    (tmp_path / "two").mkdir()
    with opened(tmp_path / "packed") as made:
        copy_in(made, tmp_path / "two")
    assert dump(tmp_path / "two") == dump(tmp_path / "one")
    open_journal(tmp_path / "two").close()
    read_journal(tmp_path / "two").close()
