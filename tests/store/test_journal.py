"""The journal keeps what it was given, all of it or nothing, and says clearly why it cannot."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import event, text
from sqlalchemy.exc import TimeoutError as PoolTimeout

from hostler.core import Core
from hostler.core.views import job_view
from hostler.model.codec import digest
from hostler.model.errors import (
    CorruptState,
    SchemaMismatch,
    StoreBusy,
    StoreError,
    StoreFenced,
    StoreFull,
    StoreLost,
)
from hostler.model.events import ChunkDone, ChunkLeased, ControllerStarted, Entry, RequestAccepted, TroubleRecorded
from hostler.model.inputs import Submit
from hostler.model.views import JobView
from hostler.model.work import JobSpec, ScriptPayload, SweepPayload
from hostler.store import Batch, Claim, Journal, Snapshot, journal as journals, open_journal
from hostler.store.dialect import ROWS, Place, sqlite_engine
from hostler.store.migrating import MIGRATIONS, known_schemas
from hostler.store.opening import FILE, SCHEMA
from hostler.store.tables import metadata
from tests.store.conftest import asked


@pytest.fixture
def journal(place: Place) -> Iterator[Journal]:
    opened = open_journal(place)
    yield opened
    opened.close()


def trouble(seq: int, what: str = "x") -> Entry:
    return Entry(seq=seq, at=float(seq), event=TroubleRecorded(where="test", what=what))


def batch(*entries: Entry, jobs: tuple[JobView, ...] = ()) -> Batch:
    return Batch(entries=entries, jobs=jobs)


def submitted(*specs: JobSpec) -> tuple[Core, Batch]:
    core = Core()
    outcome = core.handle(1.0, Submit(specs=specs))
    assert outcome.answers[0]
    return core, batch(*outcome.entries, jobs=tuple(job_view(core.state, job) for job in core.state.jobs.values()))


def script(name: str) -> JobSpec:
    return JobSpec(name=name, payload=ScriptPayload(schema=1, argv=("true",)))


def test_what_was_appended_is_read_back_after_reopening(place: Place) -> None:
    _, given = submitted(script("a"), script("b; rm -rf / \n'\" \u202e\U0001f600"))
    first = open_journal(place)
    first.append([given])
    first.close()
    second = open_journal(place)
    assert list(second.read()) == list(given.entries)
    assert list(second.read(after=1)) == list(given.entries)[1:]
    assert list(second.read(limit=1)) == list(given.entries)[:1]
    assert second.newest_seq() == 2
    second.close()


def test_pages_join_without_a_seam(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.store.journal.PAGE", 3)
    entries = [trouble(seq) for seq in range(1, 11)]
    journal.append([batch(*entries)])
    assert list(journal.read()) == entries
    assert list(journal.read(after=2, limit=7)) == entries[2:9]


def test_a_batch_is_appended_whole_or_not_at_all(journal: Journal) -> None:
    journal.append([batch(trouble(1))])
    with pytest.raises(StoreError):
        journal.append([batch(trouble(2), trouble(3)), batch(trouble(1))])
    assert [entry.seq for entry in journal.read()] == [1]


def test_a_gap_is_found(journal: Journal) -> None:
    journal.append([batch(trouble(1), trouble(3))])
    with pytest.raises(CorruptState, match="entry 3 stands where 2 should"):
        list(journal.read())


def test_story_holds_the_entries_of_one_job(journal: Journal) -> None:
    _, given = submitted(script("a"), script("b"))
    journal.append([given])
    assert journal.story("j2") == [given.entries[1]]
    assert journal.story("j9") == []


def test_projection_of_a_job_is_its_newest_state(journal: Journal, place: Place) -> None:
    core, given = submitted(script("a"))
    journal.append([given])
    view = job_view(core.state, core.state.jobs["j1"])
    journal.append([batch(trouble(2), jobs=(replace(view, priority=7, why="x"),))])
    with asked(place) as connection:
        rows = connection.execute(text("select id, name, priority, why, state from jobs")).all()
    assert [tuple(row) for row in rows] == [("j1", "a", 7, "x", "pending")]


def test_hits_come_in_order_and_survive_any_size(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = (
        Entry(seq=1, at=1.0, event=ChunkLeased(job="j1", chunk="j1.1", device="d", start=0, stop=9, expected_s=None)),
        Entry(seq=2, at=2.0, event=ChunkDone(chunk="j1.1", hits=({"at": 2**200}, {"at": 5, "x": "é"}), elapsed_s=1.0)),
        Entry(seq=3, at=3.0, event=ChunkDone(chunk="j2.1", hits=({"at": 1},), elapsed_s=1.0)),
    )
    journal.append([batch(*entries)])
    assert [hit.data for hit in journal.hits("j1", 0, 10)] == [{"at": 2**200}, {"at": 5, "x": "é"}]
    assert [hit.at for hit in journal.hits("j1", 1, 10)] == [5]
    assert [hit.at for hit in journal.hits("j1", 0, 1)] == [2**200]
    monkeypatch.setattr("hostler.store.journal.HITS_BYTES", 10)
    assert [hit.at for hit in journal.hits("j1", 0, 10)] == [2**200], "large hits come a few at a time"
    assert [hit.at for hit in journal.hits("j1", 1, 10)] == [5]


def test_requests_are_found_newest_first(journal: Journal) -> None:
    def asked(seq: int) -> Entry:
        return Entry(seq=seq, at=float(seq), event=RequestAccepted(who="ci", what=f"request {seq}"))

    journal.append([batch(trouble(1), asked(2), trouble(3), asked(4)), batch(asked(5))])
    assert journal.requests(None, 2) == [asked(5), asked(4)]
    assert journal.requests(4, 2) == [asked(2)]
    assert journal.requests(2, 2) == []


def test_a_store_of_the_version_before_is_brought_to_this_one(place: Place) -> None:
    opened = open_journal(place)
    opened.append([batch(trouble(1))])
    opened.close()
    with asked(place) as connection:
        for table in (
            "requests",
            "artifacts",
            "lineage",
            "copies",
            "settling",
            "leader",
            "past",
            "segments",
            "segment_jobs",
            "told",
            "usage_of",
            "usage_hours",
            "usage_days",
            "bases",
            "set_aside",
        ):
            connection.execute(text(f"drop table {table}"))
        connection.execute(text("alter table journal drop column epoch"))
        connection.execute(text("alter table journal drop column checksum"))
        connection.execute(text("update alembic_version set version_num = '0001'"))
    again = open_journal(place)
    assert list(again.read()) == [trouble(1)]
    assert again.requests(None, 10) == []
    again.close()


def test_snapshots_newest_wins_and_old_ones_go(journal: Journal, place: Place) -> None:
    assert list(journal.snapshots()) == []
    for seq in (10, 30, 20):
        journal.save_snapshot(Snapshot(seq=seq, at=1.0, data=b"state %d" % seq))
    assert [(each.seq, each.data) for each in journal.snapshots()] == [(30, b"state 30"), (20, b"state 20")]
    with asked(place) as connection:
        assert connection.execute(text("select count(*) from snapshots")).scalar() == 2


def test_epochs_only_grow(place: Place) -> None:
    for expected in (1, 2, 3):
        opened = open_journal(place)
        assert opened.begin_epoch(1.0, Claim("v")) == expected
        opened.close()


def test_who_was_overtaken_writes_nothing_more(place: Place) -> None:
    first, second = open_journal(place), open_journal(place)
    first.begin_epoch(1.0, Claim("v", holder="a"))
    first.append([batch(trouble(1))])
    second.begin_epoch(2.0, Claim("v", holder="b"))
    for write in (lambda: first.append([batch(trouble(2))]), lambda: first.marking().__enter__()):
        with pytest.raises(StoreFenced, match="controller 1 leads no more: 2 has taken over"):
            write()
    second.append([batch(trouble(2, "of the second"))])
    assert list(first.read()) == [trouble(1), trouble(2, "of the second")]
    with asked(place) as connection:
        assert list(connection.execute(text("select epoch from journal order by seq")).scalars()) == [1, 2]
    first.close()
    second.close()


def test_what_the_database_has_lost_is_not_written_beyond(place: Place) -> None:
    """As after a fail-over to a replica that lagged behind: whoever leads next goes on from what there is."""
    journal = open_journal(place)
    journal.begin_epoch(1.0, Claim("v"))
    journal.append([batch(trouble(1)), batch(trouble(2))])
    with asked(place) as connection:
        connection.execute(text("delete from journal where seq = 2"))
    for write in (journal.renew, lambda: journal.append([batch(trouble(3))])):
        with pytest.raises(StoreFenced, match="ends at entry 1, and this controller has written up to 2: the database"):
            write()
    assert journal.begin_epoch(2.0, Claim("v")) == 2
    journal.append([batch(trouble(2, "anew"))])
    assert list(journal.read()) == [trouble(1), trouble(2, "anew")]
    journal.close()


def test_what_is_read_at_once_comes_over_one_connection(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one may be to a database that has taken over, and has another history."""
    monkeypatch.setattr(journals, "PAGE", 2)
    journal = open_journal(place)
    journal.append([batch(*(trouble(seq) for seq in range(1, 6)))])
    connections: list[object] = []
    event.listen(journal._engine, "checkout", lambda connection, *_: connections.append(connection))
    assert [entry.seq for entry in journal.read(after=1)] == [2, 3, 4, 5]
    assert len(connections) == 1
    journal.close()


