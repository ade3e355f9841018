"""The journal reads the same whatever of it is in segments, and no step leaves an entry twice or nowhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import Connection, event, text

from hostler.model.errors import CorruptState, StoreFenced, StoreFull
from hostler.model.events import ChunkDone, Entry, Event, JobCancelled, RequestAccepted, TroubleRecorded, subject
from hostler.model.rules import CompactRules
from hostler.store import Batch, Claim, Journal, Place, Snapshot, compacting, open_journal, segments
from hostler.store.archive import opened, writing
from hostler.store.copying import copy_in, copy_out
from hostler.store.moving import move
from hostler.store.tables import metadata
from tests import postgres
from tests.store.conftest import asked

AT_ONCE = CompactRules(after_s=0.0, keep_entries=0)
LATER = 1e9


@pytest.fixture
def journal(place: Place) -> Iterator[Journal]:
    opened = open_journal(place)
    opened.begin_epoch(0.5, Claim("v"))
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of ten entries, read in parts."""
    monkeypatch.setattr(compacting, "ENTRIES", 10)
    monkeypatch.setattr(compacting, "READ", 3)


def told(seq: int) -> Entry:
    """An entry of one kind or another."""
    job = f"j{seq // 4 % 100 + 1}"
    events: tuple[Event, ...] = (
        TroubleRecorded(where="test", what=f"ü\u2028{seq}"),
        RequestAccepted(who="ci", what=f"request {seq}"),
        ChunkDone(chunk=f"{job}.1", hits=({"at": seq},), elapsed_s=1.0),
        JobCancelled(job=job),
    )
    return Entry(seq=seq, at=float(seq), event=events[seq % 4])


def fill(journal: Journal, first: int, last: int) -> list[Entry]:
    entries = [told(seq) for seq in range(first, last + 1)]
    journal.append([Batch(entries=entries, jobs=())])
    return entries


def cover(journal: Journal, seq: int) -> None:
    """Snapshots of so many entries, as many as are kept."""
    for each in (max(seq - 1, 0), seq):
        journal.save_snapshot(Snapshot(seq=each, at=1.0, data=b"x"))
    journal.save_snapshot(Snapshot(seq=seq + 1, at=1.0, data=b"x"))


def compacted(journal: Journal, rules: CompactRules = AT_ONCE, now: float = LATER) -> list[tuple[int, int]]:
    """All that may go, goes."""
    made = []
    while (segment := journal.compact(rules, now)) is not None:
        made.append((segment.first, segment.last))
    return made


