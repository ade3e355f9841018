"""Folders are deleted whatever was left in them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hostler.agent.folders import Folders
from hostler.agent.removal import remove

from .harness import SOURCE

NOBODY = 65534


def remove_without_rights(parent: Path, name: str) -> str:
    """Have a folder removed by somebody who is not root; what was raised is the answer."""
    # What leads there, and Python itself, may be readable to root only: so root opens them and steps down then.
    step_down = f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})" if os.geteuid() == 0 else ""
    program = f"""
import os
from hostler.agent.folders import Folders
from hostler.agent.removal import remove
{step_down}
try:
    remove({name!r})
except OSError as error:
    print(error.errno, error.filename)
"""
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(command, env=env, cwd=parent, stdout=subprocess.PIPE, text=True, check=True).stdout


def give_away(folder: Path) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def locked(folder: Path) -> None:
    """As Go leaves its cache: nobody may write to any folder of it, or even look into some."""
    inner = folder / "module" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    (folder / "module" / "file").write_text("x")
    (folder / "closed").mkdir()
    (folder / "closed" / "file").write_text("x")
    (folder / "closed").chmod(0)
    for each in (inner, folder / "module", folder):
        each.chmod(0o555)


def test_folders_that_may_not_be_written_to_are_deleted_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "tree" / "link").symlink_to("../kept")
    locked(tmp_path / "tree" / "cache")
    (tmp_path / "kept").chmod(0o500)
    give_away(tmp_path)
    assert remove_without_rights(tmp_path, "tree") == ""
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "kept", tmp_path / "kept" / "file"]
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o500


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of another user needs root")
def test_what_belongs_to_another_is_told_of_when_all_else_is_gone(tmp_path: Path) -> None:
    locked(tmp_path / "tree" / "a")
    (tmp_path / "tree" / "m").mkdir()
    locked(tmp_path / "tree" / "z")
    give_away(tmp_path)
    (tmp_path / "tree" / "m" / "theirs").mkdir()
    (tmp_path / "tree" / "m" / "theirs" / "file").write_text("x")
    (tmp_path / "tree" / "m" / "empty").mkdir(mode=0o555)
    told = remove_without_rights(tmp_path, "tree")
    assert told == f"{errno.EACCES} tree/m/theirs/file\n"
    assert [path.name for path in (tmp_path / "tree").rglob("*")] == ["m", "theirs", "file"]


@pytest.mark.parametrize("name", ["d", "d" * 200])
def test_folders_deeper_than_any_path_or_stack_are_deleted(
    tmp_path: Path, deep: Callable[[Path, int, str], None], name: str
) -> None:
    deep(tmp_path / "tree", 1500, name)
    remove(str(tmp_path / "tree"))
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(NotADirectoryError):
            remove(str(tmp_path / name))
    remove(str(tmp_path / "gone"))
    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_that_cannot_be_discarded_keeps_no_other(tmp_path: Path) -> None:
    folders = Folders(str(tmp_path / "attempts"))
    for name in ("j1.1", "j3.1"):
        (tmp_path / "attempts" / name / "left").mkdir(parents=True)
    (tmp_path / "attempts" / "j2.1").symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError):
        folders.discard(["j1.1", "j2.1", "j3.1"], frozenset())
    assert os.listdir(tmp_path / "attempts") == ["j2.1"]
