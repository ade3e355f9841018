"""What Hostler renders for Kubernetes, as strict types: the first layer of validation.

Only fields that Hostler writes are here. A value that contradicts itself cannot be made: requests that are not limits,
a spread that does not select its own pods, a mount without its volume, rights to all Secrets of a namespace.

Fields are called as in Kubernetes' API reference (https://kubernetes.io/docs/reference/kubernetes-api/) and KubeRay's
(https://ray-project.github.io/kuberay/reference/api/), in the order they are written out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

Labels: TypeAlias = dict[str, str]
Manifest: TypeAlias = dict[str, Any]
"""An object as Kubernetes reads it."""


class Shape(BaseModel):
    """Base of all: immutable, no unknown fields, no conversions; `None` is not written."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=True)


class Metadata(Shape):
    name: str = Field(min_length=1, max_length=253)
    namespace: str = Field(min_length=1, max_length=63)
    labels: Labels
    annotations: Labels | None = None


class Item(Shape):
    """An object of its own."""

    api_version: str
    kind: str
    metadata: Metadata

    def manifest(self) -> Manifest:
        """It, as Kubernetes reads it, fields in their order."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


# Pods


class KeyOf(Shape):
    name: str
    key: str


class ValueFrom(Shape):
    secret_key_ref: KeyOf


class EnvVar(Shape):
    name: str
    value: str | None = None
    value_from: ValueFrom | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.value is None) == (self.value_from is None):
            raise ValueError(f"variable {self.name}: exactly one of value and valueFrom")
        return self


class Resources(Shape):
    """What a container may use is what is kept for it: Ray counts limits, schedulers and quotas count requests."""

    requests: Labels
    limits: Labels

    @model_validator(mode="after")
    def _are_equal(self) -> Self:
        if self.requests != self.limits:
            raise ValueError(f"requests {self.requests} are not the limits {self.limits}; make them equal")
        return self


class Mount(Shape):
    name: str
    mount_path: str
    sub_path: str | None = None
    read_only: Literal[True] | None = None


class Capabilities(Shape):
    drop: tuple[Literal["ALL"], ...] = ("ALL",)


class ContainerSecurity(Shape):
    allow_privilege_escalation: Literal[False] = False
    capabilities: Capabilities = Capabilities()


class ContainerPort(Shape):
    name: str = Field(max_length=15)
    container_port: int = Field(ge=1, le=65535)


class HttpGet(Shape):
    path: str
    port: str
    scheme: Literal["HTTP", "HTTPS"]


class Probe(Shape):
    http_get: HttpGet
    period_seconds: int = 10
    timeout_seconds: int = 5
    failure_threshold: int = 3


class Container(Shape):
    name: str
    image: str
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"]
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    ports: tuple[ContainerPort, ...] | None = None
    env: tuple[EnvVar, ...] | None = None
    resources: Resources
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    security_context: ContainerSecurity = ContainerSecurity()
    volume_mounts: tuple[Mount, ...] | None = None


class Named(Shape):
    name: str


class SecretSource(Shape):
    secret_name: str


class ClaimSource(Shape):
    claim_name: str
    read_only: Literal[True] | None = None


class EmptyDir(Shape):
    size_limit: str | None = None


class Volume(Shape):
    name: str = Field(max_length=63)
    secret: SecretSource | None = None
    config_map: Named | None = None
    persistent_volume_claim: ClaimSource | None = None
    empty_dir: EmptyDir | None = None

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        sources = (self.secret, self.config_map, self.persistent_volume_claim, self.empty_dir)
        if sum(each is not None for each in sources) != 1:
            raise ValueError(f"volume {self.name}: exactly one source")
        return self


class Selector(Shape):
    match_labels: Labels


class AffinityTerm(Shape):
    label_selector: Selector
    topology_key: str = Field(min_length=1)


class AntiAffinity(Shape):
    required_during_scheduling_ignored_during_execution: tuple[AffinityTerm, ...]


class Affinity(Shape):
    pod_anti_affinity: AntiAffinity


class Spread(Shape):
    max_skew: Literal[1] = 1
    topology_key: str = Field(min_length=1)
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: Selector


class Toleration(Shape):
    key: str | None = None
    operator: Literal["Exists", "Equal"]
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class Seccomp(Shape):
    type: Literal["RuntimeDefault"] = "RuntimeDefault"


class PodSecurity(Shape):
    """Users and groups are missing where the cluster chooses them."""

    run_as_non_root: Literal[True] = True
    run_as_user: int | None = None
    fs_group: int | None = None
    seccomp_profile: Seccomp = Seccomp()


class PodSpec(Shape):
    service_account_name: str
    automount_service_account_token: bool = False
    enable_service_links: Literal[False] = False
    restart_policy: Literal["Never"] | None = None
    image_pull_secrets: tuple[Named, ...] | None = None
    node_selector: Labels | None = None
    tolerations: tuple[Toleration, ...] | None = None
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[Spread, ...] | None = None
    security_context: PodSecurity
    containers: tuple[Container, ...] = Field(min_length=1)
    volumes: tuple[Volume, ...] | None = None

    @model_validator(mode="after")
    def _has_its_volumes(self) -> Self:
        there = {each.name for each in self.volumes or ()}
        for container in self.containers:
            for mount in container.volume_mounts or ():
                if mount.name not in there:
                    raise ValueError(f"container {container.name} mounts {mount.name}, which is no volume of its pod")
        return self


class TemplateMetadata(Shape):
    labels: Labels
    annotations: Labels | None = None


class PodTemplate(Shape):
    metadata: TemplateMetadata
    spec: PodSpec

    @model_validator(mode="after")
    def _is_kept_from_its_own(self) -> Self:
        anti = self.spec.affinity
        terms = () if anti is None else anti.pod_anti_affinity.required_during_scheduling_ignored_during_execution
        spread = self.spec.topology_spread_constraints or ()
        for selector in [each.label_selector for each in terms] + [each.label_selector for each in spread]:
            if not selector.match_labels.items() <= self.metadata.labels.items():
                raise ValueError(f"pods are kept from {selector.match_labels}, which they are not themselves")
        return self


# Ray

StartParams: TypeAlias = dict[str, str]


class HeadGroup(Shape):
    ray_start_params: StartParams
    template: PodTemplate


class WorkerGroup(Shape):
    group_name: str
    replicas: int = Field(ge=0)
    min_replicas: int = Field(ge=0)
    max_replicas: int = Field(ge=0)
    ray_start_params: StartParams
    template: PodTemplate

    @model_validator(mode="after")
    def _counts(self) -> Self:
        if not self.min_replicas <= self.replicas <= self.max_replicas:
            raise ValueError(f"group {self.group_name}: minReplicas <= replicas <= maxReplicas")
        return self


class AuthOptions(Shape):
    mode: Literal["token"] = "token"


class RayClusterSpec(Shape):
    ray_version: str
    enable_in_tree_autoscaling: Literal[True] | None = None
    auth_options: AuthOptions | None = None
    head_group_spec: HeadGroup
    worker_group_specs: tuple[WorkerGroup, ...]


class RayCluster(Item):
    api_version: Literal["ray.io/v1"] = "ray.io/v1"
    kind: Literal["RayCluster"] = "RayCluster"
    spec: RayClusterSpec


class RayJobSpec(Shape):
    entrypoint: str = Field(min_length=1)
    submission_mode: Literal["K8sJobMode", "HTTPMode", "SidecarMode"]
    runtime_env_yaml: str | None = Field(default=None, alias="runtimeEnvYAML")
    backoff_limit: int = Field(ge=0)
    active_deadline_seconds: int | None = Field(default=None, ge=1)
    shutdown_after_job_finishes: Literal[True] = True
    ttl_seconds_after_finished: int = Field(ge=0)
    submitter_pod_template: PodTemplate | None = None
    ray_cluster_spec: RayClusterSpec


class RayJob(Item):
    api_version: Literal["ray.io/v1"] = "ray.io/v1"
    kind: Literal["RayJob"] = "RayJob"
    spec: RayJobSpec


# Who may do what


class ServiceAccount(Item):
    api_version: Literal["v1"] = "v1"
    kind: Literal["ServiceAccount"] = "ServiceAccount"
    automount_service_account_token: Literal[False] = False


class PolicyRule(Shape):
    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    resource_names: tuple[str, ...] | None = None
    verbs: tuple[str, ...]

    @model_validator(mode="after")
    def _is_narrow(self) -> Self:
        if "*" in (*self.api_groups, *self.resources, *self.verbs):
            raise ValueError("a rule for everything; name what is needed")
        if "secrets" in self.resources:
            raise ValueError("nothing of ours reads Secrets; pods get theirs by reference")
        return self


class Role(Item):
    api_version: Literal["rbac.authorization.k8s.io/v1"] = "rbac.authorization.k8s.io/v1"
    kind: Literal["Role"] = "Role"
    rules: tuple[PolicyRule, ...]


class Subject(Shape):
    kind: Literal["User", "Group", "ServiceAccount"]
    name: str
    namespace: str | None = None
    api_group: Literal["rbac.authorization.k8s.io"] | None = None


class RoleRef(Shape):
    api_group: Literal["rbac.authorization.k8s.io"] = "rbac.authorization.k8s.io"
    kind: Literal["Role"] = "Role"
    name: str


class RoleBinding(Item):
    api_version: Literal["rbac.authorization.k8s.io/v1"] = "rbac.authorization.k8s.io/v1"
    kind: Literal["RoleBinding"] = "RoleBinding"
    subjects: tuple[Subject, ...] = Field(min_length=1)
    role_ref: RoleRef


# The network


class Port(Shape):
    protocol: Literal["TCP", "UDP"] = "TCP"
    port: int = Field(ge=1, le=65535)


class IpBlock(Shape):
    cidr: str


class AnySelector(Shape):
    """Without labels it selects everything."""

    match_labels: Labels | None = None


class Peer(Shape):
    namespace_selector: AnySelector | None = None
    pod_selector: AnySelector | None = None
    ip_block: IpBlock | None = None


class Ingress(Shape):
    from_: tuple[Peer, ...] | None = Field(default=None, alias="from")
    ports: tuple[Port, ...] | None = None


class Egress(Shape):
    to: tuple[Peer, ...] | None = None
    ports: tuple[Port, ...] | None = None


class NetworkPolicySpec(Shape):
    pod_selector: Selector
    policy_types: tuple[Literal["Ingress", "Egress"], ...]
    ingress: tuple[Ingress, ...]
    egress: tuple[Egress, ...] | None = None


class NetworkPolicy(Item):
    api_version: Literal["networking.k8s.io/v1"] = "networking.k8s.io/v1"
    kind: Literal["NetworkPolicy"] = "NetworkPolicy"
    spec: NetworkPolicySpec


# The dashboard


class ConfigMap(Item):
    api_version: Literal["v1"] = "v1"
    kind: Literal["ConfigMap"] = "ConfigMap"
    data: dict[str, str]


class Strategy(Shape):
    type: Literal["Recreate"] = "Recreate"


class DeploymentSpec(Shape):
    replicas: Literal[1] = 1
    strategy: Strategy = Strategy()
    selector: Selector
    template: PodTemplate

    @model_validator(mode="after")
    def _selects_its_own(self) -> Self:
        if not self.selector.match_labels.items() <= self.template.metadata.labels.items():
            raise ValueError(f"selects {self.selector.match_labels}, which its own pods are not")
        return self


class Deployment(Item):
    api_version: Literal["apps/v1"] = "apps/v1"
    kind: Literal["Deployment"] = "Deployment"
    spec: DeploymentSpec


class ServicePort(Shape):
    name: str
    port: int = Field(ge=1, le=65535)
    target_port: str


class ServiceSpec(Shape):
    type: Literal["ClusterIP"] = "ClusterIP"
    selector: Labels
    ports: tuple[ServicePort, ...]


class Service(Item):
    api_version: Literal["v1"] = "v1"
    kind: Literal["Service"] = "Service"
    spec: ServiceSpec


class RouteTarget(Shape):
    kind: Literal["Service"] = "Service"
    name: str


class RoutePort(Shape):
    target_port: str


class RouteTls(Shape):
    termination: Literal["edge", "reencrypt", "passthrough"]
    insecure_edge_termination_policy: Literal["Redirect"] = "Redirect"


class RouteSpec(Shape):
    host: str | None = None
    to: RouteTarget
    port: RoutePort
    tls: RouteTls


class Route(Item):
    api_version: Literal["route.openshift.io/v1"] = "route.openshift.io/v1"
    kind: Literal["Route"] = "Route"
    spec: RouteSpec


def named(manifest: Mapping[str, Any]) -> str:
    """What people call an object: `RayJob rl/zelda`."""
    metadata = manifest.get("metadata") or {}
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{manifest.get('kind', 'object')} {place}{metadata.get('name', '?')}"
