"""`hostler node import`: from lists of machines to fleet files that `hostler check` accepts."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from hostler.settings import load
from tests.cli.conftest import Hostler

SSH = "Host rig1\n HostName 10.0.0.1\nHost rig2\nHost github.com\nHost x\x1b[2J\n"
INI = "[rigs]\nrig[1:2] ansible_user=me ansible_ssh_pass=geheim\n[win]\nw ansible_connection=winrm\n"
POOLS = "rigs:\n  user: me\n  password: geheim\n  hosts: [rig1, rig2]\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and the current folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("kind", "text"), [("ssh", SSH), ("ansible", INI), ("skypilot", POOLS)])
def test_what_is_printed_is_a_fleet_file(home: Path, hostler: Hostler, kind: str, text: str) -> None:
    (home / "list").write_text(text)
    for words in ([], ["--from", kind], ["--class", "rigs"], ["--only", "rig?"]):
        said = hostler("node", "import", "list", *words)
        assert said.status == 0
        assert all(line.isprintable() for line in (said.out + said.err).splitlines())
        assert "geheim" not in said.out + said.err
        assert said.err.splitlines()[-1].startswith("2 nodes, ")
        (home / "fleet.yaml").write_text(said.out)
        assert hostler("check", "fleet.yaml").status == 0
        nodes = load(home / "fleet.yaml", {}).fleet.nodes
        assert [(node.name, node.backend, node.class_) for node in nodes] == [
            (name, "ssh", "rigs" if "--class" in words else None) for name in ("rig1", "rig2")
        ]


@pytest.mark.parametrize(("kind", "text", "out"), [("ssh", SSH, 2), ("ansible", INI, 1), ("skypilot", POOLS, 0)])
def test_json_holds_everything(home: Path, hostler: Hostler, kind: str, text: str, out: int) -> None:
    (home / "list").write_text(text)
    found = hostler("node", "import", "list", "--json").json
    assert (found["from"], [node["name"] for node in found["nodes"]]) == (kind, ["rig1", "rig2"])
    assert len(found["left_out"]) == out
    assert any("was not copied" in note for note in found["notes"]) == (kind != "ssh")


def test_hosts_of_the_usual_configuration_need_no_more_than_a_name(home: Path, hostler: Hostler) -> None:
    (home / ".ssh").mkdir()
    for name in (".ssh/config", "other"):
        (home / name).write_text(SSH)
    assert "ssh:" not in hostler("node", "import", "~/.ssh/config").out
    said = hostler("node", "import", "other").out
    assert f"ssh: {{config: [{home}/other, ~/.ssh/config, /etc/ssh/ssh_config]}}\n" in said
    assert "  - {name: rig1, backend: ssh}\n" in said
    assert "#   github.com: a Git server\n#   x\\x1b[2J: " in said


def test_this_very_machine_is_local(home: Path, hostler: Hostler) -> None:
    (home / "list").write_text("localhost ansible_connection=local\n")
    said = hostler("node", "import", "list")
    assert "- {name: localhost, backend: local}" in said.out
    assert said.err == "1 node, 0 left out\n"


def test_a_list_may_come_through_a_pipe(hostler: Hostler, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = json.dumps({"_meta": {"hostvars": {}}, "g": {"hosts": ["rig"]}})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(listed.encode())))
    assert "- {name: rig, backend: ssh}" in hostler("node", "import", "-").out


def test_nothing_found_is_status_1(home: Path, hostler: Hostler) -> None:
    (home / "list").write_text("Host github.com\n")
    said = hostler("node", "import", "list")
    assert (said.status, said.out) == (1, "")
    assert said.err == "left out: github.com: a Git server\nlist: no machine in it that could be a node\n"
    said = hostler("node", "import", "list", "--only", "rig*", "--json")
    assert (said.status, said.json["nodes"], said.json["left_out"]) == (1, [], [])


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        ("all: {hosts: [a}\n", [], "list:1:16: is no YAML"),
        ("Host a\nHost\n", [], "list:2:1: Host needs a value"),
        ("$ANSIBLE_VAULT;1.1;AES256\n", [], "list:1: is locked by ansible-vault"),
        ("#!/bin/sh\nexit 1\n", [], "list:1: is a program, which is not run here"),
        ("a poem\n", [], "list:1: is neither"),
        ("Host a\n", ["--class", "a b"], "--class 'a b' is no name of a class"),
        ("Host a\n", ["--from", "chef"], "--from: 'chef' is not one of ssh, ansible, skypilot"),
    ],
)
def test_what_cannot_be_read_is_status_2(home: Path, hostler: Hostler, text: str, words: list[str], told: str) -> None:
    (home / "list").write_text(text)
    said = hostler("node", "import", "list", *words)
    assert (said.status, said.out) == (2, "")
    assert said.err.startswith(f"hostler: error: {told}")


def test_a_file_that_is_not_there_is_status_2(hostler: Hostler) -> None:
    said = hostler("node", "import", "none")
    assert (said.status, said.err) == (
        2,
        "hostler: error: none: cannot be read (No such file or directory); check the path and its permissions\n",
    )
