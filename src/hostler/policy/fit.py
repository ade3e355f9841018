"""Can this work run on this device? A refusal names its gate.

`refusal` asks what never changes while a node's description is the same, `crowded` what depends on what runs there now.
What is unknown about a device refuses whatever asks for it: a guess would cost a crashed job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from hashlib import blake2b
from itertools import islice
from typing import Literal, TypeAlias

from hostler.model.fleet import NO_LIMITS, DeviceSpec, NodeLimits, NodeSpec
from hostler.model.pools import Pool
from hostler.model.record import record
from hostler.model.rules import Tier
from hostler.model.units import gigabytes
from hostler.model.work import DeviceKind, Resources, WorkKind, disk_need
from hostler.policy import constraints
from hostler.policy.cost import device_price

TIER_1_GB = 80.0
TIER_2_GB = 32.0
TIERS: tuple[Tier, ...] = (1, 2, 3)
TIER_BELOW_GB: Mapping[Tier, float] = {1: float("inf"), 2: TIER_1_GB, 3: TIER_2_GB}
"""No node of the tier has as much VRAM as this."""
NOMINAL = 0.97
"""Cards have a few percent less than their names say, of which some is the driver's and some is GB against GiB."""
HEADROOM = 0.05
"""Share of a device's VRAM that nobody is promised where several share it: drivers and fragments take their part."""
ROUNDING = 1e-6
"""Sums of reservations may be off by so much."""
HASHED = re.compile(r" #[0-9a-f]{6}$")
SIZED = re.compile(r"(?<= )(\d+(?:\.\d+)?)GB(?= |$)")


class Gate(StrEnum):
    """What keeps work off a device, in the words that people read."""

    KIND = "device kind"
    NODE = "node"
    MODEL = "GPU model"
    PROVIDER = "provider"
    LABEL = "label"
    VRAM = "VRAM"
    TIER = "tier"
    WORK = "work kind"
    GPUS = "GPUs"
    CPUS = "host CPUs"
    SCRIPTS = "script slots"
    MEMORY = "memory"
    DISK = "disk space"
    STAGGER = "start-up stagger"
    SHARED = "shared device"
    LANES = "lanes"
    PRESSURE = "pressure"
    QUARANTINE = "quarantine"
    CANARY = "canary"
    PRICE = "price cap"
    WALL = "remaining wall time"
    SURVIVAL = "survival"
    LINK = "link"
    CORDON = "cordon"
    FOREIGN = "in use by others"
    READING = "reading of its use"
    CLUSTER = "cluster queue"
    OPTIONS = "cluster options"
    FOLDER = "shared folder"
    TAKEN = "taken"
    RESERVED = "reserved"
    CONFIG = "one per config"
    GROUP = "limit of its group"
    FAILED = "failed there"
    ENVIRONMENT = "environment"


UNITS: Mapping[Gate, str] = {Gate.CPUS: "", Gate.MEMORY: " GB"}


@record
class Refusal:
    """The gate that keeps work off a device, and why, with the values compared."""

    gate: Gate
    why: str

    def __str__(self) -> str:
        return f"{self.gate}: {self.why}"


@record
class Site:
    """What never changes about a device while its node's description is the same."""

    device: DeviceSpec
    node: NodeSpec
    tier: Tier | None
    """Of the node; `None`: it has no GPUs, or the VRAM of one is unknown."""
    peers: tuple[DeviceSpec, ...]
    """Devices of the node of the same kind and model, itself among them: those that it may work with as one."""


@record
class NodeLoad:
    """What is reserved on a node by everything that runs there."""

    scripts: int
    cpus: float
    memory_gb: float
    since_start_s: float | None
    """Since a process was last started on one of its GPUs; `None`: never."""
    disk_gb: float = 0.0
    """Free space that is kept for what runs there."""
    disk_free_gb: float | None = None
    """Free space, as the node told of late; `None`: unknown."""


@record
class DeviceLoad:
    """What a device has been given."""

    attempts: int
    vram_gb: float
    """Reserved."""
    unshared: bool
    """Whether something that shares with nobody has it."""
    lanes: int
    """How many may share it now."""


@record
class BoardNeed:
    """What games and networks of a board ask of a GPU."""

    vram_gb: float
    tiers: tuple[Tier, ...]
    """Where they are recommended, best first."""
    batch: tuple[int, int]
    """Positions at a time that make sense, least and most."""


