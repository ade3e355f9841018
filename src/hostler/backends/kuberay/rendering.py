"""From the settings to every object there has to be. Pure: the same settings give the same bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from hostler.backends.kuberay import command, objects as k, pods
from hostler.backends.kuberay.network import dashboard_policy, ray_policy
from hostler.backends.kuberay.text import written
from hostler.settings.kuberay import KubeDashboard, Kuberay, KubeSubject

MANAGED_BY = "app.kubernetes.io/managed-by"
QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
DASHBOARD, DASHBOARD_PORT = "dashboard", 8765
SERVING_CERTIFICATE = "service.beta.openshift.io/serving-cert-secret-name"
FLEET_DIR, TLS_DIR, STATE_DIR = "/etc/hostler/fleet", "/etc/hostler/tls", "/var/lib/hostler"


def rendered(asked: Kuberay, files: Mapping[str, str], fleet: str | None) -> tuple[k.Item, ...]:
    """All objects, in the order they are to be made. `files` are those of `asked.files`, by the names they get; `fleet`
    is the text of the dashboard's fleet file, `None`: one without devices."""
    return tuple(_rendered(asked, files, fleet))


def main_object(asked: Kuberay) -> k.RayJob | k.RayCluster:
    """The RayJob or the RayCluster."""
    spec = _cluster(asked)
    metadata = _metadata(asked, asked.name, labels=_queue(asked))
    if asked.kind == "cluster":
        return k.RayCluster(metadata=metadata, spec=spec)
    job = k.RayJobSpec(
        entrypoint=command.entrypoint(asked.entrypoint or (), asked.submission, asked.ray_version),
        submission_mode=asked.submission,
        runtime_env_yaml=written(_sorted(asked.runtime_env)) if asked.runtime_env else None,
        backoff_limit=asked.retries,
        active_deadline_seconds=asked.deadline_s,
        ttl_seconds_after_finished=asked.keep_s,
        submitter_pod_template=pods.submitter(asked) if asked.submission == "K8sJobMode" else None,
        ray_cluster_spec=spec,
    )
    # `suspend` is left out: it is Kueue's to set, and what is said here would be fought over.
    return k.RayJob(metadata=metadata, spec=job)


def _sorted(value: Any) -> Any:
    """Mappings by their keys, in whatever order they were said."""
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value, key=str)}
    return [_sorted(each) for each in value] if isinstance(value, list | tuple) else value


def _rendered(asked: Kuberay, files: Mapping[str, str], fleet: str | None) -> Iterator[k.Item]:
    yield k.ServiceAccount(metadata=_metadata(asked, asked.name))
    yield from _rights(asked)
    if files:
        yield k.ConfigMap(metadata=_metadata(asked, f"{asked.name}-files"), data=dict(sorted(files.items())))
    if asked.network is not None:
        yield k.NetworkPolicy(metadata=_metadata(asked, f"{asked.name}-ray"), spec=ray_policy(asked, asked.network))
    if asked.dashboard is not None:
        yield from _dashboard(asked, asked.dashboard, fleet)
    yield main_object(asked)


def _metadata(
    asked: Kuberay, name: str, labels: k.Labels | None = None, annotations: k.Labels | None = None
) -> k.Metadata:
    own = {"app.kubernetes.io/name": "hostler", pods.INSTANCE: asked.name, MANAGED_BY: "hostler"}
    return k.Metadata(
        name=name, namespace=asked.namespace, labels={**own, **(labels or {})}, annotations=annotations or None
    )


def _queue(asked: Kuberay) -> k.Labels:
    if asked.queue is None:
        return {}
    return {QUEUE: asked.queue} | ({} if asked.priority is None else {PRIORITY: asked.priority})


def _cluster(asked: Kuberay) -> k.RayClusterSpec:
    head = k.HeadGroup(ray_start_params=_head_params(asked), template=pods.head(asked))
    groups = tuple(
        k.WorkerGroup(
            group_name=group.name,
            replicas=group.replicas,
            min_replicas=group.least,
            max_replicas=group.most,
            ray_start_params={"num-gpus": str(group.gpus)},
            template=pods.worker(asked, group),
        )
        for group in asked.workers
    )
    return k.RayClusterSpec(
        ray_version=asked.ray_version,
        enable_in_tree_autoscaling=True if asked.autoscaling else None,
        auth_options=k.AuthOptions() if asked.token_auth else None,
        head_group_spec=head,
        worker_group_specs=groups,
    )


