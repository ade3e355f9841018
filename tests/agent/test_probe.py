from __future__ import annotations

from pathlib import Path

import pytest

from hostler.agent import probe
from hostler.agent.probe import amd_devices, cpus, memory_bytes, memory_free_bytes, nvidia_devices


def test_nvidia_rows() -> None:
    assert nvidia_devices("") == []
    assert nvidia_devices("0, NVIDIA RTX A6000, 49140, GPU-1\n") == [
        {"index": 0, "kind": "cuda", "model": "NVIDIA RTX A6000", "vram_bytes": 49140 << 20, "uuid": "GPU-1"}
    ]
    assert nvidia_devices("NVIDIA-SMI has failed because it couldn't communicate with the driver") is None


def test_amd_devices_come_from_the_driver_in_the_order_of_the_bus(tmp_path: Path) -> None:
    for card, address, memory in (("card1", "0000:05", "8573157376"), ("card0", "0000:09", "what")):
        device = tmp_path / "devices" / address
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x1002\n")
        (device / "mem_info_vram_total").write_text(memory)
        (tmp_path / "drm" / card).mkdir(parents=True)
        (tmp_path / "drm" / card / "device").symlink_to(device)
    devices = amd_devices(str(tmp_path / "drm"))
    assert [(item["index"], item["vram_bytes"]) for item in devices] == [(0, 8573157376), (1, None)]
    assert {item["kind"] for item in devices} == {"rocm"}
    assert devices[0]["model"] is None


def test_this_machine() -> None:
    assert cpus() >= 1
    assert (memory_bytes() or 0) > 1 << 20
    assert 0 < (memory_free_bytes() or 0) < (memory_bytes() or 0)


def test_a_cgroup_leaves_what_it_has_not_used_but_for_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = tmp_path / "group"
    group.mkdir()
    monkeypatch.setattr(probe, "_cgroup_folders", lambda controller: [] if controller else [str(group)])
    (group / "memory.max").write_text("1000000\n")
    assert memory_free_bytes() != 1000000, "what it uses is unknown"
    (group / "memory.current").write_text("900000\n")
    (group / "memory.stat").write_text("anon 1\ninactive_file 300000\nactive_file 7\n")
    assert memory_free_bytes() == 400000
    (group / "memory.current").write_text("2000000\n")
    assert memory_free_bytes() == 0
    (group / "memory.max").write_text("max\n")
    assert (memory_free_bytes() or 0) > 1 << 20
