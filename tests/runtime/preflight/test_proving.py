"""All of it together: real files, a real model server, a cluster of processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hostler.model.errors import LinkLost
from hostler.model.rl import RlPlan, Share
from hostler.runtime.preflight import Allows, Proof, RayCluster, prove, proving, status_of
from hostler.runtime.preflight.clusters import prove_cluster
from hostler.runtime.preflight.proof import STATUSES, error, ok, unknown
from hostler.settings import load, rl_plan
from tests.patience import PATIENCE_S
from tests.runtime.preflight.clusters import Local
from tests.runtime.preflight.models import Model, served

ORDER = "schema: 1\ngame: keyrooms\nrom: keyrooms\ntraining: {steps: 1000}\n"
LEAST = "order: order.yaml, runners: 3, envs_per_runner: 8, batch_steps: 4096, frame_skip: 8"


def proofs(
    tmp_path: Path,
    rl: str,
    *,
    stores: str = "",
    cluster: RayCluster | None = None,
    allows: Allows | None = None,
    longest_s: float = PATIENCE_S,
) -> dict[str, Proof]:
    """By code."""
    (tmp_path / "order.yaml").write_text(ORDER)
    path = tmp_path / "fleet.yaml"
    path.write_text(f"nodes: [{{name: here}}]\nstate_dir: state\nrl: {{{LEAST}, {rl}}}\n{stores}")
    loaded = load(path, {})
    plan = rl_plan(loaded, None, Share(cpus=4, memory_gb=8))
    told = asyncio.run(prove(loaded, plan, {}, cluster=cluster, allows=allows, longest_s=longest_s))
    order = [list(STATUSES).index(each.check) for each in told]
    assert order == sorted(order)
    return {each.code: each for each in told}


RAY = "cluster: {kind: ray, address: 'http://head:8265', version: '2.60'}, hosts: [{name: h, cpus: 8}]"


def test_a_training_on_this_machine_is_proved(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "nas").mkdir()
    with served(Model()) as model:
        told = proofs(
            tmp_path,
            f"checkpoints: kept, advice: {{endpoint: '{model.url}'}}",
            stores="stores: [{name: nas, kind: directory, path: nas}]\n",
        )
    assert set(told) == {"cluster-ok", "game-ok", "store-ok", "advice-ok"}
    assert status_of(told.values()) == 0
    assert not (tmp_path / "state").exists()


def test_a_cluster_is_proved_from_every_node(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    cluster = Local(folders={"head": shared, "w1": shared}, meant=str(shared))
    told = proofs(tmp_path, f"{RAY}, checkpoints: {shared}", cluster=cluster)
    assert set(told) == {"cluster-ok", "version-ok", "game-ok", "store-ok"}
    assert told["cluster-ok"].says == "2 nodes with 8 CPUs live, 4 are asked for"
    assert told["version-ok"].says.startswith("Ray 2.60.0; 2 nodes have Python 3.")


def test_versions_and_rooms_that_differ_fail(tmp_path: Path) -> None:
    cluster = Local(folders={"head": tmp_path}, meant=str(tmp_path), found="2.9.3", cpus=2)
    told = proofs(tmp_path, RAY, cluster=cluster)
    assert "the cluster has Ray 2.9.3, 2.60 is expected" in told["version-other"].says
    assert "1 nodes with 2 CPUs live, 4 are asked for" in told["cluster-small"].says
    assert status_of(told.values()) == 10


def test_runners_lie_on_one_node_each_whatever_the_sum_says(tmp_path: Path) -> None:
    halves = Local(folders={"head": tmp_path, "w1": tmp_path, "w2": tmp_path}, meant=str(tmp_path), cpus=1.5)
    told = proofs(tmp_path, RAY, cluster=halves)["cluster-split"]
    assert "3 nodes with 4.5 CPUs live, and on them room for 2 runners with 1 CPU each" in told.says
    assert "2 runners" in told.fix
    learner = Local(folders={"head": tmp_path, "w1": tmp_path}, meant=str(tmp_path), cpus=4.0)
    told = proofs(tmp_path, f"{RAY}, learner_cpus: 5", cluster=learner)["cluster-split"]
    assert "room for 0 runners with 1 CPU each, beside a learner with 5 on one" in told.says


def test_a_cluster_that_nobody_can_ask_is_not_proved(tmp_path: Path) -> None:
    told = proofs(tmp_path, RAY)
    assert told["cluster-unknown"].health == "unknown"
    assert status_of(told.values()) == 9
    away = proofs(tmp_path, RAY, cluster=Local(folders={}, meant="", away=True))
    assert away["cluster-unreached"].health == "error"


def test_what_is_not_named_is_not_proved(tmp_path: Path) -> None:
    told = proofs(tmp_path, "advice: {latency_s: 2.0}")
    assert "nobody is named who gives it" in told["advice-unknown"].says
    assert "what is learnt is lost with its node" in told["store-unknown"].says


def test_stores_are_those_that_are_named(tmp_path: Path) -> None:
    stores = (
        "stores: [{name: nas, kind: directory, path: missing}, {name: far, kind: node, node: here, path: /nowhere}]\n"
    )
    told = proofs(tmp_path, "stores: [other]", stores=stores)
    assert "there is no store 'other'; there are: nas, far" in told["store-unnamed"].says
    both = proofs(tmp_path, "advice: {latency_s: 2.0}", stores=stores)
    assert both["store-unreached"].health == "error"


def test_a_key_that_is_not_there_is_told(tmp_path: Path) -> None:
    told = proofs(tmp_path, "advice: {endpoint: 'http://127.0.0.1:1', key_env: NO_SUCH_KEY}")
    assert "NO_SUCH_KEY holds no key" in told["advice-key"].says


@dataclass
class Kubernetes:
    """What Kubernetes says, or that it does not."""

    says: Sequence[Proof] | None

    async def proofs(self, plan: RlPlan) -> Sequence[Proof]:
        if self.says is None:
            raise LinkLost("the API server does not answer")
        return self.says


def test_kubernetes_says_what_it_allows(tmp_path: Path) -> None:
    rl = "cluster: {kind: kuberay}, hosts: [{name: h, cpus: 8}]"
    refused = error("quota", "short", "the queue has 30 CPUs, 48 are asked for", "ask for fewer")
    told = proofs(tmp_path, rl, allows=Kubernetes([ok("queue", "rl-queue is there"), refused]))
    assert {"queue-ok", "quota-short"} <= told.keys()
    assert status_of(told.values()) == 16
    assert proofs(tmp_path, rl, allows=Kubernetes(None))["rbac-unreached"].health == "error"
    assert proofs(tmp_path, rl)["rbac-unknown"].health == "unknown"


def test_a_store_that_hangs_keeps_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = threading.Event()
    monkeypatch.setattr("hostler.runtime.preflight.proving.prove_folder_here", lambda _: hanging.wait(PATIENCE_S))
    within = proving._within

    def hasty(way: Any, longest_s: float) -> Any:
        return within(way, 0.05 if way.check == "store" else longest_s)

    monkeypatch.setattr(proving, "_within", hasty)
    try:
        told = proofs(tmp_path, "checkpoints: kept")
    finally:
        hanging.set()
    assert "the folder of the checkpoints did not answer within 0.05 s" in told["store-hangs"].says
    assert "game-ok" in told


def test_the_first_check_that_fails_gives_the_status() -> None:
    assert status_of([]) == 0
    assert status_of([ok("game", "x"), unknown("store", "x", "y")]) == 9
    assert status_of([error("advice", "x", "x", "y"), error("game", "x", "x", "y"), unknown("store", "x", "y")]) == 12
    assert len(set(STATUSES.values())) == len(STATUSES)


def test_a_cluster_of_kuberay_comes_with_the_job() -> None:
    plan = RlPlan(cluster="kuberay", hosts=(), runners=1, envs_per_runner=1, frame_skip=1, batch_steps=1)
    assert asyncio.run(prove_cluster(plan, None, None))[0].health == "ok"
