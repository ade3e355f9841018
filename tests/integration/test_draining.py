"""A node is emptied and used again, under a controller that is killed meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.integration.conftest import WAIT, Fleet, Hostler, until

SAVES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


def cordon(fleet: Fleet) -> dict[str, object] | None:
    (node,) = fleet.client.nodes()
    found: dict[str, object] | None = node["cordon"]
    return found


def test_a_node_is_drained_and_resumed(fleet: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    fleet.start()
    gate = tmp_path / "gate"
    runs = fleet.python(WAIT, str(gate))
    fleet.pid(runs)
    said = hostler(fleet, "nodes", "drain", "here", "--why", "new fan")
    assert (said.status, said.out) == (0, "here draining\n")
    waits = fleet.script("true")
    assert "new fan" in hostler(fleet, "explain", waits).out
    fleet.kill()
    fleet.start()
    assert fleet.job(waits)["state"] == "pending"
    gate.touch()
    fleet.state_of(runs, "done")
    until(lambda: (cordon(fleet) or {}).get("state") == "drained", "that the node is drained")
    assert "new fan" in hostler(fleet, "bans").out
    assert fleet.job(waits)["state"] == "pending"
    assert hostler(fleet, "nodes", "resume", "here").out == "here takes work\n"
    fleet.state_of(waits, "done")
    kinds = [line.split()[2] for line in hostler(fleet, "events", "--after", "0").out.splitlines()]
    assert kinds.index("node.cordoned") < kinds.index("node.drained") < kinds.index("node.resumed")


def test_drain_now_ends_what_runs_and_blames_nobody(fleet: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    fleet.start()
    gate = tmp_path / "gate"
    runs = fleet.python(SAVES, str(gate))
    fleet.pid(runs)
    assert hostler(fleet, "nodes", "drain", "here", "--now").status == 0
    until(lambda: (cordon(fleet) or {}).get("state") == "drained", "that the node is drained")
    detail = fleet.client.job(runs)
    assert (detail["job"]["state"], detail["failures"]) == ("pending", {})
    gate.touch()
    hostler(fleet, "nodes", "resume", "here")
    assert fleet.state_of(runs, "done")["attempts"] == 2
