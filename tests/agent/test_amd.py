"""AMD's devices: numbered as HIP does, named by whichever tool works, sampled by the driver's files if none does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.agent.amd import Amd, amd_folders, amd_smi_rows, amd_smi_users, file_samples, rocm_smi_rows
from tests.patience import PATIENCE_S

from .toolbox import NOTES_HANG, Workshop, put, saying

FIRST, SECOND = "0000:05:00.0", "0000:0a:00.0"
VRAM = 17163091968

STATIC = [
    {
        "gpu": 0,
        "asic": {"market_name": "AMD Radeon RX 6800", "asic_serial": "0xA1"},
        "bus": {"bdf": FIRST},
        "vram": {"type": "GDDR6", "size": {"value": 16368, "unit": "MB"}},
    },
    {"gpu": 1, "asic": "N/A", "bus": {"bdf": SECOND.upper()}, "vram": {"size": "16368 MB"}},
]
METRIC = [
    {
        "gpu": 0,
        "usage": {"gfx_activity": {"value": 42, "unit": "%"}},
        "mem_usage": {"total_vram": {"value": 16368, "unit": "MB"}, "used_vram": {"value": 100, "unit": "MB"}},
        "temperature": {"edge": {"value": 51, "unit": "C"}, "hotspot": {"value": 60, "unit": "C"}},
    },
    {"gpu": 1, "usage": "N/A", "mem_usage": "N/A", "temperature": {"edge": "N/A", "hotspot": {"value": 60}}},
]
PROCESS = [
    {
        "gpu": 0,
        "process_list": [
            {"process_info": {"name": "python", "pid": 1, "memory_usage": {"vram_mem": {"value": 77, "unit": "B"}}}},
            {"process_info": "No running processes detected"},
        ],
    },
    {"gpu": 1, "process_list": [{"process_info": "No running processes detected"}]},
]
ROCM = {
    "card0": {
        "PCI Bus": SECOND.upper(),
        "Unique ID": "0xb2",
        "Card Series": "N/A",
        "Card Model": "0x73bf",
        "VRAM Total Memory (B)": str(VRAM),
        "VRAM Total Used Memory (B)": "0",
        "GPU use (%)": "3",
        "Temperature (Sensor edge) (C)": "35.0",
    },
    "card1": {
        "PCI Bus": FIRST,
        "Unique ID": "N/A",
        "Card series": "Navi 21 [Radeon RX 6800]",
        "Card model": "0x73bf",
        "VRAM Total Used Memory (B)": "1048576",
        "GPU use (%)": "97",
        "Temperature (Sensor junction) (C)": "61.5",
    },
    "system": {"Driver version": "6.7.0"},
}
LOW_POWER = "WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status\n"


def drm(root: Path, buses: Sequence[str] = (FIRST, SECOND)) -> Path:
    """What the driver shows: its cards in the order of another numbering, behind bridges of another one still."""
    for number, bus in enumerate(reversed(buses)):
        device = root / "devices" / f"bridge{number}" / bus
        (device / "hwmon" / "hwmon3").mkdir(parents=True)
        (device / "vendor").write_text("0x1002\n")
        (device / "mem_info_vram_total").write_text(f"{VRAM}\n")
        card = root / "drm" / f"card{number}"
        card.mkdir(parents=True)
        (card / "device").symlink_to(device)
    return root / "drm"


def folder(root: Path, bus: str) -> Path:
    (found,) = (root / "devices").glob(f"*/{bus}")
    return found


def kfd(root: Path, *nodes: tuple[int, int]) -> Path:
    """The compute driver's nodes: `gpu_id` (0: a CPU) and `location_id` of each."""
    for number, (gpu_id, location) in enumerate(nodes):
        node = root / "nodes" / str(number)
        node.mkdir(parents=True)
        (node / "gpu_id").write_text(f"{gpu_id}\n")
        (node / "properties").write_text(f"simd_count 1\nlocation_id {location}\ndomain 0\n")
    return root / "nodes"


class Rig(Workshop):
    """A node with AMD devices."""

    def __init__(self, root: Path, buses: Sequence[str] = (FIRST, SECOND)) -> None:
        super().__init__(root)
        self.amd = Amd(self.tools, str(drm(root, buses)), str(root / "nodes"))

    def amd_smi(self, static: object = STATIC, metric: object = METRIC, process: object = PROCESS) -> None:
        answers = {"static": static, "metric": metric, "process": process}
        cases = "".join(f"{name}) {saying(json.dumps(told))} ;;\n" for name, told in answers.items())
        self.put("amd-smi", f'case "$1" in\n{cases}esac\n')

    def rocm_smi(self, told: object = ROCM) -> None:
        self.put("rocm-smi", saying(LOW_POWER + json.dumps(told)))


def fact(index: int, model: str | None, uuid: str | None = None, vram: int | None = VRAM) -> dict[str, Any]:
    return {"index": index, "kind": "rocm", "model": model, "vram_bytes": vram, "uuid": uuid}


def busy(index: int, share: float | None, used: int | None, celsius: float | None) -> dict[str, Any]:
    return {
        "index": index, "kind": "rocm", "utilization": share, "vram_used_bytes": used, "temperature_c": celsius,
    }  # fmt: skip


