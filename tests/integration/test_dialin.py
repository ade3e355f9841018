"""A node that nobody can connect to, as its owner would use it: invited, called from, cut off, invited anew."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostler.client import Client
from hostler.model.errors import LinkError
from tests.integration.conftest import START_S, WHOLE_RUN_S, WORKER, HostlerIn, Said, command, kill_below, until
from tests.livefolders import contents_below

HOLD = "echo x >>{0}/ran; while [ ! -e {0}/go ]; do sleep 0.1; done"


class Home:
    """A folder with a fleet file of one node that calls; what is done with them is done by their commands."""

    def __init__(self, folder: Path, hostler_in: HostlerIn) -> None:
        self.folder = folder
        self._hostler_in = hostler_in
        self.far = folder / "on the far side" / "far"
        self.started: list[subprocess.Popen[str]] = []
        self.client = Client.from_state_dir(folder / "state")

    def write(self, **settings: Any) -> None:
        """The fleet file."""
        fleet = {
            "name": "far",
            "state_dir": "state",
            "api": {"port": 0},
            "dialin": {"listen": "127.0.0.1:0"},
            "nodes": [
                {"name": "far", "backend": "dialin", "cpu_slots": 2, "gpus": "none", "python": sys.executable}
                | {"dir": str(self.far.parent)}
            ],
            **settings,
        }
        (self.folder / "fleet.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(fleet))))

    def hostler(self, *words: str) -> Said:
        """A command, given in the folder."""
        return self._hostler_in(self.folder, *words)

    def up(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "hostler.cli", "up", "fleet.yaml", "--until-idle"]
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        started = subprocess.Popen(command, cwd=self.folder, text=True, **streams)
        self.started.append(started)
        self.wait(lambda: self._leads(started))
        return started

    def _leads(self, process: subprocess.Popen[str]) -> bool:
        """Whether the address that is left in the folder is that of this controller, and not of one before it."""
        assert process.poll() is None, process.communicate()[0]
        try:
            left = json.loads((self.folder / "state" / "controller.json").read_text())
        except FileNotFoundError:
            return False
        return bool(left["pid"] == process.pid)

    def port(self) -> str:
        """Where the running controller listens for calls."""
        return str(json.loads((self.folder / "state" / "controller.json").read_text())["dialin"]).rpartition(":")[2]

    def call(self, *options: str) -> str:
        """Do on the node what `nodes invite` says."""
        if not (self.folder / "agent.pyz").exists():
            assert self.hostler("node", "agent", "agent.pyz").status == 0
        said = self.hostler("node", "invite", "fleet.yaml", "far", *options)
        assert said.status == 0, said.err
        script = said.out.partition("\n\n")[2]
        done = subprocess.run(["sh", "-e"], input=script, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes as a controller shows them; none while there is no controller. Asked often: by no process."""
        with suppress(LinkError):
            return self.client.nodes()
        return []

    def jobs(self) -> list[str]:
        """The states of all jobs, in order; none while there is no controller."""
        with suppress(LinkError):
            return [str(job["state"]) for job in self.client.all_jobs()]
        return []

    def wait(self, question: Callable[[], object]) -> None:
        """Until it is so."""
        until(question, "that", START_S, log=lambda: f"{self.nodes()}")

    def processes(self, *words: str) -> list[int]:
        """What runs on the node, of whose command line these words are."""
        return [int(each.name) for each in Path("/proc").glob("[0-9]*") if self._is_one(each, words)]

    def _is_one(self, process: Path, words: tuple[str, ...]) -> bool:
        try:
            said = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            return False
        return any(each.startswith(str(self.far)) for each in said) and set(words) <= set(said)

    def kill(self, *words: str) -> None:
        for pid in self.processes(*words):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def done(self, process: subprocess.Popen[str]) -> str:
        """What a controller has printed, which has done all there was to do."""
        said, _ = process.communicate(timeout=WHOLE_RUN_S)
        assert process.returncode == 0, said
        return said


@pytest.fixture
def home(tmp_path: Path, hostler_in: HostlerIn) -> Iterator[Home]:
    found = Home(tmp_path, hostler_in)
    yield found
    for process in found.started:
        if process.poll() is None:
            process.kill()
            process.communicate()
    kill_below(tmp_path)


def job(name: str, command: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "cwd": "{attempt}", "argv": ["sh", "-c", command], **more}