Search: TypeAlias = Literal["gumbel", "heuristic", "parallel"]
"""How self-play finds its moves; `parallel` is many games at once on one device."""

BOARDS: Mapping[str, BoardNeed] = {
    "hex8": BoardNeed(vram_gb=8, tiers=(3,), batch=(256, 512)),
    "square8": BoardNeed(vram_gb=8, tiers=(3,), batch=(256, 512)),
    "square19": BoardNeed(vram_gb=16, tiers=(2, 3), batch=(128, 256)),
    "hexagonal": BoardNeed(vram_gb=32, tiers=(1, 2), batch=(64, 128)),
}
USUAL_BATCH = 256
STAGE_TIERS: Mapping[WorkKind, tuple[Tier, ...]] = {
    WorkKind.TRAINING: (1, 2),
    # Tier 1 before 3: an evaluation is short and holds up a promotion; on tier 3 it would take many times as long.
    WorkKind.EVALUATION: (2, 1, 3),
}
ON_GPU = frozenset({WorkKind.SELFPLAY, WorkKind.TRAINING, WorkKind.EVALUATION})
"""Stages that have a network at work; an export turns games into tensors and asks for no GPU."""
SEARCH_TIERS: Mapping[Search, tuple[Tier, ...]] = {"gumbel": (1, 2), "heuristic": (3,), "parallel": ()}


def tier(vram_gb: float | None) -> Tier | None:
    """The tier of a node whose GPUs have so much VRAM in total; `None`: it has none, or nobody knows."""
    if vram_gb is None:
        return None
    if vram_gb >= NOMINAL * TIER_1_GB:
        return 1
    return 2 if vram_gb >= NOMINAL * TIER_2_GB else 3


def site(node: NodeSpec, device: DeviceSpec) -> Site:
    """What a device and its node are, as far as anything asks that places work."""
    peers = tuple(each for each in node.devices if (each.kind, each.model) == (device.kind, device.model))
    return Site(device=device, node=node, tier=tier(_node_vram_gb(node)), peers=peers)


def device_class(place: Site) -> str:
    """A name that two devices share only if no policy can tell them apart by what they and their nodes are.

    When a node goes away is not part of it: that is asked node by node. What the name does not show in words it
    carries as a short hash, e.g. `RTX 4090 24GB t1 x8 @vast ephemeral 0.35/h #3f9a21`.
    """
    node, price = place.node, device_price(place.node, place.device)
    words = [
        place.device.speed_class,
        "" if place.device.kind is DeviceKind.CPU else _gigabytes(place.device.vram_gb),
        f"t{place.tier}" if place.tier else "",
        f"x{len(place.peers)}" if len(place.peers) > 1 else "",
        f"@{node.provider}" if node.provider else "",
        "ephemeral" if node.ephemeral else "",
        "" if price is None else f"{price:g}/h",
        _fingerprint(place),
    ]
    return " ".join(word for word in words if word)


def class_label(name: str) -> str:
    """The name of a class as it is shown: sizes with one decimal, and without its hash."""
    words = HASHED.sub("", name)
    return SIZED.sub(lambda size: f"{gigabytes(float(size[1]))}GB", words)


def refusal(need: Resources, place: Site, work: WorkKind) -> Refusal | None:
    """The gate that keeps this kind of work with this need off the device for good; `None` where it fits."""
    limits = place.node.limits
    if limits.work is not None and work not in limits.work:
        return Refusal(gate=Gate.WORK, why=f"{place.node.name} is for {_listed(limits.work)}, not for {work}")
    if work is WorkKind.SCRIPT and limits.scripts == 0:
        return Refusal(gate=Gate.SCRIPTS, why=f"{place.node.name} takes no scripts")
    violated = constraints.class_violation(need, place.node, place.device)
    if violated is not None:
        return Refusal(gate=Gate(violated.kind), why=violated.why)
    return _device_refusal(need, place) or _host_refusal(need, place.node)


def node_refusal(need: Resources, node: str) -> Refusal | None:
    """The gate that keeps work off a node by its name, which devices of one class need not share; else `None`."""
    if not need.nodes and not need.exclude_nodes:
        return None
    violated = constraints.node_violation(need, node)
    return None if violated is None else Refusal(gate=Gate(violated.kind), why=violated.why)


