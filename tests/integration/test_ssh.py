"""A fleet of nodes behind real SSH servers, used as its owner would: refused, trusted, worked on, cut off."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from hostler.client import Client
from hostler.model.errors import LinkError
from tests.backends.ssh import sshd
from tests.backends.ssh.sshd import Sshd
from tests.integration.conftest import PATIENCE_S, START_S, WHOLE_RUN_S, HostlerIn, Said, kill_below, until

pytestmark = pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")


class Far:
    """A folder with a fleet file of nodes behind SSH, and the commands that are given in it."""

    def __init__(self, folder: Path, servers: list[Sshd], hostler_in: HostlerIn) -> None:
        self.folder = folder
        self.servers = servers
        self._hostler_in = hostler_in
        self.started: list[subprocess.Popen[str]] = []
        self.client = Client.from_state_dir(folder / "state")

    def write(self, *jobs: str, work: Sequence[str] = ("", "")) -> None:
        """A fleet file with these jobs; `work` restricts what the nodes do, one by one."""
        nodes = [
            f"  - {{name: rig-{at}, backend: ssh, host: 127.0.0.1, port: {each.port}, identity: {each.folder}/client, "
            f"dir: {self.folder}/on-{at}, cpu_slots: 1, env: {{RIG: 'rig {at}'}}"
            + (f", work: [{work[at]}]}}" if work[at] else "}")
            for at, each in enumerate(self.servers)
        ]
        # `nodes trust` and `doctor` connect once: on a busy machine a handshake may take long.
        ssh = f"ssh: {{config: [], known_hosts: [], connect_s: {PATIENCE_S:g}}}"
        lines = ["name: far", "state_dir: state", "api: {port: 0}", ssh, "nodes:"]
        asked = ["jobs:", *jobs] if jobs else []
        (self.folder / "fleet.yaml").write_text("\n".join([*lines, *nodes, *asked]) + "\n")

    def hostler(self, *words: str) -> Said:
        """A command, given in the folder."""
        return self._hostler_in(self.folder, *words)

    def up(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "hostler.cli", "up", "fleet.yaml", "--until-idle"]
        started = subprocess.Popen(
            command,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        self.started.append(started)
        return started

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

    def end(self) -> None:
        """End what was started, and the agents that it has left."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.communicate()
        kill_below(self.folder)

    def wait(self, question: Callable[[], object]) -> None:
        """Until it is so; a controller that ends meanwhile is a failure, with what it printed."""
        until(lambda: question() or self._expect_life(), "that", START_S, log=lambda: f"{self.nodes()}")

    def _expect_life(self) -> bool:
        last = self.started[-1] if self.started else None
        if last is not None and last.poll() not in (None, 0, -signal.SIGKILL):
            raise AssertionError(f"the controller ended with {last.returncode}:\n{last.communicate()[0]}")
        return False


@pytest.fixture
def far(tmp_path: Path, hostler_in: HostlerIn) -> Iterator[Far]:
    with ExitStack() as stack:
        servers = [stack.enter_context(sshd.running(tmp_path / f"sshd-{at}")) for at in range(2)]
        found = Far(tmp_path, servers, hostler_in)
        yield found
        found.end()


def job(number: int, command: str) -> str:
    return f"  - {{name: job-{number}, cwd: '{{attempt}}', argv: [sh, -c, {json.dumps(command)}]}}"


