"""The interpreter and the variables of submitted jobs: those of the submitter's shell on the controller's machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.conftest import Fleet, Said, command
from tests.integration.test_snapshots import Site, local, over_ssh

SHOWS = "import os; print(os.environ.get('MARK'), os.environ.get('VIRTUAL_ENV'))"


@pytest.fixture(
    scope="module", params=[local, pytest.param(over_ssh, marks=pytest.mark.services)], ids=["local", "ssh"]
)
def fleet_there(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield request.param(stack, tmp_path_factory.mktemp("fleet"))


@pytest.fixture
def site(fleet_there: Fleet, tmp_path: Path) -> Site:
    (tmp_path / "project").mkdir()
    return Site(fleet_there, tmp_path / "project")


@pytest.fixture(scope="module")
def fleet_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield local(stack, tmp_path_factory.mktemp("fleet"))


@pytest.fixture
def here(fleet_here: Fleet, tmp_path: Path) -> Site:
    (tmp_path / "project").mkdir()
    return Site(fleet_here, tmp_path / "project")


def activated(folder: Path) -> dict[str, str]:
    """A shell in which an environment is active whose `python3` sets MARK."""
    bin = folder / "env" / "bin"
    bin.mkdir(parents=True)
    (bin / "python3").write_text(f'#!/bin/sh\nMARK=mine exec {sys.executable} "$@"\n')
    (bin / "python3").chmod(0o755)
    return {"PATH": f"{bin}:{os.environ['PATH']}", "VIRTUAL_ENV": str(folder / "env"), "SECRET_OF_SHELL": "stays"}


def submitted(site: Site, shell: dict[str, str], *words: str) -> Said:
    state = {"HOSTLER_STATE_DIR": str(site.fleet.state)}
    return command("submit", "--own-dir", *words, cwd=site.project, env={**os.environ, **state, **shell})


def test_job_runs_with_the_python_of_the_submitters_shell_on_its_machine(
    site: Site, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    shell = activated(tmp_path)
    said = submitted(site, shell, "--", "python3", "-c", SHOWS)
    assert said.status == 0, said.err
    there = request.node.callspec.id == "ssh"
    # Where no node is on this machine, the program of this shell runs nowhere.
    assert (f"python3 → {tmp_path}/env/bin/python3 (on this machine)" in said.err) != there
    site.fleet.over(said.out.strip())
    assert site.output(said.out.strip()) == ("None None\n" if there else f"mine {tmp_path}/env\n")


def test_variables_travel_by_name_by_file_and_never_by_themselves(here: Site, tmp_path: Path) -> None:
    (here.project / "vars").write_text("# tokens\nFROM_FILE=a b=c\n\nTOKEN\n  export EXPORTED=too\nBOTH=file\n")
    shell = {**activated(tmp_path), "TOKEN": "t0ken", "NAMED": "by name"}
    words = ["--env-file", "vars", "--env", "NAMED", "--env", "BOTH=option"]
    names = ("FROM_FILE", "TOKEN", "EXPORTED", "BOTH", "NAMED", "SECRET_OF_SHELL")
    code = f"import os; print([os.environ.get(name) for name in {names!r}])"
    job = submitted(here, shell, *words, "--", sys.executable, "-c", code).out.strip()
    here.fleet.over(job)
    assert here.output(job) == "['a b=c', 't0ken', 'too', 'option', 'by name', None]\n"


def test_key_submitted_from_another_shell_is_the_job_it_was(here: Site, tmp_path: Path) -> None:
    first = submitted(here, {}, "--key", "k", "--", "python3", "-c", SHOWS)
    said = submitted(here, activated(tmp_path), "--key", "k", "--", "python3", "-c", SHOWS)
    assert (said.status, said.out) == (0, first.out), said.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--env", "NOT_SET_ANYWHERE"], "is not set here"),
        (["--env", "=x"], "is not a variable"),
        (["--env", "A B=x"], "is not a variable"),
        (["--env", "A=1", "--env", "A=2"], "twice"),
        (["--env-file", "nowhere"], "cannot be read"),
        (["--env-file", "bad"], "line 2"),
    ],
)
def test_variable_that_cannot_be_is_refused(here: Site, words: list[str], reason: str) -> None:
    (here.project / "bad").write_text("A=1\nset B=2\n")
    said = submitted(here, {}, *words, "--", "true")
    assert (said.status, said.out, reason in said.err) == (2, "", True), said.err