def expect(journal: Journal, entries: list[Entry]) -> None:
    """Everything that readers can ask."""
    assert list(journal.read()) == entries
    assert journal.newest_seq() == len(entries)
    for after in {0, 1, len(entries) // 2, max(len(entries) - 1, 0), len(entries), len(entries) + 5}:
        assert list(journal.read(after)) == entries[after:]
        for limit in (0, 1, 7, 15):
            assert list(journal.read(after, limit)) == entries[after : after + limit]
    for job in {subject(entry.event) for entry in entries} - {None} | {"j999", "none"}:
        assert job is not None
        story = [entry for entry in entries if subject(entry.event) == job]
        assert journal.story(job) == story
        done = [entry.seq for entry in story if isinstance(entry.event, ChunkDone)]
        assert [hit.at for hit in journal.hits(job, 0, 10**6)] == done
    requests = [entry for entry in reversed(entries) if isinstance(entry.event, RequestAccepted)]
    assert journal.requests(None, 10**6) == requests
    for before in (1, len(entries) // 2, len(entries)):
        assert journal.requests(before, 3) == [entry for entry in requests if entry.seq < before][:3]


def rows_and_segments(place: Place) -> tuple[list[int], list[tuple[int, int]]]:
    with asked(place) as connection:
        rows = list(connection.execute(text("select seq from journal order by seq")).scalars())
        there = connection.execute(text("select first, last from segments order by first")).all()
    return rows, [(first, last) for first, last in there]


def test_old_entries_go_and_are_read_as_before(journal: Journal, place: Place) -> None:
    entries = fill(journal, 1, 57)
    cover(journal, 57)
    assert compacted(journal) == [(1, 10), (11, 20), (21, 30), (31, 40), (41, 50)]
    assert rows_and_segments(place) == (list(range(51, 58)), [(1, 10), (11, 20), (21, 30), (31, 40), (41, 50)])
    expect(journal, entries)
    entries += fill(journal, 58, 70)
    expect(journal, entries)
    assert [hit.at for hit in journal.hits("j1", 0, 10)] == [2]


def test_all_of_it_may_be_in_segments(journal: Journal, place: Place) -> None:
    entries = fill(journal, 1, 20)
    cover(journal, 20)
    assert len(compacted(journal)) == 2
    assert rows_and_segments(place)[0] == []
    expect(journal, entries)
    journal._in_doubt = True
    journal.append([Batch(entries=entries[-2:], jobs=())])  # an answer was lost: they are there
    expect(journal, entries + fill(journal, 21, 21))


def test_what_is_written_follows_what_is_in_segments(journal: Journal) -> None:
    fill(journal, 1, 50)
    cover(journal, 50)
    compacted(journal)
    assert journal.sizes().rows == 0
    journal.begin_epoch(1.0, Claim("v"))
    fill(journal, 51, 60)
    assert journal.newest_seq() == 60


@pytest.mark.parametrize(
    ("rules", "now", "covered", "last"),
    [
        (AT_ONCE, LATER, None, 0),
        (AT_ONCE, LATER, 29, 20),
        (AT_ONCE, LATER, 30, 30),
        (CompactRules(after_s=5.0, keep_entries=0), 34.9, 100, 20),
        (CompactRules(after_s=5.0, keep_entries=0), 35.0, 100, 30),
        (CompactRules(after_s=0.0, keep_entries=70), LATER, 100, 30),
        (CompactRules(after_s=0.0, keep_entries=71), LATER, 100, 20),
        (CompactRules(after_s=0.0, keep_entries=1000), LATER, 100, 0),
    ],
)
def test_only_what_is_covered_and_old_and_not_of_the_newest_goes(
    journal: Journal, rules: CompactRules, now: float, covered: int | None, last: int
) -> None:
    fill(journal, 1, 100)
    if covered is not None:
        journal.save_snapshot(Snapshot(seq=100, at=1.0, data=b"x"))
        journal.save_snapshot(Snapshot(seq=covered, at=1.0, data=b"x"))
    assert max((end for _, end in compacted(journal, rules, now)), default=0) == last


def test_long_entries_make_shorter_segments(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "BYTES", 300)
    entries = fill(journal, 1, 30)
    cover(journal, 30)
    made = compacted(journal)
    assert all(last - first < 9 for first, last in made)
    assert made[0][0] == 1
    expect(journal, entries)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.just("append"), st.integers(1, 25))
        | st.tuples(st.just("compact"), st.integers(0, 30))
        | st.tuples(st.just("save"), st.integers(0, 10)),
        max_size=12,
    ),
    size=st.integers(1, 8),
)
def test_whatever_is_compacted_when_all_readers_find_the_same(
    place: Place, steps: list[tuple[str, int]], size: int
) -> None:
    journal = open_journal(place)
    empty(place)
    journal.begin_epoch(0.5, Claim("v"))
    entries: list[Entry] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compacting, "ENTRIES", size)
        patch.setattr("hostler.store.journal.PAGE", 7)
        for what, many in steps:
            if what == "append":
                entries += fill(journal, len(entries) + 1, len(entries) + many)
            elif what == "save":
                journal.save_snapshot(Snapshot(seq=max(len(entries) - many, 0), at=1.0, data=b"x"))
            else:
                compacted(journal, CompactRules(after_s=0.0, keep_entries=many))
        expect(journal, entries)
    with asked(place) as connection:
        assert list(segments.faults(connection)) == []
    journal.close()


def empty(place: Place) -> None:
    with asked(place) as connection:
        for table in metadata.sorted_tables:
            connection.execute(table.delete())