def devices_needed(need: Resources, place: Site) -> int:
    """How many of the device's peers the work takes at once, where it fits: any so many of them have enough VRAM."""
    if _on_cpu_instead(need, place):
        return 1
    if not need.shards or need.vram_gb <= 0:
        return need.gpus
    return max(need.gpus, _shards(need.vram_gb, place.peers))


def crowded(need: Resources, work: WorkKind, place: Site, node: NodeLoad, device: DeviceLoad) -> Refusal | None:
    """The gate that keeps work off a device that it fits because of what runs there now; `None` where it can start."""
    limits = place.node.limits
    if work is WorkKind.SCRIPT and limits.scripts is not None and node.scripts >= limits.scripts:
        return Refusal(gate=Gate.SCRIPTS, why=f"{node.scripts} of {limits.scripts} of {place.node.name} taken")
    return (
        _overfull(Gate.CPUS, need.cpus, node.cpus, place.node.cpus)
        or _overfull(Gate.MEMORY, need.memory_gb or 0.0, node.memory_gb, limits.memory_gb)
        or _no_disk(need, work, place, node)
        or _too_soon(place, node)
        or _sharing_refusal(need, place.device, device)
    )


def too_large(node: NodeSpec, cpus: float | None, memory_gb: float | None) -> Refusal | None:
    """The gate that keeps an allocation of so much off a pool for good, as none of its hosts has that; else `None`."""
    pool = node.pool
    if pool is None:
        return None
    if cpus is not None and pool.cpus_per_host is not None and cpus > pool.cpus_per_host:
        why = f"needs {cpus:g} cores of one host, the largest of {node.name} has {pool.cpus_per_host}"
        return Refusal(gate=Gate.CPUS, why=why)
    if memory_gb is not None and pool.memory_gb_per_host is not None and memory_gb > pool.memory_gb_per_host:
        why = f"needs {memory_gb:g} GB of one host, the largest of {node.name} has {pool.memory_gb_per_host:g} GB"
        return Refusal(gate=Gate.MEMORY, why=why)
    return None


def stage_need(work: WorkKind, board: str | None = None, search: Search = "parallel") -> Resources:
    """What a stage of a training config needs that nobody has said more about.

    The tiers recommended for it come first in `tiers`, and after them all others that may have the VRAM: a preference,
    no prohibition, because a fleet of small GPUs must be able to train as well. For self-play the board narrows what
    its search would like, unless that leaves nothing. A board not in `BOARDS`, or none, asks for nothing.
    """
    known = BOARDS.get(board) if board is not None and work in ON_GPU else None
    selfplay = work is WorkKind.SELFPLAY
    liked = SEARCH_TIERS[search] if selfplay else STAGE_TIERS.get(work, ())
    return Resources(
        vram_gb=known.vram_gb if known else 0.0,
        tiers=_merged(liked, known, narrowed=selfplay),
        cpu_too=True,
        shared=selfplay,
    )


def usual_batch(board: str | None) -> int:
    """Positions of an optimiser step that nobody has said: as usual, as far as that makes sense on the board."""
    known = BOARDS.get(board) if board is not None else None
    if known is None:
        return USUAL_BATCH
    least, most = known.batch
    return min(max(USUAL_BATCH, least), most)


def _node_vram_gb(node: NodeSpec) -> float | None:
    sizes = [each.vram_gb for each in node.devices if each.kind is not DeviceKind.CPU]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _gigabytes(vram_gb: float | None) -> str:
    return "?GB" if vram_gb is None else f"{vram_gb:g}GB"


def _fingerprint(place: Site) -> str:
    """A hash of what a class's name does not say in words; nothing where all of that is as usual."""
    node, device = place.node, place.device
    gpus = sum(each.kind is not DeviceKind.CPU for each in node.devices)
    sizes = tuple(sorted((each.vram_gb is not None, each.vram_gb or 0.0) for each in place.peers))
    usual_gpus = 0 if device.kind is DeviceKind.CPU else len(place.peers)
    plain = node.limits == NO_LIMITS and node.cpus is None and node.lifetime_s is None and gpus == usual_gpus
    plain = plain and node.pool is None and not node.labels
    if plain and device.kind is not DeviceKind.ROCM and len(set(sizes)) == 1:
        return ""
    labels = tuple(sorted(node.labels.items()))
    values = (
        device.kind.value, sizes, gpus, node.cpus, node.lifetime_s, labels, *_limits(node.limits), *_of_pool(node)
    )  # fmt: skip
    return f"#{blake2b(repr(values).encode(), digest_size=3).hexdigest()}"


