"""Would a cluster take what a fleet file asks for, and let it begin? Nothing is made there.

Asked are: is the operator's kind served; may whoever asks do what `hostler kuberay apply` and `status` do; does the
server take the manifests (dry run); has the queue, and has the namespace's quota, the room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hostler.backends.kuberay.cluster import WORKLOAD_VERSIONS, Cluster
from hostler.backends.kuberay.objects import Manifest, named
from hostler.backends.kuberay.room import Told, queued, quotas
from hostler.backends.kuberay.sources import Rendered
from hostler.backends.kuberay.standing import standing
from hostler.model.errors import Conflict, LinkLost, LinkRefused, NotFound

APPLIES = ("get", "create", "patch")
RIGHTS_FIX = "have a Role bound that gives them: `operators` of `kuberay` makes one for the {kind} alone"


def examined(cluster: Cluster, made: Rendered) -> Iterator[Told]:
    """What there is to say, one thing after the other. Raises `LinkLost` where the API server does not answer."""
    rights = _rights(cluster, made)
    yield rights
    there = _operator(cluster, made.main)
    yield there
    if there.health == "ok" and rights.health == "ok":
        yield from _taken(cluster, made)
    if made.asked.queue is not None:
        yield _queue(cluster, made, made.asked.queue)
    yield from _quotas(cluster, made)


def _operator(cluster: Cluster, main: Manifest) -> Told:
    try:
        found = cluster.find(main)
    except LinkRefused as error:
        fix = "install it (docs/guides/kuberay.md), or have its rights given to you"
        missing = "no KubeRay" in str(error)
        health, code = ("error", "operator") if missing else ("unknown", "unknown")
        return Told(check="cluster", code=code, health=health, says=str(error), fix=fix)  # type: ignore[arg-type]
    served = f"KubeRay's {main['kind']} is known to the cluster"
    if found is None:
        return Told(check="cluster", code="ok", health="ok", says=f"{served}, and there is none called so yet")
    now = standing(found, None)
    if now.over and main["kind"] == "RayJob":
        fix = "`hostler kuberay delete FILE`, or give the new one another name: KubeRay runs a job once"
        says = f"{named(main)} is over already: {now.words}"
        return Told(check="cluster", code="over", health="error", says=says, fix=fix)
    says = f"{named(main)} is there already: {now.words}"
    return Told(check="cluster", code="there", health="note", says=says, fix="it would be changed, not made anew")


def _rights(cluster: Cluster, made: Rendered) -> Told:
    """What is missing for the job itself is an error; the rest somebody else may have applied."""
    lacks = [f"{verb} {named(made.main)}" for verb in (*APPLIES, "delete") if not _may(cluster, made.main, verb)]
    lacks += _looks(cluster, made)
    others = [
        f"{verb} {named(each)}" for each in made.manifests[:-1] for verb in APPLIES if not _may(cluster, each, verb)
    ]
    namespace = made.asked.namespace
    if lacks:
        says = f"whoever asks may not, in {namespace}: {', '.join(lacks)}"
        return Told(
            check="rbac", code="refused", health="error", says=says, fix=RIGHTS_FIX.format(kind=made.main["kind"])
        )
    if others:
        says = f"whoever asks may run {named(made.main)}, and may not: {', '.join(others)}"
        fix = "have these applied by whoever may (`hostler kuberay render`), then `hostler kuberay apply --alone`"
        return Told(check="rbac", code="alone", health="unknown", says=says, fix=fix)
    count = len(made.manifests)
    says = f"all {count} objects may be read, made and changed in {namespace}, and the pods' logs read"
    return Told(check="rbac", code="ok", health="ok", says=says)


def _may(cluster: Cluster, manifest: Manifest, verb: str) -> bool:
    """What is made has no name yet that a right could be bound to."""
    if verb != "create":
        return cluster.may(manifest, verb)
    return cluster.may({**manifest, "metadata": {"namespace": manifest["metadata"]["namespace"]}}, verb)


def _looks(cluster: Cluster, made: Rendered) -> list[str]:
    """What it takes to see how it is."""
    namespace = {"namespace": made.asked.namespace}
    pods = {"apiVersion": "v1", "kind": "Pod", "metadata": namespace}
    lacks = [] if cluster.may(pods, "list") else ["list pods"]
    return lacks if cluster.may(pods, "get", "log") else [*lacks, "get pods/log"]


def _taken(cluster: Cluster, made: Rendered) -> Iterator[Told]:
    """Whether the server, with all that looks at what comes in, takes the manifests."""
    try:
        for _ in cluster.apply(made.manifests, dry_run=True, force=False):
            pass
    except (LinkRefused, Conflict) as error:
        fix = "see `hostler kuberay apply --dry-run server`"
        yield Told(check="cluster", code="manifests", health="error", says=str(error), fix=fix)


def _queue(cluster: Cluster, made: Rendered, name: str) -> Told:
    try:
        local = _kueue(cluster, "LocalQueue", name, made.asked.namespace)
        if local is None:
            return _no_queue(cluster, made.asked.namespace, name)
        held = _held(local)
        if held is not None:
            fix = "ask whoever looks after the queue, or name another one"
            return Told(check="queue", code="held", health="error", says=f"LocalQueue {name} {held}", fix=fix)
        return _behind(cluster, made, name, str(local["spec"]["clusterQueue"]))
    except LinkRefused as error:
        fix = "have the right to get localqueues and clusterqueues of kueue.x-k8s.io given to you"
        return Told(check="queue", code="unknown", health="unknown", says=str(error), fix=fix)


def _behind(cluster: Cluster, made: Rendered, name: str, whole: str) -> Told:
    """The ClusterQueue that a LocalQueue leads to."""
    found = _kueue(cluster, "ClusterQueue", whole, None)
    if found is None:
        says = f"LocalQueue {name} leads to the ClusterQueue {whole}, and there is none"
        fix = "have it made, or name another queue"
        return Told(check="queue", code="nowhere", health="error", says=says, fix=fix)
    held = _held(found)
    if held is None:
        return queued(made.main, name, found)
    fix = "ask whoever looks after it, or name another queue"
    return Told(check="queue", code="held", health="error", says=f"ClusterQueue {whole} {held}", fix=fix)


def _kueue(cluster: Cluster, kind: str, name: str, namespace: str | None) -> Manifest | None:
    place = {} if namespace is None else {"namespace": namespace}
    for version in WORKLOAD_VERSIONS:
        asked = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": name, **place}}
        found = cluster.find(asked)
        if found is not None:
            return found
    return None


def _no_queue(cluster: Cluster, namespace: str, name: str) -> Told:
    """Is there no such queue, or no Kueue?"""
    for version in WORKLOAD_VERSIONS:
        try:
            there = [
                each["metadata"]["name"]
                for each in cluster.listed(f"kueue.x-k8s.io/{version}", "LocalQueue", namespace)
            ]
        except NotFound:
            continue  # that version is not served
        says = f"there is no LocalQueue {name!r} in {namespace}; there are: {', '.join(there) or 'none'}"
        fix = "name one of them in `kuberay.queue`, or have it made: a job in a queue that is not there waits for ever"
        return Told(check="queue", code="missing", health="error", says=says, fix=fix)
    says = f"`kuberay.queue` is {name}, and the cluster has no Kueue"
    fix = "have Kueue installed, or leave `queue` out: nobody would look at it"
    return Told(check="queue", code="kueue", health="error", says=says, fix=fix)


def _held(queue: Manifest) -> str | None:
    """Why nothing is admitted by a queue now; `None`: something may be."""
    policy = (queue.get("spec") or {}).get("stopPolicy")
    if policy not in (None, "None"):
        return f"is stopped by its owner (stopPolicy: {policy})"
    for each in (queue.get("status") or {}).get("conditions") or ():
        if each["type"] == "Active" and each.get("status") == "False":
            return f"is not active: {each.get('message') or each.get('reason') or 'it does not say why'}"
    return None


def _quotas(cluster: Cluster, made: Rendered) -> Sequence[Told]:
    try:
        found = cluster.listed("v1", "ResourceQuota", made.asked.namespace)
    except LinkRefused as error:
        fix = "have the right to list resourcequotas given to you, or ask who set them"
        return [Told(check="quota", code="unknown", health="unknown", says=str(error), fix=fix)]
    except NotFound as error:
        raise LinkLost(str(error)) from error
    return list(quotas(made.main, found))