def test_devices_are_numbered_by_the_bus_not_by_card_nor_by_bridge(tmp_path: Path) -> None:
    rig = Rig(tmp_path, ("0000:05:00.0", "0000:0a:00.0", "0000:41:00.0"))
    folders = amd_folders(str(tmp_path / "drm"), str(tmp_path / "nodes"))
    assert [Path(each).name for each in folders] == ["0000:05:00.0", "0000:0a:00.0", "0000:41:00.0"]
    assert rig.ask(rig.amd.facts()) == [fact(index, None) for index in range(3)]


def test_the_compute_driver_says_what_hip_counts(tmp_path: Path) -> None:
    drm(tmp_path, (FIRST, SECOND, "0000:41:00.0"))
    nodes = kfd(tmp_path, (0, 0), (77, 0x4100), (78, 0x0500))
    assert [Path(each).name for each in amd_folders(str(tmp_path / "drm"), str(nodes))] == ["0000:41:00.0", FIRST]


def test_the_driver_names_what_it_can(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    (folder(tmp_path, FIRST) / "product_name").write_text("Instinct MI100\n")
    (folder(tmp_path, FIRST) / "unique_id").write_text("abc\n")
    (folder(tmp_path, SECOND) / "mem_info_vram_total").write_text("what")
    (folder(tmp_path, SECOND) / "product_name").write_text("\n")
    assert rig.ask(rig.amd.facts()) == [fact(0, "Instinct MI100", "abc"), fact(1, None, vram=None)]


def test_amd_smi_fills_in_what_the_driver_leaves_open(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.amd_smi()
    rig.put("rocm-smi", "exit 1\n")
    assert rig.ask(rig.amd.facts()) == [fact(0, "AMD Radeon RX 6800", "0xA1"), fact(1, None)]
    assert rig.complaints == [], "nobody asked rocm-smi"


def test_amd_smi_tells_how_busy_they_are_and_who_uses_them(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.amd_smi(static={"gpu_data": STATIC}, metric={"gpu_data": METRIC})
    name = Path("/proc/1/comm").read_text().strip()
    users = [{"pid": 1, "vram_bytes": 77, "ours": False, "name": name, "user": "root", "attempt": None}]
    assert rig.ask(rig.amd.samples()) == [
        {**busy(0, 0.42, 100 << 20, 51.0), "processes": users},
        {**busy(1, None, None, 60.0), "processes": []},
    ]


def test_rocm_smi_counts_in_its_own_way_and_is_put_right(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.rocm_smi()
    assert rig.ask(rig.amd.facts()) == [fact(0, "Navi 21 [Radeon RX 6800]"), fact(1, None, "0xb2")]
    assert rig.ask(rig.amd.samples()) == [busy(0, 0.97, 1 << 20, 61.5), busy(1, 0.03, 0, 35.0)]
    assert rig.complaints == []


def write_use(root: Path) -> None:
    first = folder(root, FIRST)
    (first / "gpu_busy_percent").write_text("37\n")
    (first / "mem_info_vram_used").write_text("1073741824\n")
    (first / "hwmon" / "hwmon3" / "temp1_input").write_text("54000\n")


FROM_FILES = [busy(0, 0.37, 1 << 30, 54.0), busy(1, None, None, None)]


def test_without_tools_another_program_reads_the_files_of_the_driver(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    write_use(tmp_path)
    assert rig.ask(rig.amd.samples()) == FROM_FILES
    assert rig.complaints == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (f"{NOTES_HANG}exec sleep 600\n", f"gave no answer within {PATIENCE_S:g} s and was killed"),
        (
            "echo 'ERROR:root:Driver not initialized (amdgpu not found in modules)'; exit 1\n",
            "failed: ERROR:root:Driver",
        ),
        ("echo '{\"card0\": [}'\n", "failed: "),
        ("echo []\n", "failed: []"),
    ],
    ids=["hangs", "fails", "garbles", "finds none"],
)
def test_a_broken_tool_is_told_of_and_the_next_source_is_asked(tmp_path: Path, script: str, words: str) -> None:
    rig = Rig(tmp_path)
    write_use(tmp_path)
    rig.put("amd-smi", script)
    rig.put("rocm-smi", script)
    assert rig.ask(rig.amd.facts()) == [fact(0, None), fact(1, None)]
    for _ in range(2):
        assert rig.ask(rig.amd.samples()) == FROM_FILES
    first, second = rig.complaints
    assert first.startswith(f"amd-smi {words}")
    assert second.startswith(f"rocm-smi {words}")
    assert first.endswith("other sources are asked instead, and it again after 5 min")


def test_a_tool_that_failed_is_tried_again_later(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.put("rocm-smi", "exit 1\n")
    rig.ask(rig.amd.facts())
    rig.rocm_smi()
    assert rig.ask(rig.amd.facts())[0]["model"] is None
    rig.pass_time(301.0)
    assert rig.ask(rig.amd.facts())[0]["model"] == "Navi 21 [Radeon RX 6800]"
    assert rig.complaints[1:] == ["rocm-smi answers again"]


def test_a_model_once_known_stays_known(tmp_path: Path) -> None:
    """The class of its speed would change otherwise, whenever a tool fails."""
    rig = Rig(tmp_path)
    rig.rocm_smi()
    known = rig.ask(rig.amd.facts())
    rig.put("rocm-smi", "exit 1\n")
    assert rig.ask(rig.amd.facts()) == known


@pytest.mark.parametrize("buses", [(FIRST,), (FIRST, SECOND, "0000:41:00.0"), (FIRST, "0000:41:00.0")])
def test_where_tool_and_driver_disagree_hip_is_right(tmp_path: Path, buses: Sequence[str]) -> None:
    rig = Rig(tmp_path, buses)
    rig.rocm_smi()
    told = rig.ask(rig.amd.facts())
    assert [each["index"] for each in told] == list(range(len(buses)))
    rig.ask(rig.amd.samples())
    (words,) = rig.complaints
    placed = len({FIRST, SECOND} & set(buses))
    assert words == (
        f"the tool of the AMD driver tells of 2 devices, {placed} of them among the {len(buses)} that HIP counts by "
        "/sys; they are numbered as HIP does"
    )


def test_a_lost_card_is_one_that_the_tool_leaves_out(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.rocm_smi({"card1": ROCM["card1"]})
    assert [each["index"] for each in rig.ask(rig.amd.samples())] == [0]
    assert len(rig.complaints) == 1
    rig.rocm_smi()
    rig.ask(rig.amd.samples())
    assert rig.complaints[1:] == ["the driver and its tool agree on the number of AMD devices again"]


def test_without_the_driver_a_tool_is_believed(tmp_path: Path) -> None:
    rig = Rig(tmp_path, ())
    assert not rig.amd.is_there()
    rig.rocm_smi()
    assert rig.amd.is_there()
    assert [each["model"] for each in rig.ask(rig.amd.facts())] == ["Navi 21 [Radeon RX 6800]", None]
    assert [each["utilization"] for each in rig.ask(rig.amd.samples())] == [0.97, 0.03]


def test_a_tool_on_a_node_without_devices_may_say_so_in_its_words(tmp_path: Path) -> None:
    rig = Rig(tmp_path, ())
    rig.put("rocm-smi", "echo 'ERROR: no AMD GPUs'; exit 2\n")
    assert rig.ask(rig.amd.facts()) == []
    assert rig.ask(rig.amd.samples()) == []
    assert rig.complaints == []


def test_a_tool_is_found_where_rocm_is(tmp_path: Path) -> None:
    """PATH has it in a login shell only."""
    rig = Rig(tmp_path)
    put(tmp_path / "rocm" / "bin", "rocm-smi", saying(json.dumps(ROCM)))
    rig.tools.node.environ["ROCM_PATH"] = str(tmp_path / "rocm")
    assert rig.ask(rig.amd.facts())[0]["model"] == "Navi 21 [Radeon RX 6800]"


def test_rows_without_a_bus_are_placed_by_their_number_where_the_count_fits(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.rocm_smi({"card7": {"GPU use (%)": 8}, "card3": {"GPU use (%)": 5}})
    assert [each["utilization"] for each in rig.ask(rig.amd.samples())] == [0.05, 0.08]


OUTER = ["gpu", "gpu_data", "card0", "usage", "gfx_activity", "bus", "bdf", "asic", "vram", "PCI Bus", "GPU use (%)"]
INNER = ["market_name", "size", "value", "unit", "process_list", "process_info", "pid", "memory_usage", "vram_mem"]
KEYS = st.sampled_from(OUTER + INNER) | st.text(max_size=5)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["N/A", "5 MB", FIRST]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=20,
)
READERS: list[Callable[[str], Any]] = [
    amd_smi_rows,
    amd_smi_users,
    rocm_smi_rows,
    lambda text: file_samples(["/a"], text),
]


@pytest.mark.parametrize("read", READERS)
@settings(max_examples=30)
@given(told=JSON)
def test_amd_readers_take_any_json(read: Callable[[str], Any], told: Any) -> None:
    read(json.dumps(told))
    read(json.dumps([told]))
    read(json.dumps({"card0": told, "gpu_data": [told]}))


@pytest.mark.parametrize("read", READERS)
@given(text=st.text(max_size=200) | st.text(alphabet='[]{}",:0', max_size=200))
def test_amd_readers_take_any_text(read: Callable[[str], Any], text: str) -> None:
    read(text)


@pytest.mark.parametrize("read", READERS)
def test_amd_readers_take_json_nested_too_deeply(read: Callable[[str], Any]) -> None:
    """Once, and in no example of the property: each of 50 beginnings is followed down to the recursion limit."""
    read("[" * 100_000)


def test_head_marks_its_files_as_is_expected(tmp_path: Path) -> None:
    (tmp_path / "gpu_busy_percent").write_text("7\n")
    argv = ["head", "-v", "-n", "1", str(tmp_path / "gpu_busy_percent"), str(tmp_path / "none")]
    text = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S).stdout
    assert file_samples([str(tmp_path)], text) == [busy(0, 0.07, None, None)]
