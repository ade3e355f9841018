"""On which terms a Ray cluster is used by one node of the fleet."""

from __future__ import annotations

from hostler.backends.ray.machines import Wants
from hostler.model.record import record
from hostler.model.work import DeviceKind


@record
class Terms:
    """What a pilot asks for, and how it is kept."""

    wants: Wants
    cpu_slots: int
    """Processes on CPUs at a time."""
    folder: str
    """Where pilots have their folders, on whatever machine they come to; `~` is the home there."""
    python: str = "python3"
    idle_s: float = 300.0
    """So long a pilot waits for more work before it gives back what it has."""
    poll_s: float = 5.0
    gpu_kind: DeviceKind = DeviceKind.CUDA
    gpu_model: str | None = None
    vram_gb: float | None = None
