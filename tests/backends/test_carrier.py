"""What a node answers is judged before anybody counts on it: it may be wrong, or somebody else's by now."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

from hostler.backends.base import Removed, Store
from hostler.backends.carrier import Carrier
from hostler.backends.courier import Courier
from hostler.backends.packing import Packer
from hostler.model.codec import dump_event, load_event
from hostler.model.disks import DoomedFile
from hostler.model.errors import FilesError
from hostler.model.events import FilesDropping
from hostler.model.files import Fetch

NAME = "ab" * 32
FILE = NAME + ".segment.npz"
PLACE = f"artifacts/objects/ab/{FILE}"


class Node(Courier):
    """A connection to one that answers everything with the same."""

    def __init__(self, answer: object) -> None:
        self._where = "rig"
        self.answer = answer

    @property
    def broken(self) -> bool:
        return False

    async def ask(self, request: object) -> dict[str, Any]:
        return cast(dict[str, Any], self.answer)

    def close(self) -> None:
        """Nothing is open."""


def carrier(folder: Path, answer: object) -> Carrier:
    async def dial() -> Courier:
        return Node(answer)

    async def dial_for_much() -> None:
        return None

    return Carrier(dial, dial_for_much, Packer(), Store(results=folder / "results", artifacts=folder / "artifacts"))


def stock(row: object = (FILE, 5, 3600.5), disk: object = (10, 4), **more: object) -> dict[str, object]:
    return {"files": [row], "more": False, "disk": disk, **more}


def test_artifacts_are_told_of_with_their_bytes_and_their_last_use(tmp_path: Path) -> None:
    found = asyncio.run(carrier(tmp_path, stock()).stock("", 10))
    assert [(each.name, each.bytes, each.unused_s) for each in found.files] == [(FILE, 5, 3600.5)]
    assert (found.more, found.total_bytes, found.free_bytes) == (False, 10, 4)
    (each,) = found.files
    doomed = DoomedFile(path=each.name, bytes=each.bytes, rule="cache", why="", used_at=1e9 - each.unused_s)
    told = FilesDropping(node="rig", who="ann", files=(doomed,))
    assert load_event(dump_event(told)) == told


@pytest.mark.parametrize(
    "answer",
    [
        *(stock((FILE, size, 1.0)) for size in (-1, 1.5, True, None, "5", 1 << 63, 10**4000, float("inf"))),
        *(stock((FILE, 5, age)) for age in (-1.0, float("nan"), float("inf"), "nan", "1", None, True, 10**400)),
        *(stock((name, 5, 1.0)) for name in ("../x", NAME, f"{NAME}.exe", 7, None, [FILE], f"{FILE}\n", "\ud800" * 70)),
        *(stock(row) for row in ((FILE, 5), (), None, 7, (FILE, 5, 1.0, 1))),
        *(stock(disk=disk) for disk in ((1, -1), (1,), (1, 2, 3), None, ("1", "2"), (float("nan"), 1), (1 << 70, 1))),
        {},
        [],
        {"files": None, "more": True, "disk": [1, 1]},
    ],
)
def test_a_list_of_artifacts_that_no_journal_could_hold_is_refused(tmp_path: Path, answer: object) -> None:
    """A time that is no number, or less than no bytes, would keep the next controller from reading its journal."""
    with pytest.raises(FilesError) as error:
        asyncio.run(carrier(tmp_path, answer).stock("", 10))
    assert len(str(error.value)) < 1000
    json.dumps(str(error.value)).encode()


def test_what_was_removed_is_told_with_the_reasons_for_the_rest(tmp_path: Path) -> None:
    other = "cd" * 32 + ".dataset.npz"
    answer = {"gone": [[FILE, 5]], "left": {other: "\ud800" + "used" * 1000}, "disk": [10, 9]}
    found = asyncio.run(carrier(tmp_path, answer).drop([FILE, other], 3600.0))
    assert found == Removed(gone={FILE: 5}, left={other: found.left[other]}, free_bytes=9)
    assert found.left[other].startswith("\\ud800used")
    assert len(found.left[other]) < 300


@pytest.mark.parametrize(
    "answer",
    [
        {"gone": [], "left": [], "disk": [1, 1]},
        {"gone": [[FILE]], "left": {}, "disk": [1, 1]},
        {"gone": [["x", 1]], "left": {}, "disk": [1, 1]},
        {"gone": [], "left": {}, "disk": [1]},
        {"gone": [], "left": {}, "disk": [1, -1]},
        {"gone": 7, "left": {}, "disk": [1, 1]},
        {},
    ],
)
def test_what_cannot_be_understood_of_a_removal_is_said(tmp_path: Path, answer: object) -> None:
    with pytest.raises(FilesError):
        asyncio.run(carrier(tmp_path, answer).drop([FILE], 3600.0))


@pytest.mark.parametrize("size", [2**63, 2**70, 10**400, 1.5, "3", True, None, [3]])
def test_size_that_no_journal_could_hold_is_refused(tmp_path: Path, size: object) -> None:
    for answer, what in (
        ({"found": {NAME: [PLACE, size]}}, Fetch(artifacts=(NAME,))),
        ({"folder": "attempts/j1.1", "files": [["a", size]]}, Fetch(outputs=("*",))),
        ({"folder": "attempts/j1.1", "files": [["a", 1]], "links_count": size}, Fetch(outputs=("*",))),
    ):
        with pytest.raises(FilesError, match="is no number of bytes"):
            asyncio.run(carrier(tmp_path, answer).fetch("j1.1", what))


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "x" * 5000, 7, None, ["a"], True])
def test_path_that_no_file_can_have_is_refused(tmp_path: Path, path: object) -> None:
    for answer in ({"folder": "attempts/j1.1", "files": [[path, 1]]}, {"folder": path, "files": [["a", 1]]}):
        with pytest.raises(FilesError, match="cannot be understood"):
            asyncio.run(carrier(tmp_path, answer).fetch("j1.1", Fetch(outputs=("*",))))


@pytest.mark.parametrize("size", [-1, -(10**15)])
def test_what_is_less_than_nothing_makes_no_room_for_others(tmp_path: Path, size: object) -> None:
    found = {"found": {NAME: [PLACE, size]}}
    with pytest.raises(FilesError, match=r"tells of|no number of bytes"):
        asyncio.run(carrier(tmp_path, found).fetch("j1.1", Fetch(artifacts=(NAME,))))
    outputs = {"folder": "attempts/j1.1", "files": [["a", 10**15], ["b", size]]}
    with pytest.raises(FilesError, match=r"tells of|no number of bytes"):
        asyncio.run(carrier(tmp_path, outputs).fetch("j1.1", Fetch(outputs=("*",))))
