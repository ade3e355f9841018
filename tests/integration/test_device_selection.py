"""Cards that are not for Hostler: hidden by the environment, left out by the fleet file, cordoned for an evening."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.agent.toolbox import put
from tests.backends.ssh import sshd
from tests.integration.conftest import START_S, Fleet, Hostler, a_fleet, kill_below, typed, until

UUIDS = ("GPU-8932f937-d72c", "GPU-1f00aaaa-0000", "GPU-5a5a0000-1111", "GPU-77770000-2222")
SMI = """
case "$1" in
--query-gpu=index,name,*) at=0; for uuid in {uuids}; do echo "$at, Fake 4090, 24564, $uuid"; at=$((at+1)); done ;;
--query-gpu=*) at=0; for uuid in {uuids}; do echo "$at, 5, 100, 40, $uuid, Fake 4090, [N/A]"; at=$((at+1)); done ;;
esac
""".format(uuids=" ".join(UUIDS))
ON_GPU = {"device": "gpu"}
NODE = {"cpu_slots": 1, "canary": "none"}


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with an nvidia-smi that knows four cards."""
    return put(tmp_path / "tools", "nvidia-smi", SMI).parent


@pytest.fixture
def rig(fleet: Fleet, tools: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """This machine with four cards, as a fleet that has not been started."""
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    fleet.settle(nodes=[{"name": "here", **NODE}])
    return fleet


def cards(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """The GPUs of the fleet's node, by id."""
    (node,) = fleet.client.nodes()
    return {each["id"]: dict(each) for each in node["devices"] if each["kind"] == "cuda"}


def bound(fleet: Fleet, gate: Path) -> dict[str, str]:
    """The variable that a job on each card has seen: as many jobs at a time as there are cards."""
    script = f"echo $CUDA_VISIBLE_DEVICES; while [ ! -e '{gate}' ]; do sleep 0.05; done"
    jobs = [fleet.script("sh", "-c", script, resources=ON_GPU) for _ in cards(fleet)]
    for job in jobs:
        fleet.state_of(job, "running")
    gate.touch()
    ended = {job: fleet.over(job)["job"] for job in jobs}
    assert {each["state"] for each in ended.values()} == {"done"}
    return {each["device"]: fleet.client.log(f"{job}.1").data.decode().strip() for job, each in ended.items()}


def troubles(fleet: Fleet) -> str:
    return "\n".join(str(entry) for entry in fleet.client.entries() if "trouble" in str(entry))


def test_the_cards_that_the_environment_hides_are_not_used(
    rig: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"3,{UUIDS[1][:10]}")
    rig.start()
    assert bound(rig, tmp_path / "gate") == {"here/cuda1": "1", "here/cuda3": "3"}
    assert rig.job(rig.script("true", resources={**ON_GPU, "gpus": 3}))["state"] == "pending", "there are two"


@pytest.mark.services
def test_an_empty_variable_leaves_no_card(rig: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    rig.start()
    assert cards(rig) == {}


def test_the_fleet_file_chooses_among_the_cards_that_are_left(
    rig: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2,3")
    chosen = {"only": [UUIDS[3], 2, 0], "exclude": [UUIDS[2][:8]]}
    rig.settle(nodes=[{"name": "here", **NODE, "gpus": chosen}])
    rig.start()
    assert bound(rig, tmp_path / "gate") == {"here/cuda3": "3"}
    until(lambda: "gpus.only of here: 0 names no GPU that is found there" in troubles(rig), "the fault")


def test_a_choice_that_leaves_no_card_is_named(rig: Fleet, hostler: Hostler) -> None:
    rig.settle(nodes=[{"name": "here", **NODE, "gpus": {"only": [7]}}])
    assert typed("check", rig.file, cwd=rig.path).status == 0, "only the node itself can know"
    rig.start()
    assert cards(rig) == {}
    until(lambda: "gpus.only and gpus.exclude of here leave none of its 4 GPUs" in troubles(rig), "the fault")
    assert "leave none of its 4 GPUs" in hostler(rig, "events", "--after", "0", "--json").out


def test_a_card_is_cordoned_for_an_evening_and_resumed(shared_rig: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    runs = shared_rig.script("sh", "-c", f"while [ ! -e '{gate}' ]; do sleep 0.05; done", resources=ON_GPU)
    shared_rig.state_of(runs, "running")
    said = hostler(shared_rig, "device", "drain", "here/cuda0", "--reason", "a game tonight", "--for", "4h")
    assert (said.status, said.out.startswith("here/cuda0 draining")) == (0, True), said.err
    assert "a game tonight" in said.out
    waits = shared_rig.script("true", resources=ON_GPU)
    gate.touch()
    assert shared_rig.over(runs)["job"]["state"] == "done", "what ran has run on"
    until(lambda: cards(shared_rig)["here/cuda0"]["cordon"]["state"] == "drained", "the end of the drain")
    explained = " ".join(hostler(shared_rig, "explain", waits).out.split())
    assert "here/cuda0 cordon: is drained by" in explained
    assert "hostler device resume here/cuda0" in explained
    banned = " ".join(hostler(shared_rig, "hold", "list").out.split())
    assert "here/cuda0" in banned
    assert "a game tonight" in banned
    assert "1 device given nothing new" in hostler(shared_rig, "status").out
    assert "a game tonight" in hostler(shared_rig, "device", "list").out
    assert "drained" in hostler(shared_rig, "top").out
    assert "a game tonight" in " ".join(hostler(shared_rig, "node", "list").out.split())
    assert shared_rig.job(waits)["state"] == "pending"
    shared_rig.kill()
    shared_rig.start()
    assert shared_rig.job(waits)["state"] == "pending", "a cordon survives its controller"
    assert hostler(shared_rig, "device", "resume", "here/cuda0").out == "here/cuda0 takes work\n"
    assert shared_rig.over(waits)["job"]["device"] == "here/cuda0"


def test_a_cordon_with_an_end_is_over_by_itself(shared_rig: Fleet, hostler: Hostler) -> None:
    (found,) = hostler(shared_rig, "device", "cordon", "here/cuda0", "--for", "1s", "--json").json
    assert found["device"]["cordon"]["until"] > found["device"]["cordon"]["since"]
    job = shared_rig.script("true", resources=ON_GPU)
    assert shared_rig.over(job)["job"]["state"] == "done"
    kinds = [entry["event"]["kind"] for entry in shared_rig.client.entries()]
    assert kinds.index("device.cordoned") < kinds.index("device.resumed")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("cordon", "here/cuda7"), 2, "there is no device 'here/cuda7' in the fleet; it has here/cpu0, here/cuda0"),
        (("drain", "here"), 2, "there is no device 'here' in the fleet"),
        (("resume", "x/cuda0"), 2, "there is no device 'x/cuda0' in the fleet"),
        (("cordon", "here/cuda0", "--for", "soon"), 2, "'soon' is no length of time"),
        (("cordon", "here/cuda0", "--for", "0h"), 2, "for_s"),
        (("cordon", "here/cuda0", "--for", "9999d"), 2, "for_s"),
        (("cordon", "here/cuda0", "--reason", ""), 2, "why"),
        (("cordon",), 2, "DEVICE"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(
    shared_rig: Fleet, hostler: Hostler, words: tuple[str, ...], status: int, said: str
) -> None:
    found = hostler(shared_rig, "device", *words)
    assert found.status == status, found.out
    assert said in found.err
    assert all(each["cordon"] is None for each in cards(shared_rig).values())


def test_a_device_cannot_be_cordoned_without_a_controller(rig: Fleet, hostler: Hostler) -> None:
    found = hostler(rig, "device", "cordon", "here/cuda0")
    assert found.status == 3
    assert len(found.err.splitlines()) == 1


@pytest.fixture(scope="module")
def shared_rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A machine with one card, for tests that leave it as it was."""
    folder = tmp_path_factory.mktemp("rig")
    tools = put(folder / "tools", "nvidia-smi", SMI).parent
    with pytest.MonkeyPatch.context() as patch, a_fleet(folder) as fleet:
        patch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        fleet.settle(nodes=[{"name": "here", **NODE, "gpus": {"only": [0]}}])
        fleet.start()
        yield fleet


@pytest.mark.services
@pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")
def test_a_node_behind_ssh_uses_what_its_setup_and_the_fleet_file_leave(tmp_path: Path, tools: Path) -> None:
    with ExitStack() as stack:
        stack.callback(kill_below, tmp_path)
        server = stack.enter_context(sshd.running(tmp_path / "sshd"))
        setup = [f"export PATH={tools}:$PATH", f"export CUDA_VISIBLE_DEVICES={UUIDS[2]},{UUIDS[1]}"]
        node = {"name": "rig", "backend": "ssh", "host": "127.0.0.1", "port": server.port, **NODE, "setup": setup}
        node |= {"identity": str(server.folder / "client"), "dir": str(tmp_path / "on-rig"), "gpus": {"exclude": [1]}}
        ssh = {"config": [], "known_hosts": [], "connect_s": 120}
        fleet = stack.enter_context(a_fleet(tmp_path, nodes=[node], ssh=ssh, state_dir="state"))
        said = typed("node", "trust", "fleet.yaml", "--yes", cwd=tmp_path)
        assert said.status == 0, said.err
        fleet.start()
        assert bound(fleet, tmp_path / "gate") == {"rig/cuda2": "2"}


@pytest.mark.services
def test_a_node_that_dials_in_uses_what_its_environment_and_the_fleet_file_leave(tmp_path: Path, tools: Path) -> None:
    with ExitStack() as stack:
        stack.callback(kill_below, tmp_path)
        node = {"name": "far", "backend": "dialin", "python": sys.executable, "dir": str(tmp_path / "far side"), **NODE}
        node["gpus"] = {"only": [0, 3]}
        fleet = stack.enter_context(
            a_fleet(tmp_path, nodes=[node], dialin={"listen": "127.0.0.1:0"}, state_dir="state", api={"port": 0})
        )
        fleet.launch()
        until((fleet.state / "controller.json").exists, "the controller", START_S, log=fleet.log)
        assert typed("node", "agent", "agent.pyz", cwd=tmp_path).status == 0
        invited = typed("node", "invite", "fleet.yaml", "far", cwd=tmp_path)
        assert invited.status == 0, invited.err
        script = invited.out.partition("\n\n")[2]
        environ = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "0,2"}
        done = subprocess.run(
            ["sh", "-e"], input=script, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        until(lambda: fleet.client.status()["nodes_up"] == 1, "the node", START_S, log=fleet.log)
        assert bound(fleet, tmp_path / "gate") == {"far/cuda0": "0"}
