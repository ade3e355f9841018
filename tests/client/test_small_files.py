"""Small files of a state directory."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from hostler.client.small_files import SMALL_BYTES, read_small, read_small_text


def test_text_is_read_without_the_space_around_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(" é\n")
    assert read_small_text(tmp_path / "a") == "é"
    assert read_small(tmp_path / "a") == " é\n".encode()


def _folder(path: Path) -> None:
    path.mkdir()


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


def _long(path: Path) -> None:
    path.write_bytes(b"x" * (SMALL_BYTES + 1))


@pytest.mark.parametrize("make", [os.mkfifo, _folder, _socket, _long])
def test_what_is_no_small_regular_file_is_refused_at_once(tmp_path: Path, make: object) -> None:
    make(tmp_path / "a")  # type: ignore[operator]
    with pytest.raises(OSError, match=r"not a regular file|longer than 1 MiB|No such device"):
        read_small(tmp_path / "a")
