"""A fork of the process that has imported the controller is what `python -m hostler` is."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from hostler import __version__
from tests import forked
from tests.patience import PATIENCE_S


def test_fork_has_its_own_arguments_output_and_exit_status(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert forked.start(["--version"], tmp_path, log).wait(PATIENCE_S) == 0
    assert forked.start(["no-such-command"], tmp_path, log).wait(PATIENCE_S) == 2
    first, second = log.read_text().splitlines()
    assert first == __version__
    assert second.startswith("hostler: error: ")


def test_fork_has_the_folder_and_the_variables_of_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    for state in ("one", "two"):
        monkeypatch.setenv("HOSTLER_STATE_DIR", state)
        assert forked.start(["status"], tmp_path, log).wait(PATIENCE_S) == 3
    first, second = log.read_text().splitlines()
    assert str(tmp_path / "one") in first
    assert str(tmp_path / "two") in second


def test_fork_is_signalled_and_waited_for_as_any_process(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("nodes:\n- {name: here, cpu_slots: 1, gpus: none}\n")
    words = ["up", "--state-dir", str(tmp_path / "state"), "--port", "0", "fleet.yaml"]
    controller = forked.start(words, tmp_path, tmp_path / "log")
    assert controller.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        controller.wait(0.1)
    controller.send_signal(signal.SIGSTOP)
    controller.kill()
    assert controller.wait(PATIENCE_S) == -signal.SIGKILL
    assert controller.returncode == controller.poll() == -signal.SIGKILL
    controller.kill()  # of what has ended: no other process is hit
