"""Real fleets: `python -m hostler up` in a process of its own, its agent, its HTTP, and the command line in front."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from unittest import mock

import psutil
import pytest
import yaml

from hostler.cli.main import run
from hostler.client import Client
from hostler.model.errors import LinkError
from hostler.store import read_journal
from tests import forked
from tests.patience import PATIENCE_S

START_S = 2 * PATIENCE_S
WHOLE_RUN_S = 3 * PATIENCE_S
"""The bound of a controller's run from its start to the end of all its work."""
NODE = {"name": "here", "cpu_slots": 2, "gpus": "none"}
WORKER = Path(__file__).with_name("worker.py")
FINAL = ("done", "failed", "cancelled")

WAIT = """
import os, sys, time
end = time.monotonic() + 900
while not os.path.exists(sys.argv[1]) and time.monotonic() < end:
    time.sleep(0.02)
"""
"""A program that runs until a file appears; the bound ends it where a test has failed."""

View: TypeAlias = dict[str, Any]
Controller: TypeAlias = subprocess.Popen[bytes] | forked.Forked
T = TypeVar("T")


@dataclass
class Said:
    """What a command line printed and how it ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The decoded output."""
        return json.loads(self.out)


Hostler: TypeAlias = Callable[..., Said]
HostlerIn: TypeAlias = Callable[..., Said]
"""Called with a folder and the words of a command."""


class Fleet:
    """One fleet file, one state directory, and the controller that runs for them."""

    def __init__(self, path: Path, *, state: Path | None = None, **settings: Any) -> None:
        self.path = path
        self.state = state or path / "state"
        self.file = path / "fleet.yaml"
        self.controller: Controller | None = None
        self.client = Client.from_state_dir(self.state)
        self.settle(**settings)

    def settle(self, **settings: Any) -> None:
        """Write the fleet file; values that are there twice are written out twice."""
        self.file.write_text(yaml.safe_dump(json.loads(json.dumps({"nodes": [NODE], **settings}))))

    def launch(self, *options: str) -> Controller:
        """Start a controller, and do not wait for it."""
        words = ["up", "--state-dir", str(self.state), "--port", "0", *options, str(self.file)]
        self.controller = forked.start(words, Path.cwd(), self.path / "up.log")
        return self.controller

    def start(self, *options: str) -> None:
        """Start a controller and wait until it answers and has its node."""
        self.launch(*options)
        # The end of the process is noticed at once, so the bound may be long.
        until(self._is_up, "the controller's answer", START_S, log=self.log)

    def ended(self) -> int:
        """The exit status of the controller, once it has ended."""
        assert self.controller is not None
        return self.controller.wait(WHOLE_RUN_S)

    def kill(self) -> None:
        """`kill -9` the controller."""
        assert self.controller is not None
        self.controller.kill()
        self.controller.wait(PATIENCE_S)

    def signal(self, number: signal.Signals) -> None:
        """Send the controller a signal."""
        assert self.controller is not None
        self.controller.send_signal(number)

    def printed(self) -> str:
        """What the controllers have printed."""
        file = self.path / "up.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def log(self) -> str:
        """The end of it."""
        return self.printed()[-5000:]

    def script(self, *argv: str, **more: Any) -> str:
        """Submit a command; returns its id."""
        return self.submit({"name": "script", **more}, argv)

    def python(self, code: str, *arguments: str, **more: Any) -> str:
        """Submit a Python program; returns its id."""
        return self.script(sys.executable, "-c", code, *arguments, **more)

    def submit(self, spec: View, argv: Sequence[str]) -> str:
        """Submit a script job; fields of its payload may stand among its own."""
        own = {name: spec.pop(name) for name in ("env", "cwd", "require_result", "outputs") if name in spec}
        (job,) = self.client.submit_jobs(
            [{**spec, "payload": {"kind": "script", "schema": 1, "argv": list(argv), **own}}]
        )
        return job

    def job(self, name: str) -> View:
        """A job as it stands."""
        return dict(self.client.job(name)["job"])

    def state_of(self, name: str, *states: str, patience_s: float = PATIENCE_S) -> View:
        """A job, once it is in one of these states, and stays so if the controller is killed now.

        What is read is ahead of the journal by the batches being written (docs/decisions/0001).
        """
        found = until(
            lambda: found if (found := self.job(name))["state"] in states else None,
            f"{name} being {' or '.join(states)}",
            patience_s,
            log=lambda: f"{self.client.job(name)['job']}\n{self.log()}",
        )
        if not set(states) <= set(FINAL):
            seen = self.client.status()["seq"]
            until(lambda: self._kept() >= seen, f"entry {seen} in the journal", log=self.log)
        return found

    def over(self, name: str, patience_s: float = PATIENCE_S) -> View:
        """Everything about a job, once it is over."""
        self.state_of(name, *FINAL, patience_s=patience_s)
        return dict(self.client.job(name))

    def pid(self, name: str) -> int:
        """The process of a job, once it runs."""
        self.state_of(name, "running")
        attempt = self.client.job(name)["attempt"]
        assert attempt is not None
        assert attempt["pid"] is not None
        return attempt["pid"]

    def processes(self) -> list[psutil.Process]:
        """Everything that was started for this state directory, the controller excepted."""
        own = None if self.controller is None else self.controller.pid
        return [each for each in psutil.process_iter() if each.pid != own and is_below(each, self.state)]

    def agents(self) -> list[psutil.Process]:
        """The processes of its agents; one that ends while they are listed is left out."""
        return [process for process in self.processes() if "agent.pyz" in " ".join(command_line(process))]

    def kill_processes(self) -> None:
        """`kill -9` everything that was started for this state directory, the controller excepted."""
        left = self.processes()
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, PATIENCE_S)

    def clean_up(self) -> None:
        """End whatever still runs, by process id."""
        if self.controller is not None and self.controller.poll() is None:
            self.kill()
        self.kill_processes()

    def _kept(self) -> int:
        if (self.state / "store").exists():
            shared = read_journal(self.settings_store())
            with contextlib.closing(shared):
                return shared.newest_seq()
        reading = sqlite3.connect(f"file:{self.state}/journal.sqlite?mode=ro", uri=True)
        with contextlib.closing(reading) as journal:
            (newest,) = journal.execute("SELECT max(seq) FROM journal").fetchone()
        return int(newest)

    def settings_store(self) -> str:
        """The address of the database of its journal, where that is not SQLite."""
        return (self.state / "store").read_text().strip()

    def _is_up(self) -> bool:
        assert self.controller is not None
        assert self.controller.poll() is None, f"the controller ended with {self.controller.returncode}: {self.log()}"
        try:
            left = json.loads((self.state / "controller.json").read_bytes())
            return left["pid"] == self.controller.pid and self.client.status()["nodes_up"] >= 1
        except (FileNotFoundError, LinkError):
            return False


