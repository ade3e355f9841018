"""Clusters on the command line: pools among the nodes, what is found of a cluster, what a fleet file says of one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostler.backends.slurm.finding import Finding
from hostler.backends.slurm.smoke import Smoked
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.inputs import NodeFound, PoolSeen, Requested, Submitted
from hostler.model.pools import BatchTask, Pool, Seen, SlotPhase, SlotSeen, Span, Supply
from hostler.model.work import DeviceKind, WorkKind
from tests.cli.conftest import Hostler
from tests.web.core_desk import Window

HOSTILE = "PENDING (x\x1b[2J\n)"


def pool(slots: int = 6) -> NodeSpec:
    devices = tuple(
        DeviceSpec(id=f"gpus/cuda{at}", node="gpus", kind=DeviceKind.CUDA, index=at, model="h100", vram_gb=80.0)
        for at in range(slots)
    )
    return NodeSpec(name="gpus", backend="slurm", devices=devices, pool=Pool(partition="gpus", max_pending=8))


def slot(phase: SlotPhase, job: str | None, says: str, began_s: float | None = None) -> SlotSeen:
    now = time.time()
    began = None if began_s is None else now - began_s
    ends = None if began is None else began + 7200
    return SlotSeen(phase=phase, job=job, says=says, asked_at=now - 600, began_at=began, ends_at=ends)


def four() -> dict[str, SlotSeen]:
    """As they are now: ages are counted from here."""
    return {
        "cuda0": slot(SlotPhase.UP, "820_0", "RUNNING on gpu-h1", began_s=300),
        "cuda1": slot(SlotPhase.UP, "820_1", "RUNNING on gpu-h1", began_s=300),
        "cuda2": slot(SlotPhase.WAITING, "823", HOSTILE),
        "cuda3": slot(SlotPhase.UNKNOWN, "824", "FROBNICATING"),
    }


def see(
    served: Window, ago_s: float = 0.0, slots: Mapping[str, SlotSeen] | None = None, trouble: str | None = None
) -> None:
    supply = Supply(idle=3, used=5, down=2, hosts=5, hosts_down=1)
    seen = Seen(at=time.time() - ago_s, slots=four() if slots is None else slots, supply=supply, trouble=trouble)
    served.tell(NodeFound(node=pool()), PoolSeen(node="gpus", seen=seen))


def row(hostler: Hostler, *words: str) -> str:
    return next(line for line in hostler("node", "list", *words).out.splitlines() if line.startswith("gpus "))


def test_a_pool_is_one_line_among_the_nodes(served: Window, hostler: Hostler) -> None:
    served.tell(NodeFound(node=pool()))
    assert row(hostler).endswith("6 h100  not seen yet")
    see(served)
    said = hostler("node", "list")
    assert "2 up, 1 wait (max 8)" in row(hostler)
    assert all(line.isprintable() and len(line) <= 80 for line in said.out.splitlines())


def test_what_was_seen_long_ago_is_told_with_its_age(
    served: Window, hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    see(served, ago_s=600, trouble="slurmctld does not answer")
    assert "gpus: as seen 10m ago: slurmctld does not answer" in hostler("node", "list").out
    assert "seen 10m ago" in hostler("node", "show", "gpus").out.splitlines()
    monkeypatch.setenv("COLUMNS", "200")
    assert row(hostler).endswith("2 up, 1 wait (max 8), 1 unknown, seen 10m ago")
    see(served, ago_s=600, slots={})
    assert row(hostler).endswith("0 up, 0 wait (max 8)"), "where nothing is asked for, nothing is looked at"


def test_a_pool_by_its_name_has_a_line_for_each_slot(served: Window, hostler: Hostler) -> None:
    see(served)
    batch = Requested(
        node="gpus",
        token="hostler-gpus-1",
        mode="array",
        tasks=(BatchTask(slot="cuda0"),),
        wants="gpus: 1 × h100",
        time=Span(seconds=3600.0, longest=False, saves=False),
    )
    served.tell(batch, Submitted(node="gpus", token="hostler-gpus-1", job="820"))
    said = hostler("node", "show", "gpus")
    lines = said.out.splitlines()
    assert said.status == 0
    assert all(line.isprintable() and len(line) <= 80 for line in lines)
    told = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("cuda")}
    assert told["cuda0"][:4] == ["820_0", "up", "5m", "2h"]
    assert told["cuda2"][:4] == ["823", "waiting", "10m", "-"]
    assert told["cuda3"][:2] == ["824", "unknown"]
    assert "FROBNICATING" in lines[lines.index(next(line for line in lines if line.startswith("cuda3")))]
    assert "2 slots more without a job; of its GPUs 3 are idle and 5 used by anybody, 2" in " ".join(lines)
    assert "hostler-gpus-1: array, 1 task, job 820: gpus: 1 × h100" in lines


FOUND = [
    Finding("this machine", "login", "ok", "me on login within 0.1 s"),
    Finding("gpus", "hosts", "warning", "1 of 2 can be used: " + "gpu-1 down (its fan), " * 5, "sinfo -R tells why"),
    Finding("gpus", "shared", "error", "\x1b[2J", "name a folder"),
]
ROWS = [
    Smoked(node="gpus", work=WorkKind.TRAINING, job="7", waited_s=3.2, ran_s=1.0, result="ok", says="on gpu-1, GPU 0"),
    Smoked(node="gpus", work=WorkKind.SELFPLAY, result="waited", says="job 8 had not begun", fix="run this again"),
]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    return written(tmp_path, {"name": "gpus"})


def written(folder: Path, *nodes: Mapping[str, Any], state: str = "state", **slurm: Any) -> str:
    path = folder / "fleet.yaml"
    shared = {"shared_root": str(folder), **slurm}
    listed = [{"backend": "slurm", "slurm": dict(shared), **node} for node in nodes]
    path.write_text(yaml.safe_dump({"state_dir": state, "nodes": listed}))
    return str(path)


def test_findings_and_what_to_do(hostler: Hostler, fleet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def checked(*_: object) -> list[Finding]:
        return FOUND

    monkeypatch.setattr("hostler.runtime.visits.checked", checked)
    said = hostler("slurm", "check", fleet)
    assert said.status == 1
    lines = said.out.splitlines()
    assert all(line.isprintable() and len(line) <= 80 for line in lines)
    assert lines[1].split(maxsplit=4)[2:4] == ["login", "ok"]
    assert "gpu-1 down (its fan), : sinfo -R tells why" in " ".join(said.out.split()), "what had no room is told below"
    assert [each["health"] for each in hostler("slurm", "check", fleet, "--json").json] == ["ok", "warning", "error"]


def test_without_errors_the_status_is_0(hostler: Hostler, fleet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def checked(*_: object) -> list[Finding]:
        return FOUND[:2]

    monkeypatch.setattr("hostler.runtime.visits.checked", checked)
    assert hostler("slurm", "check", fleet).status == 0


def test_a_row_for_each_tiny_job(hostler: Hostler, fleet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def smoked(*_: object) -> Sequence[Smoked]:
        return ROWS

    monkeypatch.setattr("hostler.runtime.visits.smoked", smoked)
    said = hostler("slurm", "smoke", fleet)
    assert said.status == 1
    lines = said.out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].split() == ["gpus", "training", "7", "3s", "1s", "ok", "on", "gpu-1,", "GPU", "0"]
    assert lines[3:] == ["gpus selfplay: job 8 had not begun: run this again", "1 of 2 jobs went through"]
    assert hostler("slurm", "smoke", fleet, "--json").json[0]["work"] == "training"


def test_what_could_not_be_cancelled_is_told(hostler: Hostler, fleet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def checked(_loaded: object, _nodes: object, _wait: float, left: list[str]) -> list[Finding]:
        left.append("823")
        return []

    monkeypatch.setattr("hostler.runtime.visits.checked", checked)
    assert "scancel 823" in hostler("slurm", "check", fleet).err


def test_a_fleet_without_a_cluster(hostler: Hostler, tmp_path: Path) -> None:
    file = tmp_path / "none.yaml"
    file.write_text("nodes: [{name: here}]\n")
    said = hostler("slurm", "smoke", str(file))
    assert (said.status, "backend: slurm" in said.err) == (2, True)


def test_check_tells_how_models_come_to_a_cluster(hostler: Hostler, tmp_path: Path) -> None:
    said = hostler("check", written(tmp_path, {"name": "a"}, {"name": "b"}))
    assert (said.status, f"note: a, b: models and data are not copied: the state directory lies in {tmp_path}") == (
        0,
        next(line for line in said.out.splitlines() if line.startswith("note")),
    )
    assert [each.name for each in tmp_path.iterdir()] == ["fleet.yaml"], "the probe is gone"
    said = hostler("check", written(tmp_path, {"name": "a"}, state="/elsewhere"))
    assert f"sent to {tmp_path}; one whose state_dir lies in {tmp_path} copies none" in said.out
    said = hostler("check", written(tmp_path, {"name": "a", "host": "login"}))
    assert (said.status, "models and data are sent to login" in said.out) == (0, True)


def test_check_finds_a_shared_folder_that_is_not_there(hostler: Hostler, tmp_path: Path) -> None:
    said = hostler("check", written(tmp_path, {"name": "a"}, shared_root="/proc/nope"))
    assert said.status == 1
    assert "wrong: a: /proc/nope cannot be written here: No such file or directory; name a folder in" in said.out
    assert hostler("check", written(tmp_path, {"name": "a", "host": "login"}, shared_root="/proc/nope")).status == 0
