"""CUDA_VISIBLE_DEVICES and its like in the agent's environment: which devices are left, and how they are bound."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.agent.devices import Devices
from hostler.agent.nvidia import slices_in
from hostler.agent.visible import Slice, Visible

from .harness import PATIENCE_S, PATIENT_WITH_TOOLS, Agent, until
from .test_attempts import shell
from .test_berth import Berth
from .toolbox import Workshop, put, saying

UUIDS = ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-8932aaaa-0000-4106-c12f-20bd9faed9f6", "GPU-5a5a")
LISTING = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)
  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736-a75d-5afc-978f-d2f1294409fd)
  MIG 1g.5gb      Device  1: (UUID: MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-7a7a)
  MIG 3g.20gb     Device  0: (UUID: MIG-b0b0b0b0-a75d-5afc-978f-d2f1294409fd)"""
SMI = """
case "$*" in
*--query-gpu=index,name,*)
    echo "0, RTX 4090, 24564, GPU-aa"
    echo "1, RTX 3060, 12288, GPU-bb"
    echo "2, RTX 3060, 12288, GPU-cc" ;;
*--query-gpu=*) for at in 0 1 2; do echo "$at, 5, 100, 40, GPU-x$at, RTX, [N/A]"; done ;;
esac
"""


def cards(kind: str = "cuda", *uuids: str | None, model: str = "RTX 3060") -> list[Any]:
    named = uuids or UUIDS
    return [
        {"index": at, "kind": kind, "model": model, "vram_bytes": 1 << 34, "uuid": uuid}
        for at, uuid in enumerate(named)
    ]


def left(environ: dict[str, str], found: list[Any] | None = None) -> list[int]:
    devices, _ = Visible(environ).of(cards() if found is None else found)
    return [each["index"] for each in devices]


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("1", [1]),
        ("2,0", [0, 2]),
        (" 1 , 2 ", [1, 2]),
        (UUIDS[1], [1]),
        ("GPU-8932f", [0]),
        ("GPU-5A5A", [2]),
        ("GPU-5,0", [0, 2]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0,-1,2", [0]),
        ("2,7,0", [2]),
        ("0,0,1", [0]),
        ("0,GPU-8932", [0]),
        ("GPU-", []),
        ("1,,2", [1]),
        ("99999999999999999999", []),
        ("0x1", []),
        ("\u0661", []),
    ],
)
def test_a_list_leaves_what_the_cuda_runtime_would(text: str, indices: list[int]) -> None:
    assert left({"CUDA_VISIBLE_DEVICES": text}) == indices


def test_no_variable_leaves_all_devices() -> None:
    assert left({"PATH": "/bin"}) == left({}) == [0, 1, 2]
    assert Visible().of(cards()) == (cards(), [])


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("0,7", "CUDA_VISIBLE_DEVICES=0,7: entry '7' names no device"),
        ("GPU-8932", "entry 'GPU-8932' names several devices"),
        ("1,1", "entry '1' names a device a second time"),
        ("x" * 5000, f"entry '{'x' * 100}' names no device"),
    ],
)
def test_an_ignored_entry_is_named(text: str, note: str) -> None:
    _, (said,) = Visible({"CUDA_VISIBLE_DEVICES": text}).of(cards())
    assert note in said
    assert "all entries behind it are ignored" in said
    assert len(said) < 1000


def test_an_empty_list_is_no_mistake() -> None:
    assert Visible({"CUDA_VISIBLE_DEVICES": ""}).of(cards()) == ([], [])


def test_an_index_on_a_mixed_machine_is_noted_unless_the_order_is_that_of_the_bus() -> None:
    mixed = [*cards("cuda", "GPU-1", model="RTX 4090"), {**cards("cuda", "GPU-1", "GPU-2")[1]}]
    _, (said,) = Visible({"CUDA_VISIBLE_DEVICES": "1"}).of(mixed)
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in said
    for environ in (
        {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        {"CUDA_VISIBLE_DEVICES": "GPU-2"},
    ):
        devices, notes = Visible(environ).of(mixed)
        assert ([each["index"] for each in devices], notes) == ([1], [])


@pytest.mark.parametrize(
    ("environ", "indices"),
    [
        ({"ROCR_VISIBLE_DEVICES": "2,1"}, [1, 2]),
        ({"HIP_VISIBLE_DEVICES": "1"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [1]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, [0]),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}, [2]),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "2"}, []),
        ({"ROCR_VISIBLE_DEVICES": "GPU-18f68e602f8a790f"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "1"}, []),
    ],
)
def test_a_list_of_hip_counts_inside_that_of_rocr(environ: dict[str, str], indices: list[int]) -> None:
    assert left(environ, cards("rocm", "0xaa", "18f68e602f8a790f", None)) == indices