def asked_for(request: pytest.FixtureRequest, argument: str, values: Collection[T]) -> list[T]:
    """Those values of a parameter that tests of this module have in this run: for others nothing need be made."""
    tests = [each for each in request.session.items if isinstance(each, pytest.Function) and each.path == request.path]
    given = [each.callspec.params.get(argument) for each in tests if hasattr(each, "callspec")]
    return [each for each in values if each in given]


def command_line(process: psutil.Process) -> list[str]:
    """The words of a process's command; none where it has ended meanwhile."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def parent(process: psutil.Process) -> int | None:
    """The id of a process's parent; none where it has ended meanwhile."""
    try:
        return process.ppid()
    except psutil.Error:
        return None


def has_ended(process: psutil.Process) -> bool:
    """Whether a process has ended, awaited by its parent or not."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def signal_each(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to processes of others; one that has ended meanwhile gets none."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def is_below(process: psutil.Process, folder: Path) -> bool:
    """Whether a process was started with a file of this folder, or by an agent that has its files there."""
    try:
        held = process.environ()
        places = [held.get("HOSTLER_ATTEMPT_DIR", ""), held.get("HOSTLER_WORKER_DIR", ""), *process.cmdline()]
    except psutil.Error:
        return False  # it has ended meanwhile
    return any(place.startswith(f"{folder}/") for place in places)


def kill_below(folder: Path) -> None:
    """`kill -9` every such process."""
    left = [process for process in psutil.process_iter() if is_below(process, folder)]
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, PATIENCE_S)


def until(
    question: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S, log: Callable[[], str] = str
) -> T:
    """The first true answer to a question, asked again and again for a bounded time."""
    deadline, pause_s = time.monotonic() + patience_s, 0.02
    while not (answer := question()):
        assert time.monotonic() < deadline, f"{what} did not come within {patience_s} s\n{log()}"
        time.sleep(pause_s)
        pause_s = min(1.3 * pause_s, 0.25)  # each question costs both sides: long waits would be spent on them
    return answer


def typed(*words: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> Said:
    """`hostler` in this process, as it is typed in a folder: without the start of an interpreter for each."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, env or {}, clear=env is not None),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = run([str(word) for word in words])
    return Said(status, *(stream.buffer.getvalue().decode(errors="replace") for stream in (out, err)))


def command(*words: str | Path, **more: Any) -> Said:
    """`hostler` as a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "hostler", *words], capture_output=True, timeout=PATIENCE_S, check=False, **more
    )
    return Said(ended.returncode, ended.stdout.decode(errors="replace"), ended.stderr.decode(errors="replace"))


@contextlib.contextmanager
def a_fleet(path: Path, *, state: Path | None = None, **settings: Any) -> Iterator[Fleet]:
    """A fleet that has not been started; nothing of it is left running."""
    made = Fleet(path, state=state, **settings)
    try:
        yield made
    finally:
        made.clean_up()


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A file system of its own in a directory, gone afterwards; skips where this user may not mount one."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", path], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode(errors='replace').strip()}")
    try:
        yield path
    finally:
        # Lazily: an agent that is being ended may hold it for a moment.
        subprocess.run(["umount", "-l", path], check=True)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet for one test, not started."""
    with a_fleet(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet whose controller runs, for all tests of a module."""
    with a_fleet(tmp_path_factory.mktemp("running"), limits={"result_bytes": 20_000}) as made:
        made.start()
        yield made


@pytest.fixture
def living(running: Fleet) -> Fleet:
    """The fleet of the module; a controller that a test has ended is started again."""
    if running.controller is None or running.controller.poll() is not None:
        running.start()
    return running


@pytest.fixture
def hostler_in() -> HostlerIn:
    """`typed`, called with a folder and the words."""
    return lambda folder, *words: typed(*words, cwd=folder)


@pytest.fixture
def hostler(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Hostler:
    """`hostler` in this process, for the fleet given first, typed in an empty folder: `submit` sends its files."""
    typed_in = tmp_path_factory.mktemp("typed-in")

    def call(fleet: Fleet, *words: str) -> Said:
        monkeypatch.setenv("HOSTLER_STATE_DIR", str(fleet.state))
        capfd.readouterr()
        with contextlib.chdir(typed_in):
            status = run(words)
        return Said(status, *capfd.readouterr())

    return call
