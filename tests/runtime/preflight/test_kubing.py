"""What Kubernetes allows, asked of an API server on loopback through lightkube."""

from __future__ import annotations

import asyncio
import builtins
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hostler.model.errors import LinkError
from hostler.model.rl import RlPlan
from hostler.runtime.preflight import Proof
from hostler.runtime.preflight.kubing import Kubernetes
from hostler.settings import load
from tests.backends.kuberay.conftest import world

if TYPE_CHECKING:
    from tests.backends.kuberay.apiserver import World

__all__ = ["world"]

PLAN = RlPlan(cluster="kuberay", hosts=(), runners=6, envs_per_runner=8, frame_skip=8, batch_steps=4096)
KUEUE = "kueue.x-k8s.io/v1beta1"
RL = {
    "runners": 6, "envs_per_runner": 8, "batch_steps": 4096, "frame_skip": 8,
    "cluster": {"kind": "kuberay", "version": "2.60"}, "hosts": [{"name": "box", "cpus": 16}],
}  # fmt: skip
KUBERAY = {
    "name": "keys", "namespace": "rl", "image": "registry.example.org/rl:1", "ray_version": "2.60.0",
    "entrypoint": ["python", "-V"], "workers": [{"name": "cpu", "replicas": 3, "cpus": 2, "memory_gb": 4}],
}  # fmt: skip


def told(folder: Path, plan: RlPlan = PLAN, **kuberay: Any) -> dict[str, Proof]:
    """What is proved, by code."""
    path = folder / "fleet.yaml"
    path.write_text(json.dumps({"rl": RL, "kuberay": {**KUBERAY, **kuberay}}))
    return {each.code: each for each in asyncio.run(Kubernetes(load(path, {})).proofs(plan))}


def queues(world: World, cpu: str, used: str = "0", **spec: Any) -> None:
    """A LocalQueue `research`, and the ClusterQueue behind it."""
    local = {"metadata": {"name": "research", "namespace": "rl"}, "spec": {"clusterQueue": "all"}}
    world.put(KUEUE, "localqueues", {"apiVersion": KUEUE, "kind": "LocalQueue", **local})
    amounts = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "1Ti"}]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default", "resources": amounts}]}]
    reserved = [{"name": "default", "resources": [{"name": "cpu", "total": used}]}]
    whole: Any = {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "all"}}
    whole |= {"spec": {"resourceGroups": groups, **spec}, "status": {"flavorsReservation": reserved}}
    world.put(KUEUE, "clusterqueues", whole)


def quota(world: World, used: dict[str, str], **hard: str) -> None:
    metadata = {"name": "ours", "namespace": "rl"}
    named = {name.replace("_", "."): amount for name, amount in hard.items()}
    made = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": named}}
    world.put("v1", "resourcequotas", {**made, "status": {"hard": named, "used": used}})


def test_a_cluster_that_takes_it_is_proved_and_left_as_it_was(world: World, tmp_path: Path) -> None:
    queues(world, "10")
    found = told(tmp_path, queue="research")
    assert set(found) == {"version-ok", "rbac-ok", "cluster-ok", "queue-ok", "quota-ok"}, found
    assert "8.5 cpu" in found["queue-ok"].says
    assert world.names("rayjobs") == []


def test_rights_that_are_missing_are_named(world: World, tmp_path: Path) -> None:
    world.denied = {("create", "rayjobs"), ("get", "pods/log")}
    found = told(tmp_path)["rbac-refused"]
    assert (found.health, found.says) == ("error", "whoever asks may not, in rl: create RayJob rl/keys, get pods/log")
    world.denied = {("patch", "networkpolicies")}
    alone = told(tmp_path)["rbac-alone"]
    assert alone.health == "unknown"
    assert "patch NetworkPolicy rl/keys-ray" in alone.says
    assert "--alone" in alone.fix


def test_a_cluster_without_the_operator_is_told(world: World, tmp_path: Path) -> None:
    del world.groups["ray.io/v1"]
    found = told(tmp_path)["cluster-operator"]
    assert found.health == "error"
    assert "the cluster has no KubeRay" in found.says


def test_a_namespace_that_is_not_there_is_told(world: World, tmp_path: Path) -> None:
    world.namespaces.remove("rl")
    assert "kubectl create namespace rl" in told(tmp_path)["cluster-manifests"].says


