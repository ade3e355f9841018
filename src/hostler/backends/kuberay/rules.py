"""What the operators refuse that no resource definition says: the second layer of validation. Pure, on plain objects.

KubeRay checks these as it takes an object up, long after the API server took it: what breaks one stands there and
nothing happens. They follow `ray-operator/controllers/ray/utils/validation.go` and `constant.go` of
https://github.com/ray-project/kuberay (v1.4 to v1.7), and Kueue's pages on RayJobs and RayClusters
(https://kueue.sigs.k8s.io/docs/tasks/run/rayjobs/, .../rayclusters/).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import yaml

from hostler.backends.kuberay.findings import Fault
from hostler.backends.kuberay.objects import Manifest, named

Complaint: TypeAlias = tuple[str, str]
"""A field, and what is wrong with it."""

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
JOB_NAME_MAX, CLUSTER_NAME_MAX = 47, 53
"""Pods and Services are called after them, with what is added, and may have 63 characters."""
QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_GROUPS_MAX = 7
"""A Workload has at most 8 sets of pods, and the head is one."""
TOKEN_AUTH_FROM = (2, 52)
RAY_RESOURCES = ("num-cpus", "num-gpus", "memory", "resources")
BY_KUBERAY, BY_KUEUE = "KubeRay", "Kueue"


def faults(manifests: Iterable[Manifest]) -> Iterator[Fault]:
    """Everything the operators would refuse. Objects that are not theirs are let be."""
    for manifest in manifests:
        for check, layer in _CHECKS.get(str(manifest.get("kind")), ()):
            for field, what in check(manifest):
                yield Fault(named(manifest), field, what, layer)


def _job(manifest: Manifest) -> Iterator[Complaint]:
    spec = manifest.get("spec") or {}
    yield from _name(manifest, JOB_NAME_MAX)
    yield from _life(spec)
    yield from _submission(spec)
    yield from _runtime_env(spec)
    cluster, selector = spec.get("rayClusterSpec"), spec.get("clusterSelector")
    if cluster is None and not selector:
        yield "spec.rayClusterSpec", "is missing; give it, or name a cluster that is there in spec.clusterSelector"
    if selector and spec.get("suspend"):
        yield "spec.suspend", "cannot be with clusterSelector: the cluster is not this job's to stop; leave it out"
    if cluster is not None:
        yield from _cluster_spec("spec.rayClusterSpec", cluster)


def _cluster(manifest: Manifest) -> Iterator[Complaint]:
    yield from _name(manifest, CLUSTER_NAME_MAX)
    yield from _cluster_spec("spec", manifest.get("spec") or {})


def _name(manifest: Manifest, most: int) -> Iterator[Complaint]:
    name = str((manifest.get("metadata") or {}).get("name", ""))
    if len(name) > most:
        yield "metadata.name", f"has {len(name)} characters; at most {most} leave room for the names of its pods"
    if DNS_1035.match(name) is None:
        yield (
            "metadata.name",
            f"{name!r} has to begin with a letter, and to have only lower-case letters, digits and dashes",
        )


def _life(spec: Mapping[str, Any]) -> Iterator[Complaint]:
    """How it is begun anew, suspended, and cleared away."""
    shutdown = bool(spec.get("shutdownAfterJobFinishes"))
    if spec.get("suspend") and not shutdown:
        yield "spec.suspend", "needs shutdownAfterJobFinishes: true, or its cluster would stay; set that, too"
    if (spec.get("ttlSecondsAfterFinished") or 0) > 0 and not shutdown:
        yield "spec.ttlSecondsAfterFinished", "says nothing without shutdownAfterJobFinishes: true; set that, too"
    if (spec.get("ttlSecondsAfterFinished") or 0) < 0:
        yield "spec.ttlSecondsAfterFinished", "is less than 0; give seconds"
    if spec.get("activeDeadlineSeconds") is not None and spec["activeDeadlineSeconds"] <= 0:
        yield "spec.activeDeadlineSeconds", "has to be more than 0; leave it out for no limit"
    if (spec.get("backoffLimit") or 0) < 0:
        yield "spec.backoffLimit", "is less than 0; 0 never begins anew"
    if (spec.get("backoffLimit") or 0) > 0 and spec.get("clusterSelector"):
        yield "spec.backoffLimit", "begins with a new cluster, and clusterSelector names an old one; keep one of them"
    if (spec.get("deletionStrategy") or {}).get("deletionRules") and shutdown:
        yield "spec.deletionStrategy.deletionRules", "and shutdownAfterJobFinishes exclude each other; keep one of them"


def _submission(spec: Mapping[str, Any]) -> Iterator[Complaint]:
    mode = spec.get("submissionMode", "K8sJobMode")
    if mode not in ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"):
        yield "spec.submissionMode", f"{mode!r} is none; it is K8sJobMode, HTTPMode, InteractiveMode or SidecarMode"
    if mode == "InteractiveMode" and (spec.get("backoffLimit") or 0) > 0:
        yield "spec.backoffLimit", "has to be 0 with InteractiveMode: nobody submits it again"
    if mode != "SidecarMode":
        return
    for name in ("submitterPodTemplate", "submitterConfig", "clusterSelector"):
        if spec.get(name):
            yield f"spec.{name}", "cannot be with SidecarMode, which submits from the head's own pod; leave it out"
    head = ((spec.get("rayClusterSpec") or {}).get("headGroupSpec") or {}).get("template") or {}
    policy = (head.get("spec") or {}).get("restartPolicy", "Never")
    if policy != "Never":
        field = "spec.rayClusterSpec.headGroupSpec.template.spec.restartPolicy"
        yield field, f"has to be Never with SidecarMode, not {policy}"


def _runtime_env(spec: Mapping[str, Any]) -> Iterator[Complaint]:
    text = spec.get("runtimeEnvYAML")
    if not text:
        return
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        yield "spec.runtimeEnvYAML", f"is no YAML: {' '.join(str(error).split())}"
        return
    if not isinstance(found, dict):
        yield "spec.runtimeEnvYAML", "has to be a mapping, as `pip: [...]`"
    if spec.get("submissionMode") != "HTTPMode" and set(text) & set("$`"):
        # It goes into the script of the submitter in double quotes (`job.go`).
        what = "has a $ or a `, which the shell that submits the job replaces; submissionMode HTTPMode has no shell"
        yield "spec.runtimeEnvYAML", what


def _cluster_spec(at: str, spec: Mapping[str, Any]) -> Iterator[Complaint]:
    head = spec.get("headGroupSpec") or {}
    yield from _group(f"{at}.headGroupSpec", head)
    for index, group in enumerate(spec.get("workerGroupSpecs") or ()):
        yield from _group(f"{at}.workerGroupSpecs[{index}]", group)
        yield from _replicas(f"{at}.workerGroupSpecs[{index}]", group)
    yield from _twins(at, spec)
    yield from _auth(at, spec)
    yield from _environment(at, spec, head)


def _group(at: str, group: Mapping[str, Any]) -> Iterator[Complaint]:
    pod = (group.get("template") or {}).get("spec") or {}
    if not pod.get("containers"):
        yield f"{at}.template.spec.containers", "is empty; the first one is Ray's"
    params = group.get("rayStartParams") or {}
    own = [name for name in RAY_RESOURCES if params.get(name)]
    if own and group.get("resources"):
        yield f"{at}.rayStartParams.{own[0]}", "and the group's resources say the same; keep one of them"
    if "labels" in params:
        yield f"{at}.rayStartParams.labels", "is not for here; give the group's labels"
    for name, value in params.items():
        if not isinstance(value, str):
            yield f"{at}.rayStartParams.{name}", f"{value!r} has to be a text; put it in quotes"


def _replicas(at: str, group: Mapping[str, Any]) -> Iterator[Complaint]:
    count, least, most = (group.get(name) for name in ("replicas", "minReplicas", "maxReplicas"))
    if least is not None and most is not None and least > most:
        yield f"{at}.minReplicas", f"{least} is more than maxReplicas {most}; change one of them"
    elif count is not None and not (least or 0) <= count <= (count if most is None else most):
        yield f"{at}.replicas", f"{count} does not lie between minReplicas {least} and maxReplicas {most}"


def _twins(at: str, spec: Mapping[str, Any]) -> Iterator[Complaint]:
    seen: set[str] = set()
    for index, group in enumerate(spec.get("workerGroupSpecs") or ()):
        name = str(group.get("groupName", ""))
        if name in seen:
            yield f"{at}.workerGroupSpecs[{index}].groupName", f"{name!r} is another group's; give it one of its own"
        seen.add(name)


def _auth(at: str, spec: Mapping[str, Any]) -> Iterator[Complaint]:
    if (spec.get("authOptions") or {}).get("mode") != "token":
        return
    version = _version(str(spec.get("rayVersion", "")))
    if version is None or version < TOKEN_AUTH_FROM:
        yield f"{at}.authOptions.mode", f"token needs rayVersion 2.52.0 or later, not {spec.get('rayVersion')!r}"


def _environment(at: str, spec: Mapping[str, Any], head: Mapping[str, Any]) -> Iterator[Complaint]:
    """Variables that the operator takes for something else."""
    pod: Mapping[str, Any] = (head.get("template") or {}).get("spec") or {}
    containers: Sequence[Mapping[str, Any]] = pod.get("containers") or ({},)
    field = f"{at}.headGroupSpec.template.spec.containers[0].env"
    values = {each.get("name"): each.get("value") for each in containers[0].get("env") or ()}
    if "RAY_REDIS_ADDRESS" in values and not spec.get("gcsFaultToleranceOptions"):
        yield field, "RAY_REDIS_ADDRESS makes Ray survive its head, and wants gcsFaultToleranceOptions; leave it out"
    if "REDIS_USERNAME" in values:
        yield field, "REDIS_USERNAME is given by gcsFaultToleranceOptions.redisUsername; leave it out"
    if values.get("RAY_enable_autoscaler_v2") in ("1", "true") and not spec.get("enableInTreeAutoscaling"):
        yield field, "RAY_enable_autoscaler_v2 needs enableInTreeAutoscaling: true; leave it out, or set that"


def _version(text: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", text)
    return None if found is None else (int(found[1]), int(found[2]))


def _queued_job(manifest: Manifest) -> Iterator[Complaint]:
    if not _is_queued(manifest):
        return
    spec = manifest.get("spec") or {}
    if not spec.get("shutdownAfterJobFinishes"):
        yield "spec.shutdownAfterJobFinishes", "has to be true in a queue, or its quota is never given back"
    if spec.get("clusterSelector"):
        yield "spec.clusterSelector", "cannot be in a queue, which keeps room for a cluster of its own; leave it out"
    yield from _queued_cluster_spec("spec.rayClusterSpec", spec.get("rayClusterSpec") or {})


def _queued_cluster(manifest: Manifest) -> Iterator[Complaint]:
    if _is_queued(manifest):
        yield from _queued_cluster_spec("spec", manifest.get("spec") or {})


def _is_queued(manifest: Manifest) -> bool:
    return QUEUE in ((manifest.get("metadata") or {}).get("labels") or {})


def _queued_cluster_spec(at: str, spec: Mapping[str, Any]) -> Iterator[Complaint]:
    if spec.get("enableInTreeAutoscaling"):
        yield f"{at}.enableInTreeAutoscaling", "has to be false in a queue, which keeps room for a fixed size"
    groups = len(spec.get("workerGroupSpecs") or ())
    if groups > KUEUE_GROUPS_MAX:
        yield f"{at}.workerGroupSpecs", f"has {groups} groups; a queue takes at most {KUEUE_GROUPS_MAX}"


_CHECKS: Mapping[str, tuple[tuple[Callable[[Manifest], Iterator[Complaint]], str], ...]] = {
    "RayJob": ((_job, BY_KUBERAY), (_queued_job, BY_KUEUE)),
    "RayCluster": ((_cluster, BY_KUBERAY), (_queued_cluster, BY_KUEUE)),
}
