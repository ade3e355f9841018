"""A damaged journal: the first bad row is named, a repair goes on from what is left, and says what is lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hostler.core import Core
from hostler.core.views import job_view
from hostler.model import inputs
from hostler.model.errors import CorruptState, DamagedEntry, StoreBusy, StoreError
from hostler.model.inputs import Input
from hostler.model.work import JobState
from hostler.runtime.backing import create
from hostler.runtime.clock import SteadyClock
from hostler.runtime.repairing import Repaired, repair
from hostler.runtime.restoring import verify
from hostler.runtime.rowcheck import RowCheck
from hostler.runtime.snapshots import recovered, snapshot_of
from hostler.runtime.statedir import StateDir
from hostler.store import Batch, Claim, Journal, open_journal
from hostler.store.opening import FILE
from tests.core.builders import ended, link_up, node, script

NOW = 1_000.0


class Kept:
    """A state directory with the journal of three scripts; each step is a batch, as the controller writes it."""

    def __init__(self, folder: Path) -> None:
        self.directory = StateDir(folder)
        folder.mkdir(mode=0o700, exist_ok=True)
        self.core, self.now = Core(), NOW
        with self.opened() as journal:
            journal.begin_epoch(NOW, Claim("test"))
            self.tell(journal, inputs.Begin(version="test", epoch=1), inputs.NodeFound(node=node(devices=1)), link_up())
            for name in ("a", "b", "c"):
                self.tell(journal, inputs.Submit(specs=(script(name, key=f"key-{name}"),)))
            self.run(journal, "j1")

    def opened(self) -> closing[Journal]:
        return closing(open_journal(self.directory.path))

    def tell(self, journal: Journal, *given: Input) -> None:
        self.now += 1
        outcome = self.core.handle(self.now, *given)
        jobs = [job_view(self.core.state, job) for job in self.core.state.jobs.values()]
        journal.append([Batch(entries=outcome.entries, jobs=jobs, left=outcome.left, hours=outcome.hours)])

    def run(self, journal: Journal, job: str) -> None:
        self.tell(journal, inputs.Launched(attempts=(f"{job}.1",)))
        self.tell(journal, inputs.Started(attempt=f"{job}.1", pid=1, pid_start=2))
        self.tell(journal, ended(f"{job}.1", result={"loss": 7}))

    def snapshot(self) -> int:
        with self.opened() as journal:
            journal.save_snapshot(snapshot_of(self.core))
        return self.core.state.seq

    def sql(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.directory.path / FILE)) as connection, connection:
            connection.execute(statement, values)

    def seq_of(self, kind: str, nth: int = 0) -> int:
        with closing(sqlite3.connect(self.directory.path / FILE)) as connection:
            rows = connection.execute("select seq from journal where data like ? order by seq", (f'%"{kind}"%',))
            return [row[0] for row in rows][nth]

    def repaired(self) -> Repaired:
        return repair(self.directory, self.now)

    def started(self) -> Core:
        with self.opened() as journal:
            core = recovered(journal, lambda why: None)
            core.validate()
            return core


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "state")


DAMAGE = {
    "a digit of what it says": "update journal set data = replace(data, '7', '8') where seq = ?",
    "its time": "update journal set at = at + 1 where seq = ?",
    "its job": "update journal set job = 'j9' where seq = ?",
    "its epoch": "update journal set epoch = 7 where seq = ?",
    "no JSON": "update journal set data = substr(data, 1, 20) where seq = ?",
    "no text": "update journal set data = cast(x'ff00fe' as text) where seq = ?",
    "no such row": "delete from journal where seq = ?",
}


@pytest.mark.parametrize("how", DAMAGE)
def test_start_names_the_damaged_entry_and_the_repair(kept: Kept, how: str) -> None:
    seq = kept.seq_of("attempt.ended")
    kept.sql(DAMAGE[how], seq)
    with kept.opened() as journal, pytest.raises(DamagedEntry, match=rf"(entry|is no entry|where) {seq}\b") as told:
        recovered(journal, lambda why: None)
    assert "Run `hostler journal repair`, which copies the journal first" in str(told.value)
    assert told.value.seq == seq


@pytest.mark.parametrize("how", DAMAGE)
def test_entry_that_a_snapshot_covers_costs_nothing_of_the_state(kept: Kept, how: str) -> None:
    base = kept.snapshot()
    with kept.opened() as journal:
        kept.run(journal, "j2")
    seq = kept.seq_of("attempt.ended")
    kept.sql(DAMAGE[how], seq)
    done = kept.repaired()
    assert [fault.seq for fault in done.lost] == [seq]
    assert (done.base, done.without_effect, done.jobs_gone) == (base, 1, ())
    core = kept.started()
    assert [core.state.jobs[job].state for job in ("j1", "j2")] == [JobState.DONE] * 2
    assert core.state.jobs["j1"].result == {"loss": 7}


@pytest.mark.parametrize("how", DAMAGE)
def test_entry_that_no_snapshot_covers_takes_what_does_not_fit_with_it(kept: Kept, how: str) -> None:
    seq = kept.seq_of("attempt.ended")
    kept.sql(DAMAGE[how], seq)
    done = kept.repaired()
    assert done.lost[0].seq == seq
    assert done.base == 0
    kept.started()


def test_damaged_submission_is_reported_as_a_job_that_is_gone(kept: Kept) -> None:
    seq = kept.seq_of("job.submitted", 1)
    kept.sql(DAMAGE["a digit of what it says"].replace("'7', '8'", "'key-b', 'key-x'"), seq)
    done = kept.repaired()
    assert done.jobs_gone == ("j2",)
    assert {fault.seq for fault in done.lost} >= {seq}
    core = kept.started()
    assert sorted(core.state.jobs) == ["j1", "j3"]


def test_journal_goes_on_after_a_repair_and_its_backup_can_be_restored(kept: Kept, tmp_path: Path) -> None:
    kept.sql(DAMAGE["no JSON"], kept.seq_of("job.submitted", 1))
    kept.repaired()
    kept.core = kept.started()
    with kept.opened() as journal:
        journal.begin_epoch(kept.now, Claim("test"))
        kept.tell(journal, inputs.Begin(version="test", epoch=2))
        kept.tell(journal, inputs.Submit(specs=(script("later"),)))
    made = create(kept.directory, tmp_path / "one.backup", kept.now)
    checked = verify(made.path, StateDir(tmp_path / "other"), {})
    assert checked.manifest["journal"]["seq"] == kept.core.state.seq
    assert kept.repaired().copy is None, "nothing is damaged any more"


def test_repair_keeps_the_journal_as_it_was(kept: Kept) -> None:
    seq = kept.seq_of("attempt.ended")
    kept.sql(DAMAGE["a digit of what it says"], seq)
    done = kept.repaired()
    assert done.copy is not None
    with closing(sqlite3.connect(done.copy / FILE)) as copy:
        (was,) = copy.execute("select data from journal where seq = ?", (seq,)).fetchone()
    assert '"loss":8' in was
    assert {path.stat().st_mode & 0o777 for path in done.copy.iterdir()} == {0o600}
    with closing(sqlite3.connect(kept.directory.path / FILE)) as now:
        (aside,) = now.execute("select data from set_aside where seq = ?", (seq,)).fetchone()
    assert aside.decode() == was


def test_journal_without_damage_is_left_alone(kept: Kept) -> None:
    done = kept.repaired()
    assert (done.copy, done.lost, done.jobs_gone) == (None, (), ())
    assert not list(kept.directory.path.glob("before-repair-*"))


def test_state_of_a_repair_that_another_version_made_is_folded_anew(kept: Kept) -> None:
    kept.sql(DAMAGE["no JSON"], kept.seq_of("attempt.started"))
    kept.repaired()
    kept.sql("update bases set data = x'00'")
    kept.sql("delete from snapshots")
    core = kept.started()
    assert sorted(core.state.jobs) == ["j1", "j2", "j3"]


@pytest.mark.anyio
async def test_damage_behind_a_snapshot_is_told_while_the_controller_works(kept: Kept) -> None:
    kept.snapshot()
    seq = kept.seq_of("job.submitted")
    kept.sql(DAMAGE["its time"], seq)
    told: list[str] = []
    with kept.opened() as journal:
        rows = RowCheck(journal, SteadyClock(), lambda where, what: told.append(what))
        await rows.run()
    assert rows.trouble is not None
    assert f"entry {seq} of the journal is damaged" in rows.trouble
    assert told == [rows.trouble]


@pytest.mark.parametrize("how", ["a digit of what it says", "its time", "no JSON"])
def test_backup_of_a_damaged_journal_is_not_made(kept: Kept, tmp_path: Path, how: str) -> None:
    kept.sql(DAMAGE[how], kept.seq_of("attempt.ended"))
    with pytest.raises(CorruptState, match="is damaged"):
        create(kept.directory, tmp_path / "one.backup", kept.now)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_readers_of_one_job_and_of_requests_notice_a_changed_digit(kept: Kept) -> None:
    seq = kept.seq_of("attempt.ended")
    kept.sql(DAMAGE["a digit of what it says"], seq)
    with kept.opened() as journal, pytest.raises(DamagedEntry, match=f"entry {seq} "):
        journal.story("j1")


def test_file_that_sqlite_cannot_read_is_not_repaired_and_no_copy_is_left(kept: Kept) -> None:
    file = kept.directory.path / FILE
    file.write_bytes(b"x" * 100 + file.read_bytes()[100:])
    with pytest.raises(StoreError, match=r"the file is damaged .* Restore it from a copy"):
        kept.repaired()
    assert not list(kept.directory.path.glob("before-repair-*"))


def test_journal_of_a_running_controller_is_not_repaired(kept: Kept) -> None:
    running = StateDir(kept.directory.path)
    running.take()
    try:
        with pytest.raises(StoreBusy):
            kept.repaired()
    finally:
        running.release()
    assert not list(kept.directory.path.glob("before-repair-*"))