def test_a_queue_that_is_not_there_is_told(world: World, tmp_path: Path) -> None:
    assert "there are: none" in told(tmp_path, queue="research")["queue-missing"].says
    queues(world, "10")
    assert "there are: research" in told(tmp_path, queue="other")["queue-missing"].says
    world.remove((KUEUE, "clusterqueues", "", "all"))
    assert "leads to the ClusterQueue all" in told(tmp_path, queue="research")["queue-nowhere"].says
    del world.groups[KUEUE]
    assert told(tmp_path, queue="research")["queue-kueue"].health == "error"


def test_a_queue_that_is_held_small_or_full_is_told(world: World, tmp_path: Path) -> None:
    queues(world, "10", stopPolicy="Hold")
    assert "stopPolicy: Hold" in told(tmp_path, queue="research")["queue-held"].says
    queues(world, "8")
    small = told(tmp_path, queue="research")["queue-small"]
    assert "8.5 cpu asked for, its quota is 8 cpu" in small.says
    queues(world, "8", cohort="lab")
    assert told(tmp_path, queue="research")["queue-full"].health == "note", "it may borrow"
    queues(world, "10", used="4")
    assert "free of its quota is 6 cpu" in told(tmp_path, queue="research")["queue-full"].says
    workers = [{"name": "gpu", "replicas": 6, "cpus": 1, "gpus": 1}]
    assert "nvidia.com/gpu" in told(tmp_path, queue="research", workers=workers)["queue-uncovered"].says


def test_what_may_not_be_read_is_unknown(world: World, tmp_path: Path) -> None:
    queues(world, "10")
    world.forbidden = {("GET", "clusterqueues"), ("GET", "resourcequotas")}
    found = told(tmp_path, queue="research")
    assert (found["queue-unknown"].health, found["quota-unknown"].health) == ("unknown", "unknown")


def test_a_quota_that_is_too_small_or_used_up_is_told(world: World, tmp_path: Path) -> None:
    quota(world, {}, requests_cpu="8", pods="20")
    small = told(tmp_path)["quota-small"]
    assert "8.5 requests.cpu asked for, allowed is 8 requests.cpu" in small.says
    quota(world, {"limits.memory": "60Gi"}, limits_memory="64Gi")
    assert "left is 4 GiB of limits.memory" in told(tmp_path)["quota-full"].says
    quota(world, {"pods": "1"}, requests_cpu="16", pods="20")
    assert told(tmp_path)["quota-ok"].says == "the quota ours of the namespace has room for it"


def test_a_job_that_is_over_is_told(world: World, tmp_path: Path) -> None:
    made = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "keys", "namespace": "rl"}, "spec": {}}
    world.put("ray.io/v1", "rayjobs", {**made, "status": {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}})
    assert told(tmp_path)["cluster-there"].health == "note"
    world.put("ray.io/v1", "rayjobs", {**made, "status": {"jobDeploymentStatus": "Complete"}})
    assert "is over already" in told(tmp_path)["cluster-over"].says


def test_the_sections_of_a_file_are_compared(world: World, tmp_path: Path) -> None:
    found = told(tmp_path, replace(PLAN, runners=7), ray_version="2.61.0")
    assert "has Ray 2.61.0, 2.60 is expected" in found["version-other"].says
    assert "room for 6 runners of 1 CPU, 7 are asked for" in found["cluster-small"].says


def test_runners_lie_on_one_pod_each(world: World, tmp_path: Path) -> None:
    tenths = [{"name": "cpu", "replicas": 2, "cpus": 0.3, "memory_gb": 1}]
    assert "cluster-small" not in told(tmp_path, replace(PLAN, runner_cpus=0.1), workers=tenths), "6 of 0.1 are 0.6"
    alone = told(tmp_path, replace(PLAN, one_per_node=True))["cluster-small"]
    assert "room for 3 runners of 1 CPU, 6 are asked for" in alone.says


def test_a_server_that_is_gone_is_told(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(config.read_text().replace("current-context: lab", "current-context: dead"))
    with pytest.raises(LinkError, match="did not answer"):
        told(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(LinkError, match="no Kubernetes cluster to talk to"):
        told(tmp_path)


def test_an_extra_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *others: Any) -> Any:
        if name.partition(".")[0] == "lightkube":
            raise ImportError(name)
        return real(name, *others)

    for name in [each for each in sys.modules if each.startswith(("lightkube", "hostler.backends.kuberay."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    found = told(tmp_path)["rbac-unknown"]
    assert found.health == "unknown"
    assert "hostler[k8s]" in found.says
