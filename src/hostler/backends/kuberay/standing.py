"""How a RayJob or a RayCluster is, in words for people. Pure.

The words of the operators are those of KubeRay's `rayjob_types.go` (JobDeploymentStatus, JobStatus), and the conditions
of Kueue's Workloads (https://kueue.sigs.k8s.io/docs/concepts/workload/).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hostler.backends.kuberay.objects import Manifest
from hostler.backends.kuberay.rules import QUEUE


@dataclass(frozen=True, slots=True)
class Standing:
    """How it is, as far as the cluster tells."""

    phase: str
    """`new`, `queued`, `starting`, `running`, `done`, `failed`, `refused`, `suspended`, `gone`, or what nobody here
    knows, in the operator's own word."""
    words: str
    """The same for people, with the reason."""
    good: bool | None = None
    """What came of it; `None`: it is not over."""

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.good is not None


GONE = Standing("gone", "it is not there", good=False)


def standing(manifest: Manifest, workloads: Sequence[Manifest] | None) -> Standing:
    """How an object is. `workloads` are those of its namespace; `None`: they could not be read."""
    status = manifest.get("status") or {}
    return (
        _of_job(manifest, status, workloads)
        if manifest["kind"] == "RayJob"
        else _of_cluster(manifest, status, workloads)
    )


def _of_job(manifest: Manifest, status: Mapping[str, Any], workloads: Sequence[Manifest] | None) -> Standing:
    deployment, job = str(status.get("jobDeploymentStatus") or ""), str(status.get("jobStatus") or "")
    why = _because(status)
    if deployment == "Complete":
        good = job in ("SUCCEEDED", "")
        return Standing("done" if good else "failed", f"{job.lower() or 'complete'}{why}", good=good)
    if deployment == "Failed":
        return Standing("failed", f"failed{why}", good=False)
    if deployment == "ValidationFailed":
        return Standing("refused", f"refused by KubeRay{why}", good=False)
    if _is_held(manifest, deployment in ("Suspended", "Suspending")):
        return _held(manifest, workloads)
    if deployment == "Running":
        words = f"running, job {job.lower() or 'not submitted yet'}{_named_cluster(status)}{why}"
        return Standing("running" if job == "RUNNING" else "starting", words)
    if deployment in ("Initializing", "Waiting", "Retrying", "Scheduled"):
        return Standing("starting", f"{deployment.lower()}{_named_cluster(status)}{why}")
    if not deployment:
        return _not_seen(manifest, workloads)
    return Standing(deployment, f"{deployment}{why}")


def _of_cluster(manifest: Manifest, status: Mapping[str, Any], workloads: Sequence[Manifest] | None) -> Standing:
    state, why = str(status.get("state") or ""), _because(status)
    if _is_held(manifest, state == "suspended"):
        return _held(manifest, workloads)
    workers = f", {_known(status.get('readyWorkerReplicas'))} of {_known(status.get('desiredWorkerReplicas'))} workers"
    if state == "ready":
        return Standing("running", f"ready{workers}{why}")
    if state == "failed":
        return Standing("failed", f"failed{why}", good=False)
    if not status:
        return _not_seen(manifest, workloads)
    return Standing("starting", f"starting{workers}{why}")


def _is_held(manifest: Manifest, says_so: bool) -> bool:
    return says_so or bool((manifest.get("spec") or {}).get("suspend"))


def _not_seen(manifest: Manifest, workloads: Sequence[Manifest] | None) -> Standing:
    if _queue(manifest) is not None:
        return _held(manifest, workloads)
    return Standing("new", "KubeRay has not looked at it yet; is its operator running?")


def _held(manifest: Manifest, workloads: Sequence[Manifest] | None) -> Standing:
    queue = _queue(manifest)
    if queue is None:
        return Standing("suspended", "suspended by somebody (spec.suspend: true), not by Kueue: it is in no queue")
    return Standing("queued", f"queued by Kueue: {_why_queued(manifest, queue, workloads)}")


def _why_queued(manifest: Manifest, queue: str, workloads: Sequence[Manifest] | None) -> str:
    if workloads is None:
        return f"in {queue}; why cannot be read (it takes the right to list workloads.kueue.x-k8s.io)"
    own = _own(manifest, workloads)
    if own is None:
        return f"it has no Workload yet; is Kueue on for {manifest['kind']}, and is there a LocalQueue {queue!r}?"
    conditions = {each["type"]: each for each in (own.get("status") or {}).get("conditions") or ()}
    for name, holds in (("QuotaReserved", "False"), ("Admitted", "False"), ("Evicted", "True")):
        found = conditions.get(name)
        if found is not None and found.get("status") == holds:
            return f"in {queue}: {found.get('message') or found.get('reason') or name}"
    return f"in {queue}; admitted, about to start" if "Admitted" in conditions else f"in {queue}, not looked at yet"


def _own(manifest: Manifest, workloads: Iterable[Manifest]) -> Manifest | None:
    """Its Workload: the one that it owns."""
    uid = manifest["metadata"].get("uid")
    for each in workloads:
        owners = (each.get("metadata") or {}).get("ownerReferences") or ()
        if uid is not None and any(owner.get("uid") == uid for owner in owners):
            return each
    return None


def _queue(manifest: Manifest) -> str | None:
    found = (manifest["metadata"].get("labels") or {}).get(QUEUE)
    return None if found is None else str(found)


def _named_cluster(status: Mapping[str, Any]) -> str:
    name = status.get("rayClusterName")
    return f" on {name}" if name else ""


def _because(status: Mapping[str, Any]) -> str:
    said = [str(status[name]) for name in ("reason", "message") if status.get(name)]
    return f" ({': '.join(said)})" if said else ""


def _known(count: object) -> str:
    return "?" if count is None else str(count)
