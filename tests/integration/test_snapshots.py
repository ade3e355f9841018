"""A folder is submitted, edited and thrown away; every attempt starts from its files as they were, on every backend."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from hostler.snapshots.store import SnapshotStore
from tests.backends.ssh import sshd
from tests.integration.conftest import START_S, Fleet, Said, a_fleet, command, kill_below, typed, until
from tests.livefolders import folders_below

TRAIN = """
import pathlib, sys
text = pathlib.Path("data.txt").read_text()
print("trained on", text, flush=True)
pathlib.Path("model.pt").write_text(f"model of {text}")
pathlib.Path("__pycache__").mkdir(exist_ok=True)
pathlib.Path("__pycache__/train.pyc").write_text("not an output")
"""


class Site(NamedTuple):
    """A running fleet of one slot, and a project beside it."""

    fleet: Fleet
    project: Path

    def hostler(self, *words: str) -> Said:
        """A command that is typed in the project."""
        return typed(*words, cwd=self.project, env={**os.environ, "HOSTLER_STATE_DIR": str(self.fleet.state)})

    def occupied(self) -> Callable[[], None]:
        """The slot is taken by a job; what is returned ends it."""
        gate = self.project.parent / "gate"
        job = self.submitted("--own-dir", "--", "sh", "-c", f"while [ ! -e '{gate}' ]; do sleep 0.1; done")
        self.fleet.state_of(job, "running")
        return gate.touch

    def submitted(self, *words: str) -> str:
        """The id of a job that `hostler submit` with these words made."""
        said = self.hostler("submit", *words)
        assert said.status == 0, said.err
        return said.out.strip()

    def output(self, job: str) -> str:
        """What the first attempt of a job has printed."""
        return self.fleet.client.log(f"{job}.1").data.decode()

    def results(self, job: str) -> dict[str, str]:
        """What came of the first attempt of a job."""
        folder = self.fleet.state / "results" / f"{job}.1"
        return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def local(stack: ExitStack, folder: Path) -> Fleet:
    fleet = stack.enter_context(a_fleet(folder, nodes=[{"name": "here", "cpu_slots": 1, "gpus": "none"}]))
    fleet.start()
    return fleet


def over_ssh(stack: ExitStack, folder: Path, slots: int = 1, setup: Sequence[str] = ()) -> Fleet:
    if sshd.MISSING is not None:
        pytest.skip(sshd.MISSING)
    stack.callback(kill_below, folder)  # the agent outlives the controller
    server = stack.enter_context(sshd.running(folder / "sshd"))
    node = {
        "name": "rig",
        "backend": "ssh",
        "host": "127.0.0.1",
        "port": server.port,
        "cpu_slots": slots,
        "gpus": "none",
        "setup": list(setup),
    }
    node |= {"identity": str(server.folder / "client"), "dir": str(folder / "on-rig")}
    ssh = {"config": [], "known_hosts": [], "connect_s": 120}
    fleet = stack.enter_context(a_fleet(folder, nodes=[node], ssh=ssh, state_dir="state"))
    said = typed("node", "trust", "fleet.yaml", "--yes", cwd=folder)
    assert said.status == 0, said.err
    fleet.start()
    return fleet


def by_dial_in(stack: ExitStack, folder: Path) -> Fleet:
    node = {"name": "far", "backend": "dialin", "cpu_slots": 1, "gpus": "none", "python": sys.executable}
    node["dir"] = str(folder / "far side")
    stack.callback(kill_below, folder)  # what calls from the node outlives the controller
    fleet = stack.enter_context(
        a_fleet(folder, nodes=[node], dialin={"listen": "127.0.0.1:0"}, state_dir="state", api={"port": 0})
    )
    fleet.launch()
    until((fleet.state / "controller.json").exists, "the controller", START_S, log=fleet.log)
    assert typed("node", "agent", "agent.pyz", cwd=folder).status == 0
    invited = typed("node", "invite", "fleet.yaml", "far", cwd=folder)
    assert invited.status == 0, invited.err
    script = invited.out.partition("\n\n")[2]
    done = subprocess.run(["sh", "-e"], input=script, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    until(lambda: fleet.client.status()["nodes_up"] == 1, "the node", START_S, log=fleet.log)
    return fleet


def project_in(folder: Path) -> Path:
    """A project with a program and its data."""
    project = folder / "project"
    project.mkdir()
    (project / "train.py").write_text(TRAIN)
    (project / "data.txt").write_text("old text")
    return project


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


@pytest.fixture(scope="module")
def fleet_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield local(stack, tmp_path_factory.mktemp("fleet"))


@pytest.fixture
def here(fleet_here: Fleet, tmp_path: Path) -> Site:
    return Site(fleet_here, project_in(tmp_path))


def test_job_starts_from_the_files_of_its_submission(site: Site) -> None:
    (site.project / ".gitignore").write_text("data/\n")
    (site.project / "data").mkdir()
    (site.project / "data" / "large.bin").write_bytes(b"x" * 2_000_000)
    release = site.occupied()
    said = site.hostler("submit", "--", sys.executable, "train.py")
    assert said.status == 0, said.err
    assert "files: 3 files, " in said.err
    assert "left out by .gitignore: data/ 2.0 MB" in said.err
    again = site.hostler("submit", "--output", "*.pt", "--", sys.executable, "train.py")
    assert "nothing new to send" in again.err
    (site.project / "train.py").write_text("raise SystemExit('edited')")
    (site.project / "data.txt").unlink()
    release()
    for job in (said.out.strip(), again.out.strip()):
        assert site.fleet.over(job)["job"]["state"] == "done", site.fleet.log()
        assert site.output(job) == "trained on old text\n"
        assert site.results(job) == {"model.pt": "model of old text"}, (
            "new files are the outputs; build folders are not"
        )
    assert sorted(path.name for path in site.project.iterdir()) == [".gitignore", "data", "train.py"]
    laid_out = lambda: [each for each in folders_below(site.fleet.path) if each.parent.name == "trees"]  # noqa: E731
    until(lambda: not laid_out(), "the end of what was laid out")


def test_every_attempt_starts_afresh(site: Site) -> None:
    (site.project / "grows.py").write_text(
        "import sys\nwith open('data.txt', 'a') as f: f.write('!')\n"
        "print(open('data.txt').read()); sys.exit(open('data.txt').read().count('!') < 1 or 3)\n"
    )
    job = site.submitted("--max-attempts", "exit=2", "--", sys.executable, "grows.py")
    site.fleet.over(job)
    outputs = [site.fleet.client.log(f"{job}.{number}").data.decode() for number in (1, 2)]
    assert outputs == ["old text!\n", "old text!\n"]


def test_jobs_file_submitted_again_after_edits_adds_only_what_is_new(here: Site) -> None:
    jobs = [{"name": "one", "argv": [sys.executable, "train.py"], "outputs": ["model.pt"]}]
    (here.project / "jobs.json").write_text(json.dumps(jobs))
    one = here.submitted("--jobs-file", "jobs.json")
    here.fleet.over(one)
    (here.project / "data.txt").write_text("new text")
    (here.project / "jobs.json").write_text(json.dumps([*jobs, {**jobs[0], "name": "two"}]))
    same, two = here.submitted("--jobs-file", "jobs.json").split()
    here.fleet.over(two)
    assert same == one
    assert (here.results(one), here.results(two)) == (
        {"model.pt": "model of old text"},
        {"model.pt": "model of new text"},
    )


def test_in_place_runs_in_the_folder_itself(here: Site) -> None:
    said = here.hostler("submit", "--in-place", "--", sys.executable, "train.py")
    assert (said.status, said.err) == (0, "")
    here.fleet.over(said.out.strip())
    assert (here.project / "model.pt").read_text() == "model of old text"


def test_command_line_of_another_machine_shares_no_file_with_the_controller(here: Site, tmp_path: Path) -> None:
    """The client runs in a mount namespace in which the controller's folder is empty, and it is hidden from that."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("a mount namespace needs root and unshare(1)")
    home = tmp_path / "client"
    home.mkdir()
    (home / "train.py").write_text(TRAIN)
    (home / "data.txt").write_text("from afar")
    url = here.fleet.client._locate().url
    token = (here.fleet.state / "token").read_text().strip()
    hidden = (
        f"mount -t tmpfs none {here.fleet.path} && mkdir {tmp_path}/x && mount --bind {home} {tmp_path}/x && "
        f"mount -t tmpfs none {home} && cd {tmp_path}/x && "
        f"exec {sys.executable} -m hostler submit -- {sys.executable} train.py"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOSTLER")}
    environment |= {"HOSTLER_URL": url, "HOSTLER_TOKEN": token, "HOME": "/nowhere"}
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", hidden], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    here.fleet.over(done.stdout.strip())
    assert here.results(done.stdout.strip()) == {"model.pt": "model of from afar"}


class CuttingProxy:
    """A TCP proxy to a controller that cuts its first connections after some bytes of their requests."""

    def __init__(self, target: int, cuts: int, after: int) -> None:
        self.carried = 0
        """Bytes of requests that reached the controller."""
        self._target = target
        self._cuts = cuts
        self._after = after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """End it; connections that are open end with their peers."""
        self._listener.shutdown(socket.SHUT_RDWR)  # the thread that accepts is woken by nothing else
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as server:
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            carried = 0
            with contextlib.suppress(OSError):
                while data := client.recv(1 << 16):
                    carried += len(data)
                    if self._cuts and carried > self._after:
                        self._cuts -= 1
                        return
                    server.sendall(data)
                    self.carried += len(data)
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_WR)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_upload_that_is_cut_goes_on_where_it_was(here: Site) -> None:
    data = os.urandom(30_000_000)
    (here.project / "large.bin").write_bytes(data)
    (here.project / "check.py").write_text(
        "import hashlib; print(hashlib.sha256(open('large.bin', 'rb').read()).hexdigest())\n"
    )
    address = urlsplit(here.fleet.client._locate().url)
    assert address.port is not None
    proxy = CuttingProxy(address.port, cuts=3, after=6_000_000)
    token = (here.fleet.state / "token").read_text().strip()
    client = {"HOSTLER_URL": f"http://127.0.0.1:{proxy.port}", "HOSTLER_TOKEN": token}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOSTLER")} | client
    said = command("submit", "--", sys.executable, "check.py", cwd=here.project, env=environment)
    proxy.close()
    assert said.status == 0, said.err
    assert proxy.carried < 2 * len(data), "what had arrived before a cut was not sent again"
    here.fleet.over(said.out.strip())
    assert here.output(said.out.strip()).strip() == hashlib.sha256(data).hexdigest()
    assert not list((here.fleet.state / "snapshots" / "partial").iterdir())


