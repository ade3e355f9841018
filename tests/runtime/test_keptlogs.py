"""What attempts have said is kept as their nodes kept it: rotated, in pieces, or not at all."""

from __future__ import annotations

import base64
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.agent import logs
from hostler.backends.bounds import NodeFault
from hostler.model.errors import LinkLost, NotFound
from hostler.model.views import LogChunk, Output, OutputPiece
from hostler.runtime import keptlogs
from hostler.runtime.keptlogs import KeptLogs
from hostler.snapshots.reserve import RESERVE

pytestmark = pytest.mark.anyio


class Reader:
    """The streams of a node, as files; `breaks_at` is an offset at which the link is lost."""

    def __init__(self, folder: Path, breaks_at: int | None = None) -> None:
        self.folder = folder
        self.breaks_at = breaks_at

    async def read_log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        if self.breaks_at is not None and offset >= self.breaks_at:
            raise LinkLost("cut")
        try:
            piece = logs.read(str(self.folder / stream), offset, limit)
        except OSError as error:
            raise NotFound(str(error)) from error
        return LogChunk(
            attempt=attempt, stream=stream, offset=piece.offset, data=piece.data, size=piece.size, ended=True
        )


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keptlogs, "PIECE", 7)


async def test_both_streams_are_kept_whole(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"0123456789" * 5)
    (tmp_path / "err").write_bytes(b"")
    kept = KeptLogs(tmp_path / "kept")
    await kept.keep(Reader(tmp_path), "j1.1")
    whole = kept.read("j1.1", "out", 0, 1000)
    assert whole is not None
    assert (whole.data, whole.size, whole.ended) == (b"0123456789" * 5, 50, True)
    silent = kept.read("j1.1", "err", 0, 1000)
    assert silent is not None
    assert (silent.data, silent.size) == (b"", 0)


async def test_offsets_count_what_was_rotated_away(tmp_path: Path) -> None:
    path = tmp_path / "out"
    for piece in (b"a" * 40, b"b" * 40, b"c" * 10):
        with path.open("ab") as output:
            output.write(piece)
        logs.rotate(str(path), 60)
    there = logs.read(str(path), 0, 1000)
    kept = KeptLogs(tmp_path / "kept")
    await kept.keep(Reader(tmp_path), "j1.1")
    here = kept.read("j1.1", "out", 0, 1000)
    assert here is not None
    assert here.size == there.size == 90
    assert here.offset == there.offset > 0
    last = kept.read("j1.1", "out", -5, 1000)
    assert last is not None
    assert last.data == b"ccccc"


async def test_half_of_it_is_not_kept_as_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"0123456789" * 5)
    kept = KeptLogs(tmp_path / "kept")
    with pytest.raises(LinkLost):
        await kept.keep(Reader(tmp_path, breaks_at=21), "j1.1")
    assert kept.read("j1.1", "out", 0, 1000) is None
    await kept.keep(Reader(tmp_path), "j1.1")
    again = kept.read("j1.1", "out", 0, 1000)
    assert again is not None
    assert again.size == 50


async def test_of_one_that_said_nothing_nothing_is_kept(tmp_path: Path) -> None:
    kept = KeptLogs(tmp_path / "kept")
    await kept.keep(Reader(tmp_path / "nowhere"), "j1.1")
    assert kept.read("j1.1", "out", 0, 10) is None
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("attempt", ["", ".", "..", "../x.1", "/x.1", "x.1/..", "x.1\0", "\0", ".x.1.new", "x"])
def test_no_name_leads_out_of_it(tmp_path: Path, attempt: str) -> None:
    for folder in (tmp_path, tmp_path / "x.1", tmp_path / "kept", tmp_path / "kept" / ".x.1.new"):
        folder.mkdir(exist_ok=True)
        (folder / "out").write_bytes(b"secret")
    assert KeptLogs(tmp_path / "kept").read(attempt, "out", 0, 10) is None


@pytest.mark.parametrize("stream", ["", "..", "../out", "out.offset", "/etc/passwd", "out\0"])
def test_there_are_two_streams(tmp_path: Path, stream: str) -> None:
    (tmp_path / "j1.1").mkdir()
    (tmp_path / "j1.1" / "out.offset").write_bytes(b"7")
    assert KeptLogs(tmp_path).read("j1.1", stream, 0, 10) is None


