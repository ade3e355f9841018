"""What operators say, in words for people."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.backends.kuberay.objects import Manifest
from hostler.backends.kuberay.standing import standing


def job(queue: str | None = None, suspend: bool | None = None, **status: Any) -> Manifest:
    labels = {} if queue is None else {"kueue.x-k8s.io/queue-name": queue}
    spec = {} if suspend is None else {"suspend": suspend}
    return {"kind": "RayJob", "metadata": {"name": "a", "uid": "u1", "labels": labels}, "spec": spec, "status": status}


def workload(*conditions: dict[str, str], uid: str = "u1") -> Manifest:
    return {"metadata": {"ownerReferences": [{"uid": uid}]}, "status": {"conditions": list(conditions)}}


@pytest.mark.parametrize(
    ("manifest", "phase", "words", "good"),
    [
        (job(), "new", "is its operator running?", None),
        (job(jobDeploymentStatus="Initializing", rayClusterName="a-x"), "starting", "initializing on a-x", None),
        (job(jobDeploymentStatus="Running", jobStatus="PENDING"), "starting", "job pending", None),
        (job(jobDeploymentStatus="Running", jobStatus="RUNNING"), "running", "job running", None),
        (job(jobDeploymentStatus="Complete", jobStatus="SUCCEEDED"), "done", "succeeded", True),
        (job(jobDeploymentStatus="Complete", jobStatus="STOPPED"), "failed", "stopped", False),
        (
            job(jobDeploymentStatus="Failed", jobStatus="FAILED", reason="AppFailed", message="exit code 1"),
            "failed", "failed (AppFailed: exit code 1)", False,
        ),
        (job(jobDeploymentStatus="Failed", reason="DeadlineExceeded"), "failed", "(DeadlineExceeded)", False),
        (job(jobDeploymentStatus="ValidationFailed", message="TTL"), "refused", "refused by KubeRay (TTL)", False),
        (job(jobDeploymentStatus="Retrying"), "starting", "retrying", None),
        (job(jobDeploymentStatus="Whatever", message="x"), "Whatever", "Whatever (x)", None),
        (job(suspend=True, jobDeploymentStatus="Suspended"), "suspended", "not by Kueue", None),
    ],
)  # fmt: skip
def test_a_job(manifest: Manifest, phase: str, words: str, good: bool | None) -> None:
    found = standing(manifest, [])
    assert (found.phase, found.good) == (phase, good)
    assert words in found.words
    assert found.over is (good is not None)


NO_ROOM = {
    "type": "QuotaReserved",
    "status": "False",
    "reason": "Pending",
    "message": "insufficient unused quota for cpu",
}
ADMITTED = ({"type": "QuotaReserved", "status": "True"}, {"type": "Admitted", "status": "True"})
EVICTED = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "to make room for rl/other"}


@pytest.mark.parametrize(
    ("workloads", "words"),
    [
        (
            [workload({**ADMITTED[0]}, uid="another"), workload(NO_ROOM)],
            "queued by Kueue: in q: insufficient unused quota",
        ),
        ([workload(NO_ROOM, uid="another")], "no Workload yet; is Kueue on for RayJob, and is there a LocalQueue 'q'?"),
        ([workload()], "in q, not looked at yet"),
        ([workload(*ADMITTED)], "admitted, about to start"),
        ([workload(*ADMITTED, EVICTED)], "in q: to make room for rl/other"),
        ([workload({"type": "QuotaReserved", "status": "False", "reason": "Pending"})], "in q: Pending"),
        (None, "why cannot be read"),
    ],
)
@pytest.mark.parametrize(
    "held",
    [job("q", True), job("q", True, jobDeploymentStatus="Suspended"), job("q", None, jobDeploymentStatus="Suspending")],
    ids=["new", "suspended", "suspending"],
)
def test_a_job_that_kueue_holds(held: Manifest, workloads: list[Manifest] | None, words: str) -> None:
    found = standing(held, workloads)
    assert (found.phase, found.over) == ("queued", False)
    assert words in found.words


def test_what_runs_is_not_queued_though_it_has_a_queue() -> None:
    assert standing(job("q", False, jobDeploymentStatus="Running", jobStatus="RUNNING"), []).phase == "running"


@pytest.mark.parametrize(
    ("status", "phase", "words"),
    [
        ({}, "new", "operator"),
        ({"desiredWorkerReplicas": 3}, "starting", "starting, ? of 3 workers"),
        ({"state": "ready", "readyWorkerReplicas": 2, "desiredWorkerReplicas": 3}, "running", "ready, 2 of 3 workers"),
        ({"state": "failed", "reason": "no room"}, "failed", "failed (no room)"),
        ({"state": "suspended"}, "suspended", "not by Kueue"),
    ],
)
def test_a_cluster(status: dict[str, Any], phase: str, words: str) -> None:
    found = standing({"kind": "RayCluster", "metadata": {"name": "a"}, "spec": {}, "status": status}, [])
    assert found.phase == phase
    assert words in found.words
