"""Machines and what they are made of; what is known about them, each fact apart from the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from hostler.model.numbers import Few
from hostler.model.pools import Pool
from hostler.model.record import record
from hostler.model.work import GIGABYTES_MAX, DeviceKind, LabelName, LabelValue, Rest, Seconds, WorkKind

Money = Annotated[float, Field(ge=0, le=1e9)]
"""An amount in the currency of the fleet file, dollars say."""


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
    index: Few
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


class MemoryLimits(StrEnum):
    """What holds the attempts of a node to their memory limits."""

    CGROUP = "cgroup"
    """The kernel, in a cgroup of each attempt."""
    WATCHED = "watched"
    """Its agent, which measures the resident memory of their processes."""


@record
class NodeLimits:
    """What may run on a node at the same time. `None` sets no limit."""

    work: tuple[WorkKind, ...] | None = None
    """Kinds of work allowed there."""
    scripts: Few | None = None
    """Script jobs at a time: hosts with weak CPUs choke on more."""
    stagger_s: Rest = 0.0
    """Least time between two starts of processes on its GPUs."""
    memory_gb: Annotated[float, Field(gt=0, le=GIGABYTES_MAX)] | None = None
    """Budget that the `memory_gb` of everything that runs there is reserved from."""


NO_LIMITS = NodeLimits()


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
    provider: str | None = None
    """Who rents it out; `None`: nobody, or nobody said."""
    ephemeral: bool = False
    """Whether it may vanish without notice."""
    lifetime_s: Rest | None = None
    """Mean time an ephemeral node lives, as far as its owner knows; `None`: the policy's usual."""
    price_per_h: Money | None = None
    """What the whole node costs per hour; `None`: unknown."""
    ends_at: float | None = None
    """Unix time at which it goes away: the end of a rental or of an allocation."""
    cpus: Annotated[float, Field(gt=0)] | None = None
    """Host cores that jobs may reserve; `None`: unknown, and then nothing is refused for them."""
    limits: NodeLimits = NO_LIMITS
    apart: bool = False
    """Whether its files are its own: what work needs is sent there, what it makes is fetched before it counts."""
    canary: tuple[str, ...] | None = None
    """What proves its devices before they get work: nothing (`None`), the agent's own program (`()`), or a command."""
    lease_s: Seconds | None = None
    """How long what it runs stays its own while it is out of reach; `None`: for ever."""
    labels: Mapping[LabelName, LabelValue] = field(default_factory=dict)
    """Its owner's words about it, which work may ask for."""
    foreign_use: Literal["wait", "share", "ignore"] = "wait"
    """What is placed on GPUs that others use: nothing, what fits beside them, or whatever comes."""
    yield_to_others: bool = False
    """Whether work that can be stopped without loss leaves a GPU when others begin to use it."""
    pool: Pool | None = None
    """Of a part of a cluster, whose own scheduler gives its devices out; `None`: a machine."""


BINDINGS: Mapping[DeviceKind, tuple[str, ...]] = {
    DeviceKind.CPU: (),
    DeviceKind.CUDA: ("CUDA_VISIBLE_DEVICES",),
    # Not ROCR_VISIBLE_DEVICES as well: HIP would count again inside what that one leaves.
    DeviceKind.ROCM: ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    # A machine has one of these, and nothing hides it.
    DeviceKind.MPS: (),
}
"""Variables that show a process its device and no other."""

CUDA_ORDER: Mapping[str, str] = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Makes CUDA count as nvidia-smi does; left to itself it counts the fastest device first."""

HIDE_GPUS: Mapping[str, str] = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
"""What a process on a CPU slot gets, so that it cannot take a GPU that another one holds."""


def binding(*devices: DeviceSpec) -> dict[str, str]:
    """Environment that confines a process to these devices, all of one kind and of one node.

    A CPU slot is one thread wide unless the job says otherwise.
    """
    kind = devices[0].kind
    if kind is DeviceKind.CPU:
        return {**HIDE_GPUS, "OMP_NUM_THREADS": str(len(devices)), "NUMBA_NUM_THREADS": str(len(devices))}
    shown = {name: ",".join(str(each.index) for each in devices) for name in BINDINGS[kind]}
    return {**CUDA_ORDER, **shown} if kind is DeviceKind.CUDA else shown
