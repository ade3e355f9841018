"""What nvidia-smi says: of cards in slices, of lost ones, of who uses them; and what an older one does not know."""

from __future__ import annotations

import getpass
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.agent.nvidia import FACT_FIELDS, SAMPLE_FIELDS, Nvidia, device_rows, nvidia_sample, process_rows

from .toolbox import Workshop, answered, saying

SMI = """
case "$1" in
--query-gpu=index,name,*) {facts} ;;
--query-gpu=*) {samples} ;;
--query-compute-apps=*) {apps} ;;
esac
"""
FACTS = "0, NVIDIA RTX A6000, 49140, GPU-1\n1, NVIDIA A40-48Q, [N/A], GPU-2"
SAMPLES = (
    "0, 42, 100, 50, GPU-1, NVIDIA RTX A6000, [N/A]\n"
    "1, 7, 200, [N/A], GPU-2, NVIDIA A100-SXM4-40GB, Enabled\n"
    "2, 7, 300, 60, GPU-3, NVIDIA A40-48Q, [N/A]\n"
    "3, [Not Supported], [Unknown Error], ERR!, GPU-4, NVIDIA H100 80GB HBM3, Disabled"
)


def smi(facts: str = FACTS, samples: str = SAMPLES, apps: str = "") -> str:
    scripts = {"facts": saying(facts), "samples": saying(samples), "apps": saying(apps) if apps else ":"}
    return SMI.format(**scripts)


