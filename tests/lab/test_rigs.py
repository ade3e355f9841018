"""Twenty-six GPUs on three rigs: two that are six times as fast as the others. All of them end together.

`LAB_RIGS_S` is how long the sweep should take (`make rigs`: 150 s, and then it must be within 3 % of what the measured
speeds allow, and every GPU must have its part). Without it the sweep ends once every GPU has finished a chunk. Nothing
is computed: workers rest for as long as their GPU would take, so that two cores are enough.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.model.errors import LinkError
from tests.integration.conftest import Fleet, a_fleet, command
from tests.lab import datacentre
from tests.lab.datacentre import Datacentre
from tests.lab.host import LAB, Gpu
from tests.lab.runs import Run, read
from tests.lab.tools import until

NO_LAB = datacentre.missing()
pytestmark = pytest.mark.skipif(NO_LAB is not None, reason=NO_LAB or "")
SECONDS = float(os.environ.get("LAB_RIGS_S", "3600"))
IN_FULL = "LAB_RIGS_S" in os.environ
"""Then the fixed costs of a start are what they are in life: little."""
GATE = "gate"
"""Where it exists in the folder of a rig, workers do not rest any more."""
WITHIN = 1.03
PER_S = {"fast": 30_000, "slow": 5_000}
RIGS = {"fast": [Gpu("RTX 3080 Ti", 12288)] * 2, "slow": [Gpu("RX 6600", 8192)] * 12}
KINDS = ("fast", "slow", "slow")
FLEET_PER_S = sum(PER_S[kind] * len(RIGS[kind]) for kind in KINDS)
REST_S = 600.0


@pytest.fixture
def lab() -> Iterator[Datacentre]:
    with datacentre.running(*(RIGS[kind] for kind in KINDS)) as made:
        yield made


@pytest.mark.long
def test_a_sweep_on_twenty_six_gpus(lab: Datacentre, tmp_path: Path) -> None:
    stop = int(FLEET_PER_S * SECONDS)
    planted = [stop * at // 10 for at in range(10)]
    with a_fleet(tmp_path) as fleet:
        (tmp_path / "search").mkdir()
        shutil.copy(Path(__file__).with_name("worker.py"), tmp_path / "search")
        fleet.settle(
            name="rigs",
            ssh={"config": [], "known_hosts": []},
            nodes=[
                {**node, "env": {"MODEL": kind}}
                for node, kind in zip(lab.fleet(cpu_slots=0, canary="none"), KINDS, strict=True)
            ],
            sweeps=[
                {
                    "name": "search",
                    "worker": ["{python}", "worker.py"],
                    "cwd": "search",
                    "range": [0, stop],
                    "params": {"planted": planted, "per_s": PER_S, "until": f"{LAB}/{GATE}"},
                }
            ],
        )
        assert command("node", "trust", "--state-dir", fleet.state, fleet.file, "--yes").status == 0
        up = fleet.launch("--until-idle")
        if not IN_FULL:
            until(lambda: len(finished_on(fleet)) == 26, "a chunk of every GPU", log=fleet.log)
            for rig in lab.hosts:
                (rig.folder / GATE).touch()
        try:
            assert up.wait(REST_S + (SECONDS if IN_FULL else 0)) == 0, fleet.log()
        except subprocess.TimeoutExpired:
            why = command("explain", "search", "--state-dir", fleet.state).out
            pytest.fail(f"it does not end: {why}\n{fleet.log()}")
        run = read(fleet.state, "j1", stop, planted)
    told = (
        f"26 GPUs: bound {run.bound_s:.1f} s, {run.ratio(run.began_at):.4f} of it from the first chunk on, "
        f"{run.ratio(run.up_at):.4f} with the start of controller and agents"
    )
    print(told)
    assert len(run.items) == 26
    if IN_FULL:
        check_balance(run)
        assert run.ratio(run.up_at) <= WITHIN, told


def finished_on(fleet: Fleet) -> set[str]:
    """Devices that have finished a chunk; none before the controller answers."""
    with contextlib.suppress(LinkError):
        newest, leased, found = fleet.client.status()["seq"], dict[str, str](), set[str]()
        for entry in fleet.client.events(0):  # without end: what comes later is not waited for
            event = entry["event"]
            if event["kind"] == "chunk.leased":
                leased[event["chunk"]] = event["device"]
            elif event["kind"] == "chunk.done":
                found.add(leased[event["chunk"]])
            if entry["seq"] >= newest:
                break
        return found
    return set()


def check_balance(run: Run) -> None:
    """Every device has its part. No more can be asked of a busy machine than that none has half of it, or double."""
    for device, items in run.items.items():
        per_s = PER_S[KINDS[int(device.split("/")[0].removeprefix("rig-"))]]
        assert 0.5 < items / sum(run.items.values()) / (per_s / FLEET_PER_S) < 2, (device, run)
