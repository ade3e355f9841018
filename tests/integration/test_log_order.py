"""Output on each way to a node: its order over a kill of the agent, and what is left of it while the node is away."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from hostler.client import Client
from tests.backends.ssh import sshd
from tests.integration.conftest import WHOLE_RUN_S, Fleet, HostlerIn, kill_below, until
from tests.integration.test_dialin import Home
from tests.integration.test_ssh import Far
from tests.patience import PATIENCE_S

LINES = 200
ALTERNATING = f"""
import os, time
for number in range({LINES}):
    os.write(1 + number % 2, b"line %d\\n" % number)
    time.sleep(0.1)
"""
WORDS = """
import os, sys, time
os.write(1, b"step 1\\n")
os.write(2, b"Traceback\\n")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
os.write(1, b"step 2\\n")
"""
needs_sshd = pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")


@pytest.fixture
def far(tmp_path: Path, hostler_in: HostlerIn) -> Iterator[Far]:
    with ExitStack() as stack:
        found = Far(tmp_path, [stack.enter_context(sshd.running(tmp_path / "sshd-0"))], hostler_in)
        yield found
        found.end()


@pytest.fixture
def home(tmp_path: Path, hostler_in: HostlerIn) -> Iterator[Home]:
    yield Home(tmp_path, hostler_in)
    kill_below(tmp_path)


def script(*argv: str) -> str:
    return json.dumps({"name": "lines", "cwd": "{attempt}", "argv": [sys.executable, "-S", "-c", *argv]})


def supervisors(folder: Path) -> list[int]:
    """The supervisors of agents whose folder is below this one: the last of processes with the same command line."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            parent = process.parent()
            if "--dir" not in words or parent is None or parent.cmdline() != words:
                continue
            if any(child.cmdline() == words for child in process.children()):
                continue
            if words[words.index("--dir") + 1].startswith(str(folder)):
                found.append(process.pid)
    return found


def order_over_a_kill(client: Client, state: Path, job: str, below: Path) -> None:
    """Kill the supervisor when half of the lines are written; all of them are shown in their order."""
    attempt = f"{job}.1"
    until(lambda: client.job(job)["job"]["state"] == "running", "the job's start", WHOLE_RUN_S)
    until(lambda: client.output(attempt)["out_size"] >= LINES // 4 * len("line 10\n"), "half of the lines", WHOLE_RUN_S)
    (old,) = until(lambda: supervisors(below), "the supervisor")
    os.kill(old, signal.SIGKILL)
    until(lambda: [pid for pid in supervisors(below) if pid != old], "the next supervisor", WHOLE_RUN_S)
    until(lambda: client.job(job)["job"]["state"] == "done", "the end of the job", WHOLE_RUN_S)
    command = [sys.executable, "-m", "hostler", "logs", job, "--state-dir", str(state)]
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
    *lines, outcome = told.splitlines()
    assert lines == [f"line {number}" for number in range(LINES)]
    assert outcome.startswith(f"{job} done in ")


def test_order_is_exact_on_this_machine(running: Fleet) -> None:
    job = running.python(ALTERNATING)
    order_over_a_kill(running.client, running.state, job, running.path)


@pytest.mark.services
@needs_sshd
def test_order_is_exact_on_a_node_behind_ssh(far: Far) -> None:
    far.write(f"  - {script(ALTERNATING)}")
    assert far.hostler("node", "trust", "fleet.yaml", "--yes").status == 0
    with controller(far.folder):
        far.wait(far.jobs)
        order_over_a_kill(far.client, far.folder / "state", "j1", far.folder)


@pytest.mark.services
def test_order_is_exact_on_a_node_that_calls(home: Home) -> None:
    home.write(jobs=[json.loads(script(ALTERNATING))])
    with controller(home.folder) as up:
        home.wait(lambda: home._leads(up))
        home.call()
        home.wait(home.jobs)
        order_over_a_kill(home.client, home.folder / "state", "j1", home.far.parent)


@needs_sshd
def test_output_seen_before_a_cut_stays_readable_and_following_takes_it_up(far: Far) -> None:
    far.write(f"  - {script(WORDS, str(far.folder / 'go'))}")
    assert far.hostler("node", "trust", "fleet.yaml", "--yes").status == 0
    command = [sys.executable, "-m", "hostler", "logs", "j1", "--state-dir", str(far.folder / "state")]
    with controller(far.folder):
        seen = far.folder / "state" / "logs" / ".j1.1.seen" / "err"
        far.wait(lambda: seen.exists() and seen.read_bytes() == b"Traceback\n")  # and nobody has asked for it
        far.servers[0].kill()
        far.wait(lambda: [str(node["link"]) for node in far.nodes()] == ["down"])
        told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        assert told.stdout == "step 1\n"
        away, trace, standing = told.stderr.splitlines()
        assert re.fullmatch(r"rig-0 cannot be reached; output up to \d\d:\d\d:\d\d is shown", away)
        assert (trace, standing) == ("Traceback", "j1 is running on rig-0/cpu0")
        with subprocess.Popen([*command, "-f"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
            assert following.stdout is not None
            assert following.stdout.readline() == "step 1\n"
            (far.folder / "go").touch()
            with sshd.running(far.servers[0].folder, port=far.servers[0].port):
                out, err = following.communicate(timeout=WHOLE_RUN_S)
    assert (following.returncode, out) == (0, "step 2\n")
    assert err.count("Traceback") == 1
    assert err.count("rig-0 cannot be reached") == 1
    assert "rig-0 answers again" in err
    assert re.fullmatch(r"j1 done in .*", err.splitlines()[-1])


@contextmanager
def controller(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A controller of the fleet file in a folder, which is killed at the end."""
    command = [sys.executable, "-m", "hostler.cli", "up", "fleet.yaml"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=folder, stdin=quiet, stdout=quiet, text=True) as process:
        yield process
        process.kill()
