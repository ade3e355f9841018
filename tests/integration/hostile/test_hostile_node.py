"""A hostile node beside an honest one: nothing of the honest work is lost or changed.

The hostile one calls on a reverse connection, or is reached through a real SSH server.
"""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.model.errors import SpecError, UsageError
from hostler.runtime.statedir import StateDir
from tests import postgres
from tests.backends.ssh import sshd
from tests.backends.ssh.sshd import Sshd
from tests.integration.conftest import WORKER, Fleet, Hostler, a_fleet, kill_below, until
from tests.patience import PATIENCE_S

EVIL = Path(__file__).with_name("node.py")
ALL = ("mid-line", "no cores", "long line", "lies", "nonsense", "flood", "replay")
LOG_BYTES = 1 << 20
HERE = {"nodes": ["here"], "device": "cpu"}
WORK = """
import json, os, sys
print("honest" * 100)
open(os.environ["HOSTLER_RESULT"], "w").write(json.dumps({"honest": int(sys.argv[1])}))
"""
WAIT = """
import json, os, sys, time
while not os.path.exists(sys.argv[1]): time.sleep(0.05)
open(os.environ["HOSTLER_RESULT"], "w").write(json.dumps({"honest": "to the end"}))
"""


SWEEP = {
    "name": "s",
    "range": [0, 2000],
    "worker": [sys.executable, str(WORKER)],
    "params": {"planted": [3, 1500], "pause_s": 0.002},
    "max_chunk": 100,
    "resources": HERE,
}


class Attack(ABC):
    """How the hostile node is reached."""

    acts: tuple[str, ...]

    @abstractmethod
    def node(self) -> dict[str, Any]:
        """Its entry in the fleet file."""

    @abstractmethod
    def environment(self, fleet: Fleet) -> dict[str, str]:
        """Where its process connects or listens."""

    @abstractmethod
    def begun(self, report: Path) -> None:
        """Its process has been started, and writes that file."""


class Calling(Attack):
    """On a reverse connection, with a token of its own."""

    acts = ("claims", *ALL)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def node(self) -> dict[str, Any]:
        return {"backend": "dialin", "dir": str(self._folder / "evil")}

    def environment(self, fleet: Fleet) -> dict[str, str]:
        token = StateDir(fleet.state).make_call_token("evil")
        return {"CONTROLLER": str(fleet.state / "controller.json"), "TOKEN": token}

    def begun(self, report: Path) -> None:
        """It calls."""


class Reached(Attack):
    """Through SSH: in the place of the agent that the controller started there."""

    acts = ALL

    def __init__(self, folder: Path, server: Sshd) -> None:
        self._folder = folder / "evil"
        self._server = server

    def node(self) -> dict[str, Any]:
        own = self._server
        identity = str(own.folder / "client")
        return {
            "backend": "ssh",
            "host": "127.0.0.1",
            "port": own.port,
            "identity": identity,
            "dir": str(self._folder),
        }

    def environment(self, fleet: Fleet) -> dict[str, str]:
        (path,) = until(lambda: list(self._folder.glob("**/agent.sock")), "the agent that comes first")
        return {"SOCKET": str(path)}

    def begun(self, report: Path) -> None:
        """The agent is ended once that process waits for its place."""
        until(report.read_text, "the hostile process")
        kill_below(self._folder)


@pytest.fixture(params=["reverse", "ssh", "reverse, PostgreSQL"])
def way(request: pytest.FixtureRequest) -> str:
    """How the hostile node is reached, and the database of the journal where that is not SQLite."""
    return str(request.param)


@pytest.fixture
def attack(way: str, tmp_path: Path) -> Iterator[Attack]:
    if way.startswith("reverse"):
        yield Calling(tmp_path)
        return
    if sshd.MISSING is not None:
        pytest.skip(sshd.MISSING)
    with sshd.running(tmp_path / "server") as server:
        yield Reached(tmp_path, server)


@pytest.fixture
def store(way: str) -> Iterator[dict[str, str]]:
    """The setting of the journal's database."""
    if "PostgreSQL" not in way:
        yield {}
        return
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.running(durable=True) as server:
        yield {"store": server.database()}


@pytest.fixture
def beset(attack: Attack, store: dict[str, str], tmp_path: Path) -> Iterator[Fleet]:
    """A fleet of an honest node, which has work, and of a hostile one."""
    nodes = [
        {"name": "here", "backend": "local", "cpu_slots": 2, "gpus": "none"},
        {"name": "evil", "cpu_slots": 2, "gpus": "none", "canary": "none", **attack.node()},
    ]
    known = tmp_path / "server" / "known_hosts"
    settings: dict[str, Any] = {
        "dialin": {"listen": "127.0.0.1:0"},
        "ssh": {"config": [], "known_hosts": [str(known)], "connect_s": PATIENCE_S},
        "limits": {"log_bytes": LOG_BYTES},
        "sweeps": [SWEEP],
        **store,
    }
    with a_fleet(tmp_path, nodes=nodes, **settings) as fleet:
        yield fleet


