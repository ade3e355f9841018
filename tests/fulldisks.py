"""Small disks that have no room while a test says so: none for bytes, or none for names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.agent.harness import fill
from tests.integration.conftest import small_disk

BYTES, NAMES = "bytes", "names"
KINDS = (BYTES, NAMES)
"""What a disk may have run out of: the system says the same of both."""


@contextmanager
def disk(path: Path, size: str = "1m", names: int = 300) -> Iterator[Path]:
    """A file system of so many bytes and names in a new folder; skips where none can be mounted."""
    with small_disk(path, f"{size},nr_inodes={names}") as made:
        yield made


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk of a megabyte, for all of them one after another."""
    with disk(tmp_path_factory.mktemp("small") / "disk") as made:
        yield made


@pytest.fixture
def room(small: Path) -> Iterator[Path]:
    """A folder of it that is this test's."""
    made = small / "own"
    made.mkdir()
    yield made
    shutil.rmtree(made)


@contextmanager
def full(disk: Path, of: str = BYTES, left: int = 0) -> Iterator[None]:
    """No room on it within: not a byte, or not a name; but for `left` bytes."""
    ballast = disk / "ballast"
    ballast.mkdir()
    spare = ballast / "spare"
    try:
        spare.write_bytes(b"\0" * left)
        if of == NAMES:
            spare.unlink()
            _take_names(ballast)
        else:
            fill(ballast / "all")
            spare.unlink()
        yield
    finally:
        shutil.rmtree(ballast)


def below(folder: Path) -> dict[str, bytes]:
    """What is there, whatever its name: half a file is found, too."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "ballast" not in path.parts
    }


def _take_names(ballast: Path) -> None:
    for number in count():
        try:
            (ballast / str(number)).touch()
        except OSError:
            return