def test_lists_of_amd_leave_other_devices_alone() -> None:
    environ = {"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    assert left(environ, [*cards("cuda"), *cards("mps", "x")]) == [0, 1, 2, 0]


def test_samples_of_hidden_devices_are_dropped_also_before_the_devices_are_known() -> None:
    visible = Visible({"CUDA_VISIBLE_DEVICES": "1"})
    samples = [{"kind": "cuda", "index": at, "utilization": 0.5, "vram_used_bytes": 7} for at in range(3)]
    other = {"kind": "mps", "index": 0, "utilization": None, "vram_used_bytes": None}
    assert [visible.shows(each) for each in [*samples, other]] == [None, None, None, other]
    visible.of(cards())
    assert [visible.shows(each) for each in samples] == [None, samples[1], None]


def test_a_slice_is_reported_as_its_card_with_unknown_memory_and_bound_by_its_uuid() -> None:
    visible = Visible({"CUDA_VISIBLE_DEVICES": "MIG-b0b0,0"})
    assert visible.names_slice
    found = cards("cuda", "GPU-5d5ba0d6", "GPU-7a7a", model="A100")
    (device,), notes = visible.of(found, slices_in(LISTING))
    uuid = "MIG-b0b0b0b0-a75d-5afc-978f-d2f1294409fd"
    assert device == {"index": 1, "kind": "cuda", "model": "A100 MIG 3g.20gb", "vram_bytes": None, "uuid": uuid}
    assert notes == []
    sample = {"kind": "cuda", "index": 1, "utilization": 0.5, "vram_used_bytes": 7}
    unknown = {"utilization": None, "vram_used_bytes": None, "processes": None}
    assert visible.shows(sample) == {**sample, **unknown}
    env = {"CUDA_VISIBLE_DEVICES": "1"}
    visible.bind(env, dict(env))
    assert env == {"CUDA_VISIBLE_DEVICES": uuid}
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    visible.bind(hidden, dict(hidden))
    assert hidden == {"CUDA_VISIBLE_DEVICES": ""}, "a job on a CPU slot sees no slice either"


def test_a_slice_in_the_older_form_names_its_card() -> None:
    (device,), _ = Visible({"CUDA_VISIBLE_DEVICES": "MIG-GPU-7a7a/1/0"}).of(cards("cuda", "GPU-5d", "GPU-7a7a"), [])
    assert (device["index"], device["uuid"], device["vram_bytes"]) == (1, "MIG-GPU-7a7a/1/0", None)


@pytest.mark.parametrize("text", ["MIG-0000", "MIG-", "MIG-GPU-zz/1/0"])
def test_an_unknown_slice_leaves_no_device_and_is_named(text: str) -> None:
    devices, (note,) = Visible({"CUDA_VISIBLE_DEVICES": text}).of(
        cards("cuda", "GPU-5d", "GPU-7a7a"), slices_in(LISTING)
    )
    assert devices == []
    assert "names no slice" in note


def test_slices_are_read_from_the_listing() -> None:
    assert slices_in(LISTING) == [
        Slice("MIG-c7384736-a75d-5afc-978f-d2f1294409fd", "3g.20gb", 0),
        Slice("MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d", "1g.5gb", 0),
        Slice("MIG-b0b0b0b0-a75d-5afc-978f-d2f1294409fd", "3g.20gb", 1),
    ]
    assert slices_in("NVIDIA-SMI has failed") is None
    assert slices_in("  MIG 3g.20gb     Device  0: (UUID: MIG-c7)") is None


def test_a_binding_by_hip_is_not_counted_inside_what_rocr_leaves() -> None:
    visible = Visible({"ROCR_VISIBLE_DEVICES": "1"})
    env = {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}
    visible.bind(env, {"HIP_VISIBLE_DEVICES": "1"})
    assert env == {"HIP_VISIBLE_DEVICES": "1"}
    own = {"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"}
    visible.bind(own, dict(own))
    assert own["ROCR_VISIBLE_DEVICES"] == "0", "what a job sets itself stays"
    hidden = {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": ""}
    visible.bind(hidden, {"HIP_VISIBLE_DEVICES": ""})
    assert hidden["ROCR_VISIBLE_DEVICES"] == "1", "a job on a CPU slot sees no more than before"
    untouched = {"ROCR_VISIBLE_DEVICES": "1"}
    visible.bind(untouched, {"A": "b"})
    assert untouched == {"ROCR_VISIBLE_DEVICES": "1"}


@given(st.text(max_size=60), st.sampled_from(["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"]))
def test_any_text_leaves_a_part_of_the_devices(text: str, name: str) -> None:
    for kind in ("cuda", "rocm"):
        found = cards(kind)
        devices, notes = Visible({name: text}).of(found, slices_in(LISTING))
        assert {each["index"] for each in devices} <= {0, 1, 2}
        assert all(len(note) < 1000 for note in notes)


@given(st.text(max_size=300))
def test_any_answer_lists_slices_or_is_none(text: str) -> None:
    found = slices_in(text)
    assert found is None or all(isinstance(each, Slice) for each in found)


def test_devices_ask_for_slices_only_where_the_list_names_one(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    asked = tmp_path / "asked"
    script = (
        f'echo "$*" >>{asked}\ncase "$*" in *-L*) {saying(LISTING)} ;; *) {saying("1, A100, 40960, GPU-7a7a")} ;; esac'
    )
    shop.put("nvidia-smi", script)
    for text, count in (("1", 0), ("MIG-b0b0", 1)):
        told: list[Any] = []
        Devices(shop.tools, visible=Visible({"CUDA_VISIBLE_DEVICES": text})).ask(told.append)
        shop.until(lambda told=told: told)
        assert [each["index"] for each in told[0]] == [1]
        assert asked.read_text().count("-L") == count


def test_devices_are_unknown_where_the_card_of_a_slice_is(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.put("nvidia-smi", f'case "$*" in *-L*) exit 1 ;; *) {saying("1, A100, 40960, GPU-7a7a")} ;; esac')
    told: list[Any] = []
    Devices(shop.tools, visible=Visible({"CUDA_VISIBLE_DEVICES": "MIG-b0b0"})).ask(told.append)
    shop.until(lambda: told)
    assert told == [None]


def agent_with_cards(tmp_path: Path, **environ: str) -> Agent:
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    put(tmp_path / "bin", "nvidia-smi", SMI)
    return Agent(tmp_path / "agent", PATIENT_WITH_TOOLS, PATH=path, **environ)


def test_an_agent_reports_and_samples_only_what_its_environment_leaves(tmp_path: Path) -> None:
    agent = agent_with_cards(tmp_path, CUDA_VISIBLE_DEVICES="GPU-cc,1,9")
    client = agent.client()
    client.send(type="probe", id=1)
    facts = client.message("probe")["facts"]
    assert [(each["index"], each["model"], each["uuid"]) for each in facts["devices"]] == [
        (1, "RTX 3060", "GPU-bb"),
        (2, "RTX 3060", "GPU-cc"),
    ]
    assert facts["visible"] == "GPU-cc,1,9"
    sampled = until(lambda: agent.client().message("telemetry")["devices"], "a sample")
    assert [each["index"] for each in sampled] == [1, 2]
    assert agent.stop() == 0


def test_an_agent_names_the_entry_that_it_ignores(tmp_path: Path) -> None:
    agent = agent_with_cards(tmp_path, CUDA_VISIBLE_DEVICES="GPU-cc,9,1")
    client = agent.client()
    client.send(type="probe", id=1)
    assert "CUDA_VISIBLE_DEVICES=GPU-cc,9,1: entry '9' names no device" in client.message("error")["error"]
    assert agent.stop() == 0


def test_an_attempt_gets_the_index_of_its_device_and_not_its_place_in_the_list(tmp_path: Path) -> None:
    agent = agent_with_cards(tmp_path, CUDA_VISIBLE_DEVICES="2", ROCR_VISIBLE_DEVICES="1")
    client = agent.client()
    seen = tmp_path / "seen"
    script = f'echo "$CUDA_VISIBLE_DEVICES ${{ROCR_VISIBLE_DEVICES-none}}" >{seen}'
    client.launch(shell("a1", script, env={"CUDA_VISIBLE_DEVICES": "2", "HIP_VISIBLE_DEVICES": "2"}))
    client.ended("a1")
    assert seen.read_text() == "2 none\n"
    assert agent.stop() == 0


def test_an_attempt_of_an_agent_with_a_slice_gets_the_slice(tmp_path: Path) -> None:
    agent = agent_with_cards(tmp_path, CUDA_VISIBLE_DEVICES="MIG-b0b0")
    client = agent.client()
    seen = tmp_path / "seen"
    client.launch(shell("a1", f'echo "$CUDA_VISIBLE_DEVICES" >{seen}', env={"CUDA_VISIBLE_DEVICES": "1"}))
    client.ended("a1")
    assert seen.read_text() == "MIG-b0b0\n"
    assert agent.stop() == 0


def test_an_agent_of_an_allocation_keeps_what_its_cluster_chose(tmp_path: Path) -> None:
    put(tmp_path / "bin", "nvidia-smi", SMI)
    hello: Any = {"type": "hello", "protocol": 1, "controller": "test", "epoch": 1, "ack": 0}
    seen = tmp_path / "seen"
    script = f'echo "$CUDA_VISIBLE_DEVICES $ROCR_VISIBLE_DEVICES" >{seen}'
    wanted = shell("a1", script, env={"HIP_VISIBLE_DEVICES": "0"})
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    berth = Berth(
        tmp_path / "shared",
        hello,
        {"type": "probe", "id": 1},
        {"type": "launch", "attempts": [wanted]},
        idle_s=PATIENCE_S,
        patch=f"from hostler.agent import tools; tools.Tools.__init__.__defaults__ = ({PATIENCE_S},)",
        PATH=path,
        CUDA_VISIBLE_DEVICES="GPU-cc",
        ROCR_VISIBLE_DEVICES="1",
    )
    try:
        (found,) = until(lambda: [each for each in berth.said() if each["type"] == "probe"], "the facts")
        assert [each["index"] for each in found["facts"]["devices"]] == [0, 1, 2]
        assert found["facts"]["visible"] == "GPU-cc"
        berth.fact("ended", attempt="a1")
        assert seen.read_text() == "GPU-cc 1\n"
    finally:
        berth.close()
