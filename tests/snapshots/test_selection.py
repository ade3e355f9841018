"""The files that a snapshot takes, beside what git itself would take."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.errors import FilesError
from hostler.snapshots.folder import take
from hostler.snapshots.selection import select


def made(folder: Path, *paths: str, data: bytes = b"x") -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def test_gitignore_leaves_out_folders_and_the_report_has_their_sizes(tmp_path: Path) -> None:
    made(tmp_path, "train.py", "data/big.bin", "data/deep/more.bin", data=b"x" * 100)
    (tmp_path / ".gitignore").write_text("data/\n")
    found = select(tmp_path)
    assert found.paths == (".gitignore", "train.py")
    assert found.left_out == (("data/", ".gitignore", 200),)


def test_hostlerignore_counts_instead_of_gitignore(tmp_path: Path) -> None:
    made(tmp_path, "a.py", "b.log", "sub/c.log")
    (tmp_path / ".gitignore").write_text("a.py\n")
    (tmp_path / "sub" / ".gitignore").write_text("*\n")
    (tmp_path / ".hostlerignore").write_text("/b.log\n")
    assert select(tmp_path).paths == (".gitignore", ".hostlerignore", "a.py", "sub/.gitignore", "sub/c.log")


def test_gitignore_of_a_folder_goes_before_one_above_it(tmp_path: Path) -> None:
    made(tmp_path, "a.log", "keep/a.log", "keep/b.txt")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "keep" / ".gitignore").write_text("!a.log\nb.txt\n")
    found = select(tmp_path)
    assert found.paths == (".gitignore", "keep/.gitignore", "keep/a.log")
    assert {each.path: each.reason for each in found.left_out} == {
        "a.log": ".gitignore",
        "keep/b.txt": "keep/.gitignore",
    }


def test_build_folders_and_secrets_are_left_out_unless_taken_back(tmp_path: Path) -> None:
    made(tmp_path, "a.py", "__pycache__/a.pyc", ".venv/bin/python", ".env", "node_modules/x/y.js", "lib/.ssh/id")
    found = select(tmp_path)
    assert found.paths == ("a.py",)
    reasons = {each.path: each.reason for each in found.left_out}
    assert (reasons[".env"], reasons[".venv/"]) == ("files that may hold secrets", "usual build folders")
    (tmp_path / ".hostlerignore").write_text("!.env\n")
    assert ".env" in select(tmp_path).paths


def test_links_to_files_are_taken_and_links_to_folders_are_not(tmp_path: Path) -> None:
    made(tmp_path / "p", "a.py")
    made(tmp_path, "elsewhere/b.txt")
    (tmp_path / "p" / "b.txt").symlink_to(tmp_path / "elsewhere" / "b.txt")
    (tmp_path / "p" / "folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "p" / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "p" / "pipe")
    found = select(tmp_path / "p")
    assert found.paths == ("a.py", "b.txt")
    assert [each.path for each in found.left_out] == ["folder", "loop", "pipe"]


def test_own_folder_of_the_controller_is_left_out_without_a_word(tmp_path: Path) -> None:
    made(tmp_path, "a.py", "state/journal.db")
    assert select(tmp_path, tmp_path / "state") == (("a.py",), ())


@pytest.mark.parametrize("line", ["!", "[z-a]"])
def test_pattern_that_is_not_valid_is_refused_with_its_file(tmp_path: Path, line: str) -> None:
    made(tmp_path, "a.py")
    (tmp_path / ".gitignore").write_text(f"{line}\n")
    with pytest.raises(FilesError, match=r"\.gitignore cannot be read"):
        select(tmp_path)


def test_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, "secret/a.py")
    scandir = os.scandir

    def refusing(path: Path) -> object:
        if Path(path).name == "secret":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(FilesError, match=r"/secret cannot be read: Permission denied"):
        select(tmp_path)


def test_root_folder_is_refused() -> None:
    with pytest.raises(FilesError, match="is the root folder"):
        select(Path("/"))


def test_home_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FilesError, match="is the home folder"):
        select(tmp_path)


NAMES = ("a", "b", "log", "a.log", "data")
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
patterns = st.sampled_from(["a", "/a", "*.log", "!a.log", "data/", "!data/", "a/b", "**/b", "log", "!log", "/data/a"])


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: its reading cannot be compared")
@settings(max_examples=40, deadline=None)
@given(st.sets(paths, min_size=1, max_size=6), st.lists(patterns, max_size=4), st.lists(patterns, max_size=2))
def test_selection_is_what_git_would_take(
    tmp_path_factory: pytest.TempPathFactory, files: set[str], top: list[str], deep: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    for path in sorted(files):
        if not any(other.startswith(f"{path}/") for other in files):
            made(folder, path)
    (folder / ".gitignore").write_text("\n".join(top))
    if (folder / "data").is_dir():
        (folder / "data" / ".gitignore").write_text("\n".join(deep))
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    command = ["git", "-C", str(folder), "ls-files", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    assert sorted(select(folder).paths) == sorted(filter(None, listed))


def test_state_directory_of_a_controller_is_never_sent(tmp_path: Path) -> None:
    """Also where the folder is named by a link, and where it is not this client's controller."""
    state = tmp_path / "project/state"
    state.mkdir(parents=True)
    for name in ("token", "session.key", "journal.sqlite"):
        (state / name).write_text("secret")
    (tmp_path / "project/train.py").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "project")
    for folder in ("project", "link"):
        for skip in (None, state, tmp_path / "link/state"):
            assert select(tmp_path / folder, skip).paths == ("train.py",)


@pytest.mark.parametrize("lines", ["a\n!data/", "/data/a\n!data/", "a\n!data/\n/a", "data/*\n!data/"])
def test_folder_that_is_taken_back_does_not_take_back_what_is_left_out_below_it(tmp_path: Path, lines: str) -> None:
    made(tmp_path, "data/a/b")
    made(tmp_path, "data/c")
    (tmp_path / ".gitignore").write_text(lines)
    assert "data/a/b" not in select(tmp_path).paths


def test_links_to_files_that_patterns_mean_are_taken_with_their_content(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.txt").write_text("data")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "b.txt").symlink_to(tmp_path / "elsewhere" / "b.txt")
    (tmp_path / "p" / "folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "p" / "loop").symlink_to("loop")
    for patterns in (None, ["b.txt"], ["**"]):
        (file,) = take(tmp_path / "p", patterns).manifest.files
        assert (file.path, file.size) == ("b.txt", 4)


def test_what_is_neither_file_nor_folder_with_files_is_named(tmp_path: Path) -> None:
    made(tmp_path, "a.py")
    (tmp_path / "gone").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    found = select(tmp_path)
    assert found.paths == ("a.py",)
    assert {each.path: each.reason for each in found.left_out} == {
        "gone": "links that lead to no file",
        "pipe": "pipes, sockets and devices",
        "empty/": "empty folders",
    }
