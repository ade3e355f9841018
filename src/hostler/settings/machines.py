"""Machines of a fleet file, to the specs that the core works on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from hostler.model.fleet import DeviceSpec, NodeLimits, NodeSpec
from hostler.model.work import DeviceKind
from hostler.settings.models import Fleet
from hostler.settings.nodes import Node, Rocm

AMD = re.compile(r"\b(?:AMD|Radeon|Instinct|MI ?\d{2,3}[A-Z]?|RX ?\d{3,4}\w*|gfx\d+)\b", re.IGNORECASE)
"""What AMD's GPUs are called."""

APPLE = re.compile(r"Apple\b|M\d( Pro| Max| Ultra)?$", re.IGNORECASE)
"""What Apple's are called; all others are taken for Nvidia's."""
LEASE_S, EPHEMERAL_LEASE_S = 12 * 3600.0, 1800.0
"""For how long nodes out of reach keep what they have, unless their owner says otherwise. A controller that is away for
a night must not cost the night's work: nodes cannot tell that it is away from being cut off."""


def virtual_nodes(fleet: Fleet) -> tuple[NodeSpec, ...]:
    """The nodes that are only described, complete with their devices, in the order of the file."""
    return tuple(node_spec(node) for node in fleet.nodes if node.backend == "virtual")


def node_spec(node: Node) -> NodeSpec:
    """The node as its settings describe it; the devices of any but a virtual one are for its probe to find."""
    spec = NodeSpec(
        name=node.name,
        backend=node.backend,
        devices=tuple(_devices(node)) if node.backend == "virtual" else (),
        env=node_env(node),
        provider=node.provider,
        labels=node.labels,
        foreign_use=node.foreign_use,
        yield_to_others=node.yield_to_others,
        ephemeral=node.ephemeral,
        lifetime_s=node.lifetime_s,
        price_per_h=node.price_per_h,
        ends_at=node.ends_at,
        cpus=node.cpus,
        canary=_canary(node),
        limits=NodeLimits(work=node.work, scripts=node.scripts, stagger_s=node.stagger_s, memory_gb=node.memory_gb),
        lease_s=_lease_s(node),
    )
    return spec if node.python is None else replace(spec, python=node.python)


def node_env(node: Node) -> dict[str, str]:
    """What lies under the environment of every process on the node: what ROCm needs, and `env`, which wins."""
    return {**({} if node.rocm is None else _rocm(node.rocm)), **node.env}


def _rocm(asked: Rocm) -> dict[str, str]:
    told = {
        "HSA_OVERRIDE_GFX_VERSION": asked.gfx,
        "ROCM_PATH": asked.home,
        "HIP_PATH": asked.home,
        "HSA_ENABLE_SDMA": None if asked.sdma else "0",
        "PYTORCH_HIP_ALLOC_CONF": asked.alloc_conf,
    }
    return {name: value for name, value in told.items() if value is not None}


def _canary(node: Node) -> tuple[str, ...] | None:
    """What the spec has for it: nothing, the agent's own program (no words), or a command."""
    asked = node.canary or ("auto" if node.backend in ("ssh", "dialin") else "none")
    if isinstance(asked, tuple):
        return asked
    return () if asked == "auto" else None


def _lease_s(node: Node) -> float | None:
    if node.lease_s == "auto" and node.backend == "local":
        return None  # nobody else could have it started elsewhere: where this machine is, its controller is
    if node.lease_s == "auto":
        return EPHEMERAL_LEASE_S if node.ephemeral else LEASE_S
    return None if node.lease_s == "never" else node.lease_s


def _devices(node: Node) -> Iterator[DeviceSpec]:
    """GPUs and CPU slots under the ids that a probe would give them: each kind counts from 0."""
    seen: Counter[DeviceKind] = Counter()
    for gpus in node.gpus if isinstance(node.gpus, tuple) else ():
        kind = _kind(gpus.model)
        for _ in range(gpus.count):
            yield _device(node, kind, seen[kind], gpus.model, gpus.vram_gb)
            seen[kind] += 1
    for index in range(_cpu_slots(node)):
        yield _device(node, DeviceKind.CPU, index)


def _kind(model: str) -> DeviceKind:
    if AMD.search(model):
        return DeviceKind.ROCM
    return DeviceKind.MPS if APPLE.match(model) else DeviceKind.CUDA


def _device(
    node: Node, kind: DeviceKind, index: int, model: str | None = None, vram_gb: float | None = None
) -> DeviceSpec:
    name = f"{node.name}/{kind}{index}"
    return DeviceSpec(id=name, node=node.name, kind=kind, index=index, model=model, vram_gb=vram_gb)


def _cpu_slots(node: Node) -> int:
    if node.cpu_slots != "auto":
        return node.cpu_slots
    return 0 if isinstance(node.gpus, tuple) else max(1, int(node.cpus or 1))