def test_entries_that_go_while_somebody_reads_are_read_once(
    journal: Journal, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program compacts between any two questions of a reader."""
    monkeypatch.setattr("hostler.store.journal.PAGE", 4)
    entries = fill(journal, 1, 60)
    cover(journal, 60)
    reader = open_journal(place)
    busy = False

    def compact_too(*_: object) -> None:
        nonlocal busy
        if not busy:
            busy = True
            journal.compact(AT_ONCE, LATER)
            busy = False

    event.listen(reader._engine, "after_cursor_execute", compact_too)
    assert list(reader.read()) == entries
    entries += fill(journal, 61, 90)
    cover(journal, 90)
    assert reader.story("j18") == [entry for entry in entries if subject(entry.event) == "j18"]
    assert reader.requests(None, 6) == [told(seq) for seq in (89, 85, 81, 77, 73, 69)]
    reader.close()


def test_another_leader_ends_a_step_that_was_begun(
    journal: Journal, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = fill(journal, 1, 30)
    cover(journal, 30)
    other = open_journal(place)
    inner = compacting.next_step

    def overtaken(*given: object) -> object:
        step = inner(*given)  # type: ignore[arg-type]
        other.begin_epoch(2.0, Claim("v"))
        return step

    monkeypatch.setattr(compacting, "next_step", overtaken)
    with pytest.raises(StoreFenced):
        journal.compact(AT_ONCE, LATER)
    monkeypatch.setattr(compacting, "next_step", inner)
    assert rows_and_segments(place) == (list(range(1, 31)), [])
    assert len(compacted(other)) == 3
    expect(other, entries)
    other.close()


FAILING: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "the segment cannot be written": lambda patch: patch.setattr(segments, "write", _fails),
    "it is read back as something else": lambda patch: patch.setattr(
        segments, "_segment", lambda row: segments.Segment(**{**row._mapping, "data": bytes(row.data)[:-1] + b"x"})
    ),
    "fewer rows go than it has": lambda patch: patch.setattr(segments, "write", _and_loses_a_row(segments.write)),
    "its snapshot is gone": lambda patch: patch.setattr(compacting, "_expect_joined", _drops_snapshots),
}


def _fails(*_: object) -> None:
    raise StoreFull("no room")


def _and_loses_a_row(inner: Callable[..., None]) -> Callable[..., None]:
    def write(connection: Connection, *given: object) -> None:
        inner(connection, *given)
        connection.execute(text("delete from journal where seq = 4"))

    return write


def _drops_snapshots(connection: Connection, first: int) -> None:
    connection.execute(text("delete from snapshots"))


@pytest.mark.parametrize("why", FAILING)
def test_a_step_that_fails_changes_nothing(
    journal: Journal, place: Place, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = fill(journal, 1, 30)
    cover(journal, 30)
    with monkeypatch.context() as patch:
        FAILING[why](patch)
        with pytest.raises((CorruptState, StoreFull)):
            journal.compact(AT_ONCE, LATER)
    assert rows_and_segments(place) == (list(range(1, 31)), [])
    expect(journal, entries)


KILLED = """
import os, sys
from pathlib import Path
from sqlalchemy import event
from hostler.model.rules import CompactRules
from hostler.store import Claim, compacting, open_journal
compacting.ENTRIES = 10
kind, where = sys.argv[1:]
def compact(left):
    journal = open_journal(Path(where) if kind == "file" else where)
    journal.begin_epoch(1.0, Claim("v"))
    def count(*_):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), 9)
    event.listen(journal._engine, "after_cursor_execute", count)
    event.listen(journal._engine, "commit", count)
    assert journal.compact(CompactRules(after_s=0.0, keep_entries=0), 1e9)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        compact(int(line))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_a_kill_at_any_statement_leaves_rows_or_a_segment(journal: Journal, place: Place) -> None:
    entries = fill(journal, 1, 60)
    cover(journal, 60)
    kills = 0
    where = ["file", str(place)] if isinstance(place, Path) else ["address", place]
    command = [sys.executable, "-c", KILLED, *where]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        while True:
            before = rows_and_segments(place)
            program.stdin.write(f"{kills + 1}\n")
            program.stdin.flush()
            status = int(program.stdout.readline())
            rows, there = rows_and_segments(place)
            assert rows == list(range(there[-1][1] + 1 if there else 1, 61))
            if status == 0:
                break
            assert status == -9
            assert (rows, there) == before
            kills += 1
    assert kills >= 8
    reader = open_journal(place)
    expect(reader, entries)
    reader.close()


def test_a_gap_in_front_of_the_rows_is_found(journal: Journal, place: Place) -> None:
    fill(journal, 1, 40)
    cover(journal, 40)
    journal.compact(AT_ONCE, LATER)
    with asked(place) as connection:
        connection.execute(text("delete from journal where seq = 11"))
    with pytest.raises(CorruptState, match="entry 12 stands where 11 should"):
        list(journal.read())
    with pytest.raises(CorruptState, match="segments end with entry 10, and the journal's rows begin with 12"):
        journal.compact(AT_ONCE, LATER)


def test_a_gap_among_the_rows_is_found(journal: Journal, place: Place) -> None:
    fill(journal, 1, 40)
    cover(journal, 40)
    with asked(place) as connection:
        connection.execute(text("delete from journal where seq = 5"))
    with pytest.raises(CorruptState, match="there is no entry 5"):
        journal.compact(AT_ONCE, LATER)


def test_a_segment_that_is_gone_is_a_gap(journal: Journal, place: Place) -> None:
    fill(journal, 1, 40)
    cover(journal, 40)
    compacted(journal)
    with asked(place) as connection:
        connection.execute(text("delete from segments where first = 11"))
    with pytest.raises(CorruptState, match="there is no entry 11, and there are later ones"):
        list(journal.read())
    with pytest.raises(CorruptState, match="a segment that begins with entry 11, and there is none"):
        journal.story("j4")
    with pytest.raises(CorruptState, match="say what was asked for"):
        journal.requests(None, 10)


