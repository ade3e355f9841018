"""What attempts have said is kept as their nodes kept it: rotated, in pieces, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.agent import logs
from hostler.model.errors import LinkLost, NotFound
from hostler.model.views import LogChunk
from hostler.runtime import keptlogs
from hostler.runtime.keptlogs import KeptLogs

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
