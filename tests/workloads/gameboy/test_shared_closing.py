"""Shared memory that was closed: its descriptor's number may be that of another file by then."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hostler.workloads.gameboy import shared


def closed(path: Path) -> tuple[shared.Opened, int]:
    """Memory that was closed, and a file that has the number of its descriptor now."""
    made = shared.made({"body": ((4,), np.dtype(np.float32).str)}, 1)
    number = made.block.held.descriptor
    made.close()
    path.write_bytes(b"another file")
    source = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    if source != number:
        os.dup2(source, number, inheritable=False)
        os.close(source)
    return made, number


def test_shared_memory_closed_twice_closes_no_other_file(tmp_path: Path) -> None:
    made, other = closed(tmp_path / "other")
    made.close()
    assert os.pread(other, 100, 0) == b"another file"
    os.close(other)


def test_shared_memory_that_is_closed_is_not_opened_again(tmp_path: Path) -> None:
    made, other = closed(tmp_path / "other")
    with pytest.raises((OSError, ValueError)):
        shared.opened(made.block)
    os.close(other)
