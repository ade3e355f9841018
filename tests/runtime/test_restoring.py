"""A backup is believed only where everything in it agrees; a journal goes on from it, or everything stays as it was."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sqlite3
import stat
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from hostler.core import Core
from hostler.core.metering.rows import present
from hostler.core.views import job_view
from hostler.model.artifacts import HUB, SUFFIXES, ArtifactKind, Standing, Wanted
from hostler.model.errors import Conflict, CorruptState, HostlerError, NotFound, StoreBusy, StoreFull
from hostler.model.events import CopiesGone, JournalRestored
from hostler.model.inputs import CopiesTold, GivePlaceUp
from hostler.model.rules import CompactRules
from hostler.model.usage import HOUR_S, Period, hour_of
from hostler.runtime import backing, holding, restoring
from hostler.runtime.backing import Backup, create
from hostler.runtime.pacing import Bandwidth
from hostler.runtime.places import Located, located
from hostler.runtime.snapshots import recovered
from hostler.runtime.statedir import StateDir
from hostler.store import Batch, Claim, Snapshot, catalogue, compacting, open_journal
from hostler.store.opening import FILE
from hostler.store.settling import Marks, Rules
from hostler.store.usage import sums
from hostler.stores.base import ObjectName, Pace, at_once
from hostler.stores.directory import DirectoryStore
from tests.core.builders import script, sweep
from tests.core.loop.builders import Loop, loop, small
from tests.durability import WatchedDisk
from tests.journals import new_journal

NOW = 5000.0
SECRETS = ("token", "session.key", "identity", "known_hosts", "dialin/certificate.pem", "dialin/far.token")


@pytest.fixture(scope="module")
def told() -> Loop:
    """A loop that has promoted something, a sweep under way, and copies here and there."""
    driver = loop(small(), devices=3)
    driver.submit(script("a"), sweep("s", stop=100, min_chunk=10, max_chunk=10))
    driver.until(lambda: driver.config().promotions)
    names = list(driver.config().segments)
    for place, some in (("shelf", names[:3]), ("attic", names[:2]), ("gone", names)):
        driver.tell(CopiesTold(place=place, verified=tuple(some)))
    driver.tell(CopiesTold(place="shelf", damaged=(names[0],), why="other bytes"))
    driver.tell(GivePlaceUp(place="gone", who="me", why="burnt"))
    return driver


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory, told: Loop) -> Path:
    """What a controller has left of that, once for all tests; what is changed is a copy."""
    made = StateDir(tmp_path_factory.mktemp("left") / "state")
    made.take()
    made.release()
    journal = open_journal(new_journal(made.path))
    journal.begin_epoch(1.0, Claim("test"))
    jobs = [job_view(told.state, job) for job in told.state.jobs.values()]
    journal.append([Batch(entries=told.entries, jobs=jobs)])
    journal.close()
    made.token(), made.session_key(), made.identity(), made.make_call_token("far")
    made.make_certificate("a key and its certificate\n")
    made.known_hosts.write_text("rig ssh-ed25519 AAAA\n")
    made.note_ended("[12]")
    return made.path


@pytest.fixture
def directory(tmp_path: Path, left_behind: Path) -> StateDir:
    """The same, for one test."""
    made = StateDir(shutil.copytree(left_behind, tmp_path / "state"))
    fleet = tmp_path / "fleet.yaml"
    shelf = {"name": "shelf", "kind": "directory", "path": "shelf"}
    fleet.write_text(yaml.safe_dump({"nodes": [{"name": "here"}], "stores": [shelf]}))
    made.note_fleet(fleet)
    return made


def restore(
    backup: Backup, directory: StateDir, *, fetch: bool = True, tells: list[str] | None = None
) -> restoring.Restoration:
    """Go on from it, an hour after it was made."""
    tell = [].append if tells is None else tells.append
    return restoring.restore(backup.path, directory, {}, NOW + 3600.0, tell, fetch=fetch)


def compacted(directory: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of its journal is in segments."""
    monkeypatch.setattr(compacting, "ENTRIES", 20)
    with closing(open_journal(directory.path)) as journal:
        journal.save_snapshot(Snapshot(seq=journal.newest_seq(), at=1.0, data=b"x"))
        while journal.compact(CompactRules(after_s=0.0, keep_entries=5), 1e12):
            pass
        assert journal.sizes().packed.segments > 2


