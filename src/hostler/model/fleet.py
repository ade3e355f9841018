"""Machines and what they are made of; what is known about them, each fact apart from the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from hostler.model.record import record
from hostler.model.work import DeviceKind


class Link(StrEnum):
    """Whether the controller can talk to a node now. Says nothing about what runs there."""

    UP = "up"
    DOWN = "down"


class Process(StrEnum):
    """What is known of an attempt's process, whatever the link does."""

    UNKNOWN = "unknown"
    """It may or may not have been started."""
    QUEUED = "queued"
    """The node holds the order and has not started it."""
    ALIVE = "alive"
    ENDED = "ended"


@record
class DeviceSpec:
    """One GPU or one CPU slot of a node; the unit of placement."""

    id: str
    """`<node>/<kind><index>`, e.g. `rig-1/cuda0`."""
    node: str
    kind: DeviceKind
    index: int
    model: str | None = None
    vram_gb: float | None = None

    @property
    def queue(self) -> str:
        """The name of the device on its node: the agent runs what is in one queue one after the other."""
        return f"{self.kind}{self.index}"

    @property
    def speed_class(self) -> str:
        """Devices of one class are expected to be equally fast until measured."""
        return self.model or self.kind


@record
class NodeSpec:
    """One machine of the fleet, as settings and its own probe describe it."""

    name: str
    backend: str
    devices: tuple[DeviceSpec, ...]
    python: str = "python3"
    """The interpreter that `{python}` stands for in a worker's command."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Laid under every process's own environment."""


BINDINGS: Mapping[DeviceKind, tuple[str, ...]] = {
    DeviceKind.CPU: (),
    DeviceKind.CUDA: ("CUDA_VISIBLE_DEVICES",),
    # Not ROCR_VISIBLE_DEVICES as well: HIP would count again inside what that one leaves.
    DeviceKind.ROCM: ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}
"""Variables that show a process its device and no other."""

HIDE_GPUS: Mapping[str, str] = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
"""What a process on a CPU slot gets, so that it cannot take a GPU that another one holds."""


def binding(device: DeviceSpec) -> dict[str, str]:
    """Environment that confines a process to `device`. A CPU slot is one thread wide unless the job says otherwise."""
    if device.kind is DeviceKind.CPU:
        return {**HIDE_GPUS, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    return {name: str(device.index) for name in BINDINGS[device.kind]}