def test_what_devices_are(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.put("nvidia-smi", smi())
    assert shop.ask(Nvidia(shop.tools).facts()) == [
        {"index": 0, "kind": "cuda", "model": "NVIDIA RTX A6000", "vram_bytes": 49140 << 20, "uuid": "GPU-1"},
        {"index": 1, "kind": "cuda", "model": "NVIDIA A40-48Q", "vram_bytes": None, "uuid": "GPU-2"},
    ]


def test_how_busy_slices_are_is_unknown(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.put("nvidia-smi", smi())
    devices = shop.ask(Nvidia(shop.tools).samples())
    assert [each["utilization"] for each in devices] == [0.42, None, None, None]
    assert [each["vram_used_bytes"] for each in devices] == [100 << 20, 200 << 20, 300 << 20, None]
    assert [each["temperature_c"] for each in devices] == [50.0, None, 60.0, None]
    assert [each["processes"] for each in devices] == [[], [], [], []]


@pytest.mark.parametrize(
    ("name", "is_sliced"),
    [
        ("GRID T4-8C", True),
        ("NVIDIA A100-4-20C", True),
        ("NVIDIA RTX6000-Ada-24q", True),
        ("A100 20GB vGPU", True),
        ("NVIDIA A100-SXM4-40GB", False),
        ("Tesla V100-PCIE-16GB", False),
        ("GRID K520", False),
        ("NVIDIA GeForce RTX 4090", False),
    ],
)
def test_slices_are_told_by_their_names(name: str, is_sliced: bool) -> None:
    row = dict(zip(SAMPLE_FIELDS, ("0", "5", "6", "7", "GPU-1", name, "Disabled"), strict=True))
    assert nvidia_sample(row)["utilization"] == (None if is_sliced else 0.05)


def test_a_field_that_an_older_driver_does_not_know_is_done_without(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    asked = tmp_path / "asked"
    refusal = """echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2"""
    shop.put(
        "nvidia-smi",
        f'echo "$1" >> {asked}\ncase "$1" in\n*mig*) {refusal} ;;\n*apps*) ;;\n'
        "*) echo '0, 9, 10, 11, GPU-1, Tesla K80' ;;\nesac\n",
    )
    nvidia = Nvidia(shop.tools)
    for _ in range(2):
        (device,) = shop.ask(nvidia.samples())
        assert (device["utilization"], device["vram_used_bytes"]) == (0.09, 10 << 20)
    assert sum("mig" in line for line in asked.read_text().splitlines()) == 1, "it is asked for once and no more"
    assert shop.complaints == []


def test_without_a_field_that_is_needed_there_is_no_answer() -> None:
    def answer(argv: list[str]) -> str:
        return 'Field "memory.used" is not a valid field to query.'

    assert answered(Nvidia(Any).samples(), answer) is None  # type: ignore[arg-type]


def named(name: str | None, user: str | None) -> dict[str, str | None]:
    return {"name": name, "user": user, "attempt": None}


def test_nvidia_sample_lists_processes_of_each_device(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    ours = subprocess.Popen(["sleep", "600"])
    try:
        rows = [f"GPU-1, {ours.pid}, 500", "GPU-1, 1, [N/A]", f"GPU-1, {1 << 29}, 7", "GPU-9, 5, 6"]
        shop.put("nvidia-smi", smi(apps="\n".join(rows)))
        devices = shop.ask(Nvidia(shop.tools).samples())
    finally:
        ours.kill()
        ours.wait()
    assert devices[0]["processes"] == [
        {"pid": ours.pid, "vram_bytes": 500 << 20, "ours": True, **named("sleep", getpass.getuser())},
        {"pid": 1, "vram_bytes": None, "ours": False, **named(Path("/proc/1/comm").read_text().strip(), "root")},
        {"pid": 1 << 29, "vram_bytes": 7 << 20, "ours": None, **named(None, None)},
    ]
    assert devices[1]["processes"] == []


def test_of_many_processes_some_are_told(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.put("nvidia-smi", smi(apps="\n".join(f"GPU-1, {pid}, 1" for pid in range(1 << 29, (1 << 29) + 100))))
    assert len(shop.ask(Nvidia(shop.tools).samples())[0]["processes"]) == 32


def test_unknown_users_are_not_none(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.put("nvidia-smi", smi(apps="it does not work"))
    nvidia = Nvidia(shop.tools)
    for _ in range(2):
        assert "processes" not in shop.ask(nvidia.samples())[0]
    (words,) = shop.complaints
    assert words.startswith("nvidia-smi --query-compute-apps failed: it does not work;")


@pytest.mark.parametrize(
    "lost",
    [
        "Unable to determine the device handle for GPU1: 0000:02:00.0: GPU is lost.  Reboot the system to recover it",
        "[GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]",
    ],
)
def test_a_lost_card_is_left_out_and_named_once(tmp_path: Path, lost: str) -> None:
    shop = Workshop(tmp_path)
    nvidia = Nvidia(shop.tools)
    shop.put("nvidia-smi", smi(facts=f"0, T4, 16384, GPU-1\n{lost}"))
    for _ in range(2):
        assert [each["index"] for each in shop.ask(nvidia.facts())] == [0]
    (words,) = shop.complaints
    assert words == f"a device is lost; nvidia-smi says: {lost}"
    shop.put("nvidia-smi", smi())
    shop.ask(nvidia.facts())
    assert shop.complaints[1:] == ["no device is lost any more, says nvidia-smi"]


def test_a_dead_driver_is_no_answer(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.put(
        "nvidia-smi", saying("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.") + "exit 9"
    )
    assert shop.ask(Nvidia(shop.tools).facts()) is None
    assert shop.ask(Nvidia(shop.tools).samples()) is None
    (words,) = shop.complaints
    assert words.startswith("nvidia-smi failed: NVIDIA-SMI has failed because it couldn't communicate with")


@given(st.text(max_size=200))
def test_any_answer_is_read(text: str) -> None:
    list(device_rows(FACT_FIELDS, text))
    process_rows(text)
    for row in device_rows(SAMPLE_FIELDS, text):
        nvidia_sample(row)


CELL = st.one_of(
    st.sampled_from(["0", "7", "[N/A]", "²", "-1", "1e9", "9" * 30, "GPU-1", "Enabled", ""]), st.text(max_size=5)
)


@given(st.lists(CELL, min_size=len(SAMPLE_FIELDS), max_size=len(SAMPLE_FIELDS)))
def test_any_row_is_read(cells: list[str]) -> None:
    for row in device_rows(SAMPLE_FIELDS, ", ".join(cells)):
        told = nvidia_sample(row)
        assert told["utilization"] is None or 0 <= told["utilization"] <= 1


def test_this_pid_is_known() -> None:
    assert process_rows(f"GPU-1, {os.getpid()}, 5") == [
        {"gpu_uuid": "GPU-1", "pid": str(os.getpid()), "used_memory": "5"}
    ]
    assert process_rows("No devices were found") is None
