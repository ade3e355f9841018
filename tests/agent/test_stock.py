"""Artifacts of a node, listed and let go of: nothing else is ever touched, and nothing that was used of late."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hostler.agent import stock
from hostler.agent.files import ENDINGS
from hostler.agent.shelves import LABEL

from .harness import Json
from .test_files import REST, answers

HOUR = 3600.0
OLD = 5 * HOUR
NAME = "ab" + "c" * 62 + ENDINGS[0]
SECRET = "of somebody else"


def put(root: Path, name: str, age_s: float = OLD, content: str = "games") -> Path:
    path = root / "artifacts" / "objects" / name[:2] / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return aged(path, age_s)


def aged(path: Path, age_s: float) -> Path:
    at = path.stat().st_mtime - age_s
    os.utime(path, (at, at))
    return path


def named(number: int, ending: str = ENDINGS[0]) -> str:
    return f"{number:02x}" + f"{number:062x}" + ending


def stocked(root: Path, after: str = "", limit: int = 1000) -> Json:
    (answer,) = answers(root, {"op": "stock", "after": after, "limit": limit})
    return answer


def drop(root: Path, *names: str, unused_s: float = HOUR) -> Json:
    return answers(root, {"op": "drop", "names": list(names), "unused_s": unused_s})[0]


def missing(root: Path, name: str) -> bool:
    (answer,) = answers(root, {"op": "missing", "files": {name[:64]: f"artifacts/objects/{name[:2]}/{name}"}})
    return name[:64] in answer["missing"]


def test_a_node_without_artifacts_has_none(tmp_path: Path) -> None:
    answer = stocked(tmp_path)
    assert (answer["files"], answer["more"]) == ([], False)
    total, free = answer["disk"]
    assert 0 < free <= total
    assert drop(tmp_path, NAME)["left"] == {NAME: "it is not there"}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
def test_all_are_told_of_in_pages_with_their_last_use(tmp_path: Path, limit: int) -> None:
    names = sorted(named(number % 3, ending) for number in range(3) for ending in ENDINGS)
    for number, name in enumerate(names):
        put(tmp_path, name, age_s=number * HOUR, content="x" * number)
    found, after, more = list[Any](), "", True
    while more:
        answer = stocked(tmp_path, after, limit)
        assert len(answer["files"]) <= limit
        found, more = found + answer["files"], answer["more"]
        after = found[-1][0]
    assert [each[0] for each in found] == names
    assert [each[1] for each in found] == list(range(9))
    assert [each[2] // HOUR for each in found] == list(range(9))


def test_reading_counts_as_use(tmp_path: Path) -> None:
    path = put(tmp_path, NAME)
    os.utime(path, (path.stat().st_mtime + OLD, path.stat().st_mtime))
    assert stocked(tmp_path)["files"][0][2] < HOUR
    assert drop(tmp_path, NAME)["left"] == {NAME: "it was used of late"}


def test_only_what_was_not_used_of_late_goes(tmp_path: Path) -> None:
    old, fresh, asked = named(1), named(2), named(3)
    paths = [put(tmp_path, old), put(tmp_path, fresh, age_s=HOUR / 2), put(tmp_path, asked)]
    assert not missing(tmp_path, asked), "it is told to be there, so it has to stay"
    answer = drop(tmp_path, old, fresh, asked, named(4))
    assert answer["gone"] == [[old, 5]]
    assert answer["left"] == {
        fresh: "it was used of late",
        asked: "it was used of late",
        named(4): "it is not there",
    }
    assert [path.exists() for path in paths] == [False, True, True]
    assert missing(tmp_path, old)
    assert list((tmp_path / "partial").iterdir()) == []


@pytest.mark.parametrize("unused_s", [float("nan"), float("inf")])
def test_what_is_no_time_lets_nothing_go(tmp_path: Path, unused_s: float) -> None:
    path = put(tmp_path, NAME)
    drop(tmp_path, NAME, unused_s=unused_s)
    assert path.exists()


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "README", "ab" * 32, "ab" * 32 + ".txt", "AB" * 32 + ENDINGS[0], "../" + NAME, f"ab/{NAME}",
        NAME + "\0", NAME + ".gone", "." + NAME, "zz" * 32 + ENDINGS[0], 7, None, [NAME],
    ],
)  # fmt: skip
def test_what_is_not_called_as_artifacts_are_is_never_touched(tmp_path: Path, name: Any) -> None:
    kept = put(tmp_path, NAME)
    others = [put(tmp_path, each) for each in ("ab" * 32, "ab" * 32 + ".txt", "ab README", "ab" * 32 + ".npz")]
    said = answers(tmp_path, {"op": "drop", "names": [NAME, name], "unused_s": 0}, REST)
    assert ["error" in each for each in said] == [True], "nothing more of the connection can be understood"
    assert [each[0] for each in stocked(tmp_path)["files"]] == [NAME]
    assert all(path.exists() for path in (kept, *others))


def test_no_more_are_named_at_once_than_there_may_be(tmp_path: Path) -> None:
    path = put(tmp_path, NAME)
    assert "error" in drop(tmp_path, *[NAME] * (stock.NAMES_MAX + 1))
    assert path.exists()


def test_what_lies_on_the_shelf_of_others_is_no_artifact(tmp_path: Path) -> None:
    wrong = tmp_path / "artifacts" / "objects" / "cd" / NAME
    wrong.parent.mkdir(parents=True)
    wrong.write_text("games")
    aged(wrong, OLD)
    assert stocked(tmp_path)["files"] == []
    assert drop(tmp_path, NAME)["left"] == {NAME: "it is not there"}
    assert wrong.exists()


@pytest.mark.parametrize("link", ["artifacts", "artifacts/objects", f"artifacts/objects/{NAME[:2]}", "partial"])
def test_no_folder_that_is_a_link_is_looked_into(tmp_path: Path, link: str) -> None:
    root, outside = tmp_path / "agent", tmp_path / "outside"
    path = put(root, NAME, content=SECRET)
    (root / "partial").mkdir()
    (root / link).rename(outside)
    (root / link).symlink_to(outside)
    before = sorted(outside.rglob("*"))
    if link != "partial":
        assert stocked(root)["files"] == []
    assert drop(root, NAME)["gone"] == []
    assert path.read_text() == SECRET
    assert sorted(outside.rglob("*")) == before


def test_a_file_that_is_a_link_stays_and_so_does_what_it_leads_to(tmp_path: Path) -> None:
    root, secret = tmp_path / "agent", tmp_path / "secret"
    secret.write_text(SECRET)
    aged(secret, OLD)
    path = put(root, NAME)
    path.unlink()
    path.symlink_to(secret)
    os.utime(path, (1.0, 1.0), follow_symlinks=False)
    fifo = put(root, named(9))
    fifo.unlink()
    os.mkfifo(fifo)
    aged(fifo, OLD)
    assert stocked(root)["files"] == []
    assert drop(root, NAME, named(9))["left"] == dict.fromkeys((NAME, named(9)), "it is no regular file")
    assert path.is_symlink()
    assert fifo.exists()
    assert secret.read_text() == SECRET


@pytest.mark.parametrize("links", [True, False])
def test_what_is_asked_for_as_it_goes_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    """`missing` had said that it is there: it was used between the first look and the last."""
    path = put(tmp_path, NAME)
    rename, used = os.rename, list[bool]()

    def renamed(source: str, target: str, **folders: Any) -> None:
        if source == NAME:
            used.append(not missing(tmp_path, NAME))
        rename(source, target, **folders)

    def no_links(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "no hard links here")

    monkeypatch.setattr(os, "rename", renamed)
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    answer = drop(tmp_path, NAME)
    assert (used, answer["gone"], answer["left"]) == ([True], [], {NAME: "it was used of late"})
    assert path.read_text() == "games"
    assert list((tmp_path / "partial").iterdir()) == []


def test_what_is_asked_for_after_it_was_taken_away_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is sent anew meanwhile stays."""
    path = put(tmp_path, NAME)
    rename, told = os.rename, list[bool]()

    def renamed(source: str, target: str, **folders: Any) -> None:
        rename(source, target, **folders)
        if source == NAME:
            told.append(missing(tmp_path, NAME))
            put(tmp_path, NAME, age_s=0.0, content="sent anew")

    monkeypatch.setattr(os, "rename", renamed)
    assert drop(tmp_path, NAME)["gone"] == [[NAME, 5]]
    assert told == [True]
    assert path.read_text() == "sent anew"


def test_what_went_while_it_was_marked_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system finds a file by its path before it sets its time: in between it may go."""
    path = put(tmp_path, NAME)
    utime = os.utime

    def late(place: str) -> None:
        with open(place) as file:
            assert drop(tmp_path, NAME)["gone"] == [[NAME, 5]]
            utime(file.fileno())

    monkeypatch.setattr(os, "utime", late)
    assert missing(tmp_path, NAME)
    assert not path.exists()


def test_a_folder_that_is_a_store_is_left_alone(tmp_path: Path) -> None:
    path = put(tmp_path, NAME)
    (tmp_path / "artifacts" / LABEL).write_text("{}")
    assert "is a store" in drop(tmp_path, NAME)["error"]
    assert path.exists()


def test_a_file_that_cannot_be_removed_is_told_of_and_the_next_one_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, named(1))
    put(tmp_path, named(2))
    rename = os.rename

    def renamed(source: str, target: str, **folders: Any) -> None:
        if source == named(1):
            raise PermissionError(13, "Permission denied")
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", renamed)
    answer = drop(tmp_path, named(1), named(2))
    assert answer["left"] == {named(1): "Permission denied"}
    assert answer["gone"] == [[named(2), 5]]
