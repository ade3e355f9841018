"""docs/get-started/ssh.md: its blocks are executed in order, with a real SSH server as the host `rig-1`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.ssh import sshd
from tests.integration.conftest import kill_below
from tests.integration.guides import execute
from tests.patience import PATIENCE_S

GIVEN = {
    "hostler node trust fleet.yaml": "hostler node trust fleet.yaml --yes",  # there is no terminal to ask on
    "hostler up fleet.yaml": "hostler up fleet.yaml --port 0",
}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """The state directory of a home whose ssh configuration has the host."""
    state = tmp_path / "state"
    (tmp_path / ".ssh").mkdir(mode=0o700)
    with sshd.running(tmp_path / "rig") as rig:
        host = f"Host rig-1\n  HostName 127.0.0.1\n  Port {rig.port}\n  IdentityFile {rig.folder}/client\n"
        (tmp_path / ".ssh" / "config").write_text(host)
        yield state
        words = [sys.executable, "-m", "hostler", "down", "--now", "--state-dir", str(state)]
        subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=False)
        kill_below(tmp_path)


@pytest.mark.services
@pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")
def test_guide_of_ssh_is_executed_block_by_block(state: Path, tmp_path: Path) -> None:
    execute("ssh.md", tmp_path, {"HOSTLER_STATE_DIR": str(state)}, given=GIVEN)
