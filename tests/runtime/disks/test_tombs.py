"""Killed for real, by the system, between each two steps: each file is in one of its two places, and the list knows."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest

from hostler.model.disks import DoomedFile
from hostler.model.errors import FilesError
from hostler.runtime.disks import tombs as tombs_module
from hostler.runtime.disks.tombs import LIST, Tomb, Tombs
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


def drafted(tombs: Tombs) -> Tomb:
    """A tombstone of all files of its root; nothing is moved yet."""
    rows = [
        (DoomedFile(path=f"{tombs.name}/{each.path}", bytes=1, rule="log", why="old", used_at=0.0), each.identity)
        for each in walk(tombs.root)
    ]
    return tombs.draft(rows, "ann", 1.0, 2.0)


def no_hard_links(*_: object, **__: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_file_comes_back_where_the_file_system_has_no_hard_links(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tombs = Tombs("logs", logs)
    tomb = drafted(tombs)
    tombs.open(tomb)
    tombs.bury(tomb)
    (logs / "ja.1").mkdir()
    (logs / "ja.1" / "out").symlink_to("nowhere")
    (logs / "jb.1").mkdir()
    (logs / "jb.1" / "out").write_text("another")
    monkeypatch.setattr(os, "link", no_hard_links)
    done = tombs.bring_back(tomb, tomb.files, 5.0)
    assert [each.file.path for each in done.moved] == ["logs/jc.1/out"]
    assert {each.file.path for each, why in done.left if "another file" in why} == {"logs/ja.1/out", "logs/jb.1/out"}
    assert (logs / "ja.1" / "out").is_symlink()
    assert (logs / "jb.1" / "out").read_text() == "another"
    assert ((logs / "jc.1" / "out").read_text(), (logs / "jc.1" / "out").stat().st_mtime) == ("c", 5.0)


def test_fault_other_than_missing_hard_links_leaves_the_file_in_its_tombstone(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    tombs = Tombs("logs", logs)
    tomb = drafted(tombs)
    tombs.open(tomb)
    tombs.bury(tomb)
    monkeypatch.setattr(os, "link", broken)
    done = tombs.bring_back(tomb, tomb.files, 5.0)
    assert [why for _, why in done.left] == [os.strerror(errno.EIO)] * 3
    assert all(tombs.are_here(tomb).values())


def test_time_of_a_link_target_stays_where_the_link_replaces_a_file_that_comes_back(
    logs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Between the move and the note of its time another process may put a link in the place of the file."""
    outside = tmp_path_factory.mktemp("outside") / "precious"
    outside.write_text("1")
    os.utime(outside, (7.0, 7.0))
    put_back = tombs_module._put_back

    def replaced(own: int, buried: str, there: int, name: str) -> None:
        put_back(own, buried, there, name)
        os.unlink(name, dir_fd=there)
        os.symlink(outside, name, dir_fd=there)

    tombs = Tombs("logs", logs)
    tomb = drafted(tombs)
    tombs.open(tomb)
    tombs.bury(tomb)
    monkeypatch.setattr(tombs_module, "_put_back", replaced)
    tombs.bring_back(tomb, tomb.files, 5.0)
    assert outside.stat().st_mtime == 7.0


def test_list_of_a_tombstone_is_for_its_owner_alone(logs: Path) -> None:
    tombs = Tombs("logs", logs)
    tomb = drafted(tombs)
    tombs.open(tomb)
    assert (logs / ".tombstones" / tomb.id / LIST).stat().st_mode & 0o777 == 0o600


def test_tombstone_whose_list_cannot_be_written_leaves_nothing(logs: Path) -> None:
    def full(step: str) -> None:
        if step == "listed":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    tombs = Tombs("logs", logs, full)
    with pytest.raises(FilesError, match="make room by hand"):
        tombs.open(drafted(tombs))
    assert not list((logs / ".tombstones").iterdir())


@pytest.mark.parametrize("root", ["artifacts", "work"])
def test_file_of_another_root_is_not_moved(logs: Path, root: str) -> None:
    tombs = Tombs("logs", logs)
    (seen, *_) = walk(logs)
    doomed = DoomedFile(path=f"{root}/{seen.path}", bytes=1, rule="log", why="old", used_at=0.0)
    tomb = tombs.draft([(doomed, seen.identity)], "ann", 1.0, 2.0)
    tombs.open(tomb)
    assert [why for _, why in tombs.bury(tomb).left] == [f"{root}/{seen.path} is not below logs"]
    assert (logs / seen.path).exists()


def test_folder_that_is_no_tombstone_any_more_is_not_unreadable(logs: Path) -> None:
    """A link, or a file, in the place of a tombstone is not gone into."""
    (logs / ".tombstones").mkdir()
    (logs / ".tombstones" / "link").symlink_to(logs / "ja.1")
    (logs / ".tombstones" / "file").write_text("1")
    (logs / ".tombstones" / "full").mkdir()
    (logs / ".tombstones" / "full" / "0").write_text("1")
    assert Tombs("logs", logs).unreadable() == [logs / ".tombstones" / "full"]