def test_how_far_people_were_told_is_kept_for_whoever_leads_next(place: Place) -> None:
    first, second = open_journal(place), open_journal(place)
    first.begin_epoch(1.0, Claim("v"))
    assert first.told() == {}
    first.note_told({"phone": 7, "mail": 5})
    first.note_told({"phone": 9})
    second.begin_epoch(2.0, Claim("v"))
    assert second.told() == {"phone": 9}, "a target that is none any more is forgotten"
    with pytest.raises(StoreFenced):
        first.note_told({"phone": 10})
    assert second.told() == {"phone": 9}
    second.note_told({})
    assert second.told() == {}
    first.close()
    second.close()


def test_what_was_written_although_nobody_said_so_is_written_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks between the commit and its answer; the same batches come again."""
    journal = open_journal(place)
    journal.begin_epoch(1.0, Claim("v"))
    inner = journal._append

    def broken(batches: Sequence[Batch], entries: Sequence[Entry]) -> None:
        inner(batches, entries)
        raise StoreLost("the answer was lost")

    monkeypatch.setattr(journal, "_append", broken)
    with pytest.raises(StoreLost):
        journal.append([batch(trouble(1), trouble(2))])
    monkeypatch.setattr(journal, "_append", inner)
    journal.append([batch(trouble(1), trouble(2))])
    journal.append([batch(trouble(3))])
    assert [entry.seq for entry in journal.read()] == [1, 2, 3]
    journal.close()


def test_what_was_written_before_another_took_over_does_not_say_that_one_still_leads(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entries are there, and their writer is fenced all the same: it must not act on them any more."""
    first, second = open_journal(place), open_journal(place)
    first.begin_epoch(1.0, Claim("v", holder="a"))
    inner = first._append

    def broken(batches: Sequence[Batch], entries: Sequence[Entry]) -> None:
        inner(batches, entries)
        raise StoreLost("the answer was lost")

    monkeypatch.setattr(first, "_append", broken)
    with pytest.raises(StoreLost):
        first.append([batch(trouble(1))])
    monkeypatch.setattr(first, "_append", inner)
    second.begin_epoch(2.0, Claim("v", holder="b"))
    with pytest.raises(StoreFenced, match="controller 1 leads no more: 2 has taken over"):
        first.append([batch(trouble(1))])
    assert list(second.read()) == [trouble(1)]
    second.append([batch(trouble(2), trouble(3))])
    with pytest.raises(StoreFenced, match="controller 1 leads no more: 2 has taken over"):
        first.append([batch(trouble(1))])
    assert list(second.read()) == [trouble(1), trouble(2), trouble(3)]
    first.close()
    second.close()


