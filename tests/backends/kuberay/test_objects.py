"""What contradicts itself cannot be made."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from hostler.backends.kuberay import objects as k

NEED = {"cpu": "1"}
CONTAINER = {
    "name": "ray",
    "image": "rl",
    "image_pull_policy": "Always",
    "resources": {"requests": NEED, "limits": NEED},
}
MOUNTING = {**CONTAINER, "volume_mounts": ({"name": "x", "mount_path": "/x"},)}
POD = {"service_account_name": "rl", "security_context": {}, "containers": (CONTAINER,)}


def template(labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {**POD, **spec}}


def apart_from(labels: dict[str, str]) -> dict[str, Any]:
    term = {"label_selector": {"match_labels": labels}, "topology_key": "kubernetes.io/hostname"}
    return {"pod_anti_affinity": {"required_during_scheduling_ignored_during_execution": (term,)}}


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (k.Resources, {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, "make them equal"),
        (k.EnvVar, {"name": "A"}, "exactly one of value and valueFrom"),
        (k.Volume, {"name": "a"}, "exactly one source"),
        (k.PolicyRule, {"api_groups": ("",), "resources": ("secrets",), "verbs": ("get",)}, "reads Secrets"),
        (k.PolicyRule, {"api_groups": ("",), "resources": ("pods",), "verbs": ("*",)}, "name what is needed"),
        (k.PodTemplate, template({"a": "b"}, affinity=apart_from({"a": "c"})), "not themselves"),
        (k.PodSpec, {**POD, "containers": (MOUNTING,)}, "no volume"),
        (k.DeploymentSpec, {"selector": {"match_labels": {"a": "c"}}, "template": template({"a": "b"})}, "are not"),
        (k.Selector, {"match_labels": {}, "matchExpressions": ()}, "Extra inputs"),
        (k.ContainerPort, {"name": "a", "container_port": "80"}, "valid integer"),
        (k.ContainerSecurity, {"allow_privilege_escalation": True}, "False"),
        (
            k.WorkerGroup,
            {
                "group_name": "a", "replicas": 3, "min_replicas": 1, "max_replicas": 2, "ray_start_params": {},
                "template": template({}),
            },
            "minReplicas <= replicas",
        ),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused(kind: type[BaseModel], value: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        kind.model_validate(value)


def test_fields_are_called_as_kubernetes_calls_them_and_nothing_is_written_for_what_is_not_there() -> None:
    made = k.PodTemplate.model_validate(template({"a": "b"}, affinity=apart_from({"a": "b"})))
    plain = made.model_dump(by_alias=True, exclude_none=True, mode="json")
    assert plain["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert "nodeSelector" not in plain["spec"]
    assert plain["spec"]["automountServiceAccountToken"] is False


def test_objects_are_named_by_kind_and_place() -> None:
    assert k.named({"kind": "RayJob", "metadata": {"name": "a", "namespace": "rl"}}) == "RayJob rl/a"
    assert k.named({}) == "object ?"
