"""A project that states its Python environment runs with it on machines that lack it; one that states none is told."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Fleet, until
from tests.integration.test_snapshots import Site, by_dial_in, local, over_ssh
from tests.patience import PATIENCE_S
from tests.servers import QuietServer

TRAIN = """
import os, sys, tinymodel
print(tinymodel.WEIGHTS, sys.prefix == os.environ["VIRTUAL_ENV"], os.environ["PATH"].startswith(sys.prefix))
"""
UV = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
BUILDING = "building the Python environment"


def wheel(folder: Path, name: str = "tinymodel") -> Path:
    """A wheel of one module; returns the folder in which installers find it."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "WEIGHTS = 'tiny weights'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in files.items())
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": f"{rows}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return folder


def _digest(text: str) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@pytest.fixture(
    scope="module", params=[over_ssh, pytest.param(by_dial_in, marks=pytest.mark.services)], ids=["ssh", "dial-in"]
)
def fleet_there(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if request.param is over_ssh:
        yield request.getfixturevalue("fleet_behind_ssh")
        return
    with ExitStack() as stack:
        yield request.param(stack, tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def fleet_behind_ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield over_ssh(stack, tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def fleet_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield local(stack, tmp_path_factory.mktemp("fleet"))


def _site(fleet: Fleet, folder: Path) -> Site:
    project = folder / "project"
    project.mkdir()
    (project / "train.py").write_text(TRAIN)
    return Site(fleet, project)


@pytest.fixture
def site(fleet_there: Fleet, tmp_path: Path) -> Site:
    return _site(fleet_there, tmp_path)


@pytest.fixture
def ssh(fleet_behind_ssh: Fleet, tmp_path: Path) -> Site:
    return _site(fleet_behind_ssh, tmp_path)


@pytest.fixture
def here(fleet_here: Fleet, tmp_path: Path) -> Site:
    return _site(fleet_here, tmp_path)


def requirements(site: Site, *lines: str) -> str:
    """The text of a requirements file that no test had before: its folder of wheels is this test's."""
    wheels = wheel(site.project.parent / "wheels")
    return "\n".join(("--no-index", f"--find-links {wheels}", *(lines or ("tinymodel",)), ""))


def setup_of(site: Site, job: str) -> str:
    """What the build of a job's environment has printed."""
    said = site.hostler("logs", job, "--stream", "setup")
    assert said.status == 0, said.err
    return said.out


def test_requirements_of_the_project_are_there_on_another_machine(site: Site) -> None:
    (site.project / "requirements.txt").write_text(requirements(site))
    said = site.hostler("submit", "--", "python", "train.py")
    assert said.status == 0, said.err
    assert "requirements.txt" in said.err
    job = said.out.strip()
    assert site.fleet.over(job)["job"]["state"] == "done", site.hostler("logs", job).err
    assert site.output(job) == "tiny weights True True\n"
    built = setup_of(site, job)
    assert BUILDING in built
    assert "tinymodel" in built
    # The second one finds it ready, also from another snapshot.
    (site.project / "data.txt").write_text("more data")
    second = site.submitted("--", "python3", "train.py")
    assert site.fleet.over(second)["job"]["state"] == "done"
    assert site.output(second) == "tiny weights True True\n"
    assert BUILDING not in setup_of(site, second)


@pytest.mark.long
def test_pyproject_is_built_without_the_project_itself(ssh: Site) -> None:
    wheels = wheel(ssh.project.parent / "wheels")
    text = '[build-system]\nrequires = ["no-such-backend"]\nbuild-backend = "no_such"\n[project]\nname = "mine"\n'
    (ssh.project / "pyproject.toml").write_text(text + 'version = "1"\ndependencies = ["tinymodel>=1"]\n')
    words = ["--env", "PIP_NO_INDEX=1", "--env", f"PIP_FIND_LINKS={wheels}"]
    job = ssh.submitted(*words, "--", "python", "train.py")
    assert ssh.fleet.over(job)["job"]["state"] == "done", ssh.hostler("logs", job).err
    assert ssh.output(job) == "tiny weights True True\n"


def test_failed_build_fails_the_job_once_and_holds_the_environment(ssh: Site) -> None:
    (ssh.project / "requirements.txt").write_text(requirements(ssh, "no-such-distribution-anywhere"))
    job = ssh.submitted("--", "python", "train.py")
    told = ssh.fleet.over(job)
    assert (told["job"]["state"], told["job"]["attempts"], told["job"]["failure"]) == ("failed", 1, "import")
    assert "no-such-distribution-anywhere" in told["job"]["why"]
    assert "requirements.txt" in told["job"]["why"]
    shown = ssh.hostler("logs", job).err
    assert "no-such-distribution-anywhere" in shown
    assert "\\n" not in shown.splitlines()[-1], "one line tells how it ended"
    assert "\\n" not in ssh.hostler("job", "show", job).out
    assert "no-such-distribution-anywhere" in "".join(ssh.hostler("job", "show", job).out.split()), "lines are wrapped"
    # The same file is not built there again at once; another one is.
    second = ssh.submitted("--", "python", "train.py")
    until(lambda: "environment" in ssh.hostler("explain", second).out, "the filter", log=ssh.fleet.log)
    assert f"hostler retry {job}" in " ".join(ssh.hostler("explain", second).out.split())
    assert "environment" in ssh.hostler("hold", "list").out
    assert ssh.hostler("cancel", second).status == 0
    (ssh.project / "requirements.txt").write_text(requirements(ssh))
    other = ssh.submitted("--", "python", "train.py")
    assert ssh.fleet.over(other)["job"]["state"] == "done", ssh.hostler("logs", other).err
    # What was missing is there by now, and its owner says so.
    wheel(ssh.project.parent / "wheels", "no_such_distribution_anywhere")
    assert ssh.hostler("retry", job).status == 0
    ssh.fleet.over(job)
    until(lambda: "tinymodel" in (ssh.fleet.job(job)["why"] or ""), "the second attempt", log=ssh.fleet.log)
    assert "environment" not in ssh.hostler("hold", "list").out


@pytest.fixture(scope="module")
def wide_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        fleet = over_ssh(stack, tmp_path_factory.mktemp("fleet"), slots=2)
        yield fleet


@pytest.mark.long
def test_two_jobs_at_once_build_once(wide_fleet: Fleet, tmp_path: Path) -> None:
    site = _site(wide_fleet, tmp_path)
    (site.project / "requirements.txt").write_text(requirements(site))
    jobs = [site.submitted("--", "python", "train.py") for _ in range(2)]
    for job in jobs:
        assert site.fleet.over(job)["job"]["state"] == "done", site.hostler("logs", job).err
    assert sorted(BUILDING in setup_of(site, job) for job in jobs) == [False, True]


def test_missing_modules_are_named_with_the_node_and_its_interpreter(site: Site) -> None:
    (site.project / "helper.py").write_text("X = 1\n")
    (site.project / "train.py").write_text("import json, helper\nimport no_such_torch\nfrom no_such_np.x import y\n")
    job = site.submitted("--", "python", "train.py", "--lr", "1")
    told = site.fleet.over(job)["job"]
    node = next(iter(site.fleet.client.nodes()))["name"]
    assert (told["state"], told["failure"]) == ("failed", "import")
    assert f"{node}: python{sys.version_info[0]}.{sys.version_info[1]} lacks no_such_torch, no_such_np" in told["why"]
    assert "requirements.txt" in told["why"]
    assert "python" in told["why"]


def test_build_under_way_is_named_by_logs(ssh: Site) -> None:
    """A follower once printed nothing until the build had ended."""
    wheels, released, asked_for = wheel(ssh.project.parent / "wheels"), threading.Event(), threading.Event()

    class Index(SimpleHTTPRequestHandler):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, directory=str(wheels))

        def do_GET(self) -> None:
            asked_for.set()
            released.wait(PATIENCE_S)
            super().do_GET()

        def log_message(self, format: str, *given: object) -> None:
            pass

    with QuietServer(("127.0.0.1", 0), Index) as index:
        threading.Thread(target=index.serve_forever, daemon=True).start()
        try:
            address = f"http://127.0.0.1:{index.server_port}/"
            (ssh.project / "requirements.txt").write_text(f"--no-index\n--find-links {address}\ntinymodel\n")
            job = ssh.submitted("--", "python", "train.py")
            assert asked_for.wait(PATIENCE_S), setup_of(ssh, job)
            assert BUILDING in ssh.hostler("logs", job).err
            words = [sys.executable, "-m", "hostler", "logs", "-f", job, "--state-dir", str(ssh.fleet.state)]
            with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
                assert following.stderr is not None
                told = next((line for line in following.stderr if BUILDING in line), "")
                released.set()
                output, _ = following.communicate(timeout=PATIENCE_S)
        finally:
            released.set()
            index.shutdown()
    assert "requirements.txt" in told
    assert f"`hostler logs --stream setup {job}` shows what that prints" in told
    assert (following.returncode, output) == (0, "tiny weights True True\n")


def test_environment_is_not_built_for_who_asks_for_none(ssh: Site) -> None:
    (ssh.project / "requirements.txt").write_text(requirements(ssh, "no-such-distribution-anywhere"))
    (ssh.project / "train.py").write_text("import sys\nprint(sys.prefix == sys.base_prefix)\n")
    job = ssh.submitted("--python-env", "none", "--", "python", "train.py")
    assert ssh.fleet.over(job)["job"]["state"] == "done"


def test_environment_named_at_submission_holds_also_on_this_machine(here: Site) -> None:
    (here.project / "env").mkdir()
    (here.project / "env" / "needs.txt").write_text(requirements(here))
    said = here.hostler("submit", "--python-env", "env/needs.txt", "--", "python", "train.py")
    assert said.status == 0, said.err
    assert "env/needs.txt" in said.err
    job = said.out.strip()
    assert here.fleet.over(job)["job"]["state"] == "done", here.hostler("logs", job).err
    assert here.output(job) == "tiny weights True True\n"


def test_environment_of_the_project_is_not_built_on_this_machine(here: Site) -> None:
    (here.project / "requirements.txt").write_text(requirements(here, "no-such-distribution-anywhere"))
    (here.project / "train.py").write_text("import os; print(os.environ.get('VIRTUAL_ENV'))")
    said = here.hostler("submit", "--", "python3", "train.py")
    assert said.status == 0, said.err
    assert "requirements.txt" not in said.err
    assert here.fleet.over(said.out.strip())["job"]["state"] == "done"


@pytest.mark.long
def test_time_of_the_build_does_not_count_as_wall_time(ssh: Site) -> None:
    (ssh.project / "requirements.txt").write_text(requirements(ssh))
    # Making an environment takes longer than this on any machine; the job does not.
    job = ssh.submitted("--walltime-s", "0.5", "--", "python", "-c", "import tinymodel")
    assert ssh.fleet.over(job)["job"]["state"] == "done", ssh.hostler("logs", job).err
    slow = ssh.submitted("--walltime-s", "0.5", "--", "python", "-c", "import time; time.sleep(900)")
    assert ssh.fleet.over(slow)["job"]["failure"] == "timeout"


@pytest.mark.parametrize(
    ("words", "text", "reason"),
    [
        (["--python-env", "nowhere.txt"], "", "nowhere.txt"),
        (["--python-env", "train.py"], "", "requirements"),
        (["--python-env", "requirements.txt", "--own-dir"], "", "--own-dir"),
        ([], "-e .\n", "-e ."),
        ([], "tinymodel\n./libs/mine\n", "./libs/mine"),
        ([], "mine @ file:///home/me/mine\n", "file:///home/me/mine"),
        ([], "-r more.txt\n", "more.txt"),
    ],
)
def test_environment_that_cannot_be_built_elsewhere_is_refused(
    ssh: Site, words: list[str], text: str, reason: str
) -> None:
    (ssh.project / "requirements.txt").write_text(text)
    said = ssh.hostler("submit", *words, "--", "python", "train.py")
    assert (said.status, said.out, reason in said.err) == (2, "", True), said.err


@pytest.mark.long
def test_jobs_file_names_an_environment(ssh: Site) -> None:
    (ssh.project / "needs.txt").write_text(requirements(ssh))
    jobs = '[{"name": "by file", "argv": ["python", "train.py"], "python_env": "needs.txt"}]'
    (ssh.project / "jobs.json").write_text(jobs)
    job = ssh.submitted("--jobs-file", "jobs.json")
    assert ssh.fleet.over(job)["job"]["state"] == "done", ssh.hostler("logs", job).err
    assert ssh.output(job) == "tiny weights True True\n"


@pytest.mark.long
def test_environment_is_ready_for_a_job_whose_controller_was_killed(ssh: Site) -> None:
    (ssh.project / "requirements.txt").write_text(requirements(ssh))
    job = ssh.submitted("--", "python", "train.py")
    ssh.fleet.state_of(job, "running")
    ssh.fleet.kill()
    ssh.fleet.start()
    assert ssh.fleet.over(job)["job"]["state"] == "done", ssh.hostler("logs", job).err
    assert ssh.output(job) == "tiny weights True True\n"


@pytest.fixture(scope="module")
def fleet_with_uv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if UV is None:
        pytest.skip("uv is not installed here")
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("fleet")
        (folder / "bin").mkdir()
        (folder / "bin/uv").symlink_to(UV)
        yield over_ssh(stack, folder, setup=[f"export PATH={folder}/bin:$PATH"])


@pytest.fixture
def with_uv(fleet_with_uv: Fleet, tmp_path: Path) -> Site:
    return _site(fleet_with_uv, tmp_path)


def test_requirements_are_installed_by_uv_where_that_is(with_uv: Site) -> None:
    (with_uv.project / "requirements.txt").write_text(requirements(with_uv))
    job = with_uv.submitted("--", "python", "train.py")
    assert with_uv.fleet.over(job)["job"]["state"] == "done", with_uv.hostler("logs", job).err
    assert with_uv.output(job) == "tiny weights True True\n"
    assert "uv pip install" in setup_of(with_uv, job)


@pytest.mark.services
def test_lock_file_of_uv_is_built(with_uv: Site) -> None:
    ssh = with_uv
    wheels = wheel(ssh.project.parent / "wheels")
    text = '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.8"\ndependencies = ["tinymodel"]\n'
    (ssh.project / "pyproject.toml").write_text(f'{text}[tool.uv]\nno-index = true\nfind-links = ["{wheels}"]\n')
    subprocess.run([str(UV), "lock", "--quiet"], cwd=ssh.project, check=True)
    job = ssh.submitted("--", "python", "train.py")
    assert ssh.fleet.over(job)["job"]["state"] == "done", ssh.hostler("logs", job).err
    assert ssh.output(job) == "tiny weights True True\n"
    (ssh.project / "data.txt").write_text("more data")
    second = ssh.submitted("--", "python", "train.py")
    assert ssh.fleet.over(second)["job"]["state"] == "done"
    assert BUILDING not in setup_of(ssh, second)