def _limits(limits: NodeLimits) -> tuple[object, ...]:
    work = None if limits.work is None else tuple(sorted(kind.value for kind in limits.work))
    return work, limits.scripts, limits.stagger_s, limits.memory_gb


def _of_pool(node: NodeSpec) -> tuple[object, ...]:
    return () if node.pool is None else (node.name, node.pool)


def _listed(kinds: Iterable[WorkKind]) -> str:
    return ", ".join(kinds) or "nothing"


def _device_refusal(need: Resources, place: Site) -> Refusal | None:
    device = place.device
    if need.device == "cpu" and device.kind is not DeviceKind.CPU:
        return Refusal(gate=Gate.KIND, why=f"needs a CPU slot, {device.id} is {device.kind}")
    if need.device == "gpu" and device.kind is DeviceKind.CPU:
        return Refusal(gate=Gate.KIND, why=f"needs a GPU, {device.id} is a CPU slot")
    if _on_cpu_instead(need, place):
        return None
    return _tier_refusal(need, place) or _vram_refusal(need, place) or _gpus_refusal(need, place)


def _on_cpu_instead(need: Resources, place: Site) -> bool:
    """Whether the work would run on a CPU slot in place of the GPU that its other needs describe."""
    return need.cpu_too and need.takes_any_device and place.device.kind is DeviceKind.CPU


def _tier_refusal(need: Resources, place: Site) -> Refusal | None:
    # Who names every tier says only which it likes best, so it does not matter what an unknown one is.
    if not need.tiers or place.tier in need.tiers or set(need.tiers) == set(TIERS):
        return None
    wanted = " or ".join(str(each) for each in need.tiers)
    has = "has none that is known" if place.tier is None else f"is {place.tier}"
    return Refusal(gate=Gate.TIER, why=f"needs tier {wanted}, {place.node.name} {has}")


def _vram_refusal(need: Resources, place: Site) -> Refusal | None:
    device = place.device
    if need.vram_gb <= 0:
        return None
    if device.vram_gb is None:
        return Refusal(gate=Gate.VRAM, why=f"needs {gigabytes(need.vram_gb)} GB, that of {device.id} is unknown")
    if not need.shards:
        if NOMINAL * need.vram_gb <= device.vram_gb:
            return None
        return Refusal(
            gate=Gate.VRAM, why=f"needs {gigabytes(need.vram_gb)} GB, {device.id} has {gigabytes(device.vram_gb)} GB"
        )
    total = sum(each.vram_gb or 0.0 for each in place.peers)
    if NOMINAL * need.vram_gb <= total:
        return None
    why = f"needs {gigabytes(need.vram_gb)} GB, {device.id} and its peers have {gigabytes(total)} GB together"
    return Refusal(gate=Gate.VRAM, why=why)


def _gpus_refusal(need: Resources, place: Site) -> Refusal | None:
    wanted = devices_needed(need, place)
    each_gb = 0.0 if need.shards else NOMINAL * need.vram_gb
    fitting = (peer for peer in place.peers if (peer.vram_gb or 0.0) >= each_gb)
    able = sum(1 for _ in islice(fitting, wanted))  # a pool has thousands, of which mostly one is wanted
    pool = place.node.pool
    per_host = None if pool is None or place.device.kind is DeviceKind.CPU else _per_host(pool, place.device)
    if per_host is not None and wanted > per_host:
        why = f"needs {wanted} of one host, those of {place.node.name} have {per_host}"
        return Refusal(gate=Gate.GPUS, why=why)
    if wanted <= able:
        return None
    return Refusal(gate=Gate.GPUS, why=f"needs {wanted} of one kind, {place.node.name} has {able}")


def _per_host(pool: Pool, device: DeviceSpec) -> int | None:
    known = None if device.model is None else pool.gpus_by_model.get(device.model)
    return pool.gpus_per_host if known is None else known


def _shards(vram_gb: float, peers: Iterable[DeviceSpec]) -> int:
    """The least number such that any so many of the peers have the VRAM; all of them where even they do not."""
    total, count = 0.0, 0
    for size in sorted(each.vram_gb or 0.0 for each in peers):
        if total >= NOMINAL * vram_gb:
            break
        total, count = total + size, count + 1
    return count


