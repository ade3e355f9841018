"""Nodes of a fleet file: what becomes of those that are only described, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.backends.base import Store
from hostler.backends.local import LocalNode
from hostler.model.codec import record_fault
from hostler.model.errors import SettingsError
from hostler.model.fleet import NodeLimits, NodeSpec
from hostler.model.work import DeviceKind, WorkKind
from hostler.settings import describe, load, node_spec, virtual_nodes
from hostler.settings.moments import parse_moment
from hostler.settings.nodes import GpuChoice

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

STORE = Store(results=Path("results"), artifacts=Path("artifacts"))


def nodes(text: str) -> tuple[NodeSpec, ...]:
    """The virtual nodes of a list in YAML."""
    return virtual_nodes(load(None, {"HOSTLER_NODES": text}).fleet)


def test_everything_that_is_written_arrives() -> None:
    (node,) = nodes(
        "[{name: n, backend: virtual, provider: vast, ephemeral: true, lifetime_s: 3600, price_per_h: 1.5, cpus: 4.5,"
        " ends_at: 2026-12-31T18:00:00Z, memory_gb: 64, work: [selfplay, script], scripts: 1, stagger_s: 2,"
        " gpus: [{model: RTX 4090, count: 2, vram_gb: 24}], cpu_slots: 1, python: py, env: {A: b}}]"
    )
    assert [(each.id, each.kind, each.model, each.vram_gb) for each in node.devices] == [
        ("n/cuda0", DeviceKind.CUDA, "RTX 4090", 24.0),
        ("n/cuda1", DeviceKind.CUDA, "RTX 4090", 24.0),
        ("n/cpu0", DeviceKind.CPU, None, None),
    ]
    assert (node.provider, node.ephemeral, node.lifetime_s, node.price_per_h) == ("vast", True, 3600.0, 1.5)
    assert (node.cpus, node.ends_at, node.python, node.env) == (4.5, 1798740000.0, "py", {"A": "b"})
    work = (WorkKind.SELFPLAY, WorkKind.SCRIPT)
    assert node.limits == NodeLimits(work=work, scripts=1, stagger_s=2.0, memory_gb=64.0)
    assert record_fault(node) is None


def test_a_name_is_enough_for_this_machine() -> None:
    loaded = load(None, {"HOSTLER_NODES": "[{name: here}]"})
    assert virtual_nodes(loaded.fleet) == ()
    assert node_spec(loaded.fleet.nodes[0]) == NodeSpec(name="here", backend="local", devices=())


@pytest.mark.parametrize(
    ("said", "lease_s"),
    [
        ("", None),
        ("backend: ssh", 43200.0),
        ("backend: ssh, ephemeral: true", 1800.0),
        ("backend: ssh, ephemeral: true, lease_s: auto", 1800.0),
        ("backend: ssh, lease_s: never", None),
        ("ephemeral: true, lease_s: 90", 90.0),
    ],
)
def test_for_how_long_a_node_keeps_its_work(said: str, lease_s: float | None) -> None:
    loaded = load(None, {"HOSTLER_NODES": f"[{{name: here, {said}}}]"})
    assert node_spec(loaded.fleet.nodes[0]).lease_s == lease_s


def test_each_kind_of_gpu_counts_from_0() -> None:
    gpus = "[{model: AMD Instinct MI300X}, {model: RTX 4090}, {model: Radeon RX 7900 XTX}, {model: L40S, count: 2}]"
    (node,) = nodes(f"[{{name: n, backend: virtual, gpus: {gpus}}}]")
    assert [each.id for each in node.devices] == ["n/rocm0", "n/cuda0", "n/rocm1", "n/cuda1", "n/cuda2"]
    assert {each.vram_gb for each in node.devices} == {None}


@pytest.mark.parametrize(
    "model", ["MI250X", "MI50", "AMD anything", "gfx1100", "rx 6800", "RX7900XTX", "Radeon Pro W7900"]
)
def test_gpus_of_amd_are_told_by_their_names(model: str) -> None:
    (node,) = nodes(f"[{{name: n, backend: virtual, gpus: [{{model: {model}}}]}}]")
    assert node.devices[0].kind is DeviceKind.ROCM


@pytest.mark.parametrize("model", ["Apple M2 Max", "M1", "m3 ultra"])
def test_gpus_of_apple_are_told_by_their_names(model: str) -> None:
    (node,) = nodes(f"[{{name: n, backend: virtual, gpus: [{{model: {model}}}], cpus: 8}}]")
    assert node.devices[0].kind is DeviceKind.MPS


@pytest.mark.parametrize(
    "model", ["M40", "H200", "RTX 6000 Ada", "GH200", "A100 20GB vGPU", "Quadro RTX 8000", "Tesla T4", "B200"]
)
def test_all_others_are_taken_for_nvidias(model: str) -> None:
    (node,) = nodes(f"[{{name: n, backend: virtual, gpus: [{{model: {model}}}]}}]")
    assert node.devices[0].kind is DeviceKind.CUDA


@pytest.mark.parametrize(
    ("given", "slots"),
    [
        ("gpus: none, cpus: 12", 12),
        ("gpus: none, cpus: 0.5", 1),
        ("gpus: none, cpu_slots: 3, cpus: 12", 3),
        ("gpus: none, cpu_slots: 0", 0),
        ("gpus: [{model: T4}], cpus: 12", 0),
        ("gpus: [{model: T4}], cpu_slots: 2", 2),
    ],
)
def test_cpu_slots_of_a_virtual_node(given: str, slots: int) -> None:
    (node,) = nodes(f"[{{name: n, backend: virtual, {given}}}]")
    assert sum(each.kind is DeviceKind.CPU for each in node.devices) == slots


V = "name: a, backend: virtual"
FAULTS = [
    (
        "[{name: a, §proivder: x}]",
        "nodes[0].proivder: is no setting; did you mean 'provider'? (allowed here: name, class, partition,",
    ),
    (
        "[{name: a, backend: §telnet}]",
        "nodes[0].backend: should be 'local', 'ssh', 'dialin', 'slurm', 'ray' or 'virtual' (found 'telnet')",
    ),
    ("[§{name: a, host: b}]", "nodes[0]: host: that is for nodes behind SSH; write `backend: ssh`, too"),
    ("[{name: a, backend: ssh, host: §-oProxyCommand=x}]", "nodes[0].host: the text should match"),
    ("[{name: a, price_per_h: §-1}]", "nodes[0].price_per_h: should be greater than or equal to 0 (found -1)"),
    ("[{name: a, price_per_h: §'1'}]", "nodes[0].price_per_h: should be a valid number (found '1')"),
    ("[{name: a, price_per_h: §1e12}]", "nodes[0].price_per_h: should be less than or equal to 1000000000"),
    ("[{name: a, cpus: §0}]", "nodes[0].cpus: should be greater than 0 (found 0)"),
    ("[{name: a, memory_gb: §0}]", "nodes[0].memory_gb: should be greater than 0 (found 0)"),
    ("[{name: a, scripts: §-1}]", "nodes[0].scripts: should be greater than or equal to 0 (found -1)"),
    ("[{name: a, stagger_s: §-1}]", "nodes[0].stagger_s: should be greater than or equal to 0 (found -1)"),
    ("[{name: a, provider: §''}]", "nodes[0].provider: the text should have at least 1 character"),
    ("[{name: a, work: §[]}]", "nodes[0].work: the list should have at least 1 item"),
    ("[{name: a, work: [§gaming]}]", "nodes[0].work[0]: should be 'selfplay', 'training',"),
    ("[§{name: a, work: [rl, rl]}]", "nodes[0]: work names a kind twice; once is enough"),
    ("[§{name: a, lifetime_s: 5}]", "nodes[0]: lifetime_s is for nodes that may vanish; write `ephemeral: true`, too"),
    ("[{name: a, ephemeral: true, lifetime_s: §0}]", "nodes[0].lifetime_s: should be greater than 0 (found 0)"),
    (
        "[§{name: a, gpus: [{model: T4}]}]",
        "nodes[0]: the GPUs of a real node are those that its probe finds; write `gpus: auto` or `none`",
    ),
    (f"[§{{{V}}}]", "nodes[0]: nobody can probe a virtual node; list its `gpus`, or write `none`"),
    (
        f"[§{{{V}, gpus: none}}]",
        "nodes[0]: nobody can count the cores of a virtual node; give its `cpus` or its `cpu_slots`",
    ),
    (f"[{{{V}, gpus: §some}}]", "nodes[0].gpus: should be 'auto' or 'none' or a mapping or a list (found 'some')"),
    (f"[{{{V}, gpus: §[]}}]", "nodes[0].gpus: should be 'auto' or 'none' or a mapping or the list should"),
    (f"[{{{V}, gpus: [§{{count: 2}}]}}]", "nodes[0].gpus[0].model: is missing"),
    (f"[{{{V}, gpus: [{{model: T4, count: §0}}]}}]", "nodes[0].gpus[0].count: should be greater than or equal to 1"),
    (f"[{{{V}, gpus: [{{model: T4, vram_gb: §0}}]}}]", "nodes[0].gpus[0].vram_gb: should be greater than 0"),
    (f"[{{{V}, gpus: [{{model: T4, §vram: 1}}]}}]", "nodes[0].gpus[0].vram: is no setting; did you mean 'vram_gb'?"),
    ("[{name: a, ends_at: §tomorrow}]", "nodes[0].ends_at: should be a date and time, as 2026-12-31T18:00:00Z"),
    ("[{name: a, ends_at: §2026-12-31T18:00:00}]", "nodes[0].ends_at: has no offset from UTC; write it, as"),
    ("[{name: a, ends_at: §-5}]", "nodes[0].ends_at: lies outside the years 1970 to 9999 (found -5)"),
    ("[{name: a, ends_at: §true}]", "nodes[0].ends_at: should be a date and time"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS, ids=[text for text, _ in FAULTS])
def test_a_fault_is_told_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    """`§` marks the place."""
    text, path = f"nodes: {text}", tmp_path / "fleet.yaml"
    path.write_text(text.replace("§", ""), encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load(path, {})
    assert str(caught.value).startswith(f"{path}:1:{text.index('§') + 1}: {message}")


@pytest.mark.parametrize(
    ("written", "at"),
    [
        (0, 0.0),
        (1798740000.5, 1798740000.5),
        ("2026-12-31T18:00:00Z", 1798740000.0),
        ("2026-12-31T19:00:00+01:00", 1798740000.0),
        ("2026-12-31 18:00+00:00", 1798740000.0),
        ("9999-12-31T23:59:59+00:00", 253402300799.0),
    ],
)
def test_moments(written: object, at: float) -> None:
    assert parse_moment(written) == at


@given(st.one_of(st.text(max_size=40), st.floats(), st.integers(), st.none(), st.binary()))
def test_any_moment_is_a_number_of_sane_size_or_refused(written: Any) -> None:
    try:
        at = parse_moment(written)
    except ValueError:
        return
    assert 0 <= at <= 253402300799


def test_settings_of_nodes_have_their_origin(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "nodes:\n- name: a\n  backend: virtual\n  gpus:\n  - {model: T4, vram_gb: 16}\n  price_per_h: 0.5\n"
    )
    described = {setting.path: setting for setting in describe(load(path, {}))}
    assert all(setting.doc for setting in described.values())
    assert described["nodes[0].gpus[0].vram_gb"].origin == f"{path}:5:26"
    assert (described["nodes[0].gpus[0].count"].value, described["nodes[0].gpus[0].count"].origin) == (1, "default")
    assert described["nodes[0].price_per_h"].origin == f"{path}:6:16"
    assert "nodes[0].provider" not in described


def test_the_example_has_the_18_nodes_and_33_gpus_that_have_names() -> None:
    loaded = load(EXAMPLES / "multi-provider.yaml", {})
    made = virtual_nodes(loaded.fleet)
    gpus = {node.name: sum(each.vram_gb or 0 for each in node.devices) for node in made}
    assert (len(made), sum(len(node.devices) for node in made)) == (18, 33)
    assert [sum(total >= 80 for total in gpus.values()), sum(32 <= total < 80 for total in gpus.values())] == [5, 6]
    assert all(node.price_per_h is not None and node.cpus is not None for node in made)
    assert {node.provider for node in made if node.ephemeral} == {"vast"}
    assert [node.name for node in loaded.fleet.nodes if node.backend == "local"] == ["coordinator"]


def test_what_settings_say_of_a_local_node_reaches_the_core(tmp_path: Path) -> None:
    text = "[{name: n, provider: me, price_per_h: 1, ends_at: 9, scripts: 2, work: [rl]}]"
    terms = node_spec(load(None, {"HOSTLER_NODES": text}).fleet.nodes[0])
    node = LocalNode("n", tmp_path, store=STORE, controller="c", python="py", env={"A": "b"}, cpu_slots=1, terms=terms)
    made = node.describe({"cpus": 8, "devices": []})
    assert (made.provider, made.price_per_h, made.ends_at, made.limits) == ("me", 1.0, 9.0, terms.limits)
    assert (made.python, made.env, made.cpus) == ("py", {"A": "b"}, 8.0)
    assert [device.id for device in made.devices] == ["n/cpu0"]


@pytest.mark.parametrize(
    ("text", "canary"),
    [
        ("{name: n}", None),
        ("{name: n, canary: auto}", ()),
        ("{name: n, backend: ssh}", ()),
        ("{name: n, backend: ssh, canary: none}", None),
        ("{name: n, canary: ['{python}', -m, mine]}", ("{python}", "-m", "mine")),
    ],
)
def test_devices_behind_ssh_are_proved_and_others_where_that_is_asked_for(
    tmp_path: Path, text: str, canary: tuple[str, ...] | None
) -> None:
    terms = node_spec(load(None, {"HOSTLER_NODES": f"[{text}]"}).fleet.nodes[0])
    made = LocalNode("n", tmp_path, store=STORE, controller="c", cpu_slots=1, terms=terms).describe(
        {"cpus": 8, "devices": []}
    )
    assert (terms.canary, made.canary) == (canary, canary)


@pytest.mark.parametrize("canary", ["sometimes", "[]", "['']", "{a: b}"])
def test_a_canary_that_makes_no_sense_is_refused(canary: str) -> None:
    with pytest.raises(SettingsError, match="canary"):
        load(None, {"HOSTLER_NODES": f"[{{name: n, canary: {canary}}}]"})


def test_a_virtual_node_has_no_canary() -> None:
    assert nodes("[{name: n, backend: virtual, gpus: none, cpus: 1}]")[0].canary is None
    with pytest.raises(SettingsError, match="leave `canary` out"):
        nodes("[{name: n, backend: virtual, gpus: none, cpus: 1, canary: auto}]")


def test_cores_that_settings_give_count_for_more_than_those_counted(tmp_path: Path) -> None:
    terms = node_spec(load(None, {"HOSTLER_NODES": "[{name: n, cpus: 2.5}]"}).fleet.nodes[0])
    assert (
        LocalNode("n", tmp_path, store=STORE, controller="c", terms=terms).describe({"cpus": 8, "devices": []}).cpus
        == 2.5
    )
    assert LocalNode("n", tmp_path, store=STORE, controller="c").describe({"cpus": 8, "devices": []}).cpus == 8.0


@pytest.mark.parametrize(
    ("dialin", "node", "why"),
    [
        ("{}", "{name: n, backend: dialin}", "nobody would hear it"),
        ("{listen: '0.0.0.0:8767'}", "{name: n, backend: dialin, host: far}", "host: that is for nodes behind SSH"),
        ("{listen: '0.0.0.0:8767'}", "{name: n, backend: dialin, setup: [true]}", "setup"),
        ("{listen: '0.0.0.0:8767'}", "{name: n, dir: /far}", "dir: that is for nodes elsewhere"),
        ("{listen: here}", "{name: n}", "listen"),
        ("{listen: '-x:1'}", "{name: n}", "listen"),
        ("{address: 'hub:1'}", "{name: n}", "say where to `listen`"),
        ("{listen: 'hub:1', key: k.pem}", "{name: n}", "key is that of a certificate"),
    ],
)
def test_nodes_that_call_need_somebody_who_listens(tmp_path: Path, dialin: str, node: str, why: str) -> None:
    (tmp_path / "fleet.yaml").write_text(f"dialin: {dialin}\nnodes: [{node}]\n")
    with pytest.raises(SettingsError, match=why):
        load(tmp_path / "fleet.yaml", {})


@pytest.mark.parametrize("listen", ["0.0.0.0:8767", "hub.example.org:0", "[::1]:8767"])
def test_a_node_that_calls_is_like_others_elsewhere(listen: str) -> None:
    given = {"HOSTLER_NODES": "[{name: n, backend: dialin, dir: /far}]", "HOSTLER_DIALIN__LISTEN": listen}
    spec = node_spec(load(None, given).fleet.nodes[0])
    assert (spec.backend, spec.canary, spec.lease_s) == ("dialin", (), 12 * 3600.0)


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        ("{only: []}", "nodes[0].gpus.only: the list should have at least 1 item"),
        ("{only: [-1]}", "nodes[0].gpus.only[0]: should be the index of a GPU as nvidia-smi counts"),
        ("{exclude: [gpu1]}", "or its UUID, such as GPU-8932f937 (found 'gpu1')"),
        ("{only: ['1']}", "nodes[0].gpus.only[0]: should be the index"),
        ("{only: 1}", "nodes[0].gpus.only: should be a list"),
        ("{onlly: [1]}", "did you mean 'only'?"),
        ("{}", "gpus chooses nothing: name GPUs under `only` or `exclude`"),
        ("{only: [1, 1]}", "gpus.only names 1 twice"),
        ("{only: [0, 1], exclude: [1]}", "gpus.only and gpus.exclude both name 1; take it out of one of them"),
    ],
)
def test_a_choice_among_gpus_that_cannot_be_meant_is_refused(gpus: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(None, {"HOSTLER_NODES": f"[{{name: rig, gpus: {gpus}}}]"})
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("backend", "said"),
    [("slurm", "Slurm chooses"), ("ray", "Ray chooses"), ("virtual", "a virtual node lists its own")],
)
def test_a_choice_among_gpus_is_for_single_machines(backend: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(None, {"HOSTLER_NODES": f"[{{name: rig, backend: {backend}, gpus: {{only: [1]}}}}]"})


@pytest.mark.parametrize("backend", ["local", "ssh", "dialin"])
def test_a_choice_among_gpus_names_them_by_index_or_uuid(backend: str, tmp_path: Path) -> None:
    text = f"[{{name: rig, backend: {backend}, gpus: {{only: [1, GPU-5a5a], exclude: [GPU-77]}}}}]"
    file = tmp_path / "fleet.yaml"
    file.write_text(f"name: x\ndialin: {{listen: '127.0.0.1:0'}}\nnodes: {text}\n")
    choice = load(file, {}).fleet.nodes[0].gpus
    assert isinstance(choice, GpuChoice)
    assert (choice.only, choice.exclude) == ((1, "GPU-5a5a"), ("GPU-77",))
