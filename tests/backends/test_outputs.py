"""What a script has left on this machine, copied to where results are kept."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from hostler.backends.base import Changed, Store
from hostler.backends.local import outputs as local
from hostler.backends.local.outputs import copied
from hostler.model.errors import FilesError, PartlyFetched


def store(folder: Path) -> Store:
    return Store(results=folder / "results", artifacts=folder / "artifacts")


def test_what_patterns_mean_is_copied(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for name in ("a.csv", "b.txt", "out/deep/c.bin", ".a.csv.new", "new\nline.csv"):
        (ran / name).parent.mkdir(parents=True, exist_ok=True)
        (ran / name).write_text(name)
    os.mkfifo(ran / "pipe.csv")
    (ran / "link.csv").symlink_to(ran / "b.txt")
    with pytest.raises(PartlyFetched, match=r"^symbolic links are not fetched: link\.csv\. Let the job copy") as caught:
        copied(ran, ("*.csv*", "out"), store(tmp_path), "j1.1")
    files = caught.value.files
    assert sorted(each.path for each in files) == [
        "j1.1/.a.csv.new", "j1.1/a.csv", "j1.1/new\nline.csv", "j1.1/out/deep/c.bin",
    ]  # fmt: skip
    for each in files:
        data = (tmp_path / "results" / each.path).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (each.size, each.sha256)
    assert list((tmp_path / "incoming").iterdir()) == []


def test_nothing_of_that_kind_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(FilesError, match=r"left no file that `outputs: \*\.csv` means"):
        copied(tmp_path, ("*.csv",), store(tmp_path), "j1.1")
    with pytest.raises(FilesError, match="cannot be read"):
        copied(tmp_path / "nowhere", ("*",), store(tmp_path), "j1.1")


def test_files_beyond_the_limit_are_refused_on_this_machine_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [f"f{at}" for at in range(local.OUTPUTS_MAX + 1)]
    monkeypatch.setattr(local, "walk", lambda _, links: iter(paths))
    with pytest.raises(FilesError, match="20001 files, of which 20000 can be fetched"):
        copied(tmp_path, ("**",), store(tmp_path), "j1.1")


@pytest.mark.parametrize(
    ("number", "size", "words"),
    [
        (1, 1_100_000_000, "1 file of 1.1 GB is new or changed"),
        (1003, 1003, "1003 files of 1.0 kB are new or changed"),
        (1, 10**9 + 1, "at most 1000 files of 1.0 GB are kept"),
    ],
)
def test_refused_outputs_are_named_with_sizes_folder_and_one_remedy(number: int, size: int, words: str) -> None:
    with pytest.raises(PartlyFetched) as refused:
        Changed((("big", size),), number, size, (), 0).expect_few("/srv/j1.1")
    assert words in str(refused.value)
    assert "They are in /srv/j1.1 on the node" in str(refused.value)
    assert str(refused.value).count("--output") == 2  # the condition, and the remedy
