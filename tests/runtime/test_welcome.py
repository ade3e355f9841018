"""The start screen: at most 12 lines of 80 columns, whatever the fleet is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hostler.model.fleet import Link
from hostler.model.views import DeviceView, ForeignUseView, NodeView
from hostler.runtime.welcome import BELOW, LINES_MAX, WIDTH, Adopted, node_lines, where_lines

URL = "http://127.0.0.1:34371"
CODE = "c" * 16


def gpu(at: int = 0, model: str | None = "RTX 4090", used_gb: float | None = None, kind: str = "cuda") -> DeviceView:
    use = None if used_gb is None else ForeignUseView(kind="others", since=0.0, who="ann", vram_gb=used_gb)
    return DeviceView(id=f"n/{kind}{at}", kind=kind, model=model, vram_gb=24.0, attempts=(), chunks=(), foreign_use=use)


def node(name: str = "here", *devices: DeviceView, link: Link = Link.UP, trouble: str | None = None) -> NodeView:
    return NodeView(
        name=name, backend="local", link=link, since=0.0, trouble=trouble, agent=None, devices=tuple(devices)
    )


def test_first_lines_have_the_link_the_token_and_the_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    lines = where_lines("0.2.0", "fleet", None, URL, CODE, tmp_path / "state/token")
    assert lines == [
        "Hostler 0.2.0: fleet (no fleet file: this machine alone)",
        f"Dashboard  {URL}/login?once={CODE} (logs in once)",
        "Token      ~/state/token",
    ]
    assert max(map(len, lines)) <= WIDTH
    assert where_lines("0.2.0", "lab", tmp_path / "lab.yaml", URL, None, Path("/t"))[:2] == [
        "Hostler 0.2.0: lab (~/lab.yaml)",
        f"Dashboard  {URL}",
    ]


def test_nodes_are_shown_with_their_cards_and_what_others_use() -> None:
    here = node("here", gpu(0), gpu(1, used_gb=22.5), gpu(2, "T4"), gpu(0, None, kind="cpu"))
    away = node("rig-1", link=Link.DOWN, trouble="Connection refused")
    lines = node_lines([here, away], Adopted(running=2, lost=1), 9)
    assert lines == [
        "Nodes      1 of 2 connected, 3 GPUs, 1 CPU slot",
        "           rig-1: Connection refused",
        "           here: 2 x RTX 4090 24 GB, 1 used by others (22.5 GB); 1 x T4 24 GB",
        "Adopted    2 still running, 1 lost",
        "Next       hostler submit -- python train.py",
        "           hostler top",
    ]


def test_unknown_memory_of_others_is_not_shown_as_none_or_zero() -> None:
    unknown = ForeignUseView(kind="others", since=0.0, who="ann", vram_gb=None)
    card = DeviceView(id="n/cuda0", kind="cuda", model=None, vram_gb=None, attempts=(), chunks=(), foreign_use=unknown)
    assert node_lines([node("here", card)], Adopted(), 9)[1] == "           here: 1 x GPU, 1 used by others"


def test_gpus_of_a_node_are_wrapped_or_summed_up_and_never_cut() -> None:
    models = [f"NVIDIA GeForce RTX 40{at}0 Laptop GPU" for at in range(3)]
    lines = node_lines([node("here", *(gpu(at, model, used_gb=22.5) for at, model in enumerate(models)))], Adopted(), 9)
    assert lines[1:4] == [
        "           here: 1 x NVIDIA GeForce RTX 4000 Laptop GPU 24 GB, 1 used by others",
        "             (22.5 GB); 1 x NVIDIA GeForce RTX 4010 Laptop GPU 24 GB, 1 used by",
        "             others (22.5 GB); and 1 more: hostler device list",
    ]
    assert not any("…" in line for line in lines)


def test_long_names_of_nodes_are_whole() -> None:
    names = [f"{'rig-in-the-cellar-' * 3}{at}" for at in range(2)]
    lines = "\n".join(node_lines([node(name, gpu(0)) for name in names], Adopted(), 9))
    assert all(f"{name}:" in lines for name in names)


def test_fleet_file_with_a_long_path_is_named_and_not_cut() -> None:
    lines = where_lines("0.2.0", "lab", Path("/" + "folder/" * 20 + "lab.yaml"), URL, CODE, Path("/t"))
    assert lines[0] == "Hostler 0.2.0: lab (lab.yaml)"


NODES = st.builds(
    node,
    st.text(min_size=1, max_size=64),
    *[st.builds(gpu, st.integers(0, 9), st.text(max_size=80), st.none() | st.floats(0, 1000))] * 3,
    link=st.sampled_from(list(Link)),
    trouble=st.none() | st.text(max_size=300),
)


@given(st.lists(NODES, max_size=20), st.builds(Adopted, *[st.integers(0, 1000)] * 4), st.text(max_size=100))
def test_start_screen_is_never_longer_or_wider(nodes: list[NodeView], adopted: Adopted, name: str) -> None:
    first = where_lines("0.2.0", name, Path("/" + "x" * 200), URL, CODE, Path("/state/token"))
    lines = [*first, *node_lines(nodes, adopted, LINES_MAX - BELOW - len(first))]
    assert len(lines) + BELOW <= LINES_MAX
    assert all(len(line) <= WIDTH and line.isprintable() for line in lines)
    assert any(line.startswith("Next") for line in lines)


@pytest.mark.parametrize(("count", "shown"), [(1, 1), (5, 2)])
def test_remedy_for_a_node_that_is_not_connected_is_whole(count: int, shown: int) -> None:
    trouble = "cannot be reached: Connection timed out; see whether it is on, and its SSH server runs: `ssh rig-1`"
    away = [node(f"rig-{at}", link=Link.DOWN, trouble=trouble) for at in range(count)]
    lines = node_lines([node("here", gpu(0)), *away], Adopted(), 9)
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= 9
    assert " ".join(line.strip() for line in lines).count("`ssh rig-1`") == shown
    assert any(line.startswith("Next") for line in lines)


def test_node_that_has_not_called_has_its_invitation() -> None:
    caller = node("rig-1", link=Link.DOWN, trouble="never reached")
    lines = node_lines([replace(caller, backend="dialin")], Adopted(), 9)
    assert lines[1:3] == [
        "           rig-1: it has not called yet; `hostler node invite FLEET rig-1`",
        "             prints what to run there",
    ]
