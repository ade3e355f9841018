from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from .harness import Agent, until


@pytest.fixture
def agent(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Agent]:
    """An agent of its own; whatever it leaves behind is ended, and is a failure.

    An indirect parameter is the agent's program, as from `harness.patched`.
    """
    yield from _running(tmp_path, getattr(request, "param", ()))


@pytest.fixture(scope="module")
def shared_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """One for all tests of a module that need none of their own: each has its own names of attempts and workers."""
    yield from _running(tmp_path_factory.mktemp("shared"))


def _running(folder: Path, program: Sequence[str] = ()) -> Iterator[Agent]:
    running = Agent(folder / "agent", program)
    yield running
    running.stop()
    leftovers = running.leftovers()
    for pid in leftovers:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not running.leftovers(), "the end of what the agent left behind")
    assert leftovers == []


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Callable[[Path, int, str], None]]:
    """Makes folders in folders, deeper than a path may be long, with a file in the last."""

    def make(folder: Path, levels: int, name: str) -> None:
        folder.mkdir(parents=True)
        inner = os.open(folder, os.O_RDONLY)
        for _ in range(levels):
            os.mkdir(name, dir_fd=inner)
            outer, inner = inner, os.open(name, os.O_RDONLY, dir_fd=inner)
            os.close(outer)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=inner))
        os.close(inner)

    yield make
    # Whatever the test was about: Python's own rmtree, with which pytest tidies up, would fail on them.
    subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
