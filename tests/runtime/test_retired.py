"""Nodes that were taken out of the fleet file: through what they are reached, if at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from hostler.backends.base import Backend
from hostler.backends.local import LocalNode
from hostler.backends.slurm import RetiredApartPool, RetiredPool
from hostler.model.errors import LinkRefused
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Input, Trouble
from hostler.model.pools import Batch, Span
from hostler.runtime.clock import SteadyClock
from hostler.runtime.dialin import switchboard
from hostler.runtime.elsewhere import Forgotten
from hostler.runtime.nodes import reaching
from hostler.runtime.statedir import StateDir
from hostler.settings import load

SHARED = "- {name: cpu, backend: slurm, slurm: {shared_root: SHARED}}"
FAR = "- {name: cpu, backend: slurm, host: login, slurm: {shared_root: /far}}"
ALONE = "- {name: here, backend: local}"
GONE = NodeSpec(name="gpu", backend="slurm", devices=())


async def _retired(path: Path, nodes: str, known: NodeSpec, agent: str | None) -> Backend:
    (path / "fleet.yaml").write_text(f"state_dir: state\nnodes:\n{nodes.replace('SHARED', str(path))}\n")
    loaded = load(path / "fleet.yaml", {})
    loaded.state_dir.mkdir()
    directory = StateDir(loaded.state_dir)
    async with reaching(loaded, directory, switchboard(loaded, directory), SteadyClock()) as reached:
        return reached.retired(known, agent)


@pytest.mark.parametrize(
    ("nodes", "kind"), [(SHARED, RetiredPool), (FAR, RetiredApartPool), (ALONE, Forgotten)], ids=["here", "far", "none"]
)
async def test_a_partition_goes_through_another_one_of_its_cluster(tmp_path: Path, nodes: str, kind: type) -> None:
    made = await _retired(tmp_path, nodes, GONE, "/far/agent")
    assert type(made) is kind
    if isinstance(made, RetiredPool):
        assert (made.name, made.agent) == ("gpu", "/far/agent")


async def test_what_is_no_partition_is_as_ever(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    there, here = NodeSpec(name="n", backend="ssh", devices=()), NodeSpec(name="n", backend="local", devices=())
    assert type(await _retired(tmp_path / "a", SHARED, there, None)) is Forgotten
    assert type(await _retired(tmp_path / "b", SHARED, here, None)) is LocalNode


async def test_of_the_clusters_the_one_that_has_the_folder_is_taken(tmp_path: Path) -> None:
    other = SHARED.replace("cpu", "other").replace("shared_root: SHARED", "shared_root: /, job_dir: /elsewhere")
    (tmp_path / "fleet.yaml").write_text(f"state_dir: state\nnodes:\n{FAR}\n{other}\n")
    loaded = load(tmp_path / "fleet.yaml", {})
    loaded.state_dir.mkdir()
    directory = StateDir(loaded.state_dir)
    async with reaching(loaded, directory, switchboard(loaded, directory), SteadyClock()) as reached:
        folder = f"/elsewhere/{directory.identity()}"
        made = reached.retired(GONE, folder)
        there = reached.nodes["other"]
    assert made._cluster is there._cluster  # type: ignore[attr-defined]


async def test_what_a_cluster_has_that_nobody_knows_is_told_once() -> None:
    time = Span(seconds=60.0, longest=False, saves=False)
    batch = Batch(token="t", node="gpu", mode="job", tasks=(), wants="", time=time, requested_at=1.0, job="823")
    node = Forgotten("gpu", "slurm", SteadyClock())
    node.remember([])
    node.remember([batch])
    (said,) = await _told(node)
    assert "job 823 (`scancel -n t`)" in said.what
    assert await _told(node) == []


async def _told(node: Forgotten) -> list[Trouble]:
    told: list[Input] = []
    with suppress(LinkRefused):
        async for report in node.observe(1):
            told += report.inputs
    return [each for each in told if isinstance(each, Trouble)]