def sweep() -> dict[str, Any]:
    return {"name": "s", "range": [0, 5000], "cwd": str(WORKER.parent), "files": [WORKER.name]} | {
        "worker": ["{python}", WORKER.name],
        "params": {"planted": [7, 4999]},
    }


def test_jobs_with_files_and_a_sweep_run_on_a_node_that_calls(home: Home) -> None:
    (home.folder / "work").mkdir()
    (home.folder / "work" / "in").write_text("what was brought\n")
    brings = job("brings", "tr a-z A-Z <in >out; pwd >where") | {"cwd": "work", "outputs": ["out", "where"]}
    home.write(jobs=[brings], sweeps=[sweep()])
    up = home.up()
    assert "connected" in home.call()
    said = home.done(up)
    assert "scripts: 1 of 1 done" in said
    assert re.search(r"s done: 100 % of \[0, 5000\).* 2 hits", said), said
    (results,) = (home.folder / "state" / "results").iterdir()
    assert (results / "out").read_text() == "WHAT WAS BROUGHT\n"
    assert (results / "where").read_text().startswith(str(home.far))
    token = (home.far / "token").read_text().strip()
    secret = [path for path, data in contents_below(home.folder) if token.encode() in data]
    assert sorted(path.name for path in secret) == ["far.token", "token"], "nowhere else: no log, no journal"
    assert all(path.stat().st_mode & 0o077 == 0 for path in secret)


@pytest.mark.services
def test_a_killed_controller_and_a_killed_dialler_lose_nothing(home: Home) -> None:
    home.write(jobs=[job("held", HOLD.format(home.folder))])
    up = home.up()
    home.write(jobs=[job("held", HOLD.format(home.folder))], dialin={"listen": f"127.0.0.1:{home.port()}"})
    home.call()
    home.wait(lambda: (home.folder / "ran").exists() and home.jobs() == ["running"])
    up.kill()
    up.communicate()
    again = home.up()
    home.wait(lambda: [node["link"] for node in home.nodes()] == ["up"])
    home.kill("dial")
    home.wait(lambda: [node["link"] for node in home.nodes()] == ["down"])
    assert home.jobs() == ["running"], "out of reach is not dead"
    (home.folder / "go").touch()
    home.call()
    assert "scripts: 1 of 1 done" in home.done(again)
    assert (home.folder / "ran").read_text() == "x\n"


@pytest.mark.long
def test_an_old_token_is_worth_nothing(home: Home) -> None:
    home.write(jobs=[job("held", HOLD.format(home.folder))])
    up = home.up()
    home.call()
    home.wait(lambda: (home.folder / "ran").exists())
    old = (home.far / "token").read_text()
    shown = json.loads(home.hostler("node", "invite", "fleet.yaml", "far", "--new", "--json").out)
    assert shown["token"] != old.strip()
    home.wait(lambda: not home.processes("dial"))
    assert "refused" in (home.far / "dial.log").read_text()
    events = lambda: home.hostler("events", "--state-dir", "state", "--json").out  # noqa: E731
    # By whichever sign of life comes first.
    home.wait(lambda: "was refused" in events() or "counts no more" in events())
    told = events()
    assert old.strip() not in told
    (home.folder / "go").touch()
    home.call()
    assert (home.far / "token").read_text().strip() == shown["token"]
    assert "scripts: 1 of 1 done" in home.done(up)


@pytest.mark.long
def test_a_machine_that_has_hostler_calls_by_it(home: Home) -> None:
    home.write(jobs=[job("a", "true")])
    up = home.up()
    shown = json.loads(home.hostler("node", "invite", "fleet.yaml", "far", "--json").out)
    home.far.mkdir(parents=True)
    (home.far / "token").touch(0o600)
    (home.far / "token").write_text(shown["token"])
    given = ["--dir", str(home.far), "--to", shown["to"], "--node", "far", "--fingerprint", shown["fingerprint"]]
    called = command("node", "connect", *given, "--detach")  # a process of its own, which it leaves by a fork
    assert (called.status, "connected" in called.err) == (0, True), called.err
    home.done(up)


def test_only_nodes_that_call_are_invited(home: Home) -> None:
    home.write()
    assert home.hostler("node", "invite", "fleet.yaml", "near").status == 2
    unknown = home.hostler("node", "invite", "fleet.yaml", "far")
    assert (unknown.status, "start it first" in unknown.err) == (2, True)
    home.write(dialin={})
    unheard = home.hostler("check", "fleet.yaml")
    assert (unheard.status, "nobody would hear it" in unheard.err) == (2, True), unheard
