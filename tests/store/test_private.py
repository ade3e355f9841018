"""Files of a store: private to their owner, durable at each commit, and nothing temporary left of a backup."""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event

from hostler.model.errors import CorruptState
from hostler.runtime.backing import create
from hostler.runtime.statedir import StateDir
from hostler.store import Claim, open_journal
from hostler.store.archive import publishing
from hostler.store.dialect import sqlite_engine
from hostler.store.opening import FILE
from tests.journals import new_journal
from tests.patience import PATIENCE_S
from tests.store.test_journal import batch, trouble

FULL = 2
"""What SQLite calls `synchronous = full`."""
SETTINGS = ("synchronous", "journal_mode")


def test_new_journal_and_what_lies_beside_it_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        journal = open_journal(tmp_path)
        journal.append([batch(trouble(1))])
        assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == dict.fromkeys(
            (FILE, f"{FILE}-wal", f"{FILE}-shm"), 0o600
        )
        journal.close()
    finally:
        os.umask(before)


def test_journal_of_an_older_version_becomes_private_when_it_is_opened(tmp_path: Path) -> None:
    new_journal(tmp_path)
    (tmp_path / FILE).chmod(0o644)
    open_journal(tmp_path).close()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_connection_that_writes_the_journal_waits_for_the_disk_at_each_commit(tmp_path: Path) -> None:
    journal, seen = open_journal(new_journal(tmp_path)), set[tuple[int, str]]()

    def look(connection: object, cursor: sqlite3.Cursor, statement: str, *rest: object) -> None:
        if statement.lower().startswith("insert into journal"):
            own = cursor.connection
            ((synchronous,), (mode,)) = (own.execute(f"pragma {name}").fetchone() for name in SETTINGS)
            seen.add((synchronous, mode))

    event.listen(journal._engine, "before_cursor_execute", look)
    journal.begin_epoch(1.0, Claim("test"))
    journal.append([batch(trouble(1))])
    journal.append([batch(trouble(2))])
    journal.close()
    assert seen == {(FULL, "wal")}


def test_every_connection_of_a_file_waits_for_the_disk(tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "any.sqlite").execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as one, engine.connect() as other:
        found = [each.exec_driver_sql("pragma synchronous").scalar_one() for each in (one, other)]
    engine.dispose()
    assert found == [FULL, FULL]


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    folder = tmp_path / "state"
    folder.mkdir()
    with closing(open_journal(new_journal(folder))) as journal:
        journal.begin_epoch(1.0, Claim("test"))
        journal.append([batch(trouble(1), trouble(2))])
    return StateDir(folder)


def left(folder: Path, name: str, age_s: float) -> Path:
    path = folder / name
    path.write_bytes(b"half")
    os.utime(path, (path.stat().st_atime - age_s, path.stat().st_mtime - age_s))
    return path


def test_next_backup_removes_what_a_killed_one_has_left(state: StateDir, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    old = left(folder, ".one.backup.4711.00c0ffee.tmp", 60)
    other = left(folder, ".mine.tmp", 60)
    fresh = left(folder, ".two.backup.4711.00c0ffee.tmp", 0)
    held = left(folder, ".three.backup.4711.00c0ffee.tmp", 60)
    with held.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        create(state, folder / "new.backup", 1.0)
    assert not old.exists()
    assert {path.name for path in folder.iterdir()} == {other.name, fresh.name, held.name, "new.backup"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_backup_that_a_signal_ends_leaves_nothing(state: StateDir, tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    program = (
        "import sys, time\n"
        "from hostler.runtime import backing\n"
        "def stand(*_): print('standing', flush=True); time.sleep(3600)\n"
        "backing.copy_out = stand\n"
        "from hostler.cli.backup import create\n"
        "from pathlib import Path\n"
        f"create(Path({str(folder / 'one.backup')!r}), state_dir=Path({str(state.path)!r}))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as making:
        assert making.stdout is not None
        assert making.stdout.readline() == b"standing\n"
        assert len(list(folder.iterdir())) == 1
        making.send_signal(number)
        assert making.wait(PATIENCE_S) != 0
    assert list(folder.iterdir()) == []


IMPOSSIBLE = '{"kind":"node.joined","node":{"name":"evil","backend":"dialin","devices":[],"cpus":0.0}}'


def test_backup_of_an_entry_that_does_not_load_is_not_made(state: StateDir, tmp_path: Path) -> None:
    with closing(sqlite3.connect(state.path / FILE)) as connection, connection:
        connection.execute("update journal set data = ?, checksum = null where seq = 2", (IMPOSSIBLE,))
    with pytest.raises(CorruptState, match="entry 2 of the journal is damaged: not an event of this version"):
        create(state, tmp_path / "one.backup", 1.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state"]


def test_file_that_its_check_refuses_never_has_its_name(tmp_path: Path) -> None:
    def refuse(path: Path) -> None:
        assert path.read_bytes() == b"all"
        raise CorruptState("no")

    with pytest.raises(CorruptState), publishing(tmp_path / "one", 0o600, refuse) as file:
        file.write(b"all")
    assert list(tmp_path.iterdir()) == []