def flip(place: Place, first: int) -> None:
    """One bit in the middle of a segment is another one."""
    with asked(place) as connection:
        table = metadata.tables["segments"]
        data = bytearray(connection.execute(table.select().where(table.c.first == first)).one().data)
        data[len(data) // 2] ^= 4
        connection.execute(table.update().where(table.c.first == first).values(data=bytes(data)))


def test_a_flipped_bit_is_found_and_named_and_keeps_nobody_from_the_rest(journal: Journal, place: Place) -> None:
    entries = fill(journal, 1, 57)
    cover(journal, 57)
    compacted(journal)
    flip(place, 21)
    with pytest.raises(CorruptState, match="the segment of entries 21 to 30 is damaged"):
        list(journal.read())
    assert list(journal.read(limit=20)) == entries[:20]
    assert list(journal.read(after=30)) == entries[30:]
    assert journal.newest_seq() == 57
    entries += fill(journal, 58, 70)
    assert list(journal.read(after=30)) == entries[30:]


@pytest.fixture
def other(tmp_path: Path, request: pytest.FixtureRequest, place: Place) -> Place:
    """An empty place in the other database."""
    if isinstance(place, Path):
        made: Place = request.getfixturevalue("server").database()
        return made
    folder = tmp_path / "other"
    folder.mkdir()
    return folder


@pytest.mark.services
def test_segments_are_taken_to_another_database(
    journal: Journal, place: Place, other: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.store.copying.LARGE_ROWS", 2)
    entries = fill(journal, 1, 50)
    cover(journal, 50)
    compacted(journal)
    moved = move(place, other, 5.0, "v")
    assert (moved.rows["journal"], moved.rows["segments"], moved.seq) == (0, 5, 50)
    there = open_journal(other)
    expect(there, entries)
    there.close()


@pytest.mark.parametrize("last", [57, pytest.param(50, marks=pytest.mark.long)])
def test_backups_have_segments_too(
    journal: Journal, place: Place, new_place: Callable[[], Place], tmp_path: Path, last: int
) -> None:
    entries = fill(journal, 1, last)
    cover(journal, last)
    compacted(journal)
    with writing(tmp_path / "packed", 1.0) as out:
        copied = copy_out(place, out)
        out.seal({"schema": copied.schema, "rows": copied.rows})
    assert (copied.seq, copied.at, copied.rows["segments"]) == (last, float(last), 5)
    back = new_place()
    with opened(tmp_path / "packed") as made:
        copy_in(made, back)
    again = open_journal(back)
    expect(again, entries)
    again.close()
    with asked(back) as connection:
        assert list(segments.faults(connection)) == []


def test_space_of_what_went_is_used_again(journal: Journal, place: Place) -> None:
    """What the rows take stays the same, however much goes through them."""
    many = 500 if isinstance(place, str) else 200
    keep = CompactRules(after_s=0.0, keep_entries=many)
    sizes, seq = [], 0
    for _ in range(6):
        for _ in range(3):
            fill(journal, seq + 1, seq + many)
            seq += many
            cover(journal, seq)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(compacting, "ENTRIES", 100)
                compacted(journal, keep)
        vacuum(place)
        found = journal.sizes()
        assert found.rows < many + 200
        assert found.rows + found.packed.entries == seq
        assert found.row_bytes is not None
        sizes.append(found.row_bytes)
    assert max(sizes) <= 1.3 * sizes[2], sizes


def vacuum(place: Place) -> None:
    """What PostgreSQL does by itself, a little later."""
    if isinstance(place, str):
        from sqlalchemy import create_engine

        engine = create_engine(place, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("vacuum journal"))
        engine.dispose()


def test_the_migration_goes_back_and_every_entry_is_a_row_again(journal: Journal, place: Place) -> None:
    from alembic import command

    from hostler.store.migrating import _config

    entries = fill(journal, 1, 57)
    cover(journal, 57)
    compacted(journal)
    with asked(place) as connection:
        config = _config()
        config.attributes["connection"] = connection
        command.downgrade(config, "0008")
        assert list(connection.execute(text("select seq from journal order by seq")).scalars()) == list(range(1, 58))
    again = open_journal(place)
    expect(again, entries)
    again.close()


def test_postgresql_knows_how_rows_go(server: postgres.Server) -> None:
    place = server.database()
    open_journal(place).close()
    with asked(place) as connection:
        query = text("select relname, reloptions from pg_class where relname in ('journal', 'segments')")
        options = {name: dict(each.split("=") for each in told) for name, told in connection.execute(query)}
        stored = text("select attstorage from pg_attribute where attrelid = 'segments'::regclass and attname = 'data'")
        assert connection.execute(stored).scalar() in ("e", b"e")
    assert options["journal"]["autovacuum_vacuum_scale_factor"] == "0"
    assert {"autovacuum_vacuum_threshold", "autovacuum_vacuum_insert_threshold"} <= options["journal"].keys()
    assert "autovacuum_vacuum_insert_threshold" in options["segments"]
