"""Which device a process takes, with made-up platforms."""

import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from hostler.workloads.sieve.opencl.devices import AMD, NVIDIA, Device, bound, device_for, shown

THREE = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        (AMD, {}, THREE),
        (AMD, {"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "1"}, ["b"]),
        (AMD, {"CUDA_VISIBLE_DEVICES": "2,0"}, ["c", "a"]),
        (AMD, {"HIP_VISIBLE_DEVICES": "-1"}, []),
        (NVIDIA, {}, THREE),
        (NVIDIA, {"CUDA_VISIBLE_DEVICES": "4,5,6"}, THREE),  # hidden by the driver already
        (NVIDIA, {"CUDA_VISIBLE_DEVICES": "2"}, ["c"]),  # not hidden by it
        (NVIDIA, {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}, []),
        (AMD, {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}, []),
        ("Intel(R) OpenCL Graphics", {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}, []),
        ("Intel(R) OpenCL Graphics", {"CUDA_VISIBLE_DEVICES": "1"}, THREE),
    ],
)
def test_the_devices_that_hostler_shows(platform: str, environ: Mapping[str, str], expected: list[str]) -> None:
    assert shown(platform, THREE, environ) == expected


@pytest.mark.parametrize(
    ("platforms", "environ", "expected"),
    [
        ([AMD, NVIDIA, "rusticl"], {}, None),
        ([AMD, NVIDIA, "rusticl"], {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}, None),
        ([AMD, NVIDIA, "rusticl"], {"CUDA_VISIBLE_DEVICES": "1"}, NVIDIA),
        (["rusticl", NVIDIA, AMD], {"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}, AMD),
        (["rusticl", AMD], {"CUDA_VISIBLE_DEVICES": "1"}, AMD),
        (["rusticl"], {"CUDA_VISIBLE_DEVICES": "1"}, None),
    ],
)
def test_a_machine_with_gpus_of_both_makers(
    platforms: list[str], environ: Mapping[str, str], expected: str | None
) -> None:
    assert bound(platforms, environ) == expected


@pytest.mark.parametrize("value", ["3", "GPU-2bd1"])
def test_a_device_that_is_not_there_is_named(value: str) -> None:
    assert f"HIP_VISIBLE_DEVICES is '{value}'" in str(shown(AMD, THREE, {"HIP_VISIBLE_DEVICES": value}))


def test_what_was_chosen_and_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_for("off", {}) == "it is switched off"
    assert device_for(None, {"HOSTLER_SIEVE_OPENCL": "off"}) == "it is switched off"
    assert "set it to one of gpu, cpu, off" in str(device_for(None, {"HOSTLER_SIEVE_OPENCL": "fast"}))
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    assert "pyopencl is not installed" in str(device_for("gpu", {}))


class Trouble(Exception):
    """As pyopencl's errors, of which ``RuntimeError`` and others are kinds."""


class Absent(Trouble):
    pass


def platforms(*described: tuple[str, dict[str, list[str]]]) -> SimpleNamespace:
    """A pyopencl with these platforms, whose devices are named by kind."""

    def platform(name: str, kinds: dict[str, list[str]]) -> SimpleNamespace:
        def get_devices(device_type: str) -> list[Any]:
            if device_type not in kinds:
                raise Absent("DEVICE_NOT_FOUND")
            return [
                SimpleNamespace(name=each, driver_version="1.0", max_compute_units=10, max_clock_frequency=1000)
                for each in kinds[device_type]
            ]

        return SimpleNamespace(name=name, get_devices=get_devices)

    kinds = SimpleNamespace(GPU="gpu", CPU="cpu")
    found = [platform(*each) for each in described]
    return SimpleNamespace(get_platforms=lambda: found, device_type=kinds, Error=Trouble, RuntimeError=Absent)


def test_gpus_are_taken_and_cpus_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    both = platforms(("Portable Computing Language", {"cpu": ["slow"]}), (NVIDIA, {"gpu": ["fast", "other"]}))
    monkeypatch.setitem(sys.modules, "pyopencl", both)
    gpu, cpu = device_for(None, {}), device_for(None, {"HOSTLER_SIEVE_OPENCL": "cpu"})
    assert isinstance(gpu, Device)
    assert isinstance(cpu, Device)
    assert (gpu.name, cpu.name) == ("fast", "slow")
    assert str(gpu) == "fast (NVIDIA CUDA, driver 1.0)"
    assert gpu.rate > cpu.rate
    alone = platforms(("Portable Computing Language", {"cpu": ["slow"]}))
    monkeypatch.setitem(sys.modules, "pyopencl", alone)
    assert "no GPU is here" in str(device_for(None, {}))


def test_an_error_of_the_loader_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_platforms() -> list[Any]:
        raise Trouble("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    broken = platforms()
    broken.get_platforms = no_platforms
    monkeypatch.setitem(sys.modules, "pyopencl", broken)
    assert "PLATFORM_NOT_FOUND_KHR" in str(device_for(None, {}))
