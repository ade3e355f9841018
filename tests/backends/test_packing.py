"""What of a folder goes to nodes elsewhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.patterns import matcher
from hostler.backends import packing
from hostler.backends.packing import Packer
from hostler.model.errors import FilesError


def made(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def names(folder: Path, *patterns: str, skip: Path | None = None) -> list[str]:
    return [each.path for each in Packer(skip).pack(folder, patterns or None)]


def test_everything_but_what_is_ignored(tmp_path: Path) -> None:
    made(tmp_path, "a.py", "data/x.bin", "data/keep.bin", ".git/config", "lib/__pycache__/a.pyc", ".venv/bin/python")
    assert names(tmp_path) == ["a.py", "data/keep.bin", "data/x.bin"]
    (tmp_path / ".gitignore").write_text("data/*\n!data/keep.bin\n")
    assert names(tmp_path) == [".gitignore", "a.py", "data/keep.bin"]
    (tmp_path / ".hostlerignore").write_text("*.py\n.*\n")
    assert names(tmp_path) == ["data/keep.bin", "data/x.bin"], "the file of git's does not count then"


def test_what_is_named_goes_along_whatever_is_ignored(tmp_path: Path) -> None:
    made(tmp_path, "a.py", "b.py", "data/deep/x.bin", "data/y.txt", ".gitignore")
    (tmp_path / ".gitignore").write_text("data\n")
    assert names(tmp_path, "a.py", "data/**/*.bin") == ["a.py", "data/deep/x.bin"]
    assert names(tmp_path, "data") == ["data/deep/x.bin", "data/y.txt"]
    with pytest.raises(FilesError, match=r"holds no file that `files: \*\.csv` means"):
        names(tmp_path, "a.py", "*.csv")


def test_only_what_is_named_is_looked_for(tmp_path: Path) -> None:
    made(tmp_path, "a.py", "lib/b.py", "large/c.py")
    (tmp_path / "large" / "c.py").unlink()
    (tmp_path / "large").rename(tmp_path / "lib" / "closed")
    walked = list[str]()

    def noted(path: str) -> Iterator[Any]:
        walked.append(Path(path).name)
        return os_scandir(path)

    os_scandir = packing.os.scandir
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing.os, "scandir", noted)
        assert names(tmp_path, "a.py", "lib/b.py") == ["a.py", "lib/b.py"]
        assert walked == []
        assert names(tmp_path, "lib/*.py") == ["lib/b.py"]
    assert sorted(walked) == ["closed", "lib"]


def test_patterns_may_say_here(tmp_path: Path) -> None:
    made(tmp_path, "a.py", "lib/b.py")
    assert names(tmp_path, "./a.py", "./lib/") == ["a.py", "lib/b.py"]
    assert names(tmp_path, ".") == ["a.py", "lib/b.py"]


@pytest.mark.parametrize("pattern", ["../x", "/etc/passwd", "a/../../b", ".."])
def test_patterns_stay_in_the_folder(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(FilesError, match="leads out of the folder"):
        names(tmp_path, pattern)


def test_the_controllers_own_folder_stays(tmp_path: Path) -> None:
    made(tmp_path, "a.py", "state/journal.sqlite")
    assert names(tmp_path, skip=tmp_path / "state") == ["a.py"]
    assert names(tmp_path / "state", skip=tmp_path / "state") == ["journal.sqlite"]


def test_links_to_files_are_followed_and_folders_and_pipes_left_out(tmp_path: Path) -> None:
    made(tmp_path, "far/a.py", "near/b.py")
    (tmp_path / "near" / "a.py").symlink_to(tmp_path / "far" / "a.py")
    (tmp_path / "near" / "round").symlink_to(tmp_path / "near")
    (tmp_path / "near" / "broken").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "near" / "pipe")
    assert names(tmp_path / "near") == ["a.py", "b.py"]


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, "a", "b")
    read = list[str]()
    digest_of = packing._digest_of

    def counted(path: Path) -> str:
        read.append(path.name)
        return digest_of(path)

    monkeypatch.setattr(packing, "_digest_of", counted)
    packer = Packer()
    first = packer.pack(tmp_path, None)
    assert packer.pack(tmp_path, None) == first
    (tmp_path / "a").write_text("something else")
    second = packer.pack(tmp_path, None)
    assert (read, first[0].sha256 != second[0].sha256, first[1] == second[1]) == (["a", "b", "a"], True, True)


def test_what_goes_while_it_is_looked_at_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, "a", "gone", "later/b")
    size = packing._size

    def emptied(path: Path) -> int:
        (tmp_path / "gone").unlink(missing_ok=True)
        shutil.rmtree(tmp_path / "later", ignore_errors=True)
        return size(path)

    monkeypatch.setattr(packing, "_size", emptied)
    assert names(tmp_path) == ["a"]


def test_keys_stay_here_unless_they_are_named(tmp_path: Path) -> None:
    made(tmp_path, "a.py", ".env", ".ssh/id_ed25519", "lib/.aws/credentials")
    assert names(tmp_path) == ["a.py"]
    assert names(tmp_path, "a.py", ".env") == [".env", "a.py"]


def test_the_home_folder_is_not_sent_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, "a.py")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FilesError, match="is the home folder"):
        names(tmp_path)
    assert names(tmp_path, "a.py") == ["a.py"]


@pytest.mark.parametrize("line", ["!", "[z-a]"])
def test_a_line_that_is_no_pattern_is_told_of(tmp_path: Path, line: str) -> None:
    made(tmp_path, "a.py")
    (tmp_path / ".gitignore").write_text(f"{line}\n")
    with pytest.raises(FilesError, match=r"\.gitignore cannot be read"):
        names(tmp_path)


def test_what_editors_of_windows_leave_is_read(tmp_path: Path) -> None:
    made(tmp_path, "a.py", "b.bin")
    (tmp_path / ".hostlerignore").write_bytes("\ufeff*.bin\r\n.*\r\n".encode())
    assert names(tmp_path) == ["a.py"]


def test_a_link_to_itself_is_left_out(tmp_path: Path) -> None:
    made(tmp_path, "a.py")
    (tmp_path / "round").symlink_to("round")
    assert names(tmp_path) == ["a.py"]


def test_far_too_much_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, *map(str, range(30)))
    monkeypatch.setattr(packing, "FILES_MAX", 20)
    with pytest.raises(FilesError, match=r"too much to be sent along.*\.hostlerignore"):
        names(tmp_path)
    with pytest.raises(FilesError, match="is no folder"):
        names(tmp_path / "1")


@pytest.mark.parametrize(
    ("pattern", "path", "meant"),
    [
        ("*.csv", "a.csv", True),
        ("*.csv", "deep/a.csv", False),
        ("**/*.csv", "a.csv", True),
        ("**/*.csv", "deep/er/a.csv", True),
        ("out", "out/deep/a", True),
        ("out/", "out/a", True),
        ("out", "outer", False),
        ("a?c", "a/c", False),
        ("a[1].txt", "a[1].txt", True),
        ("a[1].txt", "a1.txt", False),
        ("**", "any/thing\nat all", True),
        ("-rf", "-rf", True),
    ],
)
def test_patterns(pattern: str, path: str, meant: bool) -> None:
    assert bool(matcher([pattern]).fullmatch(path)) is meant
