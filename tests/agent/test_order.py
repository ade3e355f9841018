"""The index of the order of two streams: what it knows is reproduced, and whatever it is, no byte is lost."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hostler.agent import logs, order
from hostler.agent.order import Index, Merged, merged

STREAM = st.sampled_from(order.STREAMS)
LINE = st.binary(max_size=5).map(lambda text: text.replace(b"\n", b"") + b"\n")
LIMIT = st.integers(1, 40)
OLD = time.time() - 60


def write(folder: Path, stream: str, data: bytes) -> None:
    with (folder / stream).open("ab") as output:
        output.write(data)


def note(index: Index, folder: Path, runs: int = 0) -> None:
    """Note how long both streams are now."""
    out, err = ((folder / name).stat().st_size for name in order.STREAMS)
    index.note(0.0, out, err, runs)


def empty(folder: Path) -> Path:
    """A folder of an attempt that has written nothing."""
    for file in folder.iterdir():
        file.unlink()
    for name in order.STREAMS:
        (folder / name).touch()
    return folder


def joined(pieces: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Neighbours of one stream as one piece."""
    found: list[tuple[str, bytes]] = []
    for name, data in pieces:
        if found and found[-1][0] == name:
            found[-1] = name, found[-1][1] + data
        elif data:
            found.append((name, data))
    return found


def whole(folder: Path, limit: int, *, ended: bool = True) -> list[tuple[str, bytes]]:
    """All there is, read piece by piece as a client does."""
    at, pieces = [0, 0], []
    while True:
        piece = merged(str(folder), at, limit, ended)
        assert all(data for _, data in piece.pieces)
        assert sum(len(data) for _, data in piece.pieces) <= limit
        at = list(piece.start)
        for name, data in piece.pieces:
            at[order.STREAMS.index(name)] += len(data)
        pieces += piece.pieces
        if not piece.pieces:
            return joined(pieces)


@given(writes=st.lists(st.tuples(STREAM, st.binary(min_size=1, max_size=6)), max_size=30), limit=LIMIT)
def test_order_of_noted_writes_is_reproduced(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, bytes]], limit: int
) -> None:
    folder = empty(_folder(tmp_path_factory))
    index = Index(str(folder))
    for name, data in writes:
        write(folder, name, data)
        note(index, folder)
        index = Index(str(folder))  # as after a kill of whoever notes
    assert whole(folder, limit) == joined(writes)


@given(windows=st.lists(st.tuples(STREAM, st.lists(LINE, min_size=3, max_size=8)), max_size=6), limit=LIMIT)
def test_alternating_lines_of_one_window_are_in_order(
    tmp_path_factory: pytest.TempPathFactory, windows: list[tuple[str, list[bytes]]], limit: int
) -> None:
    folder = empty(_folder(tmp_path_factory))
    index = Index(str(folder))
    expected = []
    for first, lines in windows:
        names = (first, "err" if first == "out" else "out")
        for turn, line in enumerate(lines):
            write(folder, names[turn % 2], line)
            expected.append((names[turn % 2], line))
        note(index, folder, len(lines) if first == "out" else -len(lines))
    assert whole(folder, limit) == joined(expected)


@given(
    index=st.one_of(
        st.binary(max_size=200),
        st.lists(
            st.tuples(
                st.floats(width=64),
                st.one_of(st.integers(0, 30), st.integers(0, (1 << 64) - 1)),
                st.one_of(st.integers(0, 30), st.integers(0, (1 << 64) - 1)),
                st.one_of(st.integers(-5, 5), st.integers(-(1 << 63), (1 << 63) - 1)),
            ),
            max_size=8,
        ).map(lambda records: b"".join(struct.pack("<dQQq", *each) for each in records)),
    ),
    out=st.binary(max_size=30),
    err=st.binary(max_size=30),
    limit=LIMIT,
    ended=st.booleans(),
)
def test_damaged_index_loses_no_byte(
    tmp_path_factory: pytest.TempPathFactory, index: bytes, out: bytes, err: bytes, limit: int, ended: bool
) -> None:
    folder = empty(_folder(tmp_path_factory))
    for name, data in (("out", out), ("err", err)):
        write(folder, name, data)
        os.utime(folder / name, (OLD, OLD))
    (folder / order.INDEX).write_bytes(index)
    pieces = whole(folder, limit, ended=ended)
    assert b"".join(data for name, data in pieces if name == "out") == out
    assert b"".join(data for name, data in pieces if name == "err") == err


def test_index_that_is_no_file_is_passed_over(tmp_path: Path) -> None:
    write(empty(tmp_path), "out", b"o\n")
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)):
        make(tmp_path / order.INDEX)
        assert merged(str(tmp_path), (0, 0), 100, True).pieces == [("out", b"o\n")]
        with pytest.raises(OSError, match="Errno"):
            Index(str(tmp_path)).note(0.0, 5, 0, 0)
        os.rename(tmp_path / order.INDEX, tmp_path / f"was {time.monotonic_ns()}")