def output(out: int, err: int, *pieces: tuple[str, bytes], ended: bool = False) -> Output:
    """A piece as a node tells it."""
    told = Output(
        attempt="j1.1",
        out=out,
        err=err,
        pieces=tuple(OutputPiece(stream=each, data=base64.b64encode(data).decode()) for each, data in pieces),  # type: ignore[arg-type]
        out_size=0,
        err_size=0,
        ended=ended,
    )
    return replace(told, out_size=told.ends[0], err_size=told.ends[1])


def told(kept: KeptLogs, out: int = 0, err: int = 0) -> list[tuple[str, bytes]]:
    """What is kept of both streams."""
    piece = kept.output("j1.1", out, err, 1 << 20)
    assert piece is not None
    return [(each.stream, base64.b64decode(each.data)) for each in piece.pieces]


class Merger(Reader):
    """A node that knows the order: `err` was written first."""

    async def read_output(self, attempt: str, out: int, err: int, limit: int) -> Output:
        whole = output(0, 0, ("err", b"e1\n"), ("out", b"o1\n"), ("err", b"e2\n"), ended=True)
        return whole if (out, err) == (0, 0) else replace(whole, out=3, err=6, pieces=())


async def test_order_of_the_streams_is_kept(tmp_path: Path) -> None:
    kept = KeptLogs(tmp_path / "kept")
    await kept.keep(Merger(tmp_path), "j1.1")
    assert told(kept) == [("err", b"e1\n"), ("out", b"o1\n"), ("err", b"e2\n")]
    found = kept.output("j1.1", 3, 3, 100)
    assert found is not None
    assert (found.ended, found.seen_at, found.is_whole) == (True, None, True)


def test_seen_output_is_kept_in_order_and_told_as_seen(tmp_path: Path) -> None:
    kept = KeptLogs(tmp_path)
    assert kept.seen("j1.1") is None
    kept.see(output(0, 0, ("err", b"e1\n"), ("out", b"o1\n")), 7.0)
    kept.see(output(3, 3, ("err", b"e2\n")), 8.0)
    assert told(kept) == [("err", b"e1\n"), ("out", b"o1\n"), ("err", b"e2\n")]
    found = kept.output("j1.1", 0, 0, 100)
    assert found is not None
    assert (found.ended, found.seen_at) == (False, 8.0)
    again = KeptLogs(tmp_path).output("j1.1", 0, 0, 100)
    assert again is not None
    assert again.seen_at is not None, "also after a restart"
    chunk = kept.read("j1.1", "err", 0, 100)
    assert chunk is not None
    assert (chunk.data, chunk.ended) == (b"e1\ne2\n", False)


def test_seen_output_is_not_kept_twice(tmp_path: Path) -> None:
    kept = KeptLogs(tmp_path)
    first = output(0, 0, ("out", b"o1\n"), ("err", b"e1\n"))
    kept.see(first, 7.0)
    kept.see(first, 8.0)
    kept.see(output(0, 0, ("out", b"o1\n"), ("err", b"e1\ne2\n"), ("out", b"o2\n")), 9.0)
    assert told(kept) == [("out", b"o1\n"), ("err", b"e1\ne2\n"), ("out", b"o2\n")]


def test_output_behind_a_gap_takes_the_place_of_what_was_seen(tmp_path: Path) -> None:
    kept = KeptLogs(tmp_path)
    kept.see(output(0, 0, ("out", b"old\n")), 7.0)
    kept.see(output(1000, 0, ("out", b"new\n")), 8.0)
    found = kept.output("j1.1", 4, 0, 100)
    assert found is not None
    assert (found.out, found.out_size) == (1000, 1004)
    assert told(kept) == [("out", b"new\n")]


def test_a_reader_that_knows_more_than_was_seen_reads_nothing_twice(tmp_path: Path) -> None:
    kept = KeptLogs(tmp_path)
    kept.see(output(0, 0, ("out", b"o1\n")), 7.0)
    found = kept.output("j1.1", 9, 5, 100)
    assert found is not None
    assert (found.ends, found.pieces) == ((9, 5), ())
    chunk = kept.read("j1.1", "out", 9, 100)
    assert chunk is not None
    assert (chunk.offset, chunk.data) == (9, b"")


def test_seen_output_is_bounded_and_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keptlogs, "SEEN_MOST", 200)
    kept = KeptLogs(tmp_path)
    for number in range(100):
        kept.see(output(5 * number, 0, ("out", b"%04d\n" % number)), 7.0)
    assert sum(file.stat().st_size for file in (tmp_path / ".j1.1.seen").iterdir()) < 400
    found = told(kept)[0][1]
    assert found.endswith(b"0099\n")
    assert len(found) >= 100