def test_a_backup_of_segments_is_proved_and_gone_on_from(
    directory: StateDir, tmp_path: Path, told: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    compacted(directory, monkeypatch)
    backup = create(directory, tmp_path, NOW)
    assert backup.manifest["journal"]["seq"] == told.state.seq
    assert restoring.verify(backup.path, directory, {}).manifest == backup.manifest
    restore(backup, StateDir(tmp_path / "other"))
    with closing(open_journal(tmp_path / "other")) as journal:
        assert list(journal.read(limit=told.state.seq)) == told.entries
        assert journal.sizes().packed.segments > 2


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (
            "update segments set data = cast(substr(data, 1, 50) || substr(data, 52) as blob)",
            "entries 1 to 20 is damaged",
        ),
        ("delete from segments where first = 21", "gap"),
        ("delete from segment_jobs", "segment_jobs says"),
    ],
)
def test_segments_of_a_backup_that_do_not_agree_are_found(
    directory: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, why: str
) -> None:
    compacted(directory, monkeypatch)
    with closing(sqlite3.connect(directory.path / FILE)) as connection, connection:
        connection.execute(statement)
    monkeypatch.setattr(backing, "check", lambda made: None)  # it would not be made
    backup = create(directory, tmp_path, NOW)
    with pytest.raises(CorruptState, match=why):
        restoring.verify(backup.path, directory, {})


def test_the_hour_of_the_backup_is_written(directory: StateDir, tmp_path: Path, told: Loop) -> None:
    """It is over when somebody goes on from it: what the core has handed out is nowhere else."""
    first, rows = present(told.state, told.core.index, told.state.at)
    held_s = sum(row.device_s for row in rows if row.work)
    assert held_s > 0
    other = tmp_path / "other"
    restoring.restore(
        create(directory, tmp_path, NOW).path, StateDir(other), {}, NOW + 3 * HOUR_S, [].append, fetch=False
    )
    with closing(open_journal(other)) as journal:
        core = recovered(journal, pytest.fail)
        assert core.state.metering.hour == hour_of(NOW + 3 * HOUR_S) > first
        with journal.catalogue() as connection:
            found = sums(connection, Period.HOUR, (), range(core.state.metering.hour), {})
    assert found[0].period == first
    assert sum(each.sums.held_ms for each in found) >= held_s * 1000


def test_a_backup_is_proved_and_gone_on_from(directory: StateDir, tmp_path: Path, told: Loop) -> None:
    backup = create(directory, tmp_path, NOW)
    assert backup.path.name == "hostler-19700101T012320Z.backup"
    assert stat.S_IMODE(backup.path.stat().st_mode) == 0o600
    assert (backup.manifest["journal"]["seq"], backup.manifest["made_at"]) == (told.state.seq, NOW)
    assert restoring.verify(backup.path, directory, {}).manifest == backup.manifest
    other = StateDir(tmp_path / "other")
    done = restore(backup, other)
    for name in SECRETS:
        assert (other.path / name).read_bytes() == (directory.path / name).read_bytes()
        assert stat.S_IMODE((other.path / name).stat().st_mode) == 0o600
    assert (other.ended_file.read_text(), other.fleet_path()) == ("[12]", str(tmp_path / "fleet.yaml"))
    assert stat.S_IMODE(other.path.stat().st_mode) == 0o700
    assert not other.restoring.exists()
    assert done.epoch == 1 + 1000 + 3600 + 1
    assert done.next_job == told.state.next_job + 1_000_000 + 36_000
    journal = open_journal(other.path)
    entries, core = list(journal.read()), Core()
    core.replay(entries)
    core.validate()
    assert entries[: told.state.seq] == told.entries
    assert isinstance(entries[told.state.seq].event, JournalRestored)
    assert core.state.skipped == 1_000_000 + 3_600_000
    assert [snapshot.seq for snapshot in journal.snapshots()] == [core.state.seq]
    assert journal.begin_epoch(NOW, Claim("test")) == done.epoch + 1
    journal.close()
    other.take()
    other.release()


