"""What KubeRay and Kueue refuse, each by an object that is right but for that."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.backends.kuberay.objects import Manifest
from hostler.backends.kuberay.rules import faults
from hostler.backends.kuberay.sources import render
from hostler.settings import load

FLEETS = Path(__file__).parent / "fleets"


def fleet(name: str) -> Manifest:
    return copy.deepcopy(render(load(FLEETS / f"{name}.yaml", {})).main)


def told(manifest: Manifest) -> list[str]:
    return [str(each) for each in faults([manifest])]


Change = Callable[[dict[str, Any]], object]


def put(**values: Any) -> Change:
    return lambda spec: spec.update(values)


def head(spec: dict[str, Any]) -> Any:
    return spec["rayClusterSpec"]["headGroupSpec"]


def group(spec: dict[str, Any], at: int = 0) -> Any:
    return spec["rayClusterSpec"]["workerGroupSpecs"][at]


@pytest.mark.parametrize("name", ["smallest", "queued", "openshift"])
def test_what_is_rendered_breaks_no_rule(name: str) -> None:
    assert told(fleet(name)) == []


JOBS: list[tuple[Change, str, str]] = [
    (put(shutdownAfterJobFinishes=False), "spec.ttlSecondsAfterFinished", "set that, too"),
    (put(ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished", "less than 0"),
    (put(suspend=True, shutdownAfterJobFinishes=False, ttlSecondsAfterFinished=0), "spec.suspend", "needs shutdown"),
    (put(backoffLimit=-1), "spec.backoffLimit", "less than 0"),
    (put(backoffLimit=1, clusterSelector={"ray.io/cluster": "x"}), "spec.backoffLimit", "keep one"),
    (put(suspend=True, clusterSelector={"ray.io/cluster": "x"}), "spec.suspend", "not this job's"),
    (put(submissionMode="InteractiveMode", backoffLimit=1), "spec.backoffLimit", "has to be 0"),
    (put(submissionMode="Interactive"), "spec.submissionMode", "it is K8sJobMode, HTTPMode"),
    (put(submissionMode="SidecarMode"), "spec.submitterPodTemplate", "leave it out"),
    (put(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds", "more than 0"),
    (put(runtimeEnvYAML="pip: ["), "spec.runtimeEnvYAML", "is no YAML"),
    (put(runtimeEnvYAML="- pip"), "spec.runtimeEnvYAML", "a mapping"),
    (put(runtimeEnvYAML="env_vars: {A: $HOME}"), "spec.runtimeEnvYAML", "which the shell that submits"),
    (put(runtimeEnvYAML="env_vars: {A: '`id`'}"), "spec.runtimeEnvYAML", "which the shell that submits"),
    (put(rayClusterSpec=None), "spec.rayClusterSpec", "is missing"),
    (put(deletionStrategy={"deletionRules": [{}]}), "spec.deletionStrategy.deletionRules", "exclude each other"),
    (lambda spec: head(spec)["template"]["spec"].update(containers=[]), "containers", "is empty"),
    (lambda spec: head(spec).update(resources={"cpu": "1"}), "rayStartParams.num-cpus", "keep one of them"),
    (lambda spec: head(spec)["rayStartParams"].update(labels="a=b"), "rayStartParams.labels", "the group's labels"),
    (lambda spec: head(spec)["rayStartParams"].update({"num-gpus": 0}), "rayStartParams.num-gpus", "in quotes"),
    (lambda spec: group(spec).update(minReplicas=3), "workerGroupSpecs[0].minReplicas", "3 is more than maxReplicas 1"),
    (lambda spec: group(spec).update(replicas=3), "workerGroupSpecs[0].replicas", "does not lie between"),
    (lambda spec: spec["rayClusterSpec"]["workerGroupSpecs"].append(group(spec)), "[1].groupName", "another group's"),
    (lambda spec: spec["rayClusterSpec"].update(authOptions={"mode": "token"}, rayVersion="2.51.9"), "mode", "2.52.0"),
    (lambda spec: spec["rayClusterSpec"].update(authOptions={"mode": "token"}, rayVersion="new"), "mode", "2.52.0"),
    (lambda spec: _env(spec, "RAY_REDIS_ADDRESS", "a:1"), "containers[0].env", "gcsFaultToleranceOptions"),
    (lambda spec: _env(spec, "REDIS_USERNAME", "a"), "containers[0].env", "redisUsername"),
    (lambda spec: _env(spec, "RAY_enable_autoscaler_v2", "1"), "containers[0].env", "enableInTreeAutoscaling"),
]


def _env(spec: dict[str, Any], name: str, value: str) -> None:
    head(spec)["template"]["spec"]["containers"][0]["env"].append({"name": name, "value": value})


@pytest.mark.parametrize(("change", "field", "says"), JOBS, ids=[f"{at}-{each[1]}" for at, each in enumerate(JOBS)])
def test_kuberay_refuses(change: Change, field: str, says: str) -> None:
    manifest = fleet("smallest")
    change(manifest["spec"])
    found = told(manifest)
    assert any(f"{field}: " in line and says in line for line in found), found
    assert all(line.startswith("RayJob rl/smallest: ") and line.endswith("[KubeRay]") for line in found)


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("RayJob", "a" * 48, "has 48 characters; at most 47"),
        ("RayCluster", "a" * 54, "at most 53"),
        ("RayJob", "1a", "begin with a letter"),
        ("RayJob", "a.b", "lower-case letters"),
        ("RayJob", "a-", "lower-case letters"),
    ],
)
def test_names_leave_room_for_what_is_called_after_them(kind: str, name: str, says: str) -> None:
    manifest = fleet("smallest" if kind == "RayJob" else "openshift")
    manifest["metadata"]["name"] = name
    (line,) = told(manifest)
    assert says in line


def test_a_queue_wants_a_fixed_size_and_its_quota_back() -> None:
    manifest = fleet("queued")
    spec = manifest["spec"]
    spec.update(shutdownAfterJobFinishes=False, ttlSecondsAfterFinished=0)
    spec["rayClusterSpec"]["enableInTreeAutoscaling"] = True
    groups = spec["rayClusterSpec"]["workerGroupSpecs"]
    spec["rayClusterSpec"]["workerGroupSpecs"] = [{**groups[0], "groupName": f"g{at}"} for at in range(8)]
    assert [line.rsplit(": ", 1)[0].split(": ", 1)[1] for line in told(manifest)] == [
        "spec.shutdownAfterJobFinishes",
        "spec.rayClusterSpec.enableInTreeAutoscaling",
        "spec.rayClusterSpec.workerGroupSpecs",
    ]
    del manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    assert told(manifest) == []


def test_other_kinds_are_let_be() -> None:
    assert list(faults([{"kind": "Service"}, {}])) == []


@given(st.sampled_from(["shutdownAfterJobFinishes", "ttlSecondsAfterFinished"]), st.integers(-3, 3))
def test_a_time_to_live_goes_with_shutdown(name: str, value: int) -> None:
    """The rule that a published RayJob of others broke: its definition allows it."""
    manifest = fleet("smallest")
    manifest["spec"][name] = value if name.startswith("ttl") else value > 0
    life = manifest["spec"]["ttlSecondsAfterFinished"]
    fine = life == 0 or (manifest["spec"]["shutdownAfterJobFinishes"] and life > 0)
    assert (told(manifest) == []) is fine
