"""A journal that is opened or read on a full disk: the error names the disk, whatever SQLite calls it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hostler.model.errors import StoreError, StoreFull
from hostler.store import Claim, open_journal
from hostler.store.moving import move
from hostler.store.opening import read_journal
from tests.fulldisks import BYTES, NAMES, full, room, small

__all__ = ["room", "small"]

FULL = "the disk is full. Free some space"


def left_in(state: str, folder: Path) -> None:
    """A state directory as a controller left it that never was, that ended, or that was killed."""
    folder.mkdir()
    if state == "new":
        return
    journal = open_journal(folder)
    journal.begin_epoch(1.0, Claim(version="1"))
    if state == "killed":
        shutil.copytree(folder, folder.with_name("copy"), ignore=shutil.ignore_patterns("*-shm"))
    journal.close()
    if state == "killed":
        shutil.rmtree(folder)
        folder.with_name("copy").rename(folder)


def led(folder: Path) -> None:
    journal = open_journal(folder)
    try:
        journal.begin_epoch(2.0, Claim(version="1"))
    finally:
        journal.close()


def read(folder: Path) -> None:
    journal = read_journal(folder)
    try:
        list(journal.read())
    finally:
        journal.close()


@pytest.mark.parametrize("left", [0, 4096, 40960])
@pytest.mark.parametrize("state", ["new", "ended", "killed"])
def test_journal_on_a_full_disk_is_named_as_that(room: Path, small: Path, state: str, left: int) -> None:
    left_in(state, room / "state")
    with full(small, BYTES, left), pytest.raises(StoreFull, match=FULL):
        led(room / "state")
    led(room / "state")


@pytest.mark.parametrize("state", ["new", "ended", "killed"])
def test_journal_on_a_disk_without_names_is_named_as_that(room: Path, small: Path, state: str) -> None:
    left_in(state, room / "state")
    with full(small, NAMES), pytest.raises(StoreFull, match=FULL):
        led(room / "state")
    led(room / "state")


@pytest.mark.parametrize("of", [BYTES, NAMES])
@pytest.mark.parametrize("what", [read, lambda folder: move(folder, folder.parent / "other", 2.0, "1")])
def test_journal_that_is_read_on_a_full_disk_is_named_as_that(
    room: Path, small: Path, of: str, what: Callable[[Path], object]
) -> None:
    left_in("ended", room / "state")
    (room / "other").mkdir()
    with full(small, of), pytest.raises(StoreFull, match=FULL):
        what(room / "state")


def test_vague_error_on_a_disk_with_room_is_no_full_disk(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").mkdir()
    with pytest.raises(StoreError) as caught:
        open_journal(tmp_path)
    assert "full" not in str(caught.value)
