"""Nodes as text."""

from __future__ import annotations

from pathlib import Path

import yaml
from hypothesis import given, settings, strategies as st

from hostler.settings.importing import Imported, LeftOut, extra_configs, fleet_text
from hostler.settings.reading import read_text

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from(["name", "host", "user"]), TEXTS | st.from_regex(r"[0-9.~eExno+-]+", fullmatch=True)
    )
)
def test_every_text_is_read_as_it_was(node: dict[str, str]) -> None:
    written = fleet_text(Imported(nodes=(node,), left_out=(), notes=()), "x")
    assert read_text(written, "x").value == {"nodes": [node]}
    assert yaml.safe_load(written) == {"nodes": [node]}


def test_a_fleet_file_for_people() -> None:
    node = {"name": "rig", "backend": "ssh", "host": "10.0.0.1", "port": 22, "identity": "~/.ssh/a b", "via": ["me@b"]}
    found = Imported(nodes=(node,), left_out=(LeftOut(name="a\nb", why="x" * 500),), notes=())
    assert fleet_text(found, "hosts.ini", "rigs", ["/c"]).splitlines() == [
        "# Nodes from hosts.ini, written by `hostler node import`.",
        "ssh: {config: [/c]}",
        "classes: {rigs: {}}  # what goes for all of them: env, setup, python, rocm, dir, ...",
        "nodes:",
        '  - {name: rig, backend: ssh, host: 10.0.0.1, port: 22, identity: "~/.ssh/a b", via: ["me@b"]}',
        "# Left out:",
        "#   a\\nb: " + "x" * 159 + "…",
    ]


def test_other_configurations_are_named(home: Path, tmp_path: Path) -> None:
    own, other = home / ".ssh" / "config", tmp_path / "other"
    for path in (own, other):
        path.write_text("Host a\n")
    assert extra_configs(Path("~/.ssh/config")) == extra_configs(own) == ()
    assert extra_configs(other) == (str(other), "~/.ssh/config", "/etc/ssh/ssh_config")