def repository(folder: Path) -> tuple[str, str]:
    """A repository with two commits, of which the first is tagged `v1`; the hashes of both."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    hashes = []
    for text in ("first", "second"):
        (folder / "lib").mkdir(exist_ok=True)
        (folder / "lib" / "show.py").write_text(f"print('{text}')\n")
        (folder / ".gitignore").write_text("*.bin\n")
        (folder / "tracked.bin").write_text("tracked, though ignored")
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        for words in (["add", "-f", "."], [*who, "commit", "-qm", text], *([["tag", "v1"]] if text == "first" else [])):
            subprocess.run(["git", "-C", str(folder), *words], check=True)
        head = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        )
        hashes.append(head.stdout.strip())
    return hashes[0], hashes[1]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_revision_is_sent_instead_of_a_folder(here: Site, tmp_path: Path) -> None:
    first, _ = repository(tmp_path / "repo.git")
    url = f"file://{tmp_path}/repo.git"
    show = ["--", sys.executable, "lib/show.py"]
    revisions = [url, f"{url}@v1", f"{url}@main", f"{url}@{first}"]
    ids = [here.submitted("--git", each, *show) for each in revisions]
    below = here.submitted("--git", url, "--cwd", "lib", "--", sys.executable, "show.py")
    listing = here.submitted("--git", url, "--", "ls", "tracked.bin")
    for job in (*ids, below, listing):
        here.fleet.over(job)
    assert [here.output(job).strip() for job in (*ids, below)] == ["second", "first", "second", "first", "second"]
    assert here.output(listing) == "tracked.bin\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--git", "nowhere/at/all"], "there is no folder nowhere/at/all"),
        (["--git", "--upload-pack=x"], "is not an address"),
        (["--git", "./x@-f"], "is not an address"),
        (["--git", "."], "git fetch failed"),
        (["--git", "x", "--cwd", "/etc"], "is not a folder of the repository"),
        (["--git", "x", "--in-place"], "leave out --own-dir and --in-place"),
    ],
)
def test_git_revision_that_cannot_be_is_refused(here: Site, words: list[str], reason: str) -> None:
    said = here.hostler("submit", *words, "--", "true")
    assert (said.status, said.out, reason in said.err) == (2, "", True), said.err


def test_home_folder_is_refused_with_the_remedies(here: Site) -> None:
    state = {"HOSTLER_STATE_DIR": str(here.fleet.state), "HOME": str(here.project)}
    said = command("submit", "--", "true", cwd=here.project, env={**os.environ, **state})
    assert (said.status, said.out) == (2, "")
    assert "--own-dir" in said.err
    assert "--in-place" in said.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--in-place", "--own-dir"], "exclude each other"),
        (["--file", "*.csv"], "has no file that --file *.csv means"),
        (["--file", "../secret"], "leads out of"),
        (["--cwd", "nowhere"], "is not a folder"),
    ],
)
def test_submit_with_files_that_cannot_be_sent_is_refused(here: Site, words: list[str], reason: str) -> None:
    before = len(here.fleet.client.jobs(limit=1000))
    said = here.hostler("submit", *words, "--", "true")
    assert (said.status, said.out, "hostler: error: " in said.err, reason in said.err) == (2, "", True, True), said.err
    assert len(here.fleet.client.jobs(limit=1000)) == before


def test_more_files_than_are_fetched_unnamed_do_not_fail_the_job(here: Site) -> None:
    (here.project / "many.py").write_text("for at in range(1001): open(f'f{at}', 'w').write('x')\n")
    done = here.fleet.over(here.submitted("--", sys.executable, "many.py"))
    assert (done["job"]["state"], done["files"]) == ("done", [])
    assert "1001 files" in done["unfetched"]
    assert "--output" in done["unfetched"]


def test_job_that_deletes_its_folder_is_done_without_files(here: Site) -> None:
    code = "import os, shutil; shutil.rmtree(os.getcwd())"
    done = here.fleet.over(here.submitted("--", sys.executable, "-c", code))
    assert (done["job"]["state"], done["files"]) == ("done", [])
    assert "is gone" in done["unfetched"]


@pytest.mark.parametrize("options", [[], ["--output", "*"]], ids=["new", "named"])
def test_links_that_a_job_leaves_are_named(site: Site, options: list[str]) -> None:
    code = "import os; open('step.pt', 'w').write('x'); os.symlink('step.pt', 'latest.pt'); os.symlink('/etc', 'data')"
    done = site.fleet.over(site.submitted(*options, "--", sys.executable, "-c", code))
    assert done["job"]["state"] == "done"
    assert "step.pt" in [file["path"].partition("/")[2] for file in done["files"]]
    assert done["unfetched"].startswith("symbolic links are not fetched: ")
    assert all(name in done["unfetched"] for name in ("data", "latest.pt"))
    said = site.hostler("fetch", done["job"]["id"], "there")
    assert said.status == 0
    assert "note: symbolic links are not fetched: " in said.err
    assert "not kept   symbolic links are not fetched" in site.hostler("job", "show", done["job"]["id"]).out


def test_name_that_is_not_utf8_is_named_and_the_others_are_fetched(site: Site) -> None:
    code = "import os; [open(os.path.join(b'.', each), 'w').close() for each in (b'caf\\xe9.txt', b'fine.txt')]"
    done = site.fleet.over(site.submitted("--", sys.executable, "-c", code))
    assert (done["job"]["state"], [file["path"].partition("/")[2] for file in done["files"]]) == ("done", ["fine.txt"])
    assert "caf\\udce9.txt cannot be read, or have names that are not UTF-8" in done["unfetched"]


def test_more_files_than_a_list_of_outputs_takes_do_not_fail_a_job_elsewhere(site: Site) -> None:
    (site.project / "many.py").write_text("for at in range(20_500): open(f'f{at}', 'w').close()\n")
    done = site.fleet.over(site.submitted("--", sys.executable, "many.py"))
    assert (done["job"]["state"], done["files"]) == ("done", [])
    assert done["unfetched"].startswith("20500 files")


def test_snapshot_that_is_not_there_is_refused(here: Site) -> None:
    spec = {"name": "x", "payload": {"kind": "script", "schema": 1, "argv": ["true"], "snapshot": "ab" * 32}}
    with pytest.raises(Exception, match="is not here"):
        here.fleet.client.submit_jobs([spec])


def test_contents_shared_by_snapshots_are_kept_once(here: Site) -> None:
    text = here.project.parent.name  # of no other test
    store = SnapshotStore(here.fleet.state / "snapshots")
    for name in ("one.txt", "two.txt"):
        (here.project / name).write_text(text)
        here.submitted("--", "true")
    assert store.content(hashlib.sha256(text.encode()).hexdigest()).read_text() == text
    digests = [path.name for path in (here.fleet.state / "snapshots" / "manifests").iterdir()]
    holding = [digest for digest in digests if "one.txt" in {file.path for file in store.manifest(digest).files}]
    assert len(holding) == 2
