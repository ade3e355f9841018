"""Killed for real, by the system, between each two steps: each file is in one of its two places, and the list knows."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from hostler.model.disks import DoomedFile
from hostler.runtime.disks.tombs import Tombs
from hostler.runtime.disks.walking import Moved, split, walk


def killed(root: Path, step: str, nth: int, deed: str) -> bool:
    """Whether a process that does that was killed at the step when it came to it for the nth time."""
    child = os.fork()
    if child == 0:
        try:
            do(root, step, nth, deed)
            os._exit(0)
        finally:
            os._exit(1)  # an error must not end as another run of all tests
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


def do(root: Path, step: str, nth: int, deed: str) -> None:
    count = 0

    def passing(reached: str) -> None:
        nonlocal count
        count += reached == step
        if reached == step and count == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    tombs = Tombs("logs", root, passing)
    if deed == "bury":
        rows = [
            (DoomedFile(path="logs/" + each.path, bytes=1, rule="log", why="old", used_at=0.0), each.identity)
            for each in walk(root)
        ]
        tomb = tombs.draft(rows, "ann", 1.0, 2.0)
        tombs.open(tomb)
        tombs.bury(tomb)
    else:
        (tomb,) = tombs.all()
        done = tombs.bring_back(tomb, tomb.files, 5.0) if deed == "undo" else tombs.delete(tomb, tomb.files)
        tombs.shorten(tomb, done.moved)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name in "abc":
        (tmp_path / f"j{name}.1").mkdir()
        (tmp_path / f"j{name}.1" / "out").write_text(name)
    return tmp_path


def texts(root: Path) -> list[str]:
    """What can be read still, wherever it lies."""
    return sorted(
        each.read_text() for each in root.rglob("*") if each.is_file() and each.suffix not in (".json", ".new")
    )


@pytest.mark.parametrize(("step", "nth"), [("listed", 1), ("opened", 1), ("moved", 1), ("moved", 3), ("moved", 9)])
def test_burying(logs: Path, step: str, nth: int) -> None:
    assert killed(logs, step, nth, "bury") is (nth < 9)
    assert texts(logs) == ["a", "b", "c"]
    tombs = Tombs("logs", logs)
    tombs.sweep()
    for tomb in tombs.all():
        here = tombs.are_here(tomb)
        assert [here[each.name] != tombs.is_where_it_was(each) for each in tomb.files] == [True, True, True]
        buried = [each for each in tomb.files if here[each.name]]
        assert tombs.bring_back(tomb, buried, 9.0).left == ()
        assert tombs.shorten(tomb, tomb.files) is None
    assert sorted(each.path for each in walk(logs)) == ["ja.1/out", "jb.1/out", "jc.1/out"]
    assert not list((logs / ".tombstones").iterdir())


@pytest.mark.parametrize(("step", "nth"), [("brought back", 1), ("brought back", 3), ("closed", 1)])
def test_bringing_back(logs: Path, step: str, nth: int) -> None:
    killed(logs, "moved", 9, "bury")
    assert killed(logs, step, nth, "undo")
    assert texts(logs) == ["a", "b", "c"]
    tombs = Tombs("logs", logs)
    for tomb in tombs.all():
        here = tombs.are_here(tomb)
        tombs.bring_back(tomb, [each for each in tomb.files if here[each.name]], 9.0)
    assert sorted(each.path for each in walk(logs)) == ["ja.1/out", "jb.1/out", "jc.1/out"]


@pytest.mark.parametrize(("step", "nth", "left"), [("deleted", 1, 2), ("deleted", 3, 0), ("closed", 1, 0)])
def test_deleting(logs: Path, step: str, nth: int, left: int) -> None:
    killed(logs, "moved", 9, "bury")
    assert killed(logs, step, nth, "delete")
    assert len(texts(logs)) == left
    tombs = Tombs("logs", logs)
    for tomb in tombs.all():
        assert sum(tombs.are_here(tomb).values()) == left
        assert tombs.delete(tomb, tomb.files).left == ()
        assert tombs.shorten(tomb, tomb.files) is None
    assert texts(logs) == []


def test_no_path_leads_out_of_its_root(logs: Path) -> None:
    for path in ("../out", "a/../../out", "/etc/passwd", "", "a//b", "a/./b", "a\0"):
        with pytest.raises(Moved):
            split(path)
    tombs = Tombs("logs", logs / "ja.1")
    (seen,) = walk(logs / "ja.1")
    doomed = DoomedFile(path="logs/../jb.1/out", bytes=1, rule="log", why="old", used_at=0.0)
    tomb = tombs.draft([(doomed, seen.identity)], "ann", 1.0, 2.0)
    tombs.open(tomb)
    assert len(tombs.bury(tomb).left) == 1
    assert (logs / "jb.1" / "out").read_text() == "b"


def test_links_and_what_lies_too_deep_are_not_gone_into(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "precious").write_text("1")
    (logs / "link").symlink_to(outside)
    (logs / "file link").symlink_to(outside / "precious")
    (logs / "loop").symlink_to(logs)
    deep = logs.joinpath(*"123456789")
    deep.mkdir(parents=True)
    (deep / "out").write_text("deep")
    assert sorted(each.path for each in walk(logs)) == ["ja.1/out", "jb.1/out", "jc.1/out"]
