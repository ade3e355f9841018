"""Can this work run on this device?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.model.fleet import DeviceSpec
from hostler.model.work import DeviceKind, Resources
from hostler.policy.fit import refusal


def device(kind: DeviceKind = DeviceKind.CUDA, vram_gb: float | None = 24.0) -> DeviceSpec:
    return DeviceSpec(id=f"n/{kind}0", node="n", kind=kind, index=0, vram_gb=vram_gb)


CPU = device(DeviceKind.CPU, None)


@pytest.mark.parametrize(
    ("need", "on", "gate"),
    [
        (Resources(), CPU, None),
        (Resources(), device(), None),
        (Resources(device="cpu"), CPU, None),
        (Resources(device="gpu"), device(DeviceKind.ROCM), None),
        (Resources(vram_gb=24), device(), None),
        (Resources(device="cpu"), device(), "device kind: needs a CPU slot"),
        (Resources(device="gpu"), CPU, "device kind: needs a GPU"),
        (Resources(vram_gb=24.5), device(), "VRAM: needs 24.5 GB, n/cuda0 has 24 GB"),
        (Resources(vram_gb=1), device(vram_gb=None), "VRAM: needs 1 GB, that of n/cuda0 is unknown"),
        (Resources(vram_gb=1), CPU, "unknown"),
    ],
)
def test_a_refusal_names_its_gate(need: Resources, on: DeviceSpec, gate: str | None) -> None:
    answer = refusal(need, on)
    assert answer is None if gate is None else gate in str(answer)


@given(st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0, 1e4))
def test_more_memory_never_fits_less(need: float, have: float, more: float) -> None:
    wanted = Resources(vram_gb=need)
    if refusal(wanted, device(vram_gb=have)) is None:
        assert refusal(wanted, device(vram_gb=have + more)) is None
