"""`hostler fetch` of a group: a folder for each job, taken up where it was cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.client import downloads
from tests.cli.conftest import Hostler
from tests.cli.fake_groups import FakeController


@pytest.fixture
def grid(fake: FakeController) -> FakeController:
    """Four jobs: two that left files, one that left none, one that failed."""
    fake.keep(fake.add(lr="0.1"), model_pt=b"one", log_txt=b"1")
    fake.keep(fake.add(lr="0.2"), model_pt=b"two!")
    fake.add(lr="0.3")
    fake.add("failed", lr="0.4")
    return fake


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in folder.rglob("*")
        if each.is_file() and each.name != ".gitignore"
    }


def test_fetch_of_a_group_copies_to_folders_named_by_parameters(
    grid: FakeController, hostler: Hostler, tmp_path: Path
) -> None:
    said = hostler("fetch", "g1")
    assert (said.status, said.err) == (0, "2 of 4 jobs have left no files: 1 done, 1 failed\n")
    assert said.out.splitlines() == [
        "g1/lr=0.1/out/model.pt",
        "g1/lr=0.1/out/log.txt",
        "g1/lr=0.2/out/model.pt",
        "2 jobs: 3 files copied, 8 B",
    ]
    assert files(tmp_path / "g1") == {
        "lr=0.1/out/model.pt": b"one", "lr=0.1/out/log.txt": b"1", "lr=0.2/out/model.pt": b"two!",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "folder"), [("g1", "g2"), ("g1", "j1"), ("j1", "j2")])
def test_fetch_refuses_the_id_of_another_as_its_folder(
    grid: FakeController, hostler: Hostler, tmp_path: Path, name: str, folder: str
) -> None:
    said = hostler("fetch", name, folder)
    assert (said.status, said.out) == (2, "")
    assert f"DIR is '{folder}', the id of another job or group" in said.err
    assert f"Run `hostler fetch {folder}` for its files" in said.err
    assert not (tmp_path / folder).exists()
    assert hostler("fetch", name, name).status == 0


def test_fetch_of_a_group_again_copies_what_is_missing(grid: FakeController, hostler: Hostler, tmp_path: Path) -> None:
    hostler("fetch", "g1", "runs")
    grid.jobs_by_id["j4"]["state"] = "done"
    grid.keep("j4", model_pt=b"four")
    said = hostler("fetch", "g1", "runs", "--json")
    assert {(row["job"], row["path"], row["copied"]) for row in said.json} == {
        ("j1", "out/model.pt", False), ("j1", "out/log.txt", False), ("j2", "out/model.pt", False),
        ("j4", "out/model.pt", True),
    }  # fmt: skip
    assert (tmp_path / "runs/lr=0.4/out/model.pt").read_bytes() == b"four"


@pytest.mark.parametrize("cut", ["/jobs/j2/files", "/jobs/j2/files/out", "/jobs/j1/files/out/log.txt", "/jobs/j2"])
def test_fetch_of_a_group_is_taken_up_where_its_link_was_cut(
    grid: FakeController, hostler: Hostler, tmp_path: Path, cut: str
) -> None:
    grid.cuts = [cut] * 3
    said = hostler("fetch", "g1")
    assert said.status == 0
    assert said.out.splitlines()[-1] == "2 jobs: 3 files copied, 8 B"
    assert len(said.out.splitlines()) == 4
    assert len(files(tmp_path / "g1")) == 3


def test_fetch_of_a_group_whose_link_stays_cut_leaves_no_half_files(
    grid: FakeController, hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "RECONNECT_S", (0.0,))
    monkeypatch.setattr(downloads, "PIECE", 2)
    grid.cuts = ["/jobs/j2/files/out/"] * 100
    said = hostler("fetch", "g1")
    assert (said.status, said.err) == (1, "hostler: error: the controller stopped answering\n")
    assert {name for name in files(tmp_path / "g1") if not Path(name).name.startswith(".hostler-")} == {
        "lr=0.1/out/model.pt", "lr=0.1/out/log.txt",
    }  # fmt: skip
    grid.cuts = []
    said = hostler("fetch", "g1")
    assert (said.status, said.out.splitlines()[-1]) == (0, "2 jobs: 1 file copied, 4 B, 2 files there already")


def test_fetch_of_a_group_goes_on_after_a_job_whose_files_differ(
    grid: FakeController, hostler: Hostler, tmp_path: Path
) -> None:
    (tmp_path / "g1/lr=0.1/out").mkdir(parents=True)
    (tmp_path / "g1/lr=0.1/out/model.pt").write_bytes(b"my own")
    said = hostler("fetch", "g1")
    assert said.status == 2
    assert said.err.startswith("hostler: error: j1: in g1/lr=0.1 there is out/model.pt already, with other content.")
    assert files(tmp_path / "g1") == {"lr=0.1/out/model.pt": b"my own", "lr=0.2/out/model.pt": b"two!"}
    assert hostler("fetch", "g1", "--force").status == 0
    assert files(tmp_path / "g1")["lr=0.1/out/model.pt"] == b"one"


def test_fetch_of_a_group_lists_files_with_their_folders(
    grid: FakeController, hostler: Hostler, tmp_path: Path
) -> None:
    said = hostler("fetch", "g1", "--list")
    assert [line.split()[::2] for line in said.out.splitlines()] == [
        ["BYTES", "FILE"], ["3", "lr=0.1/out/model.pt"], ["1", "lr=0.1/out/log.txt"], ["4", "lr=0.2/out/model.pt"],
    ]  # fmt: skip
    listed = hostler("fetch", "g1", "--list", "--json").json
    assert [(row["job"], row["folder"], row["path"]) for row in listed][-1] == ("j2", "lr=0.2", "out/model.pt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (["failed", "running"], "2 of 2 jobs have left no files, 1 failed, 1 running. Files are there once a job is "
         "done: `hostler wait g1` waits for that"),
        (["done"], "1 of 1 job has left no files, 1 done. Name those to keep with `hostler submit --output PATTERN`"),
        (["failed"], "1 of 1 job has left no files, 1 failed. Only jobs that are done leave files: `hostler retry g1`"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("option", [[], ["--list"]])
def test_fetch_of_a_group_without_files_fails_with_the_remedy(
    fake: FakeController, hostler: Hostler, states: list[str], message: str, option: list[str]
) -> None:
    for state in states:
        fake.add(state)
    said = hostler("fetch", "g1", *option)
    assert (said.status, said.out) == (2, "")
    assert message in said.err
    assert said.err.count("\n") == 1


def test_fetch_of_a_group_that_is_not_there_is_wrong_usage(grid: FakeController, hostler: Hostler) -> None:
    said = hostler("fetch", "g7")
    assert (said.status, said.out, said.err) == (2, "", "hostler: error: there is no job group 'g7'\n")
    assert hostler("fetch", "g1", "runs", "--list").status == 2


def test_fetch_of_a_group_ends_where_the_disk_refuses(
    grid: FakeController, hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(downloads, "_sync", refuse)
    said = hostler("fetch", "g1")
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert "No space left on device; free some space, and fetch again" in said.err
