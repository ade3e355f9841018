"""A worker's folder is submitted and edited; every worker of the sweep starts from its files as they were."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.conftest import Fleet, until
from tests.integration.test_snapshots import Site, by_dial_in, local, over_ssh
from tests.livefolders import folders_below

WORKER = """
import hashlib, json, os, sys
from helper import text
say = lambda message: print(json.dumps(message), flush=True)
params = json.loads(sys.stdin.readline())["params"]
digest = hashlib.sha256(json.dumps(params, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
say({"type": "opened", "digest": digest})
for line in sys.stdin:
    chunk = json.loads(line)
    start, stop = chunk["start"], chunk["stop"]
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
        job = said.out.strip()
        assert site.fleet.over(job)["job"]["state"] == "done", site.fleet.log()
        hits = list(site.fleet.client.hits(job))
        assert [hit["at"] for hit in hits] == list(range(20))
        assert {hit["data"]["text"] for hit in hits} == {"old text, old code"}
        (folder,) = {hit["data"]["cwd"] for hit in hits}
        assert Path(folder).name == job, "one folder for the workers of a sweep"
        assert not Path(folder).is_relative_to(site.project)
    until(lambda: not {first.out.strip(), second.out.strip()} & set(trees(site.fleet)), "the end of their folders")