def test_marks_of_what_has_its_copies_are_no_contradiction(directory: StateDir, tmp_path: Path) -> None:
    """No entry tells of them: whoever makes copies notes for itself what it need not look at again."""
    journal = open_journal(directory.path)
    wanted = {standing: Wanted(copies=1, domains=1) for standing in Standing}
    Marks(journal).short_of(Rules(wanted, {"shelf": "home", "attic": "home"}), 0.0, 500)
    journal.close()
    with closing(sqlite3.connect(directory.path / FILE)) as file:
        assert file.execute("select count(*) from artifacts where settled_on is not null").fetchone()[0] > 0
    backup = create(directory, tmp_path, NOW)
    assert restoring.verify(backup.path, directory, {}).manifest == backup.manifest
    restore(backup, StateDir(tmp_path / "other"))


def test_twice_from_one_backup_gives_no_number_twice(directory: StateDir, tmp_path: Path) -> None:
    backup = create(directory, tmp_path, NOW)
    first = restore(backup, StateDir(tmp_path / "first"))
    again = restoring.restore(backup.path, StateDir(tmp_path / "again"), {}, NOW + 3700.0, print, fetch=True)
    assert (again.epoch - first.epoch, again.next_job - first.next_job) == (100, 1000)


def test_what_was_restored_can_be_backed_up_and_restored_again(directory: StateDir, tmp_path: Path) -> None:
    restore(create(directory, tmp_path, NOW), StateDir(tmp_path / "one"))
    backup = create(StateDir(tmp_path / "one"), tmp_path, NOW + 10.0)
    restoring.verify(backup.path, directory, {})
    assert restore(backup, StateDir(tmp_path / "two")).next_job > 2_000_000


