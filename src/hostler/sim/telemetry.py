"""What virtual nodes say of themselves: the truth, or a lie."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.inputs import Telemetry
from hostler.model.telemetry import DeviceTelemetry
from hostler.sim.agent import VirtualAgent
from hostler.sim.ground import Ground
from hostler.sim.nature import devices_of, is_gpu

Lie: TypeAlias = Literal["zero", "frozen", "absurd"]
LIES: tuple[Lie, ...] = ("zero", "frozen", "absurd")
MEMORY_GB, DISK_GB = 64.0, 500.0
USED_DISK, FULL_DISK_GB = 0.3, 0.2
COOL_C, HOT_C = 35.0, 80.0
ABSURD = -1e6


def told(node: NodeSpec, agent: VirtualAgent, ground: Ground, lie: Lie | None, before: Telemetry | None) -> Telemetry:
    """What the node tells now; `before` is what it told last, which one that is frozen tells again."""
    if lie == "frozen" and before is not None:
        return before
    true = _true(node, agent, ground)
    return true if lie is None or lie == "frozen" else _instead(true, 0.0 if lie == "zero" else ABSURD)


def _true(node: NodeSpec, agent: VirtualAgent, ground: Ground) -> Telemetry:
    shown = _readings(node, agent)
    return Telemetry(
        node=node.name,
        at=ground.agenda.now,
        load=len(agent.running()) / max(node.cpus or len(node.devices), 1.0),
        memory_total_gb=MEMORY_GB,
        memory_free_gb=MEMORY_GB / 2,
        disk_total_gb=DISK_GB,
        disk_free_gb=FULL_DISK_GB if agent.disk_full else DISK_GB * (1 - USED_DISK),
        backlog_s=0.0,
        devices={each.id: _device(each, shown.get(each.id, 0.0)) for each in node.devices if is_gpu(each)},
    )


def _readings(node: NodeSpec, agent: VirtualAgent) -> dict[str, float]:
    """Utilisation of each device, as its driver would tell it: what its processes use of it together."""
    shown: dict[str, float] = {}
    for process in agent.running():
        if process.course is None or process.task is None:
            continue
        for device in devices_of(node.name, process.order.queue):
            shown[device] = shown.get(device, 0.0) + process.course.reading * process.course.share
    return {device: min(value, 1.0) for device, value in shown.items()}


def _device(spec: DeviceSpec, utilization: float) -> DeviceTelemetry:
    vram_gb = spec.vram_gb or 0.0
    return DeviceTelemetry(
        utilization=utilization,
        vram_used_gb=0.5 * vram_gb if utilization else 0.0,
        temperature_c=COOL_C + (HOT_C - COOL_C) * utilization,
    )


def _instead(true: Telemetry, value: float) -> Telemetry:
    return Telemetry(
        node=true.node,
        at=true.at,
        load=value,
        memory_total_gb=value,
        memory_free_gb=value,
        disk_total_gb=value,
        disk_free_gb=value,
        backlog_s=value,
        devices={
            name: DeviceTelemetry(utilization=value, vram_used_gb=value, temperature_c=value) for name in true.devices
        },
    )
