"""Cards that other people use: a real agent with an nvidia-smi whose answers the test writes."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.backends.ssh import sshd
from tests.integration.cards import UUIDS, Cards
from tests.integration.conftest import START_S, Fleet, Hostler, a_fleet, kill_below, typed, until

ON_GPU = {"device": "gpu"}
NODE = {"cpu_slots": 1, "canary": "none"}
WAIT = "while [ ! -e '{gate}' ]; do sleep 0.05; done"


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cards:
    made = Cards(tmp_path / "cards")
    monkeypatch.setenv("PATH", f"{made.tools}:{os.environ['PATH']}")
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that no agent has started."""
    made = subprocess.Popen(["sleep", "100000"], start_new_session=True)
    yield made
    made.kill()
    made.wait()


def use_of(fleet: Fleet, device: str) -> dict[str, Any] | None:
    (node,) = fleet.client.nodes()
    return next(each["foreign_use"] for each in node["devices"] if each["id"] == device)


def test_job_takes_the_card_that_nobody_else_uses(
    fleet: Fleet, cards: Cards, stranger: subprocess.Popen[bytes], hostler: Hostler, tmp_path: Path
) -> None:
    cards.use(f"GPU-aa, {stranger.pid}, 22500")
    fleet.settle(nodes=[{"name": "here", **NODE}])
    fleet.start()
    gate = tmp_path / "gate"
    first = fleet.script("sh", "-c", WAIT.format(gate=gate), resources=ON_GPU)
    fleet.state_of(first, "running")
    assert fleet.job(first)["device"] == "here/cuda1"
    second = fleet.script("true", resources=ON_GPU)
    who = f"sleep of {getpass.getuser()} (pid {stranger.pid})"
    until(lambda: (use_of(fleet, "here/cuda0") or {}).get("who") == who, "the use")
    said = " ".join(hostler(fleet, "explain", second).out.split())
    assert "in use by others" in said
    assert who in said
    assert who in " ".join(hostler(fleet, "node", "list").out.split())
    assert "others" in hostler(fleet, "top").out
    assert who in " ".join(hostler(fleet, "hold", "list").out.split())
    status = " ".join(hostler(fleet, "status").out.split())
    assert "1 GPU in use by others" in status
    assert "here/cuda0: used by others for" in status
    assert who in status
    assert who in " ".join(hostler(fleet, "device", "list").out.split())
    gate.touch()
    assert fleet.over(second)["job"]["device"] == "here/cuda1"


def test_job_waits_where_memory_is_used_and_no_process_is_listed(fleet: Fleet, cards: Cards, hostler: Hostler) -> None:
    cards.use(used_mib={"GPU-aa": 22000, "GPU-bb": 22000})
    fleet.settle(nodes=[{"name": "here", **NODE}])
    fleet.start()
    job = fleet.script("true", resources=ON_GPU)
    until(lambda: use_of(fleet, "here/cuda0") is not None, "the use")
    assert fleet.job(job)["state"] == "pending"
    assert "processes that cannot be seen there" in " ".join(hostler(fleet, "explain", job).out.split())


def test_display_and_child_in_another_session_are_no_use_by_others(fleet: Fleet, cards: Cards, tmp_path: Path) -> None:
    cards.use(used_mib={"GPU-aa": 600, "GPU-bb": 600})
    fleet.settle(nodes=[{"name": "here", **NODE}])
    fleet.start()
    gate, mine = tmp_path / "gate", tmp_path / "mine"
    script = f"setsid sh -c 'echo $$ > {mine}.new; mv {mine}.new {mine}; {WAIT.format(gate=gate)}' & wait"
    job = fleet.script("sh", "-c", script, resources=ON_GPU)
    until(mine.exists, "the child")
    uuid = UUIDS[int(fleet.job(job)["device"][-1])]
    cards.use(f"{uuid}, {mine.read_text().strip()}, 9000", used_mib={uuid: 9600})
    other = fleet.script("true", resources=ON_GPU)
    assert fleet.over(other)["job"]["state"] == "done"
    assert fleet.client.nodes()
    assert [use_of(fleet, f"here/cuda{index}") for index in range(2)] == [None, None]
    gate.touch()
    assert fleet.over(job)["job"]["state"] == "done"


