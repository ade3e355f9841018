"""Classes of nodes: what they say holds for their nodes, what a node says wins, and every value keeps its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.errors import SettingsError
from hostler.settings import Loaded, describe, load, node_env, node_spec
from hostler.settings.nodes import Node, NodeClass

FILE = """\
classes:
  rig:
    backend: ssh
    user: miner
    via: [jump]
    setup: ['export A=1']
    stagger_s: 3
    rocm: {gfx: 10.3.0, home: /opt/rocm, sdma: false}
    env: {A: class, B: class}
  bare: {}
nodes:
- {name: one, class: rig}
- {name: two, class: rig, stagger_s: 0.5, user: null, env: {B: node}, rocm: {sdma: true}}
- {name: three, class: bare}
- {name: four}
"""


def written(folder: Path, text: str) -> Loaded:
    path = folder / "fleet.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, {})


def place(text: str) -> str:
    """Line and column of what is marked by `§`, in the file above."""
    before = FILE[: FILE.index(text.replace("§", "")) + text.index("§")]
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def test_a_class_holds_for_its_nodes_and_a_node_for_itself(tmp_path: Path) -> None:
    one, two, three, four = written(tmp_path, FILE).fleet.nodes
    assert (one.backend, one.user, one.via, one.setup, one.stagger_s) == (
        "ssh", "miner", ("jump",), ("export A=1",), 3.0,
    )  # fmt: skip
    assert (two.backend, two.user, two.via, two.stagger_s) == ("ssh", None, ("jump",), 0.5)
    assert (one.class_, two.class_, three.class_, four.class_) == ("rig", "rig", "bare", None)
    assert three.model_copy(update={"name": "four", "class_": None}) == four


def test_variables_are_merged_one_by_one(tmp_path: Path) -> None:
    one, two, three, _ = written(tmp_path, FILE).fleet.nodes
    rocm = {"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "ROCM_PATH": "/opt/rocm", "HIP_PATH": "/opt/rocm"}
    assert node_env(one) == {**rocm, "HSA_ENABLE_SDMA": "0", "A": "class", "B": "class"}
    assert node_env(two) == {**rocm, "A": "class", "B": "node"}
    assert node_env(three) == {}
    assert node_spec(one).env == node_env(one)


def test_what_env_says_wins_over_rocm() -> None:
    text = "[{name: n, rocm: {alloc_conf: 'a:1', home: /opt/rocm}, env: {HIP_PATH: /mine}}]"
    (node,) = load(None, {"HOSTLER_NODES": text}).fleet.nodes
    assert node_env(node) == {"PYTORCH_HIP_ALLOC_CONF": "a:1", "ROCM_PATH": "/opt/rocm", "HIP_PATH": "/mine"}


def test_every_value_keeps_the_place_it_was_written_at(tmp_path: Path) -> None:
    loaded = written(tmp_path, FILE)
    described = {setting.path: setting for setting in describe(loaded)}
    path = tmp_path / "fleet.yaml"
    for name, value in {
        "nodes[0].class": "one, class: §rig",
        "nodes[0].user": "user: §miner",
        "nodes[0].rocm.gfx": "gfx: §10",
        "nodes[0].env": "env: §{A",
        "nodes[1].stagger_s": "stagger_s: §0.5",
        "nodes[1].rocm.sdma": "sdma: §true",
        "nodes[1].rocm.home": "home: §/opt",
        "classes.rig.user": "user: §miner",
    }.items():
        assert described[name].origin == f"{path}:{place(value)}", name
        assert described[name].doc, name
    assert loaded.origin(("nodes", 1, "env", "A")) == f"{path}:{place('A: §class')}"
    assert loaded.origin(("nodes", 1, "env", "B")) == f"{path}:{place('B: §node')}"
    assert described["nodes[2].backend"].origin == "default"
    assert "classes.rig.dir" not in described, "a class has no defaults"


HEAD = "classes: {rig: {user: me}, rack: {}}\n"
FAULTS = [
    (
        HEAD + "nodes: [{name: a, class: §rigg}]",
        "nodes[0].class: there is no class 'rigg'; did you mean 'rig'? (known: rig, rack)",
    ),
    ("nodes: [{name: a, class: §x}]", "nodes[0].class: there is no class 'x' (there are no `classes`)"),
    ("classes: {rig: {§name: x}}", "classes.rig.name: is no setting"),
    ("classes: {rig: §{host: x}}", "classes.rig: a host is that of one node"),
    ("classes: {rig: {§class: x}}", "classes.rig.class: is no setting"),
    (
        "classes: {rig: {stagger_s: §-1}}\nnodes: [{name: a, class: rig}, {name: b, class: rig}]",
        "classes.rig.stagger_s: should be greater than or equal to 0 (found -1)",
    ),
    ("classes: {rig: §[]}\nnodes: [{name: a, class: rig}]", "classes.rig: should be a mapping"),
    ("classes: §7\nnodes: [{name: a, class: rig}]", "classes: should be a mapping"),
    ("classes: {rig: {rocm: {gfx: §gfx1030}}}", "classes.rig.rocm.gfx: the text should match"),
    ("nodes: [{name: a, rocm: {§gpx: 1}}]", "nodes[0].rocm.gpx: is no setting; did you mean 'gfx'?"),
    (HEAD + "nodes: [§{name: a, class: rig}]", "nodes[0]: user: that is for nodes behind SSH"),
    (HEAD + "nodes: [{name: a, class: §[rig]}]", "nodes[0].class: should be a text"),
    (HEAD + "nodes: [§7]", "nodes[0]: should be a mapping"),
    (HEAD + "nodes: §{class: rig}", "nodes: should be a list"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS, ids=[text for text, _ in FAULTS])
def test_a_fault_is_told_once_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    """`§` marks the place."""
    before = text[: text.index("§")]
    with pytest.raises(SettingsError) as caught:
        written(tmp_path, text.replace("§", ""))
    place = f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
    assert str(caught.value).startswith(f"{tmp_path / 'fleet.yaml'}:{place}: {message}")
    assert "\n" not in str(caught.value)


def test_all_unknown_classes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        written(tmp_path, "nodes: [{name: a, class: x}, {name: b, class: y}]")
    assert len(str(caught.value).splitlines()) == 2


def test_a_class_takes_all_that_a_node_takes_but_what_is_its_own() -> None:
    assert set(Node.model_fields) - set(NodeClass.model_fields) == {"name", "partition", "class_"}


def test_classes_may_come_from_the_environment() -> None:
    environ = {"HOSTLER_CLASSES": "{c: {provider: me}}", "HOSTLER_NODES": "[{name: n, class: c}]"}
    loaded = load(None, environ)
    assert loaded.fleet.nodes[0].provider == "me"
    assert loaded.origin(("nodes", 0, "provider")) == "environment variable HOSTLER_CLASSES"


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(0, 9) | st.sampled_from(["rig", "me"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["nodes", "classes", "rig", "class", "env", "rocm", "name", "user"]), inner)
    ),
    max_leaves=15,
)


@settings(max_examples=30)
@given(ANYTHING, ANYTHING)
def test_whatever_stands_there_is_taken_or_refused(nodes: Any, classes: Any) -> None:
    try:
        load(None, {}, {"nodes": nodes, "classes": classes})
    except SettingsError:
        return