def test_what_was_not_written_in_doubt_is_written(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_journal(place)
    journal.begin_epoch(1.0, Claim("v"))
    inner = journal._append
    monkeypatch.setattr(journal, "_append", Mock(side_effect=StoreLost("nothing came through")))
    with pytest.raises(StoreLost):
        journal.append([batch(trouble(1))])
    monkeypatch.setattr(journal, "_append", inner)
    journal.append([batch(trouble(1))])
    assert list(journal.read()) == [trouble(1)]
    journal.close()


def test_another_entry_in_the_place_of_a_doubtful_one_is_no_answer(place: Place) -> None:
    journal = open_journal(place)
    journal.begin_epoch(1.0, Claim("v"))
    journal.append([batch(trouble(1))])
    journal._in_doubt = True
    with pytest.raises(CorruptState, match="entry 1 is in the journal, and is another one"):
        journal.append([batch(trouble(1, "y"))])
    journal.close()


def test_a_store_of_a_newer_version_is_refused(place: Place) -> None:
    open_journal(place).close()
    with asked(place) as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    with pytest.raises(SchemaMismatch, match=r"9999.*newer"):
        open_journal(place)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"this is no database, but long enough to look at" * 100)
    with pytest.raises(StoreError, match="damaged"):
        open_journal(tmp_path)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreFull, match=r"nowhere.*writable"):
        open_journal(tmp_path / "nowhere")


