"""What the backup commands say fits a terminal, and the command that they advise is one."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from hostler.core.views import job_view
from hostler.runtime.statedir import StateDir
from hostler.store import Batch, open_journal
from tests.cli.conftest import Hostler
from tests.core.loop.builders import loop, small


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory with a blank in its name, of a fleet file with one, too; its artifacts lie nowhere."""
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "the state"
    directory = StateDir(path)
    directory.take()
    world = loop(small())
    world.until(lambda: len(world.config().segments) > 30)
    jobs = [job_view(world.state, job) for job in world.state.jobs.values()]
    journal = open_journal(path)
    journal.append([Batch(entries=world.entries, jobs=jobs)])
    journal.close()
    fleet = tmp_path / "my fleet; rm -rf.yaml"
    fleet.write_text("nodes: [{name: here}]\nstores: [{name: shelf, kind: directory, path: no-such-folder}]\n")
    directory.note_fleet(fleet)
    directory.release()
    return path


def test_what_is_said_fits_and_the_advice_is_a_command(state: Path, tmp_path: Path, hostler: Hostler) -> None:
    made = hostler("backup", "create", str(tmp_path), "--state-dir", str(state))
    assert made.status == 0, made.err
    path = made.out.partition(": ")[0]
    proved = hostler("backup", "verify", path, "--state-dir", str(state))
    went_on = hostler("backup", "restore", path, "--state-dir", str(tmp_path / "the next"))
    assert (proved.status, went_on.status) == (0, 0), went_on.err
    own = [line for said in (made, proved, went_on) for line in said.out.splitlines() if str(tmp_path) not in line]
    assert len(own) > 30
    assert max(map(len, own)) <= 80
    advised = shlex.split(went_on.out.splitlines()[-1])
    assert advised == [
        "hostler",
        "up",
        "--state-dir",
        str(tmp_path / "the next"),
        str(tmp_path / "my fleet; rm -rf.yaml"),
    ]
