from __future__ import annotations

from pathlib import Path

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
