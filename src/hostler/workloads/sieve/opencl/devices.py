"""Which device a process may use: the GPU that Hostler gave it, or, when asked for, the CPU.

Hostler's agent binds a worker to its GPU by variables of the environment. NVIDIA's driver obeys its own in OpenCL too;
AMD's OpenCL knows ``ROCR_VISIBLE_DEVICES`` and not HIP's variable, which is therefore obeyed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hostler.workloads.sieve.errors import SieveError

CHOICE = "HOSTLER_SIEVE_OPENCL"
CHOICES = ("gpu", "cpu", "off")
AMD, NVIDIA = "AMD Accelerated Parallel Processing", "NVIDIA CUDA"
HIP_VARIABLES = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")

# What a compute unit does at a time, by kind: lanes of 32 bits.
GPU_LANES, CPU_LANES = 64, 4


class DeviceFailed(SieveError):
    """A device, or its driver, that fails or computes wrongly; the text names both."""


@dataclass(frozen=True, slots=True)
class Device:
    """An OpenCL device; ``handle`` is pyopencl's. ``rate``: operations on 32 bits a second, roughly, by its data."""

    name: str
    platform: str
    driver: str
    is_gpu: bool
    units: int
    megahertz: int
    handle: Any

    @property
    def rate(self) -> float:
        return self.units * self.megahertz * 1e6 * (GPU_LANES if self.is_gpu else CPU_LANES)

    def __str__(self) -> str:
        return f"{self.name} ({self.platform}, driver {self.driver})"


def device_for(choice: str | None, environ: Mapping[str, str]) -> Device | str:
    """The device to search on; a text says why there is none.

    ``choice`` is ``gpu``, ``cpu`` or ``off``; `None`: what :data:`CHOICE` says in the environment, or ``gpu``.
    """
    wanted = choice or environ.get(CHOICE) or "gpu"
    if wanted not in CHOICES:
        return f"{CHOICE} is {wanted!r}; set it to one of {', '.join(CHOICES)}"
    if wanted == "off":
        return "it is switched off"
    try:
        import pyopencl
    except ImportError:
        return "the Python package pyopencl is not installed (hostler[kernels])"
    devices = _listed(pyopencl, wanted, environ)
    if isinstance(devices, str):
        return devices
    return devices[0] if devices else f"no {wanted.upper()} is here that OpenCL can use"


def shown(platform: str, devices: Sequence[Any], environ: Mapping[str, str]) -> Sequence[Any] | str:
    """Those of a platform's GPUs that this process may use; a text where the environment names none that is there."""
    if all(environ.get(name) == "" for name in HIP_VARIABLES):
        return []  # what Hostler sets where a process is to use no GPU at all
    if platform == NVIDIA:
        return _obeyed(devices, environ)
    if platform != AMD:
        return devices
    name = next((name for name in HIP_VARIABLES if name in environ), None)
    return devices if name is None else _numbered(devices, name, environ[name])


def bound(platforms: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """The platform whose GPU Hostler gave this process, where several are there; `None` if it gave none."""
    order = [AMD, NVIDIA] if environ.get("HIP_VISIBLE_DEVICES") else [NVIDIA, AMD]
    given = any(environ.get(name) for name in HIP_VARIABLES)
    return next((name for name in order if given and name in platforms), None)


def _listed(cl: ModuleType, wanted: str, environ: Mapping[str, str]) -> list[Device] | str:
    kind = cl.device_type.GPU if wanted == "gpu" else cl.device_type.CPU
    found: list[Device] = []
    try:
        platforms = cl.get_platforms()
        meant = bound([platform.name for platform in platforms], environ) if wanted == "gpu" else None
        for platform in platforms:
            if meant not in (None, platform.name):
                continue
            devices = _of(cl, platform, kind)
            allowed = shown(platform.name, devices, environ) if wanted == "gpu" else devices
            if isinstance(allowed, str):
                return allowed
            found += [_described(platform.name, device, wanted == "gpu") for device in allowed]
    except cl.Error as error:
        return f"OpenCL lists no devices ({_said(error)}); no driver (ICD) may be installed"
    return found


def _of(cl: ModuleType, platform: Any, kind: Any) -> list[Any]:
    try:
        return list(platform.get_devices(device_type=kind))
    except cl.RuntimeError:  # some drivers say so where there is none
        return []


def _described(platform: str, device: Any, is_gpu: bool) -> Device:
    name, driver = device.name.strip(), device.driver_version.strip()
    return Device(name, platform, driver, is_gpu, device.max_compute_units, device.max_clock_frequency, device)


def _obeyed(devices: Sequence[Any], environ: Mapping[str, str]) -> Sequence[Any] | str:
    name = "CUDA_VISIBLE_DEVICES"
    named = environ.get(name)
    if named is None:
        return devices
    # The driver has hidden the others already, unless it shows more than it was told to.
    return devices if len(devices) <= len(named.split(",")) and named else _numbered(devices, name, named)


def _numbered(devices: Sequence[Any], name: str, value: str) -> Sequence[Any] | str:
    numbers = [text.strip() for text in value.split(",") if text.strip()]
    if numbers[:1] in ([], ["-1"]):
        return []
    if not all(number.isdigit() and int(number) < len(devices) for number in numbers):
        return f"{name} is {value!r}, of which OpenCL, with {len(devices)} devices, knows nothing"
    return [devices[int(number)] for number in numbers]


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
