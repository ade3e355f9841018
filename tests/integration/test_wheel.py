"""Wheel of a clean checkout, installed without extras: `hostler up`, its dashboard and a job work, without PyTorch.

The wheel is installed into an empty virtual environment. Exactly the distributions that its metadata requires are
linked into that environment from the one that runs the tests, so an undeclared dependency fails there, and neither the
build nor the installation needs a network.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hostler.client import Client, address_in
from hostler.model.errors import LinkError
from tests.backends.ssh import sshd
from tests.integration.conftest import kill_below, until
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
STATIC = "hostler/web/static/"
HEAVY = frozenset({"torch", "numba", "llvmlite", "ray"})
IMPORTS = """
import sys, hostler.cli.main, hostler.cli.running, hostler.runtime.controller, hostler.runtime.up, hostler.web.app
print(*sorted({name.partition('.')[0] for name in sys.modules}))
"""


@dataclass
class Installed:
    """The virtual environment with the wheel, and a home folder that no Hostler has used."""

    bin: Path
    home: Path

    @property
    def project(self) -> Path:
        """The folder from which jobs are submitted."""
        return self.home / "project"

    @property
    def state(self) -> Path:
        """The default state directory."""
        return self.home / ".local" / "state" / "hostler"

    @property
    def log(self) -> Path:
        """The output of `hostler up`."""
        return self.home / "up.log"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a new login: no setting of Hostler or Python from the test run."""
        return {"HOME": str(self.home), "PATH": f"{self.bin}:{os.environ['PATH']}", "LANG": "C.UTF-8"}

    def run(self, *words: str) -> str:
        """The output of a command of this environment in the project folder; it must succeed."""
        ended = subprocess.run(
            [self.bin / words[0], *words[1:]],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ended.returncode == 0, f"{words}: {ended.stdout}{ended.stderr}"
        return ended.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project's files, with no file that git ignores."""
    folder = tmp_path_factory.mktemp("checkout")
    names = git_files() or source_files()
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    return built(checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an empty virtual environment, with its required distributions and no extras."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    made = Installed(folder / "venv" / "bin", folder / "home")
    made.project.mkdir(parents=True)
    pip("--python", str(made.bin / "python"), "install", "--no-deps", "--no-index", "--no-compile", str(wheel))
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    link(closure(requirements(wheel)).values(), site)
    return made


@pytest.fixture(scope="module")
def controller(installed: Installed) -> Iterator[Client]:
    """`hostler up` of the wheel, once its node is up."""
    with installed.log.open("wb") as log:
        process = subprocess.Popen(
            [installed.bin / "hostler", "up", "--port", "0"],
            cwd=installed.home,
            env=installed.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        client = Client.from_state_dir(installed.state)
        until(lambda: is_up(process, client, installed.log), "the controller", log=installed.log.read_text)
        yield client
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        kill_below(installed.home)


@pytest.mark.services
@pytest.mark.usefixtures("controller")
def test_wheel_serves_a_dashboard_with_every_script_and_style(installed: Installed, checkout: Path) -> None:
    page = fetched(installed, "/pages/fleet").decode()
    named = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    served = {
        path.partition("?")[0].removeprefix("/static/"): hashlib.sha256(fetched(installed, path)).hexdigest()
        for path in named
    }
    folder = checkout / "src" / STATIC
    assert served == {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in served}
    assert {"hostler.js", "hostler.css", "plots.js", "theme.js"} <= set(served)
    assert vendored(checkout).items() <= served.items()


@pytest.mark.services
def test_wheel_runs_a_submitted_job(controller: Client, installed: Installed) -> None:
    name = installed.run("hostler", "submit", "--", "python3", "-c", "print(6 * 7)").strip()
    until(lambda: controller.job(name)["job"]["state"] == "done", f"{name} being done", log=installed.log.read_text)
    assert installed.run("hostler", "logs", name) == "42\n"


TRAIN = """
import pathlib
print("training on", pathlib.Path("data.txt").read_text())
pathlib.Path("model.pt").write_text("trained")
"""


@pytest.fixture
def newcomer(installed: Installed, tmp_path: Path) -> Iterator[Installed]:
    """A home that no Hostler has used, with a project and an SSH host in ~/.ssh/config."""
    if sshd.MISSING is not None:
        pytest.skip(sshd.MISSING)
    made = Installed(installed.bin, tmp_path / "home")
    (made.home / ".ssh").mkdir(parents=True, mode=0o700)
    made.project.mkdir()
    (made.project / "train.py").write_text(TRAIN)
    (made.project / "data.txt").write_text("four words of text")
    with sshd.running(tmp_path / "rig") as rig:
        (made.home / ".ssh" / "config").write_text(
            f"Host rig\n  HostName 127.0.0.1\n  Port {rig.port}\n  IdentityFile {rig.folder}/client\n"
        )
        yield made
        kill_below(tmp_path)


@pytest.mark.services
def test_newcomer_fetches_a_model_from_an_ssh_host_in_six_commands(newcomer: Installed) -> None:
    """The first command, `pip install`, has been typed: its environment is `installed`."""
    nodes = newcomer.run("hostler", "node", "import", str(newcomer.home / ".ssh" / "config"))
    (newcomer.project / "fleet.yaml").write_text(nodes)
    newcomer.run("hostler", "node", "trust", "fleet.yaml", "--yes")
    with newcomer.log.open("wb") as log:
        up = subprocess.Popen(
            [newcomer.bin / "hostler", "up", "--port", "0", "fleet.yaml"],
            cwd=newcomer.project,
            env=newcomer.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        client = Client.from_state_dir(newcomer.state)
        until(lambda: is_up(up, client, newcomer.log), "the controller", log=newcomer.log.read_text)
        assert newcomer.run("hostler", "submit", "--follow", "--", "python3", "train.py").splitlines() == [
            "j1",
            "training on four words of text",
        ]
        newcomer.run("hostler", "fetch", "j1", "results")
    finally:
        up.kill()
        up.wait(PATIENCE_S)
    assert (newcomer.project / "results" / "model.pt").read_text() == "trained"


@pytest.mark.services
def test_wheel_contains_the_licences_of_vendored_packages(wheel: Path) -> None:
    licences = {Path(name).name for name in members(wheel) if ".dist-info/licenses/" in name}
    assert licences == {"LICENSE", "htmx.LICENSE", "uplot.LICENSE"}


@pytest.mark.services
def test_core_requires_neither_torch_nor_numba_nor_ray(wheel: Path) -> None:
    assert sorted(HEAVY & set(closure(requirements(wheel)))) == []


def test_command_line_and_controller_import_neither_torch_nor_numba_nor_ray() -> None:
    ended = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    imported = set(ended.stdout.split())
    assert "hostler" in imported
    assert sorted(HEAVY & imported) == []


@pytest.mark.services
def test_source_distribution_builds_the_same_wheel(wheel: Path, checkout: Path, tmp_path: Path) -> None:
    packed = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path / "sdist")]
    subprocess.run(packed, cwd=checkout, capture_output=True, check=True)
    (archive,) = (tmp_path / "sdist").glob("*.tar.gz")
    assert members(built(archive, tmp_path / "wheel")) == members(wheel)


def git_files() -> list[str]:
    """Files that git tracks, and new ones that it does not ignore; none where the project is no git checkout."""
    if not (ROOT / ".git").exists():
        return []
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        return []
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def source_files() -> list[str]:
    """The files that a wheel is built from. hatchling leaves out those that .gitignore names."""
    paths = [ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore")]
    paths += [path for path in (ROOT / "src").rglob("*") if "__pycache__" not in path.parts]
    return [str(path.relative_to(ROOT)) for path in paths if path.is_file()]


def built(project: Path, into: Path) -> Path:
    """The wheel that pip builds of a project folder or sdist, with the build backend of the tests' environment."""
    for module in ("hatchling", "pip"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not in the environment of the tests; `make env` installs it")
    pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(into), str(project))
    (made,) = into.glob("*.whl")
    return made


def pip(*words: str) -> None:
    """A pip command that must succeed."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"


def requirements(wheel: Path) -> list[str]:
    """The requirements in a wheel's metadata; those of extras have a marker."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return [str(each) for each in Metadata.from_email(archive.read(name)).requires_dist or []]


def closure(texts: Iterable[str]) -> Mapping[str, Distribution]:
    """The installed distributions that requirements without extras bring along, by normalized name."""
    found: dict[str, Distribution] = {}
    followed: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in texts]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        found[name] = distribution(name)
        assert requirement.specifier.contains(found[name].version, prereleases=True), requirement
        for wanted in {"", *requirement.extras} - {each for of, each in followed if of == name}:
            followed.add((name, wanted))
            waiting += [(Requirement(text), wanted) for text in found[name].requires or []]
    return found


def link(distributions: Iterable[Distribution], site: Path) -> None:
    """Link the packages of distributions into a site-packages folder."""
    for each in distributions:
        tops = {file.parts[0] for file in each.files or ()} - {"..", "__pycache__"}
        for top in tops:
            (site / top).symlink_to(Path(str(each.locate_file(top))))


def members(wheel: Path) -> list[str]:
    """The names of a wheel's files."""
    with zipfile.ZipFile(wheel) as archive:
        return sorted(archive.namelist())


def vendored(checkout: Path) -> dict[str, str]:
    """SHA-256 of each vendored script and style, as its manifest has it, by the name that pages use."""
    manifest = json.loads((checkout / "src" / STATIC / "vendor" / "vendor.json").read_bytes())
    files = {name: file["sha256"] for package in manifest["packages"] for name, file in package["files"].items()}
    return {f"vendor/{name}": sha256 for name, sha256 in files.items() if name.endswith((".js", ".css"))}


def is_up(process: subprocess.Popen[bytes], client: Client, log: Path) -> bool:
    """Whether the controller answers and its node is up."""
    assert process.poll() is None, f"hostler up ended with {process.returncode}: {log.read_text()[-2000:]}"
    try:
        return bool(client.status()["nodes_up"])
    except (FileNotFoundError, LinkError):
        return False


def fetched(installed: Installed, path: str) -> bytes:
    """The body of a path that the controller answers with status 200."""
    located = address_in(installed.state)
    request = Request(f"{located.url}{path}", headers={"Authorization": f"Bearer {located.token}"})
    with urlopen(request, timeout=PATIENCE_S) as reply:
        assert reply.status == 200, path
        return bytes(reply.read())
