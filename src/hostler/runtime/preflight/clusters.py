"""Does the cluster answer, is it of the right version, has it the room?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from hostler.model.errors import LinkError, LinkRefused
from hostler.model.rl import Hosts, RlPlan, Share
from hostler.policy.sampling import number, places
from hostler.runtime.preflight.proof import Proof, error, ok, unknown
from hostler.runtime.preflight.seam import Allows, Machine, RayCluster
from hostler.runtime.preflight.versions import prove_versions


async def prove_cluster(plan: RlPlan, cluster: RayCluster | None, version: str | None) -> list[Proof]:
    """Reach, version and room; `version` is the one that is expected, as far as it is written."""
    if plan.cluster == "here":
        return [ok("cluster", "it runs on this machine, without Ray")]
    if plan.cluster == "kuberay":
        return [ok("cluster", "KubeRay makes it with the job, in the version of its image")]
    if plan.address is None:
        fix = "name it in `rl.cluster.address`"
        return [error("cluster", "nowhere", "no address of the Ray cluster is given", fix)]
    if cluster is None:
        return [unknown("cluster", f"nothing here can ask {plan.address}", "see that Hostler has a backend for Ray")]
    try:
        found, machines = await cluster.version(), await cluster.machines()
    except LinkRefused as fault:
        return [error("cluster", "refused", str(fault), _entered(plan))]
    except LinkError as fault:
        return [error("cluster", "unreached", str(fault), "see that its head runs, and that the address is its own")]
    wrong = other_version(found, version)
    return [_room(plan, machines), await prove_versions(cluster, machines, found) if wrong is None else wrong]


def other_version(found: str, wanted: str | None) -> Proof | None:
    """Whether a cluster has another Ray than is written, as far as that is written; `None`: it has that one."""
    if wanted is None or found.split(".")[: wanted.count(".") + 1] == wanted.split("."):
        return None
    fix = "use an image of that version on both sides: Ray joins no nodes of another one"
    return error("version", "other", f"the cluster has Ray {found}, {wanted} is expected", fix)


async def prove_allowed(plan: RlPlan, allows: Allows | None) -> list[Proof]:
    """What Kubernetes allows, where the cluster is made by KubeRay."""
    if plan.cluster != "kuberay":
        return []
    if allows is None:
        return [unknown("rbac", "nothing here can ask Kubernetes", "say in `kuberay` which cluster it is")]
    try:
        return list(await allows.proofs(plan))
    except LinkError as fault:
        return [error("rbac", "unreached", str(fault), "see that `kubectl get pods` works with the same context")]


def _room(plan: RlPlan, machines: Sequence[Machine]) -> Proof:
    there, asked = sum(each.cpus for each in machines), plan.runners * plan.runner_cpus + plan.learner_cpus
    says = f"{len(machines)} nodes with {number(there)} CPUs live"
    if there < asked:
        words = f"{says}, {number(asked)} are asked for: what is left over would wait for ever"
        return error("cluster", "small", words, f"begin more nodes, or fewer runners ({plan.runners} are asked for)")
    room = places(_on(plan, machines))
    if room < plan.runners:
        apart = ", no two on one" if plan.one_per_node else ""
        each = f"{number(plan.runner_cpus)} CPU each{apart}, beside a learner with {number(plan.learner_cpus)} on one"
        words = (
            f"{says}, and on them room for {room} runners with {each}; {plan.runners} are asked for: what is left over "
            "would wait for ever"
        )
        return error("cluster", "split", words, f"ask for {room} runners, or begin larger nodes: each lies on one")
    return ok("cluster", f"{says}, {number(asked)} are asked for")


def _on(plan: RlPlan, machines: Sequence[Machine]) -> RlPlan:
    """The plan on the nodes that there are; what memory they have is not asked."""
    hosts = tuple(Hosts(name=each.name, count=1, has=Share(cpus=each.cpus, memory_gb=inf)) for each in machines)
    return replace(plan, hosts=hosts, pods=(), head=None)


def _entered(plan: RlPlan) -> str:
    return f"show {plan.address} its token: by `ray.token_file` of the nodes on it, else by `rl.cluster.token_file`"