def _head_params(asked: Kuberay) -> k.StartParams:
    kept_off = {} if asked.head.schedules else {"num-cpus": "0"}
    return {"dashboard-host": "0.0.0.0", **kept_off, "num-gpus": str(asked.head.gpus)}  # noqa: S104


def _rights(asked: Kuberay) -> Iterator[k.Item]:
    """Who may run, see and stop it: this one object, and the pods and events that tell how it is."""
    subjects = [_subject(asked, each) for each in asked.operators]
    if asked.dashboard is not None and asked.dashboard.operates:
        own = k.Subject(kind="ServiceAccount", name=f"{asked.name}-{DASHBOARD}", namespace=asked.namespace)
        subjects.append(own)
    if not subjects:
        return
    name, plural = f"{asked.name}-operator", "rayjobs" if asked.kind == "job" else "rayclusters"
    yield k.Role(metadata=_metadata(asked, name), rules=_rules(asked.name, plural))
    yield k.RoleBinding(metadata=_metadata(asked, name), subjects=tuple(subjects), role_ref=k.RoleRef(name=name))


def _rules(name: str, plural: str) -> tuple[k.PolicyRule, ...]:
    look = ("get", "list", "watch")
    return (
        # What is made has no name yet that a rule could be bound to.
        k.PolicyRule(api_groups=("ray.io",), resources=(plural,), verbs=("create",)),
        k.PolicyRule(
            api_groups=("ray.io",), resources=(plural,), resource_names=(name,), verbs=(*look, "patch", "delete")
        ),
        k.PolicyRule(api_groups=("",), resources=("pods", "events"), verbs=look),
        k.PolicyRule(api_groups=("",), resources=("pods/log",), verbs=("get",)),
        k.PolicyRule(api_groups=("kueue.x-k8s.io",), resources=("workloads",), verbs=look),
    )


def _subject(asked: Kuberay, each: KubeSubject) -> k.Subject:
    if each.kind == "ServiceAccount":
        return k.Subject(kind=each.kind, name=each.name, namespace=each.namespace or asked.namespace)
    return k.Subject(kind=each.kind, name=each.name, api_group="rbac.authorization.k8s.io")


def _dashboard(asked: Kuberay, board: KubeDashboard, fleet: str | None) -> Iterator[k.Item]:
    name = f"{asked.name}-{DASHBOARD}"
    text = own_fleet(asked) if fleet is None else fleet
    tls = _tls_secret(asked, board)
    made_by_cluster = tls is not None and board.tls_secret is None
    yield k.ServiceAccount(metadata=_metadata(asked, name))
    yield k.ConfigMap(metadata=_metadata(asked, name), data={"fleet.yaml": text})
    if asked.network is not None:
        yield k.NetworkPolicy(metadata=_metadata(asked, name), spec=dashboard_policy(asked, DASHBOARD, DASHBOARD_PORT))
    port = k.ServicePort(name=_scheme(tls).lower(), port=DASHBOARD_PORT, target_port="web")
    yield k.Service(
        metadata=_metadata(asked, name, annotations={SERVING_CERTIFICATE: str(tls)} if made_by_cluster else None),
        spec=k.ServiceSpec(selector=_board_labels(asked), ports=(port,)),
    )
    yield k.Deployment(metadata=_metadata(asked, name), spec=_deployment(asked, board, text, tls))
    if asked.openshift:
        yield k.Route(metadata=_metadata(asked, name), spec=_route(board, name, _termination(board, tls), port.name))


def own_fleet(asked: Kuberay) -> str:
    """The fleet of a dashboard that was given none: it shows, and runs nothing."""
    return written({"name": asked.name, "nodes": [{"name": DASHBOARD, "cpu_slots": 0, "gpus": "none"}]})


def _board_labels(asked: Kuberay) -> k.Labels:
    return {pods.INSTANCE: asked.name, pods.COMPONENT: DASHBOARD}


def _tls_secret(asked: Kuberay, board: KubeDashboard) -> str | None:
    if board.plain:
        return None
    return board.tls_secret or (f"{asked.name}-{DASHBOARD}-tls" if asked.openshift else None)


def _scheme(tls: str | None) -> str:
    return "HTTP" if tls is None else "HTTPS"