@contextmanager
def under(attack: Attack, fleet: Fleet, folder: Path) -> Iterator[Path]:
    """The hostile process; what it has done is in the file."""
    report = folder / "acts"
    report.touch()
    fleet.start()
    environment = attack.environment(fleet)
    words = [sys.executable, str(EVIL), "evil", str(report)]
    with (folder / "evil.log").open("w") as log:
        process = subprocess.Popen(words, env={**os.environ, **environment}, stdout=log, stderr=log)
    try:
        attack.begun(report)
        yield report
    finally:
        process.kill()
        process.wait()


def kinds(fleet: Fleet) -> Counter[str]:
    return Counter(entry["event"]["kind"] for entry in fleet.client.entries())


@pytest.mark.services
def test_hostile_node_changes_nothing_of_the_work_of_an_honest_one(
    attack: Attack, beset: Fleet, tmp_path: Path, hostler: Hostler
) -> None:
    gate = tmp_path / "gate"
    with under(attack, beset, tmp_path) as report:
        held = beset.python(WAIT, str(gate), resources=HERE)
        beset.state_of(held, "running")
        theirs = beset.python(WORK, "0", resources={"nodes": ["evil"], "device": "cpu"})
        works = [beset.python(WORK, str(at), resources=HERE) for at in range(8)]
        until(
            lambda: set(attack.acts) <= set(report.read_text().split("\n")),
            "every act",
            PATIENCE_S,
            log=lambda: f"{report.read_text()}\n{(tmp_path / 'evil.log').read_text()}\n{beset.log()}",
        )
        assert beset.job(held)["state"] == "running"
        _expect_refused(beset, held)
        gate.touch()
        results = [beset.over(each)["result"] for each in (held, *works)]
        sweep = beset.over("s")
        listed = hostler(beset, "hold", "list")
        assert beset.job(theirs)["state"] == "done", "of its own work a node may say what it likes"
        more = beset.python(WORK, "0", resources={"nodes": ["evil"], "device": "cpu"})
        _expect_kept_log(beset, theirs)
        assert beset.job(more)["state"] == "pending", "it is held"
    assert results == [{"honest": "to the end"}, *({"honest": at} for at in range(8))]
    assert (sweep["job"]["state"], sweep["result"]) == ("done", {"hits": 2, "items": 2000})
    assert all(beset.client.job(each)["job"]["attempts"] == 1 for each in (held, *works))
    assert "evil" in listed.out
    assert "work of other nodes" in listed.out
    _expect_little_said(beset)
    _expect_readable(beset, hostler, tmp_path)


def _expect_refused(fleet: Fleet, job: str) -> None:
    """Texts that no column can hold are refused with the reason, and stop nothing."""
    script, refused = {"kind": "script", "schema": 1, "argv": ["true"]}, r"NUL character \(U\+0000\)"
    for field in ("name", "key", "config"):
        with pytest.raises(SpecError, match=refused):
            fleet.client.submit_jobs([{"name": "n", "payload": script, field: "a\0b"}])
    with pytest.raises(UsageError, match=refused):
        fleet.client.cancel(job, "a\0b")
    assert fleet.over(fleet.python("pass", resources=HERE))["job"]["state"] == "done"


def _expect_kept_log(fleet: Fleet, job: str) -> None:
    """The endless log of the hostile node's own attempt ends at its limit, unless the node hangs up or sends none."""
    logs = fleet.state / "logs"

    def is_settled() -> bool:
        (evil,) = [each for each in fleet.client.nodes() if each["name"] == "evil"]
        told = (fleet.state / "controller.log").read_text()
        given_up = '"not tidied"' in told or '"why": "TimeoutError: ", "event": "a call ended"' in told
        return any(logs.glob(f"{job}.*")) or evil["link"] != "up" or given_up

    until(is_settled, "the kept log", PATIENCE_S, log=fleet.log)
    assert sum(each.stat().st_size for each in logs.rglob(f"*{job}.*/*")) <= 2 * LOG_BYTES


def _expect_little_said(fleet: Fleet) -> None:
    """Thousands of faults are counted, not recorded one by one."""
    told = kinds(fleet)
    assert told["result.refused"] + told["trouble.recorded"] < 400
    faults = [str(each["event"]) for each in fleet.client.entries() if each["event"]["kind"] == "trouble.recorded"]
    assert any("more faults of it were counted" in each for each in faults)


def _expect_readable(fleet: Fleet, hostler: Hostler, folder: Path) -> None:
    """The journal can be read: by a back-up, and by the next controller."""
    backup = folder / "kept.backup"
    assert hostler(fleet, "backup", "create", str(backup)).status == 0
    said = hostler(fleet, "backup", "verify", str(backup))
    assert said.status == 0, said.err
    seen = fleet.client.status()["seq"]
    fleet.kill()
    fleet.start()
    assert fleet.client.status()["seq"] >= seen
