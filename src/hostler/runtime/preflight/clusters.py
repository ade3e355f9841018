"""Does the cluster answer, is it of the right version, has it the room? What speaks to it, a backend brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hostler.model.errors import LinkError
from hostler.model.record import record
from hostler.model.rl import RlPlan
from hostler.policy.sampling import number
from hostler.runtime.preflight.proof import Proof, error, ok, unknown


@record
class Machine:
    """A node of Ray."""

    name: str
    cpus: float
    """That it was begun with, whoever has them now."""


@record
class Ran:
    """What a program came to."""

    status: int | None
    """`None`: it was killed, or did not begin."""
    out: str
    err: str


class RayCluster(Protocol):
    """A Ray cluster, as the preflight asks it. Every method ends within some seconds, or raises `LinkError`."""

    async def version(self) -> str:
        """Of Ray, as `2.60.0`."""
        ...

    async def machines(self) -> Sequence[Machine]:
        """Nodes that live."""
        ...

    async def run(self, machine: str, argv: Sequence[str], timeout_s: float) -> Ran:
        """Run a program on one of them; a first word `{python}` is what runs Hostler's workloads there."""
        ...


class Allows(Protocol):
    """A Kubernetes cluster, as the preflight asks it."""

    async def proofs(self, plan: RlPlan) -> Sequence[Proof]:
        """Whether queue, quota and rights let it begin (checks `queue`, `quota`, `rbac`), each with its fix."""
        ...


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
    except LinkError as fault:
        return [error("cluster", "unreached", str(fault), "see that its head runs, and that the address is its own")]
    return [_room(plan, machines), _version(found, version)]


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
    return ok("cluster", f"{says}, {number(asked)} are asked for")


def _version(found: str, wanted: str | None) -> Proof:
    if wanted is None:
        return ok("version", f"Ray {found}; none is asked for")
    if found.split(".")[: wanted.count(".") + 1] != wanted.split("."):
        fix = "use an image of that version on both sides: Ray joins no nodes of another one"
        return error("version", "other", f"the cluster has Ray {found}, {wanted} is expected", fix)
    return ok("version", f"Ray {found}, as expected")
