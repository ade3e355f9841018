"""Can this work run on this device? A refusal names its gate."""

from __future__ import annotations

from hostler.model.fleet import DeviceSpec
from hostler.model.work import DeviceKind, Resources


def refusal(need: Resources, device: DeviceSpec) -> str | None:
    """The gate that keeps work with this need off the device, with the values compared; `None` where it fits.

    What is unknown about a device refuses whatever asks for it: a guess would cost a crashed job.
    """
    if need.device == "cpu" and device.kind is not DeviceKind.CPU:
        return f"device kind: needs a CPU slot, {device.id} is {device.kind}"
    if need.device == "gpu" and device.kind is DeviceKind.CPU:
        return f"device kind: needs a GPU, {device.id} is a CPU slot"
    if need.vram_gb > 0 and device.vram_gb is None:
        return f"VRAM: needs {need.vram_gb:g} GB, that of {device.id} is unknown"
    if need.vram_gb > (device.vram_gb or 0):
        return f"VRAM: needs {need.vram_gb:g} GB, {device.id} has {device.vram_gb:g} GB"
    return None
