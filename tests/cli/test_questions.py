"""Questions at the terminal, and Ctrl-C as their answer."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.backends.ssh import sshd
from tests.patience import PATIENCE_S

ASK = "from hostler.cli.questions import confirmed"
RUN = "import sys; from hostler.cli.main import run; sys.exit(run(sys.argv[1:]))"
INTERRUPTED = 130


def interrupted(code: str, *words: str, folder: Path, again_s: float = 0.0) -> int:
    """The exit status of a program that is interrupted as it asks, once or, with `again_s`, each so many seconds."""
    terminal, its_side = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", code, *words], cwd=folder, stdin=its_side, stderr=its_side)
    try:
        asked = b""
        while b"[y/N]: " not in asked:
            asked += os.read(terminal, 4096)
            assert process.poll() is None, asked
        process.send_signal(signal.SIGINT)
        if not again_s:
            return process.wait(PATIENCE_S)
        ends_at = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends_at:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(again_s)
            process.send_signal(signal.SIGINT)
        raise AssertionError("it waits for Enter")
    finally:
        process.kill()
        process.wait()
        os.close(its_side)
        os.close(terminal)


@pytest.mark.parametrize(
    "code",
    [
        f"{ASK}; confirmed('well?')",
        f"import asyncio; {ASK}\nasync def ask(): confirmed('well?')\nasyncio.run(ask())",
    ],
    ids=["plain", "in a task"],
)
def test_question_is_ended_by_an_interruption(code: str, tmp_path: Path) -> None:
    assert interrupted(code, folder=tmp_path) in (-signal.SIGINT, INTERRUPTED, 1)


@pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")
def test_trust_is_ended_by_an_interruption(tmp_path: Path) -> None:
    """It once waited for Enter. A connection that is being closed may need a second Ctrl-C."""
    with sshd.running(tmp_path / "sshd") as server:
        node = (
            f"{{name: rig, backend: ssh, host: 127.0.0.1, port: {server.port}, identity: {server.folder / 'client'}}}"
        )
        known = f"ssh: {{config: [], known_hosts: [{tmp_path / 'known'}]}}"
        (tmp_path / "fleet.yaml").write_text(f"nodes:\n  - {node}\n{known}\n")
        assert interrupted(RUN, "node", "trust", "fleet.yaml", folder=tmp_path, again_s=10.0) == INTERRUPTED
