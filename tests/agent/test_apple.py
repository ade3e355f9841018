"""The GPU of a Mac's own chip, from recorded answers: none of these machines is at hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.agent.apple import DISPLAYS, Apple, apple_devices

from .toolbox import answered

M2 = {
    "SPDisplaysDataType": [
        {
            "_name": "Apple M2 Max",
            "spdisplays_mtlgpufamilysupport": "spdisplays_metal3",
            "spdisplays_ndrvs": [{"_name": "Color LCD"}],
            "spdisplays_vendor": "sppci_vendor_Apple",
            "sppci_bus": "spdisplays_builtin",
            "sppci_cores": "38",
            "sppci_device_type": "spdisplays_gpu",
            "sppci_model": "Apple M2 Max",
        }
    ]
}
INTEL = {
    "SPDisplaysDataType": [{"_name": "Intel Iris", "sppci_model": "Intel Iris Plus", "spdisplays_vendor": "Intel"}]
}
DEVICE = {"index": 0, "kind": "mps", "model": "Apple M2 Max", "vram_bytes": 64 << 30, "uuid": None}


@pytest.mark.parametrize("memory", ["68719476736\n", "hw.memsize: 68719476736\n"])
def test_its_memory_is_that_of_the_machine(memory: str) -> None:
    assert apple_devices(json.dumps(M2), memory) == [DEVICE]


def test_what_is_not_told_is_unknown() -> None:
    assert apple_devices(json.dumps(M2), "") == [{**DEVICE, "vram_bytes": None}]
    assert apple_devices(json.dumps(INTEL), "8") == []
    assert apple_devices("it does not work", "8") is None


def test_two_programs_are_asked() -> None:
    def answer(argv: list[str]) -> str:
        return json.dumps(M2) if argv == DISPLAYS else "68719476736"

    tools: Any = None
    assert answered(Apple(tools).facts(), answer) == [DEVICE]
    assert answered(Apple(tools).facts(), lambda argv: json.dumps(M2) if argv == DISPLAYS else None) == [
        {**DEVICE, "vram_bytes": None}
    ]
    assert answered(Apple(tools).facts(), lambda argv: None) is None
    assert answered(Apple(tools).samples(), answer) == []


@given(st.text(max_size=100), st.text(max_size=30))
def test_any_answer_is_read(displays: str, memory: str) -> None:
    apple_devices(displays, memory)
    apple_devices(json.dumps({"SPDisplaysDataType": [{"_name": displays, "spdisplays_vendor": "Apple"}]}), memory)
