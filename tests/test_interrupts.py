"""Ctrl-C reaches programs that tests start, also when the tests themselves run in the background."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

INNER = """
import signal, subprocess, sys

def test_child():
    code = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
"""


def test_interrupt_of_a_child_works_in_a_background_run(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(INNER)
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_configure\n")
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
