"""What a RayJob or RayCluster asks for, and whether Kueue's queue and the namespace's quotas have it. Pure arithmetic.

Kueue: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/; quotas:
https://kubernetes.io/docs/concepts/policy/resource-quotas/
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from lightkube.utils.quantity import parse_quantity

from hostler.backends.kuberay.objects import Manifest
from hostler.model.record import record

Amounts: TypeAlias = Mapping[str, Decimal]
"""By the names of Kubernetes: `cpu` in cores, `memory` in bytes, `nvidia.com/gpu`."""
GIB = 2**30
OURS = frozenset({"NotTerminating", "NotBestEffort"})
"""Scopes of quotas that pods of Ray are in."""


@record
class Told:
    """One thing that was looked at in the cluster."""

    check: Literal["cluster", "version", "queue", "quota", "rbac"]
    code: str
    health: Literal["ok", "note", "unknown", "error"]
    says: str
    fix: str = ""


def demand(main: Manifest) -> Amounts:
    """What all pods of a RayJob or RayCluster ask for together; `pods` are their number."""
    total: dict[str, Decimal] = defaultdict(Decimal)
    for count, template in _pods(main):
        total["pods"] += count
        for container in template["spec"]["containers"]:
            for name, amount in container["resources"]["requests"].items():
                total[name] += count * _amount(amount)
    return dict(total)


def queued(main: Manifest, name: str, cluster_queue: Manifest) -> Told:
    """Whether a ClusterQueue, by the name of a LocalQueue that leads to it, has what a job asks for."""
    wanted, whole = demand(main), f"{name} (ClusterQueue {cluster_queue['metadata']['name']})"
    spec, status = cluster_queue.get("spec") or {}, cluster_queue.get("status") or {}
    covered = {each for group in spec.get("resourceGroups") or () for each in group["coveredResources"]}
    strange = sorted(wanted.keys() - covered - {"pods"})
    if strange:
        says = f"{whole} has no quota for {', '.join(strange)}, and admits nothing that asks for it"
        return _error("queue", "uncovered", says, "ask for none of that, or have it covered by the queue's owner")
    most, used = _quota(spec), _used(status)
    if not spec.get("cohort") and not spec.get("cohortName"):
        never = list(_short(wanted, most))
        if never:
            says = f"{whole} will never admit it: {_listed(never, 'its quota is')}"
            return _error("queue", "small", says, "ask for fewer pods or smaller ones, or for another queue")
    now = list(_short(wanted, {key: amount - used.get(key, Decimal()) for key, amount in most.items()}))
    waiting = status.get("pendingWorkloads") or 0
    if now or waiting:
        before = f"; {waiting} wait there already" if waiting else ""
        says = f"{whole} would keep it waiting: {_listed(now, 'free of its quota is') or 'others come first'}{before}"
        return Told(check="queue", code="full", health="note", says=says, fix="wait, or ask for less")
    return Told(check="queue", code="ok", health="ok", says=f"{whole} has room for {in_words(wanted)}")


def quotas(main: Manifest, found: Iterable[Manifest]) -> Iterator[Told]:
    """What ResourceQuotas of the namespace say to it."""
    asked, ours = demand(main), [each for each in found if _is_for_us(each)]
    faults = [fault for quota in ours if (fault := _exceeded(quota, asked)) is not None]
    yield from faults
    if not faults:
        names = ", ".join(quota["metadata"]["name"] for quota in ours)
        says = f"the quota {names} of the namespace has room for it" if ours else "the namespace has no quota"
        yield Told(check="quota", code="ok", health="ok", says=says)


def in_words(amounts: Amounts) -> str:
    """For people."""
    return ", ".join(_one(name, amount) for name, amount in amounts.items())


def _pods(main: Manifest) -> Iterator[tuple[int, Mapping[str, Any]]]:
    spec = _cluster(main)
    yield 1, spec["headGroupSpec"]["template"]
    for group in _groups(spec):
        yield group["replicas"], group["template"]
    submitter = main["spec"].get("submitterPodTemplate")
    if submitter is not None:
        yield 1, submitter


def _cluster(main: Manifest) -> Mapping[str, Any]:
    found: Mapping[str, Any] = main["spec"].get("rayClusterSpec", main["spec"])
    return found


def _groups(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return spec.get("workerGroupSpecs") or ()


def _quota(spec: Mapping[str, Any]) -> dict[str, Decimal]:
    """By resource, all flavors together: more than that is never admitted."""
    total: dict[str, Decimal] = defaultdict(Decimal)
    for group in spec.get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for each in flavor["resources"]:
                total[each["name"]] += _amount(each["nominalQuota"])
    return dict(total)


def _used(status: Mapping[str, Any]) -> dict[str, Decimal]:
    """What is reserved already, and by this queue itself."""
    total: dict[str, Decimal] = defaultdict(Decimal)
    for flavor in status.get("flavorsReservation") or status.get("flavorsUsage") or ():
        for each in flavor.get("resources") or ():
            total[each["name"]] += _amount(each.get("total", 0))
    return dict(total)


def _exceeded(quota: Manifest, asked: Amounts) -> Told | None:
    name, status = quota["metadata"]["name"], quota.get("status") or {}
    hard, used = _of_quota(status, "hard") or _of_quota(quota.get("spec") or {}, "hard"), _of_quota(status, "used")
    wanted = {key: amount for key in hard if (amount := asked.get(_plain(key))) is not None}
    never = list(_short(wanted, hard))
    now = list(_short(wanted, {key: amount - used.get(key, Decimal()) for key, amount in hard.items()}))
    if never:
        says = f"the quota {name} of the namespace does not allow it: {_listed(never, 'allowed is')}"
        return _error("quota", "small", says, "ask for less, or have whoever set the quota raise it")
    if now:
        says = f"the quota {name} of the namespace is used up: {_listed(now, 'left is')}"
        return _error("quota", "full", says, "end what runs there (`kubectl get pods`), or ask for less")
    return None


def _is_for_us(quota: Manifest) -> bool:
    spec = quota.get("spec") or {}
    return not spec.get("scopeSelector") and OURS.issuperset(spec.get("scopes") or ())


def _of_quota(part: Mapping[str, Any], key: str) -> dict[str, Decimal]:
    return {name: _amount(amount) for name, amount in (part.get(key) or {}).items()}


def _plain(name: str) -> str:
    """What a quota counts: `requests.cpu` and `limits.cpu` are the same of pods whose requests are their limits."""
    return name.removeprefix("requests.").removeprefix("limits.").replace("count/pods", "pods")


def _short(wanted: Amounts, there: Amounts) -> Iterator[tuple[str, Decimal, Decimal]]:
    """Of what there is too little: its name, what is asked for, and what there is."""
    for name, amount in wanted.items():
        if name in there and amount > there[name]:
            yield name, amount, max(there[name], Decimal())


def _listed(short: Iterable[tuple[str, Decimal, Decimal]], has: str) -> str:
    return "; ".join(f"{_one(name, asked)} asked for, {has} {_one(name, there)}" for name, asked, there in short)


def _one(name: str, amount: Decimal) -> str:
    if "memory" in name or "storage" in name:
        return f"{float(amount) / GIB:.4g} GiB of {name}"
    return f"{float(amount):g} {name}"


def _amount(said: object) -> Decimal:
    found = parse_quantity(str(said))
    return Decimal() if found is None else found


def _error(check: Literal["queue", "quota"], code: str, says: str, fix: str) -> Told:
    return Told(check=check, code=code, health="error", says=says, fix=fix)