@pytest.mark.services
def test_leftover_of_an_attempt_ends_before_its_card_is_given_on(fleet: Fleet, cards: Cards, tmp_path: Path) -> None:
    fleet.settle(nodes=[{"name": "here", **NODE, "gpus": {"only": [0]}}])
    fleet.start()
    mine = tmp_path / "mine"
    left = f"setsid sh -c 'echo $$ > {mine}.new; mv {mine}.new {mine}; exec sleep 100000' & "
    job = fleet.script("sh", "-c", f"{left} while [ ! -e {mine} ]; do sleep 0.05; done", resources=ON_GPU)
    later = fleet.script("sh", "-c", f"! kill -0 $(cat {mine})", resources=ON_GPU)
    assert fleet.over(job)["job"]["state"] == "done"
    assert fleet.over(later)["job"]["state"] == "done"
    assert not psutil.pid_exists(int(mine.read_text()))


@pytest.mark.services
def test_work_that_saves_checkpoints_leaves_when_others_come(
    fleet: Fleet, cards: Cards, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    fleet.settle(nodes=[{"name": "here", **NODE, "yield_to_others": True}])
    fleet.start()
    saved = tmp_path / "saved"
    script = f"trap 'touch {saved}; exit 0' TERM; while :; do sleep 0.05; done"
    job = fleet.script("sh", "-c", script, resources=ON_GPU, checkpoints=True)
    fleet.state_of(job, "running")
    device = fleet.job(job)["device"]
    cards.use(f"{UUIDS[int(device[-1])]}, {stranger.pid}, 9000")
    until(saved.exists, "the checkpoint")
    other = f"here/cuda{1 - int(device[-1])}"
    until(lambda: fleet.job(job)["device"] == other and fleet.job(job)["state"] == "running", "its next attempt")


@pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")
def test_card_of_a_node_behind_ssh_is_left_to_others(
    tmp_path: Path, cards: Cards, stranger: subprocess.Popen[bytes]
) -> None:
    cards.use(f"GPU-aa, {stranger.pid}, 22500")
    with ExitStack() as stack:
        stack.callback(kill_below, tmp_path)
        server = stack.enter_context(sshd.running(tmp_path / "sshd"))
        node = {"name": "rig", "backend": "ssh", "host": "127.0.0.1", "port": server.port, **NODE}
        node |= {"identity": str(server.folder / "client"), "dir": str(tmp_path / "on-rig")}
        node |= {"setup": [f"export PATH={cards.tools}:$PATH"]}
        ssh = {"config": [], "known_hosts": [], "connect_s": 120}
        fleet = stack.enter_context(a_fleet(tmp_path, nodes=[node], ssh=ssh, state_dir="state"))
        assert typed("node", "trust", "fleet.yaml", "--yes", cwd=tmp_path).status == 0
        fleet.start()
        _check_taken(fleet, "rig")


@pytest.mark.services
def test_card_of_a_node_that_dials_in_is_left_to_others(
    tmp_path: Path, cards: Cards, stranger: subprocess.Popen[bytes]
) -> None:
    cards.use(f"GPU-aa, {stranger.pid}, 22500")
    with ExitStack() as stack:
        stack.callback(kill_below, tmp_path)
        node = {"name": "far", "backend": "dialin", "python": sys.executable, "dir": str(tmp_path / "far side"), **NODE}
        fleet = stack.enter_context(
            a_fleet(tmp_path, nodes=[node], dialin={"listen": "127.0.0.1:0"}, state_dir="state", api={"port": 0})
        )
        fleet.launch()
        until((fleet.state / "controller.json").exists, "the controller", START_S, log=fleet.log)
        assert typed("node", "agent", "agent.pyz", cwd=tmp_path).status == 0
        script = typed("node", "invite", "fleet.yaml", "far", cwd=tmp_path).out.partition("\n\n")[2]
        environ = {**os.environ, "PATH": f"{cards.tools}:{os.environ['PATH']}"}
        subprocess.run(["sh", "-e"], input=script, cwd=tmp_path, env=environ, check=True, text=True)
        until(lambda: fleet.client.status()["nodes_up"] == 1, "the node", START_S, log=fleet.log)
        _check_taken(fleet, "far")


def _check_taken(fleet: Fleet, node: str) -> None:
    jobs = [fleet.script("true", resources=ON_GPU) for _ in range(3)]
    assert {fleet.over(job)["job"]["device"] for job in jobs} == {f"{node}/cuda1"}
    until(lambda: use_of(fleet, f"{node}/cuda0") is not None, "the use")
