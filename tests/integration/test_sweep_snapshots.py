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

WORKER = """
import hashlib, json, os, sys, time
from helper import text
say = lambda message: print(json.dumps(message), flush=True)
params = json.loads(sys.stdin.readline())["params"]
digest = hashlib.sha256(json.dumps(params, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
say({"type": "opened", "digest": digest})
for line in sys.stdin:
    chunk = json.loads(line)
    start, stop = chunk["start"], chunk["stop"]
    time.sleep(params.get("pause_s", 0) * (stop - start))
    hits = [{"at": at, "text": text(), "cwd": os.getcwd()} for at in range(start, stop)]
    say({"type": "done", "id": chunk["id"], "digest": digest, "start": start, "stop": stop, "hits": hits})
"""
HELPER = "def text(): return open('data.txt').read() + '{}'\n"
COMMAND = f"{shlex.quote(sys.executable)} search.py"


def project_in(folder: Path) -> Path:
    """A project with a worker of two files, and its data."""
    project = folder / "project"
    project.mkdir()
    (project / "search.py").write_text(WORKER)
    (project / "helper.py").write_text(HELPER.format(", old code"))
    (project / "data.txt").write_text("old text")
    return project


def edited(project: Path) -> None:
    """The files change after the submission."""
    (project / "helper.py").write_text(HELPER.format(", new code"))
    (project / "search.py").write_text("raise SystemExit('edited')")
    (project / "data.txt").unlink()


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
    return Site(fleet_there, project_in(tmp_path))


def trees(fleet: Fleet) -> list[str]:
    """The names of what is laid out on the nodes of a fleet."""
    return sorted(each.name for each in folders_below(fleet.path) if each.parent.name == "trees")


def workers_of(job: str) -> list[psutil.Process]:
    """The processes that run in the folder of a sweep."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if Path(process.cwd()).name == job and "search.py" in command_line(process):
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
    first = site.hostler("sweep", "first", *words)
    assert first.status == 0, first.err
    assert "files: 3 files, " in first.err
    second = site.hostler("sweep", "second", *words)
    assert "nothing new to send" in second.err
    edited(site.project)
    release()
    for said in (first, second):
        expect_old_files(site, said.out.strip(), 20)


@pytest.mark.parametrize("fleet_there", [local, over_ssh], ids=["local", "ssh"], indirect=True)
def test_worker_starts_again_in_its_folder_while_the_controller_is_away(site: Site) -> None:
    """The folder stays through the end of the controller and of the worker; one that no sweep needs is deleted."""
    words = ("--range", "0:40", "--worker", COMMAND, "--param", "pause_s=0.2", "--target-s", "1")
    said = site.hostler("sweep", "away", *words)
    assert said.status == 0, said.err
    job = said.out.strip()
    until(lambda: len(workers_of(job)) == 1, "its worker")
    (worker,) = workers_of(job)
    stray = Path(worker.cwd()).with_name("j999")
    edited(site.project)
    site.fleet.kill()
    stray.mkdir()
    worker.kill()
    site.fleet.start()
    until(lambda: not stray.exists(), "the end of a folder that nothing needs")
    assert job in trees(site.fleet)
    expect_old_files(site, job, 40)


@pytest.mark.parametrize("fleet_there", [local, over_ssh], ids=["local", "ssh"], indirect=True)
def test_sweep_that_is_retried_has_its_folder_again(site: Site) -> None:
    words = ("--range", "0:30", "--worker", COMMAND, "--param", "pause_s=0.1", "--target-s", "1")
    job = site.hostler("sweep", "again", *words).out.strip()
    until(lambda: workers_of(job), "its worker")
    edited(site.project)
    assert site.hostler("cancel", job).status == 0
    site.fleet.state_of(job, "cancelled")
    assert site.hostler("retry", job).status == 0
    expect_old_files(site, job, 30)
