"""The devices of a pilot: what was asked of the cluster, and which GPUs of its machine that became."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hostler.backends.base import Facts
from hostler.backends.facts import gpu_of
from hostler.backends.ray.terms import Terms
from hostler.model.fleet import DeviceSpec
from hostler.model.work import DeviceKind

SHOWN = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def devices_of(node: str, use: Terms, found: Sequence[Facts], visible: str | None) -> tuple[DeviceSpec, ...]:
    """Its GPUs, counted from 0 as they were asked for, and its CPU slots.

    `found` are those of the whole machine, as its agent tells of them; `visible` are those that Ray gave.
    """
    gpus = [_gpu(node, use, index, facts) for index, facts in enumerate(_given(found, visible, use.wants.gpus))]
    slots = range(use.cpu_slots)
    cpus = [DeviceSpec(id=f"{node}/cpu{at}", node=node, kind=DeviceKind.CPU, index=at) for at in slots]
    return (*gpus, *cpus)


def shown(env: Mapping[str, str], visible: str | None) -> Mapping[str, str]:
    """The environment of work that is confined to some GPUs of a pilot, in the numbers of its machine."""
    given = [each.strip() for each in (visible or "").split(",") if each.strip()]
    if not given:
        return env
    return {name: _renamed(value, given) if name in SHOWN else value for name, value in env.items()}


def _given(found: Sequence[Facts], visible: str | None, count: int) -> Iterator[Facts | None]:
    by_index = {str(each["index"]): each for each in found}
    names = [each.strip() for each in (visible or "").split(",") if each.strip()]
    for at in range(count):
        yield by_index.get(names[at]) if at < len(names) else None


def _gpu(node: str, use: Terms, index: int, facts: Facts | None) -> DeviceSpec:
    found = None if facts is None else gpu_of(facts)
    return DeviceSpec(
        id=f"{node}/{use.gpu_kind}{index}",
        node=node,
        kind=use.gpu_kind,
        index=index,
        model=(found and found.model) or use.gpu_model,
        vram_gb=use.vram_gb if found is None or found.vram_gb is None else found.vram_gb,
    )


def _renamed(value: str, given: Sequence[str]) -> str:
    """Positions to what stands there; what is no position of these stays."""
    parts = [part.strip() for part in value.split(",")]
    return ",".join(given[int(part)] if part.isdigit() and int(part) < len(given) else part for part in parts)