@pytest.mark.long
def test_a_stranger_is_refused_until_somebody_trusts_it(far: Far) -> None:
    far.write(*(job(at, 'test -n "$RIG"; sleep 0.2') for at in range(2)))
    up = far.up()
    far.wait(lambda: [str(node["trouble"]).count("is not known") for node in far.nodes()] == [1, 1])
    assert far.hostler("node", "trust", "fleet.yaml").status == 2, "nobody is there to say yes"
    wrong = far.hostler("node", "trust", "fleet.yaml", "rig-0", "--fingerprint", "SHA256:none")
    assert (wrong.status, "nothing was accepted" in wrong.err) == (1, True)
    shown = subprocess.run(
        ["ssh-keygen", "-lf", far.servers[0].folder / "host.pub"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert far.hostler("node", "trust", "fleet.yaml", "rig-0", "--fingerprint", shown).status == 0
    assert far.hostler("node", "trust", "fleet.yaml", "--yes").out.count("accepted") == 1
    said, _ = up.communicate(timeout=WHOLE_RUN_S)
    assert up.returncode == 0, said
    assert "scripts: 2 of 2 done" in said


def test_a_cut_and_a_killed_controller_lose_nothing_and_do_nothing_twice(far: Far) -> None:
    """Both jobs run on while their nodes cannot be reached and nobody asks; each has run once, to its one result."""
    far.write(
        *(
            job(at, f"echo x >> {far.folder}/ran-{at}; while [ ! -e {far.folder}/go ]; do sleep 0.1; done")
            for at in range(2)
        )
    )
    assert far.hostler("node", "trust", "fleet.yaml", "--yes").status == 0
    up = far.up()
    far.wait(lambda: all((far.folder / f"ran-{at}").exists() for at in range(2)))
    far.wait(lambda: far.jobs() == ["running", "running"])  # and the controller has heard of it
    far.servers[0].kill()
    far.wait(lambda: sorted(str(node["link"]) for node in far.nodes()) == ["down", "up"])
    assert far.jobs() == ["running", "running"], "out of reach is not dead"
    up.kill()
    up.communicate()
    (far.folder / "go").touch()
    with sshd.running(far.servers[0].folder, port=far.servers[0].port):
        again = far.up()
        said, _ = again.communicate(timeout=WHOLE_RUN_S)
    assert again.returncode == 0, said
    assert "scripts: 2 of 2 done" in said
    assert [(far.folder / f"ran-{at}").read_text() for at in range(2)] == ["x\n", "x\n"]


@pytest.mark.long
def test_a_node_that_is_taken_out_of_the_file_is_not_said_to_be_dead(far: Far) -> None:
    far.write(job(0, f"echo x >> {far.folder}/ran; while [ ! -e {far.folder}/go ]; do sleep 0.1; done"))
    assert far.hostler("node", "trust", "fleet.yaml", "--yes").status == 0
    up = far.up()
    far.wait(lambda: (far.folder / "ran").exists())
    (holds,) = [
        device["id"].partition("/")[0] for node in far.nodes() for device in node["devices"] if device["attempts"]
    ]
    up.kill()
    up.communicate()
    whole = (far.folder / "fleet.yaml").read_text()
    (far.folder / "fleet.yaml").write_text(
        "\n".join(line for line in whole.splitlines() if f"name: {holds}" not in line) + "\n"
    )
    without = far.up()
    far.wait(lambda: any("taken out of the fleet file" in str(node["trouble"]) for node in far.nodes()))
    without.kill()
    without.communicate()
    (far.folder / "fleet.yaml").write_text(whole)
    (far.folder / "go").touch()
    again = far.up()
    said, _ = again.communicate(timeout=WHOLE_RUN_S)
    assert (again.returncode, "scripts: 1 of 1 done" in said) == (0, True), said
    assert (far.folder / "ran").read_text() == "x\n"


def test_a_changed_host_key_is_refused(far: Far, tmp_path: Path) -> None:
    far.write(job(0, "true"))
    assert far.hostler("node", "trust", "fleet.yaml", "--yes").status == 0
    with sshd.running(tmp_path / "other") as other:
        lines = (far.folder / "state" / "known_hosts").read_text().splitlines()
        key = (other.folder / "host.pub").read_text().strip()
    (far.folder / "state" / "known_hosts").write_text("".join(f"{line.split()[0]} {key}\n" for line in lines))
    said = far.hostler("node", "trust", "fleet.yaml", "--yes")
    assert said.status == 1
    assert "another key" in said.err


def test_the_doctor_says_what_keeps_nodes_from_work(far: Far) -> None:
    far.write()
    strangers = far.hostler("doctor", "fleet.yaml")
    assert (strangers.status, strangers.out.count("hostler node trust")) == (1, 2)
    assert max(map(len, strangers.out.splitlines())) <= 80
    assert far.hostler("node", "trust", "fleet.yaml", "--yes").status == 0
    found = json.loads(far.hostler("doctor", "fleet.yaml", "--json").out)
    assert {(each["node"], each["health"]) for each in found if each["what"] in ("ssh", "python")} == {
        ("rig-0", "good"),
        ("rig-1", "good"),
    }
    far.servers[1].kill()
    one_away = far.hostler("doctor", "fleet.yaml")
    assert (one_away.status, "rig-1" in one_away.out) == (1, True)
    assert far.hostler("doctor", "fleet.yaml", "rig-7").status == 2


def test_plan_and_check_know_that_they_do_not_know(far: Far) -> None:
    far.write(job(0, "true"))
    assert far.hostler("check", "fleet.yaml").status == 0
    assert "the GPUs of rig-0 are found by a probe" in far.hostler("plan", "fleet.yaml").out
