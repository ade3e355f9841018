"""What one node writes, others read; on the command line, as it is run on nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hostler.workloads.gameboy.reaching import keeps, main, reads, write


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    status = main(words)
    return status, json.loads(capsys.readouterr().out)


def test_what_is_written_is_read_and_taken_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for node in ("a", "b/ü"):
        assert told(capsys, "write", str(tmp_path), "t", node) == (0, {"wrote": node})
    assert told(capsys, "read", str(tmp_path), "t", "a", "b/ü", "c") == (0, {"read": ["a", "b/ü"]})
    assert told(capsys, "read", str(tmp_path), "other", "a") == (0, {"read": []})
    assert told(capsys, "clean", str(tmp_path), "t", "a", "b/ü") == (0, {"cleaned": True})
    assert list(tmp_path.iterdir()) == []


def test_half_a_file_is_none(tmp_path: Path) -> None:
    write(tmp_path, "t", "a")
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text()[:-1])
    assert not reads(tmp_path, "t", "a")


def test_a_folder_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("write", "read"):
        status, said = told(capsys, what, str(tmp_path / "missing"), "t", "a")
        assert status == 1
        assert "No such file or directory" in str(said["error"])


def test_a_folder_keeps_what_is_written_and_nothing_is_left(tmp_path: Path) -> None:
    assert keeps(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        keeps(tmp_path / "missing")