def test_restored_files_are_on_the_disk_before_they_are_named(
    directory: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = create(directory, tmp_path, NOW)
    disk = WatchedDisk(monkeypatch)
    restore(backup, StateDir(tmp_path / "one"))
    names = [Path(each).name for each in disk.renamed]
    assert names[-1] == FILE, "the journal comes last"
    assert {"token", "session.key", "identity"} <= set(names)
    assert [each for each in disk.early if not each.endswith(("-wal", "-shm"))] == []
    assert disk.has(tmp_path / "one")


CONTRADICTIONS: Mapping[str, tuple[str, str]] = {
    "a copy that nobody told of": ("insert into copies values ('{sha}', 'moon', 1.0, 0)", "copies has"),
    "a copy that is damaged": ("update copies set damaged = 0, verified_at = 1 where damaged = 1", "copies has"),
    "an artifact that is gone": ("delete from artifacts where sha256 = '{sha}'", "artifacts has"),
    "another standing": ("update artifacts set standing = 'games' where standing = 'model'", "artifacts has"),
    "a parent of nobody": ("insert into lineage values ('{sha}', 'x')", "lineage has"),
    "a hit that was never accepted": ("insert into hits values (1, 0, 'j2', '5', '{{}}')", "hits has"),
    "a request that was none": ("insert into requests values (3)", "requests has"),
    "a job that is over and should not be": ("update jobs set state = 'done', name = 'b' where id = 'j2'", "j2 is"),
    "a job that nobody submitted": ("update jobs set id = 'j999' where id = 'j2'", "others than its journal"),
    "an entry that is gone": ("delete from journal where seq = 4", "gap"),
    "an entry that is not understood": ("update journal set data = '{{}}' where seq = 4", "not an event"),
    "an entry that does not fit": (
        "update journal set checksum = null, data = (select data from journal where seq = 5) where seq = 6",
        "the id is taken",
    ),
}


REPEATED = {
    "a copy that is damaged",
    "an artifact that is gone",
    "a hit that was never accepted",
    "a request that was none",
    "an entry that is gone",
    "an entry that is not understood",
}
"""Those that are found in the same way as others."""


@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=pytest.mark.long if each in REPEATED else []) for each in CONTRADICTIONS]
)
def test_what_contradicts_itself_is_refused(
    directory: StateDir, tmp_path: Path, told: Loop, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backing, "check", lambda made: None)  # some would not be made
    statement, words = CONTRADICTIONS[what]
    with closing(sqlite3.connect(directory.path / FILE)) as journal:
        assert journal.execute(statement.format(sha=next(iter(told.config().segments)))).rowcount > 0
        journal.commit()
    backup = create(directory, tmp_path, NOW)
    with pytest.raises(CorruptState, match=words):
        restoring.verify(backup.path, directory, {})
    with pytest.raises(CorruptState, match=words):
        restore(backup, StateDir(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def lay(root: Path, kind: ArtifactKind, sha256: str, size: int) -> Path:
    """A file of an artifact's name and size."""
    path = root / ObjectName(sha256, SUFFIXES[kind]).path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def test_artifacts_that_nobody_has_are_named_and_the_index_says_what_is_there(
    directory: StateDir, tmp_path: Path, told: Loop
) -> None:
    backup = create(directory, tmp_path, NOW)
    (tmp_path / "shelf").mkdir()
    segments = list(told.config().segments.values())
    journal = open_journal(directory.path)
    with journal.catalogue() as connection:
        sizes = {each.sha256: each.bytes for each in catalogue.page(connection, limit=1000)}
    journal.close()
    kept, shelved, cut = (each.sha256 for each in segments[:3])
    lay(directory.artifacts, ArtifactKind.GAMES, kept, sizes[kept])
    lay(tmp_path / "shelf", ArtifactKind.GAMES, shelved, sizes[shelved])
    lay(directory.artifacts, ArtifactKind.GAMES, cut, sizes[cut] - 1)
    checked = restoring.verify(backup.path, directory, {})
    assert {each.name.sha256 for each in checked.nowhere} == sizes.keys() - {kept, shelved}
    assert checked.silent == {}
    other, tells = StateDir(tmp_path / "other"), []
    other.path.mkdir()
    directory.artifacts.rename(other.artifacts)
    done = restore(backup, other, tells=tells)
    assert done.fetched == 0
    assert [shelved in line for line in tells] == [True], "what lies on the shelf has other bytes than its name says"
    journal = open_journal(other.path)
    with journal.catalogue() as connection:
        there = {copy.place for copies in catalogue.copies_of(connection, list(sizes)).values() for copy in copies}
        own = [
            name
            for name, copies in catalogue.copies_of(connection, list(sizes)).items()
            if HUB in {each.place for each in copies}
        ]
    gone = [entry.event for entry in journal.read(told.state.seq) if isinstance(entry.event, CopiesGone)]
    journal.close()
    assert (own, there) == ([kept], {HUB, "shelf", "attic"})
    assert {name for event in gone for name in event.artifacts} == sizes.keys() - {kept}


def test_a_store_that_does_not_answer_and_a_fleet_file_that_cannot_be_read_are_told(
    directory: StateDir, tmp_path: Path
) -> None:
    backup = create(directory, tmp_path, NOW)
    assert "mount" in restoring.verify(backup.path, directory, {}).silent["shelf"]
    (tmp_path / "fleet.yaml").write_text("nodes: 7\n")
    directory.note_fleet(tmp_path / "fleet.yaml")
    (tmp_path / "two").mkdir()
    backup = create(directory, tmp_path / "two", NOW)
    assert "nodes" in restoring.verify(backup.path, directory, {}).silent["the stores of its fleet file"]


@pytest.mark.parametrize("what", ["journal.sqlite", "token", "agents", "controller.json", "anything"])
def test_nothing_is_restored_over_what_is_there(directory: StateDir, tmp_path: Path, what: str) -> None:
    backup = create(directory, tmp_path, NOW)
    other = StateDir(tmp_path / "other")
    other.path.mkdir()
    (other.path / what).write_text("mine")
    with pytest.raises(Conflict, match=r"in use.*mv "):
        restore(backup, other)
    assert [path.read_text() for path in other.path.iterdir()] == ["mine"]


def test_nothing_is_restored_beside_a_controller_that_has_just_begun(directory: StateDir, tmp_path: Path) -> None:
    backup = create(directory, tmp_path, NOW)
    running, other = StateDir(tmp_path / "other"), StateDir(tmp_path / "other")
    running.take()
    with pytest.raises(StoreBusy):
        restore(backup, other)
    running.release()
    assert restore(backup, other).directory == other.path


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_a_restore_that_was_cut_off_is_no_state_directory_and_can_be_done_again(
    directory: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """Killed at any of the renames by which it ends: no controller begins there, and another restore does it all."""
    backup = create(directory, tmp_path, NOW)
    replace = Path.replace
    for survives in range(0, 30, every):
        other, left = StateDir(tmp_path / f"other-{survives}"), iter(range(survives))

        def dying(self: Path, target: Path, left: object = left) -> Path:
            if next(left, None) is None:  # type: ignore[call-overload]
                os._exit(7)
            return replace(self, target)

        child = os.fork()
        if child == 0:
            try:
                monkeypatch.setattr(Path, "replace", dying)
                restore(backup, other)
                os._exit(0)
            finally:
                os._exit(1)  # an error must not end as another run of all tests
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            assert survives > 5
            return
        assert status == 7
        assert not (other.path / FILE).exists()
        with pytest.raises(StoreBusy, match="cut off"):
            other.take()
        restore(backup, other)
        assert (other.path / "token").exists()
        other.take()
        other.release()
    raise AssertionError("it never came to its end")


def test_a_restore_that_fails_at_its_end_leaves_nothing_and_can_be_done_again(
    directory: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, other = create(directory, tmp_path, NOW), StateDir(tmp_path / "other")
    replace, left = Path.replace, iter(range(4))

    def failing(self: Path, target: Path) -> Path:
        if next(left, None) is None:
            raise OSError(errno.EIO, "Input/output error")
        return replace(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", failing)
        with pytest.raises(StoreFull, match="Input/output"):
            restore(backup, other)
    assert not other.path.exists() or not [each for each in other.path.rglob("*") if each.is_file()]
    restore(backup, other)
    assert (other.path / FILE).exists()


def test_where_there_is_nothing_to_back_up_or_nowhere_to_put_it_that_is_said(
    tmp_path: Path, directory: StateDir
) -> None:
    with pytest.raises(NotFound, match="no journal"):
        create(StateDir(tmp_path / "none"), tmp_path, NOW)
    with pytest.raises(NotFound, match="no folder"):
        create(directory, tmp_path / "none" / "file", NOW)
    with pytest.raises(HostlerError):
        restoring.verify(tmp_path, directory, {})
    assert not list(tmp_path.glob("*.backup"))
    assert not list(tmp_path.glob(".*"))


def test_what_a_restore_fetches_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index says of it that it was read here, which was another file."""
    places = located((), tmp_path / "own", "here") | {
        name: Located(store=DirectoryStore(tmp_path / name), domain=name, bandwidth=Bandwidth(None))
        for name in ("shelf", "attic")
    }
    wanted, source = ObjectName(hashlib.sha256(b"games").hexdigest(), ".segment.npz"), tmp_path / "source"
    source.write_bytes(b"games")
    for name, place in places.items():
        (tmp_path / ("own" if name == HUB else name)).mkdir()
        if name != HUB:
            place.store.put(wanted, source, at_once)
    get, own, tells = places["attic"].store.get, tmp_path / "own", list[str]()

    def forgets(name: ObjectName, target: Path, pace: Pace) -> None:
        get(name, target, pace)
        target.write_bytes(b"zeros")

    monkeypatch.setattr(places["attic"].store, "get", forgets)
    held = holding.look_around(places)
    missing = [holding.Named(name=wanted, bytes=5, config=None, kind=ArtifactKind.GAMES)]
    without = {name: each for name, each in places.items() if name != "shelf"}
    alone = holding.Holdings(listed={name: held.listed[name] for name in without}, silent={})
    assert holding.fetch(missing, without, alone, own, tells.append) == missing
    assert "is not what is read here" in tells[0]
    assert not (own / wanted.path).exists(), "nobody takes it for what it is called"
    assert holding.fetch(missing, places, held, own, tells.append) == []
    assert (own / wanted.path).read_bytes() == b"games"
