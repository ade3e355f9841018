"""Files that two machines share: streams that grow, files that are there at once."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, strategies

from hostler.agent import shared
from hostler.agent.pace import LINGER_S, Pace
from hostler.agent.shared import make_folder, names, publish, read_on, write_on


@given(
    strategies.lists(strategies.binary(min_size=1).map(lambda data: data.replace(b"\0", b"0"))),
    strategies.integers(1, 9),
)
def test_a_stream_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, datas: list[bytes], step: int
) -> None:
    path = str(tmp_path_factory.mktemp("stream") / "out")
    written, got = 0, b""
    for data in datas:
        write_on(path, written, data[:-1])
        write_on(path, written, data)  # once more, as after an error at the end of the first time
        written += len(data)
        got += read_on(path, len(got), step)
    while piece := read_on(path, len(got), step):
        got += piece
    assert got == b"".join(datas)


def test_what_lies_behind_zeros_has_not_come_yet(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert read_on(str(path), 0, 100) == b""
    path.write_bytes(b"one\n\0\0three\n")
    assert read_on(str(path), 0, 100) == b"one\n"
    assert read_on(str(path), 4, 100) == b""


def test_a_file_is_published_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "news")
    publish(path, b"old")

    def fail(_source: str, _target: str) -> None:
        raise OSError("no")

    monkeypatch.setattr(shared.os, "rename", fail)
    with pytest.raises(OSError, match="no"):
        publish(path, b"new")
    assert os.listdir(tmp_path) == ["news"]
    assert Path(path).read_bytes() == b"old"


def test_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    make_folder(str(tmp_path / "a" / "b" / "c"))
    make_folder(str(tmp_path / "a" / "b" / "c"))
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b", "a/b/c")] == [0o700] * 3
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_folder(str(tmp_path / "file"))
    (tmp_path / "a" / ".hidden").touch()
    assert (names(str(tmp_path / "a")), names(str(tmp_path / "nowhere"))) == (["b"], [])


def test_pauses_stay_short_for_a_moment_and_grow_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    pace = Pace(0.02, 0.5)
    assert [pace.next(False) for _ in range(3)] == [0.02] * 3
    now[0] += LINGER_S + 0.01
    assert [pace.next(False) for _ in range(6)] == [0.04, 0.08, 0.16, 0.32, 0.5, 0.5]
    assert pace.is_slow
    assert pace.next(True) == pace.next(False) == 0.02
    assert not pace.is_slow