def _termination(board: KubeDashboard, tls: str | None) -> str:
    """A certificate of the cluster's own the router knows; one of somebody else's is shown to the browser itself."""
    if tls is None:
        return "edge"
    return "reencrypt" if board.tls_secret is None else "passthrough"


def _route(board: KubeDashboard, service: str, termination: str, port: str) -> k.RouteSpec:
    return k.RouteSpec.model_validate(
        {
            "host": board.host,
            "to": k.RouteTarget(name=service),
            "port": k.RoutePort(target_port=port),
            "tls": k.RouteTls.model_validate({"termination": termination}),
        }
    )


def _deployment(asked: Kuberay, board: KubeDashboard, fleet: str, tls: str | None) -> k.DeploymentSpec:
    account = f"{asked.name}-{DASHBOARD}"
    state = (
        k.Volume(name="state", empty_dir=k.EmptyDir())
        if board.state_claim is None
        else k.Volume(name="state", persistent_volume_claim=k.ClaimSource(claim_name=board.state_claim))
    )
    own = [
        k.Volume(name="fleet", config_map=k.Named(name=account)),
        state,
        k.Volume(name="tmp", empty_dir=k.EmptyDir()),
    ]
    if tls is not None:
        own.append(k.Volume(name="tls", secret=k.SecretSource(secret_name=tls)))
    spec = k.PodSpec(
        service_account_name=account,
        automount_service_account_token=board.operates,
        image_pull_secrets=pods.pull_secrets(asked),
        security_context=pods.security(asked),
        containers=(_controller(asked, board, tls),),
        volumes=tuple(own),
    )
    # Another fleet file is another pod: Kubernetes starts none anew because of a ConfigMap.
    digest = hashlib.sha256(fleet.encode()).hexdigest()
    metadata = k.TemplateMetadata(labels=_board_labels(asked), annotations={"hostler/fleet-sha256": digest})
    return k.DeploymentSpec(
        selector=k.Selector(match_labels=_board_labels(asked)), template=k.PodTemplate(metadata=metadata, spec=spec)
    )


def _controller(asked: Kuberay, board: KubeDashboard, tls: str | None) -> k.Container:
    mounts = [
        k.Mount(name="fleet", mount_path=FLEET_DIR, read_only=True),
        k.Mount(name="state", mount_path=STATE_DIR),
        k.Mount(name="tmp", mount_path="/tmp"),  # noqa: S108
    ]
    if tls is not None:
        mounts.append(k.Mount(name="tls", mount_path=TLS_DIR, read_only=True))
    probe = k.Probe(http_get=k.HttpGet.model_validate({"path": "/healthz", "port": "web", "scheme": _scheme(tls)}))
    return k.Container(
        name="hostler",
        image=board.image,
        image_pull_policy=asked.pull_policy,
        command=("hostler", "up", f"{FLEET_DIR}/fleet.yaml"),
        ports=(k.ContainerPort(name="web", container_port=DASHBOARD_PORT),),
        env=tuple(k.EnvVar(name=name, value=value) for name, value in _listens(asked, board, tls).items()),
        resources=pods.needs(board.cpus, board.memory_gb),
        readiness_probe=probe,
        liveness_probe=probe,
        volume_mounts=tuple(mounts),
    )


def _listens(asked: Kuberay, board: KubeDashboard, tls: str | None) -> dict[str, str]:
    """Where its controller listens, over whatever its fleet file says: that is made for other places, too."""
    service = f"{asked.name}-{DASHBOARD}"
    inside = [service, f"{service}.{asked.namespace}", f"{service}.{asked.namespace}.svc"]
    names = [*inside, f"{inside[-1]}.cluster.local", *([board.host] if board.host else [])]
    made = {
        "HOME": "/tmp",  # noqa: S108
        "HOSTLER_STATE_DIR": STATE_DIR,
        "HOSTLER_API__HOST": "0.0.0.0",  # noqa: S104
        "HOSTLER_API__PORT": str(DASHBOARD_PORT),
        "HOSTLER_API__NAMES": json.dumps(names),
        # The pages have to be there before the first token can be made in the pod.
        "HOSTLER_API__INSECURE_REMOTE": "true",
    }
    if tls is not None:
        made |= {"HOSTLER_API__CERTIFICATE": f"{TLS_DIR}/tls.crt", "HOSTLER_API__KEY": f"{TLS_DIR}/tls.key"}
    return made
