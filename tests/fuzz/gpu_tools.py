"""What nvidia-smi, amd-smi, rocm-smi, the driver's files and system_profiler print; and what becomes of it."""

from __future__ import annotations

import json
import math
from typing import Any

from hostler.agent.amd import amd_smi_rows, amd_smi_users, file_samples, in_order_of_bus, rocm_smi_rows
from hostler.agent.apple import apple_devices, apple_model_answer, memory_answer
from hostler.agent.nvidia import FACT_FIELDS, SAMPLE_FIELDS, device_rows, nvidia_sample, process_rows
from hostler.agent.protocol import encode, loads
from hostler.backends.facts import telemetry_of
from tests.agent import test_amd as amd, test_apple as apple, test_nvidia as nvidia

from .base import Target

FOLDERS = ["/sys/devices/0000:05:00.0", "/sys/devices/0000:0a:00.0"]
FILES = (
    "".join(f"==> {at}/gpu_busy_percent <==\n37\n\n==> {at}/mem_info_vram_used <==\n1073741824\n" for at in FOLDERS)
    + f"==> {FOLDERS[0]}/hwmon/hwmon1/temp1_input <==\n54000\n"
)  # fmt: skip


def target(data: bytes) -> None:
    """Numbers that are finite, not negative and of sane size, or `None`; all of it can be sent, and is understood."""
    text = data.decode("utf-8", "replace")
    told = [nvidia_sample(row) for row in device_rows(SAMPLE_FIELDS, text)] + file_samples(FOLDERS, text)
    list(device_rows(FACT_FIELDS, text))
    for device in told:
        _check(device, device["utilization"], device["vram_used_bytes"], device["temperature_c"])
    users = process_rows(text)
    assert users is None or all(int(row["pid"]) >= 0 for row in users)
    for read in (amd_smi_rows, rocm_smi_rows):
        rows = read(text)
        for row in in_order_of_bus(rows or []):
            _check(row._asdict(), row.utilization, row.vram_used_bytes, row.temperature_c, row.vram_bytes)
            assert row.number >= 0
            assert row.model is None or 0 < len(row.model) <= 200
    for place, listed in (amd_smi_users(text) or {}).items():
        assert place >= 0
        assert all(pid >= 0 and (used is None or used >= 0) for pid, used in listed)
    _apple(text)
    telemetry_of("n", loads(encode({"at": 1.0, "devices": told}).encode()))


def _apple(text: str) -> None:
    assert apple_model_answer(text) in (None, text)
    assert memory_answer(text) in (None, text)
    displays, _, memory = text.partition("\0")
    for device in apple_devices(displays, memory) or []:
        _check(device, device["vram_bytes"])


def _check(told: Any, *numbers: float | None) -> None:
    busy = told.get("utilization")
    assert busy is None or 0 <= busy <= 1, told
    assert all(each is None or (math.isfinite(each) and 0 <= each < 2**100) for each in numbers), told
    encode(told)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


TARGET = Target(
    name="gpu_tools",
    run=target,
    seeds=(
        nvidia.FACTS.encode(),
        nvidia.SAMPLES.encode(),
        b"GPU-1, 12, 5\nGPU-1, 13, [N/A]\n",
        FILES.encode(),
        _json(amd.STATIC),
        _json(amd.METRIC),
        _json(amd.PROCESS),
        _json(amd.ROCM),
        amd.LOW_POWER.encode() + _json({"gpu_data": amd.STATIC}),
        _json({"process_data": amd.PROCESS}),
        _json(apple.M2) + b"\0hw.memsize: 68719476736\n",
        _json(apple.INTEL) + b"\00068719476736\n",
    ),
    reads=("hostler.agent.nvidia", "hostler.agent.amd", "hostler.agent.apple", "hostler.agent.readings"),
    large={
        "rows": lambda: (nvidia.SAMPLES.encode() + b"\n") * 9_000,
        "deep": lambda: b"[" * (1 << 20),
        "beginnings": lambda: b"{" + b'"a":[' * 200_000,
        "braces": lambda: b"{}[" * 350_000,
        "files": lambda: FILES.encode() * 4_000,
        "devices": lambda: _json(amd.STATIC * 3_600),
        "digits": lambda: b'[{"gpu":' + b"9" * (1 << 20) + b"}]",
        "spaces": lambda: b"==> " + b" " * (1 << 20),
    },
)
