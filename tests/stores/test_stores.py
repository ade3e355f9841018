"""The contract, kept by every kind of store: whole and right, or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.model.errors import FilesChanged, FilesError
from hostler.stores.base import Damaged, Listed, Missing, ObjectName, at_once
from tests.stores.conftest import Shop, named

CONTENT = b"thirty games" * 100_000
NAME = named(CONTENT)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    return path


def flipped(content: bytes, at: int = 1000) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def test_what_is_put_is_there_and_comes_back(shop: Shop, source: Path, tmp_path: Path) -> None:
    sent: list[int] = []
    shop.store.put(NAME, source, sent.append)
    assert sum(sent) == 2 * len(CONTENT), "sent, and read back"
    assert shop.read(NAME.path) == CONTENT
    assert shop.store.check(NAME, at_once) == len(CONTENT)
    assert list(shop.store.listed()) == [Listed(NAME, len(CONTENT))]
    shop.store.get(NAME, tmp_path / "deep" / "target", at_once)
    assert (tmp_path / "deep" / "target").read_bytes() == CONTENT


def test_an_empty_object_is_one(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    shop.store.put(named(b""), tmp_path / "empty", at_once)
    assert shop.store.check(named(b""), at_once) == 0


def test_what_is_not_there_is_missing(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(Missing):
        shop.store.check(NAME, at_once)
    with pytest.raises(Missing):
        shop.store.get(NAME, tmp_path / "target", at_once)
    assert [each.name for each in tmp_path.iterdir() if "target" in each.name] == []
    assert list(shop.store.listed()) == []
    shop.store.delete(NAME)
    shop.store.set_aside(NAME)


def test_a_file_that_is_another_one_is_not_put(shop: Shop, source: Path) -> None:
    source.write_bytes(flipped(CONTENT))
    with pytest.raises(FilesChanged):
        shop.store.put(NAME, source, at_once)
    assert shop.read(NAME.path) is None
    assert list(shop.store.listed()) == []


def test_a_link_is_not_put(shop: Shop, source: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(source)
    with pytest.raises(FilesError):
        shop.store.put(NAME, tmp_path / "link", at_once)


def test_a_flipped_bit_is_found_and_mended_by_the_next_put(shop: Shop, source: Path, tmp_path: Path) -> None:
    """Right size, wrong bytes."""
    shop.write(NAME.path, flipped(CONTENT))
    with pytest.raises(Damaged, match=NAME.sha256):
        shop.store.check(NAME, at_once)
    with pytest.raises(Damaged):
        shop.store.get(NAME, tmp_path / "target", at_once)
    assert not (tmp_path / "target").exists()
    assert not list(tmp_path.glob(".target*")), "what is not right leaves nothing"
    shop.store.put(NAME, source, at_once)
    assert shop.read(NAME.path) == CONTENT


def test_what_is_set_aside_is_no_object_and_can_be_looked_at(shop: Shop) -> None:
    wrong = flipped(CONTENT)
    shop.write(NAME.path, wrong)
    shop.store.set_aside(NAME)
    assert list(shop.store.listed()) == []
    assert shop.read(f"quarantine/{NAME.sha256}{NAME.suffix}") == wrong


def test_what_is_deleted_is_gone_and_nothing_else(shop: Shop, source: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"other")
    shop.store.put(NAME, source, at_once)
    shop.store.put(named(b"other"), tmp_path / "other", at_once)
    shop.store.delete(NAME)
    assert [each.name for each in shop.store.listed()] == [named(b"other")]


def test_what_is_no_object_is_passed_over(shop: Shop) -> None:
    for path in ("objects/notes.txt", "objects/ab/short.segment.npz", "README", f"objects/00/{NAME.sha256}.npz"):
        shop.write(path, b"somebody's")
    assert list(shop.store.listed()) == []


def test_who_ends_a_call_leaves_nothing_under_the_name(shop: Shop, source: Path, tmp_path: Path) -> None:
    class EnoughError(Exception):
        pass

    def enough(_: int) -> None:
        raise EnoughError

    with pytest.raises((EnoughError, FilesError)):
        shop.store.put(NAME, source, enough)
    assert shop.read(NAME.path) is None
    shop.write(NAME.path, CONTENT)
    with pytest.raises(EnoughError):
        shop.store.get(NAME, tmp_path / "target", enough)
    assert not (tmp_path / "target").exists()


def test_names_are_read_from_paths_strictly() -> None:
    assert ObjectName.at(NAME.path) == NAME
    for path in (f"/{NAME.path}", f"{NAME.path}\n", NAME.path.upper(), NAME.path.replace("objects", "..")):
        assert ObjectName.at(path) is None
