"""A sealed file is whole or is refused, wherever it was cut, and whichever bit is another one."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.errors import Conflict, CorruptState, HostlerError, NotFound
from hostler.store import archive

MEMBERS = {"a": b"", "tables/journal/000000.jsonl.gz": bytes(range(256)) * 40, "state/token": b"secret\n"}


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of an archive."""
    path = tmp_path_factory.mktemp("sealed") / "one"
    with archive.writing(path, 1_700_000_000.5) as out:
        for name, data in MEMBERS.items():
            out.add(name, data)
        out.seal({"hostler": "test"})
    return path.read_bytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that is written again and again."""
    return tmp_path_factory.mktemp("scratch") / "spoilt"


def read_all(path: Path) -> dict[str, bytes]:
    """Every member."""
    with archive.opened(path) as made:
        return {name: made.read(name) for name in made.names()}


def test_what_was_put_in_comes_out(sealed: bytes, scratch: Path) -> None:
    scratch.write_bytes(sealed)
    assert read_all(scratch) == MEMBERS
    with archive.opened(scratch) as made:
        assert made.names("state/") == ["state/token"]
        assert made.manifest["hostler"] == "test"


def test_the_same_content_gives_the_same_bytes(sealed: bytes, tmp_path: Path) -> None:
    with archive.writing(tmp_path / "two", 1_700_000_000.5) as out:
        for name, data in MEMBERS.items():
            out.add(name, data)
        out.seal({"hostler": "test"})
    assert (tmp_path / "two").read_bytes() == sealed
    assert stat.S_IMODE((tmp_path / "two").stat().st_mode) == 0o600


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_flipped_bit_is_found(sealed: bytes, scratch: Path, data: st.DataObject) -> None:
    at, bit = data.draw(st.integers(0, len(sealed) - 1)), data.draw(st.integers(0, 7))
    spoilt = bytearray(sealed)
    spoilt[at] ^= 1 << bit
    scratch.write_bytes(spoilt)
    with pytest.raises(CorruptState):
        read_all(scratch)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_one_that_was_cut_off_is_refused(sealed: bytes, scratch: Path, data: st.DataObject) -> None:
    scratch.write_bytes(sealed[: data.draw(st.integers(0, len(sealed) - 1))])
    with pytest.raises(CorruptState):
        read_all(scratch)


@settings(deadline=None, max_examples=60)
@given(more=st.binary(min_size=1, max_size=200), content=st.binary(max_size=300))
def test_anything_else_is_refused(sealed: bytes, scratch: Path, more: bytes, content: bytes) -> None:
    for spoilt in (sealed + more, more + sealed, content):
        scratch.write_bytes(spoilt)
        with pytest.raises(CorruptState):
            read_all(scratch)


def test_a_sealed_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"x" * 3000):
        seal = archive.SEAL + hashlib.sha256(content).hexdigest().encode() + b"\n"
        (tmp_path / "odd").write_bytes(content + seal)
        with pytest.raises(CorruptState):
            read_all(tmp_path / "odd")


def test_another_format_names_the_version_that_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "FORMAT", 2)
    with archive.writing(tmp_path / "later", 1.0) as out:
        out.seal({"hostler": "9.9"})
    monkeypatch.undo()
    with pytest.raises(CorruptState, match=r"format 2.*9\.9"):
        read_all(tmp_path / "later")


def broken_off(path: Path) -> None:
    """Something goes wrong in the middle."""
    with archive.writing(path, 1.0) as out:
        out.add("a", b"a")
        out.add("b", None)  # type: ignore[arg-type]


def test_nothing_is_left_of_one_that_fails(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        broken_off(tmp_path / "one")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("mine")
    with pytest.raises(Conflict), archive.writing(tmp_path / "one", 1.0):
        pass
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("one", "mine")]


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(HostlerError, match="cannot be written"), archive.writing(tmp_path / "none" / "one", 1.0):
        pass
    with pytest.raises(NotFound):
        read_all(tmp_path / "none")