async def test_all_of_it_takes_the_place_of_what_was_seen(tmp_path: Path) -> None:
    kept = KeptLogs(tmp_path / "kept")
    kept.see(output(0, 0, ("out", b"seen\n")), 7.0)
    await kept.keep(Merger(tmp_path), "j1.1")
    assert [each.name for each in (tmp_path / "kept").iterdir()] == ["j1.1"]
    kept.see(output(0, 0, ("out", b"late\n")), 7.0)
    assert [each.name for each in (tmp_path / "kept").iterdir()] == ["j1.1"]


class Endless:
    """A node whose log of an attempt never ends; `step` bytes at a time."""

    def __init__(self, step: int, size: int = 1 << 60, stream: str = "out") -> None:
        self.step = step
        self.size = size
        self.stream = stream
        self.asked = 0

    async def read_log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        if stream != self.stream:
            raise NotFound("nothing")
        self.asked += 1
        data = b"x" * min(self.step, limit)
        return LogChunk(attempt=attempt, stream=stream, offset=offset, data=data, size=self.size, ended=True)


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("stream", ["out", "err"])
@pytest.mark.parametrize("step", [keptlogs.PIECE, 5000])
async def test_log_without_end_never_grows_beyond_its_limit_and_is_not_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str, step: int
) -> None:
    monkeypatch.setattr(keptlogs, "PIECE", 1 << 16)
    node, kept = Endless(step, stream=stream), KeptLogs(tmp_path / "kept", log_bytes=1 << 20)
    fault = await kept.keep(node, "j1.1")
    assert fault is not None
    assert "stays there" in fault
    assert bytes_below(tmp_path / "kept") <= (1 << 20) + (1 << 16)
    asked = node.asked
    assert await kept.keep(node, "j1.1") is None
    assert node.asked == asked


async def test_log_in_tiny_pieces_ends_after_so_many_requests(tmp_path: Path) -> None:
    node, kept = Endless(1), KeptLogs(tmp_path / "kept", log_bytes=1 << 16)
    assert "too many pieces" in str(await kept.keep(node, "j1.1"))
    assert node.asked < 1000


async def test_log_that_goes_back_ends(tmp_path: Path) -> None:
    class Back(Endless):
        async def read_log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
            piece = await super().read_log(attempt, stream, offset, limit)
            return replace(piece, offset=0)

    kept = KeptLogs(tmp_path / "kept", log_bytes=1 << 16)
    assert await kept.keep(Back(7), "j1.1") is not None
    assert bytes_below(tmp_path / "kept") <= 1 << 17


async def test_log_that_cannot_be_understood_is_not_asked_for_again(tmp_path: Path) -> None:
    class Odd(Endless):
        async def read_log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
            if offset > 0:
                raise NodeFault("its offset is no number")
            return await super().read_log(attempt, stream, offset, limit)

    node, kept = Odd(7), KeptLogs(tmp_path / "kept")
    assert "no number" in str(await kept.keep(node, "j1.1"))
    asked = node.asked
    assert await kept.keep(node, "j1.1") is None
    assert node.asked == asked


async def test_newest_part_of_a_log_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keptlogs, "PIECE", 1000)
    (tmp_path / "out").write_bytes(b"".join(b"%09d\n" % at for at in range(700)))
    kept = KeptLogs(tmp_path / "kept", log_bytes=4000)
    assert await kept.keep(Reader(tmp_path), "j1.1") is None
    last = kept.read("j1.1", "out", -10, 100)
    assert last is not None
    assert (last.data, last.size) == (b"000000699\n", 7000)


async def test_last_gigabyte_of_the_disk_stays_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").write_bytes(b"0123456789" * 5)
    kept = KeptLogs(tmp_path / "kept")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=RESERVE.bytes))
    with pytest.raises(OSError, match="stay free"):
        await kept.keep(Reader(tmp_path), "j1.1")
    assert not (tmp_path / "kept" / ".j1.1.new").exists()
    data = base64.b64encode(b"seen").decode()
    piece = Output(
        attempt="j1.1",
        out=0,
        err=0,
        pieces=(OutputPiece(stream="out", data=data),),
        out_size=4,
        err_size=0,
        ended=False,
    )
    (tmp_path / "kept").mkdir(exist_ok=True)
    kept.see(piece, 1.0)
    assert bytes_below(tmp_path / "kept") == 0
