"""What the partitions of one cluster have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.backends.packing import Packer
from hostler.backends.slurm import Cluster
from hostler.backends.slurm.budget import Budget
from hostler.backends.ssh import Habits, Network, Target
from hostler.runtime import clusters as module
from hostler.runtime.clock import SteadyClock
from hostler.runtime.clusters import Clusters
from hostler.runtime.statedir import StateDir
from hostler.settings.nodes import Node
from hostler.settings.slurm import Slurm

LOGIN, OTHER = Target(host="login"), Target(host="other")


@pytest.fixture
def budgets(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The budgets that were made, by their calls per minute."""
    made: list[int] = []

    def budget(clock: Any, per_minute: int, chance: Any) -> Budget:
        made.append(per_minute)
        return Budget(clock, per_minute, chance)

    monkeypatch.setattr(module, "Budget", budget)
    return made


def made(path: Path) -> Clusters:
    habits = Habits(config=(), known_hosts=(), handshakes=1, connect_s=1.0, keepalive_s=1.0)
    return Clusters(StateDir(path), Network(habits), Packer(skip=path), SteadyClock(), "c")


def partition(name: str, python: str | None = None, **slurm: Any) -> Node:
    asked = Slurm(shared_root="/shared", calls_per_minute=9, **slurm)
    return Node(name=name, backend="slurm", host="login", python=python, slurm=asked)


def cluster(of: Clusters, node: Node, target: Target | None) -> Cluster:
    return of.cluster(node, of.login(node, target))


def test_partitions_are_of_one_cluster_whatever_runs_their_work(tmp_path: Path, budgets: list[int]) -> None:
    it = made(tmp_path)
    first, second = partition("gpu", "/opt/py/bin/python"), partition("cpu", "python3.12")
    assert it.login(first, LOGIN).python == "/opt/py/bin/python"
    assert it.login(second, LOGIN) == it.login(first, LOGIN)
    assert cluster(it, first, LOGIN) is cluster(it, second, LOGIN)
    assert budgets == [9]


def test_several_folders_on_one_login_node_share_how_often_it_is_asked(tmp_path: Path, budgets: list[int]) -> None:
    it = made(tmp_path)
    first, second = partition("gpu"), partition("cpu", job_dir="/elsewhere")
    assert cluster(it, first, LOGIN) is not cluster(it, second, LOGIN), "each folder has a desk of its own"
    assert budgets == [9]


def test_other_login_nodes_are_other_clusters(tmp_path: Path, budgets: list[int]) -> None:
    it, node = made(tmp_path), partition("gpu")
    assert len({id(cluster(it, node, target)) for target in (LOGIN, OTHER, None)}) == 3
    assert budgets == [9, 9, 9]
