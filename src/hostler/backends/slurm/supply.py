"""What a partition has to give: the slots that the scheduler is shown, and how busy its hosts are. No I/O."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from hostler.backends.slurm.parsing import Gres, NodeRow, PartitionRecord
from hostler.backends.slurm.resources import AGENT_GB, MARGIN_S
from hostler.backends.slurm.terms import Terms
from hostler.model.fleet import DeviceSpec
from hostler.model.pools import Pool, Supply
from hostler.model.work import DeviceKind


def devices_of(node: str, hosts: Sequence[NodeRow], terms: Terms, cpu_slots: int | None) -> tuple[DeviceSpec, ...]:
    """The slots of a partition: its GPUs, as many of each type as it has; CPU slots where it has none, or if asked for.

    Hosts that are down count as well: they come back, and a slot that vanished would take what it has along.
    """
    gpus = list(_gpus(node, hosts, terms))[: terms.max_jobs]
    wanted = _cpu_slots(hosts, terms) if cpu_slots is None else cpu_slots
    count = 0 if gpus and cpu_slots is None else min(wanted, terms.max_jobs - len(gpus))
    cpus = (DeviceSpec(id=f"{node}/cpu{at}", node=node, kind=DeviceKind.CPU, index=at) for at in range(max(count, 0)))
    return (*gpus, *cpus)


def pool_of(hosts: Sequence[NodeRow], limits: PartitionRecord, terms: Terms) -> Pool:
    """What the core is told of the partition."""
    most, place = limits.max_time_s, terms.within(limits, hosts).place
    return Pool(
        partition=terms.partition,
        max_pending=terms.max_pending,
        longest_s=None if most is None or math.isinf(most) else most,
        margin_s=MARGIN_S,
        gpus_per_host=max((_count(host.gres, terms) for host in hosts), default=None),
        gpus_by_model=_by_model(hosts, terms),
        cpus_per_host=place.host_cpus,
        memory_gb_per_host=place.host_memory_gb,
        overhead_gb=AGENT_GB,
    )


def supply_of(hosts: Sequence[NodeRow]) -> Supply:
    """How busy the hosts are: in GPUs, or in cores where there are none."""
    up, down = [host for host in hosts if host.usable], [host for host in hosts if not host.usable]
    if any(_total(host) for host in hosts):
        used = sum(_sum(host.used) for host in up)
        all_up, all_down = sum(map(_total, up)), sum(map(_total, down))
    else:
        used = sum(host.cpus_allocated or 0 for host in up)
        all_up, all_down = sum(host.cpus or 0 for host in up), sum(host.cpus or 0 for host in down)
    return Supply(idle=max(all_up - used, 0), used=used, down=all_down, hosts=len(hosts), hosts_down=len(down))


def missing_type(hosts: Sequence[NodeRow], terms: Terms) -> str | None:
    """What is wrong where settings ask for GPUs of a type that the partition has not; `None`: nothing."""
    wanted = terms.place.gpu_type
    if wanted is None or not terms.gpus or any(_count(host.gres, terms) for host in hosts):
        return None
    types = {each.type or "one without a name" for host in hosts for each in host.gres if each.kind == "gpu"}
    has = f"those it has are {', '.join(sorted(types))}" if types else "it has none at all"
    return f"partition {terms.partition!r} has no GPU of type {wanted!r}: {has}"


def closed_of(hosts: Sequence[NodeRow]) -> str | None:
    """Why nothing begins in a partition; `None`: things do."""
    return next((host.available for host in hosts if host.available != "up"), None)


def _gpus(node: str, hosts: Sequence[NodeRow], terms: Terms) -> Iterator[DeviceSpec]:
    counts: Counter[str | None] = Counter()
    for host in hosts:
        for gres in _wanted(host.gres, terms):
            counts[gres.type] += gres.count
    index: Counter[DeviceKind] = Counter()
    for model, count in sorted(counts.items(), key=lambda item: item[0] or ""):
        kind = terms.gpu_kind
        for _ in range(count):
            yield DeviceSpec(
                id=f"{node}/{kind}{index[kind]}",
                node=node,
                kind=kind,
                index=index[kind],
                model=model,
                vram_gb=terms.vram_gb,
            )
            index[kind] += 1


def _by_model(hosts: Sequence[NodeRow], terms: Terms) -> dict[str, int]:
    """Of each model, as many as the host with the most of them has: a job is given GPUs of one model."""
    most = Counter[str]()
    for host in hosts:
        counts = Counter[str]()
        for gres in _wanted(host.gres, terms):
            counts[gres.type or ""] += gres.count
        most |= counts
    return {model: most[model] for model in sorted(most) if model}


def _wanted(gres: Sequence[Gres], terms: Terms) -> Iterator[Gres]:
    for each in gres if terms.gpus else ():
        if each.kind == "gpu" and terms.place.gpu_type in (None, each.type):
            yield each


def _count(gres: Sequence[Gres], terms: Terms) -> int:
    return sum(each.count for each in _wanted(gres, terms))


def _total(host: NodeRow) -> int:
    return _sum(host.gres)


def _sum(gres: Sequence[Gres]) -> int:
    return sum(each.count for each in gres if each.kind == "gpu")


def _cpu_slots(hosts: Sequence[NodeRow], terms: Terms) -> int:
    """How many jobs of the usual size its hosts have room for."""
    return sum((host.cpus or 0) // terms.slot_cpus for host in hosts)
