"""What we tell Slurm and read from it, against a real one (tests/slurm)."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from hostler.backends.slurm.commands import Slurm
from hostler.backends.slurm.errors import NoAccounting, SlurmDown, SlurmRefused
from hostler.backends.slurm.options import Options
from hostler.backends.slurm.resources import Errand, Place, options
from hostler.backends.slurm.script import Script, Site, render
from hostler.backends.slurm.states import Outcome, Phase, verdict
from hostler.model.batch import SHARES, Ask
from hostler.model.work import BatchOptions, DeviceKind, WorkKind
from tests.patience import PATIENCE_S
from tests.slurm.lab import Lab

from .running import Here, Wound, names_of, slurm as cluster_of

T = TypeVar("T")


def cluster(lab: Lab) -> Slurm:
    runs = Here()
    runs.env = {**lab.env, "SQUEUE_FORMAT": "%i", "SBATCH_JOB_NAME": "mine", "SBATCH_WAIT": "1"}
    return cluster_of(runs, Wound(time.time()))[0]


def asked(tmp_path: Path, name: str, tasks: int | None = None, **wishes: object) -> Options:
    wants = BatchOptions(**{"cpus": 1, "memory_gb": 0.1, "time_s": 3600.0, **wishes})  # type: ignore[arg-type]
    ask = Ask(work=WorkKind.SELFPLAY, kind=DeviceKind.CPU, devices=1, options=wants)
    folder = tmp_path / "50% of %j"
    folder.mkdir(exist_ok=True)
    errand = Errand(name=name, comment=f"hostler:{name}", folder=str(folder), chdir=str(tmp_path), tasks=tasks)
    return options(ask, Place(partition="cpu-eval", shares=SHARES, array_limit=2), errand)


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "script.sh"
    path.write_text(f"#!/bin/bash\n{text}\n")
    return str(path)


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            seen = await look()
            if seen is not None:
                return seen
            await asyncio.sleep(0.2)


async def test_a_job_is_found_watched_and_told_of_by_all(slurm_accounted: Lab, tmp_path: Path) -> None:
    there = cluster(slurm_accounted)
    since = time.time()
    job = await there.submit(asked(tmp_path, "hostler-one"), script(tmp_path, "echo $HOME:$FOO; exit 3"))
    assert await there.find("hostler-one", since) == (job,)
    assert await there.find("hostler", since) == ()

    async def ended() -> bool | None:
        (row,) = [row for row in (await there.queue()).rows if row.job == job]
        assert (row.name, row.comment, row.partition) == ("hostler-one", "hostler:hostler-one", "cpu-eval")
        return row.state.over or None

    await until(ended)

    async def kept() -> bool | None:
        rows = [row for row in (await there.accounting([job], since)).rows if row.state.over]
        return [(row.name, row.status, row.state.outcome) for row in rows] == [
            ("hostler-one", 3, Outcome.FAILED)
        ] or None

    await until(kept)
    (record,) = (await there.jobs([job, "999999"])).rows
    assert (record.status, record.restarts, record.requeue) == (3, 0, False)
    assert record.started is not None
    assert math.floor(since) <= record.started <= time.time()  # Slurm rounds down
    (output,) = (tmp_path / "50% of %j").iterdir()
    assert output.name == f"slurm-{job}.out"
    assert output.read_text().endswith(":\n")


async def test_an_array_of_which_one_task_is_cancelled(slurm: Lab, tmp_path: Path) -> None:
    there = cluster(slurm)
    array = await there.submit(asked(tmp_path, "hostler-many", tasks=5), script(tmp_path, "sleep 600"))

    async def two_run() -> bool | None:
        rows = (await there.queue()).rows
        assert sorted(name for row in rows for name in names_of(row)) == [f"{array}_{task}" for task in range(5)]
        return sum(len(names_of(row)) for row in rows if row.state.phase is Phase.RUNNING) == 2 or None

    await until(two_run)
    await there.cancel([f"{array}_4", f"{array}_1", "999999"])

    async def gone() -> bool | None:
        states = {name: row.state.outcome for row in (await there.queue()).rows for name in names_of(row)}
        assert states.keys() >= {f"{array}_{task}" for task in range(4)}
        return (f"{array}_4" not in states and states[f"{array}_1"] is Outcome.CANCELLED) or None

    await until(gone)
    assert await there.find("hostler-many", 0.0) == (array,)
    tasks = {row.tasks: row.state.phase for row in (await there.jobs([array])).rows}
    assert tasks[(0,)] is Phase.RUNNING
    await there.cancel([array])


async def test_only_what_runs_is_signalled_and_at_once(slurm: Lab, tmp_path: Path) -> None:
    there = cluster(slurm)
    text = "trap 'echo told; exit 7' USR1; echo ready; while true; do sleep 0.1; done"
    runs = await there.submit(asked(tmp_path, "hostler-runs"), script(tmp_path, text))
    waits = await there.submit(asked(tmp_path, "hostler-waits", extra=("--begin=now+1hour",)), script(tmp_path, text))
    output = tmp_path / "50% of %j" / f"slurm-{runs}.out"

    async def ready() -> bool | None:
        return (output.exists() and "ready" in output.read_text()) or None

    await until(ready)
    await there.cancel([runs, waits], "USR1")

    async def told() -> int | None:
        (record,) = (await there.jobs([runs])).rows
        return record.status if record.state.over else None

    assert await until(told) == 7
    (record,) = (await there.jobs([waits])).rows
    assert record.state.phase is Phase.WAITING


async def test_a_job_that_is_requeued_is_not_over(slurm_accounted: Lab, tmp_path: Path) -> None:
    there = cluster(slurm_accounted)
    since = time.time()
    job = await there.submit(asked(tmp_path, "hostler-again", requeue=True), script(tmp_path, "sleep 600"))
    slurm_accounted.wait_for(job, "RUNNING")
    slurm_accounted.said("scontrol", "requeue", job)
    for _ in range(10):
        (row,) = [row for row in (await there.queue()).rows if row.job == job]
        rows = (await there.accounting([job], since)).rows
        stands = verdict(row.state, rows[0].state if rows else None)
        assert stands is not None
        assert not stands.over
        await asyncio.sleep(0.1)
    (record,) = (await there.jobs([job])).rows
    assert (record.restarts, record.requeue) == (1, True)


async def test_what_cannot_be_is_refused_and_what_is_down_is_not(slurm: Lab, tmp_path: Path) -> None:
    there = cluster(slurm)
    plain = asked(tmp_path, "hostler-none")
    for wrong, setting in (
        (replace(plain, partition="nowhere"), "partition"),
        (replace(plain, constraint="riscv"), "slurm.constraint"),
        (replace(plain, reservation="nothing"), "slurm.reservation"),
        (replace(plain, gpus=1, gpu_type="h100"), "slurm.resources"),
        (replace(plain, memory_gb=9e5), "slurm.resources"),
        (replace(plain, extra=("--no-such-thing",)), "slurm.extra"),
        (replace(plain, tasks=100_000), "slurm.max_jobs"),
    ):
        with pytest.raises(SlurmRefused) as refused:
            await there.submit(wrong, script(tmp_path, "true"))
        assert refused.value.setting == setting
    with pytest.raises(NoAccounting) as missing:
        await there.accounting(["1"], 0.0)
    assert not missing.value.configured
    slurm.slurmctld.stop()
    with pytest.raises(SlurmDown) as down:
        await there.submit(plain, script(tmp_path, "true"))
    assert not down.value.unknown
    with pytest.raises(SlurmDown):
        await there.ping()
    slurm.start_slurmctld()
    assert "UP" in await there.ping()


async def test_the_nodes_and_the_rules_of_a_cluster(slurm: Lab) -> None:
    there = cluster(slurm)
    slurm.node_down("cpu-1", "new fans, | at last")
    nodes = {(row.partition, row.node): row for row in (await there.nodes(["gpu-train", "cpu-eval"])).rows}
    h100 = nodes["gpu-train", "gpu-h1"]
    assert (h100.gres[0].type, h100.gres[0].count, h100.used[0].count, h100.usable) == ("h100", 2, 0, True)
    down = nodes["cpu-eval", "cpu-1"]
    assert (down.state, down.usable, down.reason) == ("down", False, "new fans, | at last")
    partitions = {row.name: row for row in (await there.partitions()).rows}
    assert {"gpu-train", "gpu-selfplay", "cpu-eval", "gpu-gh200"} <= set(partitions)
    assert partitions["gpu-train"].tres["node"] == "2"
    config = await there.config()
    assert int(config["MaxArraySize"]) > 1
    assert await there.version() >= (21,)  # type: ignore[operator]  # a version it must be


async def test_the_script_runs_in_an_environment_that_has_nothing_of_ours(slurm: Lab, tmp_path: Path) -> None:
    shared = tmp_path / "shared root"
    shared.mkdir()
    python = tmp_path / "python3"
    python.write_text('#!/bin/bash\npwd\necho "$@"\necho "[${LEAK:-}] [${SLURM_EXPORT_ENV:-}] ${HOME:?} ${PATH:?}"\n')
    python.chmod(0o755)
    site = Site(folder=str(shared), python=str(python), setup=('echo "setup $UNSET"',))
    made = Script(site=site, agent=f"{shared}/agent.pyz", root=str(shared), token="t-1", idle_s=0.0)
    path = tmp_path / "batch.sh"
    path.write_text(render(made))
    there = cluster(slurm)
    there._runs.env["LEAK"] = "leaked"  # type: ignore[attr-defined]  # the environment of who submits
    job = await there.submit(asked(tmp_path, "hostler-script"), str(path))
    slurm.wait_for(job, "COMPLETED")
    lines = (tmp_path / "50% of %j" / f"slurm-{job}.out").read_text().splitlines()
    assert lines[:3] == ["setup ", str(shared), f"{shared}/agent.pyz berth --root {shared} --token t-1 --idle-s 0"]
    assert lines[3].startswith("[] [] /")
