"""A worker's folder is submitted and edited; every worker of the sweep starts from its files as they were."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from tests.integration.conftest import Fleet, command_line, until
from tests.integration.test_snapshots import Site, by_dial_in, local, over_ssh
from tests.livefolders import folders_below
from tests.own_script import edit_search, search_in

COMMAND = f"{shlex.quote(sys.executable)} search.py"


@pytest.fixture(
    scope="module",
    params=[local, over_ssh, pytest.param(by_dial_in, marks=pytest.mark.services)],
    ids=["local", "ssh", "dial-in"],
)
def fleet_there(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield request.param(stack, tmp_path_factory.mktemp("fleet"))


@pytest.fixture
def site(fleet_there: Fleet, tmp_path: Path) -> Site:
    return Site(fleet_there, search_in(tmp_path))


def trees(fleet: Fleet) -> list[str]:
    """The names of what is laid out on the nodes of a fleet."""
    return sorted(each.name for each in folders_below(fleet.path) if each.parent.name == "trees")


def workers_of(site: Site, job: str) -> list[psutil.Process]:
    """The processes that run in the folder of a sweep of this fleet; other tests have jobs of the same names."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            folder = Path(process.cwd())
            is_own = folder.name == job and folder.is_relative_to(site.fleet.path)
            if is_own and any(word.endswith("search.py") for word in command_line(process)):
                found.append(process)
    return found


def expect_old_files(site: Site, job: str, stop: int) -> None:
    """A sweep has ended well, and all of its workers had the files of its submission."""
    assert site.fleet.over(job)["job"]["state"] == "done", site.fleet.log()
    hits = list(site.fleet.client.hits(job))
    assert sorted(hit["at"] for hit in hits) == list(range(stop))
    assert {hit["data"]["text"] for hit in hits} == {"old text, old code"}
    (folder,) = {hit["data"]["cwd"] for hit in hits}
    assert Path(folder).name == job, "the workers of a sweep share a folder"
    assert not Path(folder).is_relative_to(site.project)
    until(lambda: job not in trees(site.fleet), "the end of its folder")


def test_sweep_runs_the_files_of_its_submission(site: Site) -> None:
    release = site.occupied()
    words = ("--range", "0:20", "--worker", COMMAND)
    first = site.hostler("sweep", "submit", "first", *words)
    assert first.status == 0, first.err
    assert "files: 3 files, " in first.err
    second = site.hostler("sweep", "submit", "second", *words)
    assert "nothing new to send" in second.err
    edit_search(site.project)
    release()
    for said in (first, second):
        expect_old_files(site, said.out.strip(), 20)


@pytest.mark.parametrize("fleet_there", [local, over_ssh], ids=["local", "ssh"], indirect=True)
def test_worker_starts_again_in_its_folder_while_the_controller_is_away(site: Site) -> None:
    """The folder stays through the end of the controller and of the worker; one that no sweep needs is deleted."""
    words = ("--range", "0:40", "--worker", COMMAND, "--param", "pause_s=0.2", "--target-s", "1")
    said = site.hostler("sweep", "submit", "away", *words)
    assert said.status == 0, said.err
    job = said.out.strip()
    until(lambda: len(workers_of(site, job)) == 1, "its worker")
    (worker,) = workers_of(site, job)
    stray = Path(worker.cwd()).with_name("j999")
    edit_search(site.project)
    site.fleet.kill()
    stray.mkdir()
    worker.kill()
    site.fleet.start()
    until(lambda: not stray.exists(), "the end of a folder that nothing needs")
    assert job in trees(site.fleet)
    expect_old_files(site, job, 40)


@pytest.mark.parametrize("fleet_there", [local, over_ssh], ids=["local", "ssh"], indirect=True)
def test_sweep_that_is_retried_has_its_folder_again(site: Site) -> None:
    program = site.project / "search.py"
    program.write_text(f"#!{sys.executable}\n{program.read_text()}")
    program.chmod(0o755)
    words = ("--range", "0:30", "--worker", "./search.py", "--param", "pause_s=0.1", "--target-s", "1")
    job = site.hostler("sweep", "submit", "again", *words).out.strip()
    until(lambda: workers_of(site, job), "its worker")
    edit_search(site.project)
    assert site.hostler("cancel", job).status == 0
    site.fleet.state_of(job, "cancelled")
    assert site.hostler("retry", job).status == 0
    expect_old_files(site, job, 30)
