from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hostler.agent import logs


@given(
    writes=st.lists(st.binary(max_size=60), max_size=12),
    offset=st.integers(-400, 400),
    limit=st.integers(0, 100),
)
def test_what_is_read_is_what_was_written_there(
    tmp_path_factory: object, writes: list[bytes], offset: int, limit: int
) -> None:
    path = tmp_path_factory.mktemp("logs") / "out"  # type: ignore[attr-defined]
    path.touch()
    for data in writes:
        with path.open("ab") as target:
            target.write(data)
        logs.rotate(str(path), 100)
    everything = b"".join(writes)
    piece = logs.read(str(path), offset, limit)
    assert piece.size == len(everything)
    assert piece.data == everything[piece.offset : piece.offset + len(piece.data)]
    assert piece.offset >= min(len(everything), offset if offset >= 0 else max(0, len(everything) + offset))
    if limit and piece.offset < len(everything):
        assert piece.data


def test_rotation_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"a" * 100 + b"b" * 50)
    assert logs.rotate(str(path), 100)
    assert path.read_bytes() == b""
    assert (tmp_path / "out.1").read_bytes() == b"b" * 50
    assert not logs.rotate(str(path), 100)
    assert logs.read(str(path), 0, 10) == logs.Piece(100, b"b" * 10, 150)


def test_no_file_is_nothing_to_rotate_and_empty_at_its_end(tmp_path: Path) -> None:
    assert not logs.rotate(str(tmp_path / "out"), 100)
    assert logs.tail(str(tmp_path / "out"), 100) == b""


def test_link_in_the_place_of_a_stream_is_neither_read_nor_emptied(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 500)
    (tmp_path / "out").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic links"):
        logs.read(str(tmp_path / "out"), 0, 100)
    with pytest.raises(OSError, match="symbolic links"):
        logs.rotate(str(tmp_path / "out"), 100)
    assert logs.tail(str(tmp_path / "out"), 100) == b""
    assert secret.read_bytes() == b"s" * 500


@pytest.mark.parametrize("name", ["out.1", "out.1.new", "out.offset", "out.offset.new"])
def test_link_in_the_place_of_an_older_part_leads_nowhere(tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"7" * 10)
    (tmp_path / "out").write_bytes(b"a" * 100 + b"b" * 100)
    (tmp_path / name).symlink_to(secret)
    with suppress(OSError):
        logs.rotate(str(tmp_path / "out"), 100)
    with suppress(OSError):
        assert b"7" not in logs.read(str(tmp_path / "out"), 0, 1000).data
    assert secret.read_bytes() == b"7" * 10
