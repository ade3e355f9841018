"""Pods of Ray: from what a group is asked for to its template. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hostler.backends.kuberay import objects as k
from hostler.settings.kuberay import FILES_DIR, KubePods, Kuberay, KubeToleration, KubeWorkers

INSTANCE, COMPONENT = "app.kubernetes.io/instance", "app.kubernetes.io/component"
RAY, GROUP = "hostler/ray", "hostler/group"
HEAD, WORKER, SUBMITTER = "head", "worker", "submitter"
SUBMITTER_CONTAINER = "ray-job-submitter"
"""What KubeRay calls it, and looks for."""
RAY_UID = 1000
"""The user of Ray's own images."""
HEAD_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}
SUBMITTER_NEED = ("500m", "512Mi")
NO_GPUS = {"NVIDIA_VISIBLE_DEVICES": "void"}
"""Images made for GPUs ask for all of them, and Nvidia's runtime gives them to pods that have requested none; to this
value it gives nothing (https://github.com/NVIDIA/nvidia-container-toolkit)."""
ANY_USER = {"HOME": "/tmp", "USER": "ray", "LOGNAME": "ray"}  # noqa: S108
"""A user that the cluster made up has no home and no name, and Python asks for both."""


def of_instance(asked: Kuberay) -> k.Labels:
    """What all pods of it are."""
    return {INSTANCE: asked.name}


def of_ray(asked: Kuberay) -> k.Labels:
    """What the pods of its Ray cluster are, and the one that submits its job."""
    return {RAY: asked.name}


def head(asked: Kuberay) -> k.PodTemplate:
    """The head. Only it may talk to Kubernetes, and only for Ray's autoscaler."""
    ports = tuple(k.ContainerPort(name=name, container_port=port) for name, port in HEAD_PORTS.items())
    container = _ray(asked, asked.head, "ray-head", ports)
    once = asked.submission == "SidecarMode" and asked.kind == "job"
    own = {"automount_service_account_token": asked.autoscaling, "restart_policy": "Never" if once else None}
    return _template(asked, asked.head, _labels(asked, HEAD), container, own)


def worker(asked: Kuberay, group: KubeWorkers) -> k.PodTemplate:
    """A worker of a group, kept from the others of it."""
    labels = {**_labels(asked, WORKER), GROUP: group.name}
    return _template(asked, group, labels, _ray(asked, group, "ray-worker", None), _apart(group, labels))


def submitter(asked: Kuberay) -> k.PodTemplate:
    """The pod that submits the job and follows it; its log is the job's."""
    cpu, memory = SUBMITTER_NEED
    need = {"cpu": cpu, "memory": memory}
    container = k.Container(
        name=SUBMITTER_CONTAINER,
        image=asked.image,
        image_pull_policy=asked.pull_policy,
        env=_variables(dict(ANY_USER) if asked.openshift else {}) or None,
        resources=k.Resources(requests=need, limits=need),
    )
    spec = k.PodSpec(
        service_account_name=asked.name,
        restart_policy="Never",
        image_pull_secrets=pull_secrets(asked),
        node_selector=dict(sorted(asked.head.node_selector.items())) or None,
        tolerations=_tolerations(asked.head.tolerations),
        security_context=security(asked),
        containers=(container,),
    )
    return k.PodTemplate(metadata=k.TemplateMetadata(labels=_labels(asked, SUBMITTER)), spec=spec)


def security(asked: Kuberay) -> k.PodSecurity:
    """Never root. On OpenShift the cluster chooses who, and refuses pods that say it themselves."""
    if asked.openshift:
        return k.PodSecurity()
    return k.PodSecurity(run_as_user=asked.run_as or RAY_UID, fs_group=asked.fs_group or RAY_UID)


def pull_secrets(asked: Kuberay) -> tuple[k.Named, ...] | None:
    """What images are pulled with."""
    return tuple(k.Named(name=name) for name in asked.pull_secrets) or None


def needs(cpus: float, memory_gb: float, gpus: Mapping[str, int] | None = None) -> k.Resources:
    """Resources of a container: cores, GiB, and GPUs by what the machines call them."""
    need = {"cpu": cores(cpus), "memory": memory(memory_gb)}
    need |= {name: str(count) for name, count in (gpus or {}).items() if count}
    return k.Resources(requests=need, limits=dict(need))


def cores(count: float) -> str:
    """A number of cores as a quantity: `6`, `500m`; rounded up to thousandths."""
    thousandths = math.ceil(round(count * 1000, 6))
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def memory(gigabytes: float) -> str:
    """GiB as a quantity: `28Gi`, `1536Mi`; rounded up to MiB."""
    mebi = math.ceil(round(gigabytes * 1024, 6))
    return f"{mebi // 1024}Gi" if mebi % 1024 == 0 else f"{mebi}Mi"