def test_output_without_an_index_is_out_and_then_err(tmp_path: Path) -> None:
    write(tmp_path, "err", b"e\n")
    write(tmp_path, "out", b"o\n")
    assert merged(str(tmp_path), (0, 0), 100, True) == Merged((0, 0), [("out", b"o\n"), ("err", b"e\n")], (2, 2))


def test_two_runs_are_told_by_the_first(tmp_path: Path) -> None:
    index = Index(str(empty(tmp_path)))
    write(tmp_path, "err", b"e1\ne2\n")
    write(tmp_path, "out", b"o\n")
    index.note(0.0, 2, 6, -2)
    assert whole(tmp_path, 100) == [("err", b"e1\ne2\n"), ("out", b"o\n")]


@pytest.mark.parametrize("runs", [3, 5, 1 << 40, -(1 << 63)])
def test_alternation_that_does_not_fit_the_lines_is_out_and_then_err(tmp_path: Path, runs: int) -> None:
    index = Index(str(empty(tmp_path)))
    write(tmp_path, "out", b"o1\no2\no3\n")
    write(tmp_path, "err", b"e1\n")
    index.note(0.0, 9, 3, runs)
    assert whole(tmp_path, 100) == [("out", b"o1\no2\no3\n"), ("err", b"e1\n")]


def test_what_is_not_noted_yet_waits_while_the_attempt_runs(tmp_path: Path) -> None:
    index = Index(str(empty(tmp_path)))
    write(tmp_path, "out", b"o")
    assert merged(str(tmp_path), (0, 0), 100, False).pieces == [("out", b"o")], "only one of them has grown"
    write(tmp_path, "err", b"e")
    assert merged(str(tmp_path), (0, 0), 100, False).pieces == []
    assert merged(str(tmp_path), (1, 0), 100, False).pieces == [("err", b"e")]
    assert merged(str(tmp_path), (0, 0), 100, True).pieces == [("out", b"o"), ("err", b"e")]
    index.note(0.0, 0, 1, 0)
    assert merged(str(tmp_path), (0, 0), 100, False).pieces == [("err", b"e"), ("out", b"o")]


def test_what_nobody_notes_is_told_after_a_moment(tmp_path: Path) -> None:
    for name in order.STREAMS:
        write(tmp_path, name, b"x")
        os.utime(tmp_path / name, (OLD, OLD))
    assert whole(tmp_path, 100, ended=False) == [("out", b"x"), ("err", b"x")]


def test_index_is_bounded_and_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "MOST_RECORDS", 8)
    index = Index(str(empty(tmp_path)))
    writes = [(order.STREAMS[turn % 2], b"%d\n" % turn) for turn in range(30)]
    for name, data in writes:
        write(tmp_path, name, data)
        note(index, tmp_path)
        assert (tmp_path / order.INDEX).stat().st_size <= 8 * 32
    assert whole(tmp_path, 1000)[-4:] == writes[-4:]


def test_growth_of_one_stream_takes_no_further_record(tmp_path: Path) -> None:
    index = Index(str(empty(tmp_path)))
    for size in range(1, 100):
        index.note(0.0, size, 0, 0)
        index = Index(str(tmp_path)) if size % 10 == 0 else index
    assert (tmp_path / order.INDEX).stat().st_size == 32


def test_order_holds_across_rotation(tmp_path: Path) -> None:
    index = Index(str(empty(tmp_path)))
    writes = [(order.STREAMS[turn % 2], b"%04d\n" % turn) for turn in range(60)]
    written = [0, 0]
    for turn, (name, data) in enumerate(writes):
        write(tmp_path, name, data)
        written[turn % 2] += len(data)
        index.note(0.0, written[0], written[1], 0)
        logs.rotate(str(tmp_path / name), 80)
    told = merged(str(tmp_path), (0, 0), 1000, True)
    assert told.size == (150, 150)
    assert told.start[0] > 0
    left = b"".join(data for _, data in told.pieces)
    assert len(left) == sum(told.size) - sum(told.start)
    assert joined(told.pieces)[-10:] == writes[-10:]


def test_pieces_of_an_answer_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "MOST_PIECES", 5)
    index = Index(str(empty(tmp_path)))
    writes = [(order.STREAMS[turn % 2], b"%d\n" % turn) for turn in range(20)]
    for name, data in writes:
        write(tmp_path, name, data)
        note(index, tmp_path)
    assert len(merged(str(tmp_path), (0, 0), 1000, True).pieces) == 5
    assert whole(tmp_path, 1000) == writes


def test_damaged_beginning_of_a_stream_is_no_error(tmp_path: Path) -> None:
    write(empty(tmp_path), "out", b"o")
    for text in (b"", b"x", b"-5", b"9" * 40, b"\xff"):
        (tmp_path / "out.offset").write_bytes(text)
        told = merged(str(tmp_path), (0, 0), 100, True)
        assert told.pieces == [("out", b"o")]
        assert told.size[0] < 1 << 63


def _folder(factory: pytest.TempPathFactory) -> Path:
    folder = factory.getbasetemp() / "order"
    folder.mkdir(exist_ok=True)
    return folder