def test_a_store_locked_by_another_program_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.store.dialect.PRAGMAS", ("pragma journal_mode = wal", "pragma busy_timeout = 1"))
    journal = open_journal(tmp_path)
    other = sqlite_engine(tmp_path / FILE)
    with other.begin(), pytest.raises(StoreBusy, match="another program"):
        journal.append([batch(trouble(1))])
    other.dispose()
    journal.append([batch(trouble(1))])
    journal.close()


@pytest.mark.parametrize("what", ["connect", "begin"])
def test_pool_without_a_free_connection_is_a_busy_store(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(journal._engine, what, Mock(side_effect=PoolTimeout("QueuePool limit reached")))
    with pytest.raises(StoreBusy, match="all connections to the database are in use"):
        journal.newest_seq() if what == "connect" else journal.save_snapshot(Snapshot(seq=1, at=1.0, data=b"x"))


def test_a_full_disk_is_told_and_nothing_is_lost(small_disk: Path) -> None:
    journal = open_journal(small_disk)
    seq = 0

    def fill() -> None:
        nonlocal seq
        while True:
            journal.append([batch(trouble(seq + 1, "x" * 20_000))])
            seq += 1

    with pytest.raises(StoreFull, match="disk is full"):
        fill()
    (small_disk / "ballast").unlink()
    journal.append([batch(trouble(seq + 1))])
    assert [entry.seq for entry in journal.read()] == list(range(1, seq + 2))
    journal.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB, a quarter of it taken by `ballast`."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(mounted)], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.decode().strip()}")
    (mounted / "ballast").write_bytes(b"\0" * 500_000)
    yield mounted
    subprocess.run(["umount", str(mounted)], check=True)


def test_the_migrations_make_the_tables_that_the_code_uses(place: Place) -> None:
    open_journal(place).close()
    with asked(place) as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_the_newest_migration_is_the_schema_that_needs_none() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert known_schemas(config)[0] == SCHEMA


def test_an_entry_of_another_version_is_refused(journal: Journal, place: Place) -> None:
    journal.append([batch(Entry(seq=1, at=1.0, event=ControllerStarted(version="0", epoch=1)))])
    with asked(place) as connection:
        connection.execute(text("update journal set data = :data"), {"data": '{"kind":"no.such","x":1}'})
    with pytest.raises(CorruptState, match="not an event of this version"):
        list(journal.read())


def test_sweep_params_of_any_shape_survive(journal: Journal) -> None:
    params = {"big": 2**300, "text": "\x00\x1f\u2028", "list": [None, True, 1.5, {"a": []}]}
    payload = SweepPayload(schema=1, start=-(2**90), stop=2**90, worker=("w",), params=params, digest=digest(params))
    _, given = submitted(JobSpec(name="s", payload=payload))
    journal.append([given])
    assert list(journal.read()) == list(given.entries)


def test_more_than_one_statement_takes_is_written_whole_or_not_at_all(place: Place) -> None:
    first, second = open_journal(place), open_journal(place)
    first.begin_epoch(1.0, Claim("v"))
    first.append([batch(*(trouble(seq) for seq in range(1, 2 * ROWS + 2)))])
    assert [entry.seq for entry in second.read()] == list(range(1, 2 * ROWS + 2))
    second.begin_epoch(2.0, Claim("v"))
    with pytest.raises(StoreFenced):
        first.append([batch(*(trouble(seq) for seq in range(2 * ROWS + 2, 4 * ROWS)))])
    assert second.newest_seq() == 2 * ROWS + 1
    first.close()
    second.close()