def _host_refusal(need: Resources, node: NodeSpec) -> Refusal | None:
    budget = node.limits.memory_gb
    if budget is not None and need.memory_gb is not None and need.memory_gb > budget:
        return Refusal(gate=Gate.MEMORY, why=f"needs {need.memory_gb:g} GB, {node.name} may give {budget:g} GB")
    if node.cpus is not None and need.cpus > node.cpus:
        return Refusal(gate=Gate.CPUS, why=f"needs {need.cpus:g} host CPUs, {node.name} has {node.cpus:g}")
    overhead_gb = 0.0 if node.pool is None else node.pool.overhead_gb
    return too_large(node, need.cpus, None if need.memory_gb is None else need.memory_gb + overhead_gb)


def _overfull(gate: Gate, wanted: float, reserved: float, limit: float | None) -> Refusal | None:
    if limit is None or wanted <= 0 or reserved + wanted <= limit + ROUNDING:
        return None
    return Refusal(gate=gate, why=f"needs {wanted:g}{UNITS[gate]}, {reserved:g} of the node's {limit:g} are reserved")


def _no_disk(need: Resources, work: WorkKind, place: Site, node: NodeLoad) -> Refusal | None:
    """What is unknown refuses nothing: the node itself looks again before it starts anything.

    Nobody measures what each attempt has written: all that is kept for what runs counts as not written yet.
    """
    wanted_gb = disk_need(need, work)
    if node.disk_free_gb is None or wanted_gb <= 0 or place.node.pool is not None:
        return None
    left_gb = node.disk_free_gb - node.disk_gb
    if wanted_gb <= left_gb + ROUNDING:
        return None
    why = (
        f"needs {wanted_gb:g} GB; {place.node.name} has {node.disk_free_gb:.3g} GB free, "
        f"{node.disk_gb:.3g} of it kept for what runs there"
    )
    return Refusal(gate=Gate.DISK, why=why)


def _too_soon(place: Site, node: NodeLoad) -> Refusal | None:
    stagger_s = place.node.limits.stagger_s
    if place.device.kind is DeviceKind.CPU or node.since_start_s is None or node.since_start_s >= stagger_s:
        return None
    why = f"{place.node.name} started a process {node.since_start_s:.1f} s ago, the next may after {stagger_s:g} s"
    return Refusal(gate=Gate.STAGGER, why=why)


def _sharing_refusal(need: Resources, device: DeviceSpec, load: DeviceLoad) -> Refusal | None:
    if load.attempts == 0:
        return None
    if load.unshared:
        return Refusal(gate=Gate.SHARED, why=f"what {device.id} does shares it with nobody")
    if not need.shared or device.kind is DeviceKind.CPU:
        return Refusal(gate=Gate.SHARED, why=f"{device.id} is in use and this cannot share it")
    if need.vram_gb <= 0 or device.vram_gb is None:
        return Refusal(gate=Gate.SHARED, why=f"{device.id} is in use and {_unknown(need)}")
    usable_gb = (1 - HEADROOM) * device.vram_gb
    if load.vram_gb + need.vram_gb > usable_gb + ROUNDING:
        reserved = f"{gigabytes(load.vram_gb)} of {gigabytes(usable_gb)} GB that {device.id} may share are reserved"
        why = f"needs {gigabytes(need.vram_gb)} GB, {reserved}"
        return Refusal(gate=Gate.VRAM, why=why)
    if load.attempts >= load.lanes:
        return Refusal(gate=Gate.LANES, why=f"{device.id} has {load.attempts} of {load.lanes} jobs that may share it")
    return None


def _unknown(need: Resources) -> str:
    return "its VRAM need is unknown" if need.vram_gb <= 0 else "how much VRAM it has is unknown"


def _merged(liked: tuple[Tier, ...], board: BoardNeed | None, *, narrowed: bool) -> tuple[Tier, ...]:
    """The liked tiers, best first, then the board's, then all others from the smallest up; none named means any."""
    recommended = board.tiers if board else ()
    both = tuple(each for each in liked if each in recommended) if narrowed else ()
    order = (*both, *liked, *recommended, *reversed(TIERS))
    vram_gb = board.vram_gb if board else 0.0
    if not liked and not recommended:
        return ()
    return tuple(each for each in dict.fromkeys(order) if vram_gb < TIER_BELOW_GB[each])