def _labels(asked: Kuberay, component: str) -> k.Labels:
    return {INSTANCE: asked.name, COMPONENT: component, RAY: asked.name}


def _ray(asked: Kuberay, group: KubePods, name: str, ports: tuple[k.ContainerPort, ...] | None) -> k.Container:
    """The container of Ray, which has to be the first of its pod. KubeRay gives it its command and its probes."""
    return k.Container(
        name=name,
        image=group.image or asked.image,
        image_pull_policy=asked.pull_policy,
        ports=ports,
        env=_env(asked, group) or None,
        resources=needs(group.cpus, group.memory_gb, {group.gpu_resource: group.gpus}),
        volume_mounts=_mounts(asked) or None,
    )


def _template(
    asked: Kuberay, group: KubePods, labels: k.Labels, container: k.Container, own: Mapping[str, Any]
) -> k.PodTemplate:
    spec = {
        "service_account_name": asked.name,
        "image_pull_secrets": pull_secrets(asked),
        "node_selector": dict(sorted(group.node_selector.items())) or None,
        "tolerations": _tolerations(group.tolerations),
        "security_context": security(asked),
        "containers": (container,),
        "volumes": _volumes(asked) or None,
        **own,
    }
    return k.PodTemplate(metadata=k.TemplateMetadata(labels=labels), spec=k.PodSpec.model_validate(spec))


def _env(asked: Kuberay, group: KubePods) -> tuple[k.EnvVar, ...]:
    """What all have, and over that what the group has; then Secrets, by reference."""
    ours = (ANY_USER if asked.openshift else {}) | ({} if group.gpus else NO_GPUS)
    values = {**ours, **asked.env, **group.env}
    secrets = (
        k.EnvVar(name=each.env, value_from=k.ValueFrom(secret_key_ref=k.KeyOf(name=each.secret, key=each.key)))
        for each in asked.secrets
        if each.env is not None and each.key is not None
    )
    return (*_variables(values), *secrets)


def _variables(values: Mapping[str, str]) -> tuple[k.EnvVar, ...]:
    """By name, in whatever order they were said; those that refer to others come after them, as Kubernetes wants it."""
    ordered = sorted(values.items(), key=lambda each: ("$(" in each[1], each[0]))
    return tuple(k.EnvVar(name=name, value=value) for name, value in ordered)


def _mounts(asked: Kuberay) -> tuple[k.Mount, ...]:
    made = [k.Mount(name="files", mount_path=FILES_DIR, read_only=True)] if asked.files else []
    for at, claimed in enumerate(asked.volumes):
        made.append(
            k.Mount(name=f"volume-{at}", mount_path=claimed.mount, read_only=True if claimed.read_only else None)
        )
    for at, secret in enumerate(asked.secrets):
        if secret.mount is not None:
            made.append(k.Mount(name=f"secret-{at}", mount_path=secret.mount, read_only=True))
    return tuple(made)


def _volumes(asked: Kuberay) -> tuple[k.Volume, ...]:
    made = [k.Volume(name="files", config_map=k.Named(name=f"{asked.name}-files"))] if asked.files else []
    for at, claimed in enumerate(asked.volumes):
        source = k.ClaimSource(claim_name=claimed.claim, read_only=True if claimed.read_only else None)
        made.append(k.Volume(name=f"volume-{at}", persistent_volume_claim=source))
    for at, secret in enumerate(asked.secrets):
        if secret.mount is not None:
            made.append(k.Volume(name=f"secret-{at}", secret=k.SecretSource(secret_name=secret.secret)))
    return tuple(made)


def _tolerations(asked: tuple[KubeToleration, ...]) -> tuple[k.Toleration, ...] | None:
    made = (
        k.Toleration(
            key=each.key,
            operator="Exists" if each.value is None else "Equal",
            value=each.value,
            effect=each.effect,
            toleration_seconds=each.seconds,
        )
        for each in asked
    )
    return tuple(made) or None


def _apart(group: KubeWorkers, labels: k.Labels) -> dict[str, Any]:
    """What keeps the pods of a group from one another."""
    selector = k.Selector(match_labels=labels)
    if group.spread == "none":
        return {}
    if group.spread == "node":
        term = k.AffinityTerm(label_selector=selector, topology_key=group.spread_over)
        anti = k.AntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
        return {"affinity": k.Affinity(pod_anti_affinity=anti)}
    spread = k.Spread(
        topology_key=group.spread_over,
        when_unsatisfiable="DoNotSchedule" if group.spread == "even" else "ScheduleAnyway",
        label_selector=selector,
    )
    return {"topology_spread_constraints": (spread,)}
