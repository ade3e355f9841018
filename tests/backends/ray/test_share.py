"""The devices of a pilot, and the numbers that its GPUs have on their machine."""

from __future__ import annotations

from hostler.backends.ray.machines import Wants
from hostler.backends.ray.share import devices_of, shown
from hostler.backends.ray.terms import Terms
from hostler.model.work import DeviceKind

FOUND = [{"index": at, "kind": "cuda", "model": f"GPU {at}", "vram_bytes": at * 2**30} for at in range(4)]


def terms(cpus: int, gpus: int) -> Terms:
    return Terms(wants=Wants(cpus=cpus, gpus=gpus), cpu_slots=cpus, folder="~/x", gpu_model="H100", vram_gb=80.0)


def test_gpus_are_counted_as_they_were_asked_for_and_described_as_they_were_given() -> None:
    found = devices_of("n", terms(1, 2), FOUND, "3,1")
    assert [each.id for each in found] == ["n/cuda0", "n/cuda1", "n/cpu0"]
    assert [(each.model, each.vram_gb) for each in found[:2]] == [("GPU 3", 3.0), ("GPU 1", 1.0)]
    assert found[2].kind is DeviceKind.CPU


def test_what_nobody_has_seen_yet_is_as_the_settings_say() -> None:
    for found, visible in (([], None), ([], "0,1"), (FOUND, None)):
        assert [(each.model, each.vram_gb) for each in devices_of("n", terms(0, 2), found, visible)] == [
            ("H100", 80.0)
        ] * 2


def test_work_sees_its_own_gpus_by_the_numbers_of_the_machine() -> None:
    env = {"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0,1", "OTHER": "1"}
    assert shown(env, "5,GPU-7") == {"CUDA_VISIBLE_DEVICES": "GPU-7", "HIP_VISIBLE_DEVICES": "5,GPU-7", "OTHER": "1"}
    assert shown(env, None) == shown(env, "") == env
    assert shown({"CUDA_VISIBLE_DEVICES": ""}, "5") == {"CUDA_VISIBLE_DEVICES": ""}, "what hides all hides all"
