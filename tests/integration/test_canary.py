"""A real node with GPUs that only look like some: one is sound and one computes wrongly, until it is mended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.agent.fakegpus import build, needs_compiler

from .conftest import Fleet, Hostler, until

pytestmark = pytest.mark.long

SMI = """#!/bin/sh
case "$1" in
*uuid*) echo "0, Fake 4090, 24564, GPU-0"; echo "1, Fake 4090, 24564, GPU-1" ;;
*) echo "0, 5, 100, 40"; echo "1, 5, 100, 40" ;;
esac
"""
ON_GPU = {"device": "gpu"}


@pytest.fixture
def rig(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A machine of two GPUs; what is wrong with which of them is said in a file."""
    drivers = build(tmp_path / "drivers")
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI)
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")
    env = {"LD_LIBRARY_PATH": str(drivers), "FAULT": str(tmp_path / "fault")}
    fleet.settle(nodes=[{"name": "rig", "cpu_slots": 1, "canary": "auto", "env": env}])
    return fleet


def kept_out(fleet: Fleet) -> dict[str, str]:
    """What keeps devices out, by device."""
    (node,) = fleet.client.nodes()
    return {device["id"]: device["canary"]["why"] for device in node["devices"] if device["canary"] is not None}


@needs_compiler
def test_a_wrong_device_is_kept_out_until_it_is_mended(rig: Fleet, tmp_path: Path, hostler: Hostler) -> None:
    (tmp_path / "fault").write_text("wrong@1")
    rig.start()
    until(lambda: kept_out(rig).keys() == {"rig/cuda1"} and "wrong answer" in kept_out(rig)["rig/cuda1"], "two proofs")
    jobs = [rig.script("sh", "-c", "echo $CUDA_VISIBLE_DEVICES", resources=ON_GPU) for _ in range(3)]
    assert {rig.over(job)["job"]["device"] for job in jobs} == {"rig/cuda0"}
    waits = rig.script("true", resources={**ON_GPU, "gpus": 2})
    assert "failed its canary: wrong answer" in " ".join(hostler(rig, "explain", waits, "--json").out.split())
    assert "canary" in hostler(rig, "hold", "list").out
    (tmp_path / "fault").unlink()
    rig.kill_processes()  # the agent: the next one proves at once what failed before
    until(lambda: not kept_out(rig), "the proof of the mended device", log=rig.log)
    assert rig.over(waits)["job"]["state"] == "done"


@needs_compiler
def test_a_restarted_controller_believes_what_was_proved(rig: Fleet, tmp_path: Path) -> None:
    (tmp_path / "fault").write_text("unknown@0")
    rig.start()
    until(lambda: kept_out(rig).keys() == {"rig/cuda0"} and "999" in kept_out(rig)["rig/cuda0"], "two proofs")
    held = rig.script("sh", "-c", f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done", resources=ON_GPU)
    pid = rig.pid(held)
    rig.kill()
    (tmp_path / "fault").write_text("unknown@1")
    rig.start()
    until(lambda: not kept_out(rig), "the proof of the device that was asked again")
    assert rig.pid(held) == pid, "the other one has work, and was left alone"
    (tmp_path / "go").touch()
    assert rig.over(held)["job"]["state"] == "done"


@needs_compiler
def test_the_owner_may_have_a_canary_of_his_own(fleet: Fleet, tmp_path: Path) -> None:
    script = f'test -e {tmp_path}/sound || {{ echo "no model there" >&2; exit 1; }}; echo "$HOSTLER_CANARY"'
    fleet.settle(nodes=[{"name": "rig", "cpu_slots": 1, "gpus": "none", "canary": ["sh", "-c", script]}])
    fleet.start()
    until(lambda: "no model there" in kept_out(fleet).get("rig/cpu0", ""), "the refusal")
    (tmp_path / "sound").touch()
    fleet.kill()
    fleet.start()
    until(lambda: not kept_out(fleet), "the proof")
    assert fleet.over(fleet.script("true"))["job"]["state"] == "done"
