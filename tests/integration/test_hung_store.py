"""A store whose server is gone: a mounted file system that answers nothing, neither yes nor no."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostler.stores.base import LABEL
from tests.integration.conftest import PATIENCE_S, Fleet, a_fleet, until

pytestmark = pytest.mark.long


@contextmanager
def mounted(path: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A folder that a process of rclone answers for."""
    if shutil.which("rclone") is None or shutil.which("fusermount3") is None or not Path("/dev/fuse").exists():
        pytest.skip("no file system of one's own: it takes rclone, fuse3 (apt-get install both) and /dev/fuse")
    below, at, log = path / "below", path / "attic", path / "mount.log"
    below.mkdir()
    at.mkdir()
    with log.open("wb") as out:
        serving = subprocess.Popen(["rclone", "mount", below, at, "--config", "/dev/null"], stderr=out)
    try:
        until(lambda: at.is_mount() or serving.poll() is not None, "the mount", log=log.read_text)
        if serving.poll() is not None:
            pytest.skip(f"rclone cannot mount here: {log.read_text().strip()}")
        yield at, serving
    finally:
        serving.send_signal(signal.SIGCONT)
        serving.terminate()
        serving.wait(PATIENCE_S)
        subprocess.run(["umount", "-l", at], check=False, capture_output=True)


def is_waited_for(fleet: Fleet) -> bool:
    """Whether a thread of the controller is in the kernel, for an answer that does not come."""
    assert fleet.controller is not None
    stacks = Path(f"/proc/{fleet.controller.pid}/task").glob("*/wchan")
    return any("fuse" in where or "request_wait" in where for where in map(read, stacks))


def read(file: Path) -> str:
    """A file of a thread; nothing where the thread has ended meanwhile."""
    try:
        return file.read_text()
    except OSError:
        return ""


def test_a_controller_ends_though_a_store_hangs(tmp_path: Path) -> None:
    with mounted(tmp_path) as (at, serving):
        stores = [{"name": "attic", "kind": "directory", "path": str(at), "domain": "attic", "reserve_gb": 0.0}]
        with a_fleet(tmp_path, stores=stores) as fleet:
            fleet.start()
            until(lambda: (at / LABEL).exists(), "the store's label", log=fleet.log)
            fleet.signal(signal.SIGTERM)
            assert fleet.ended() == 0, fleet.log()
            serving.send_signal(signal.SIGSTOP)
            fleet.start()  # which looks at its stores at once, and a minute later again
            until(lambda: is_waited_for(fleet), "a thread that hangs", log=fleet.log)

            fleet.signal(signal.SIGTERM)
            assert fleet.ended() == 0, fleet.log()
            assert "left behind" in fleet.log()
