"""What a text is; and that any text is read or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostler.model.errors import SettingsError
from hostler.settings import load
from hostler.settings.importing import Kind, Listing, fleet_text, imported, read, read_text
from hostler.settings.reading import read_text as read_yaml
from tests.settings.importing import test_ansible, test_skypilot, test_ssh_config

KINDS: list[Kind | None] = [None, "ssh", "ansible", "skypilot"]
LINES = st.sampled_from(
    [
        *test_ssh_config.RIGS.splitlines(),
        *test_ansible.INI.splitlines(),
        *test_ansible.YAML.splitlines(),
        *test_skypilot.POOLS.splitlines(),
        *[
            "Include *",
            "Host",
            "[",
            "[a:vars]",
            "a[1:3]b",
            "---",
            "{",
            "a: &b [*b]",
            "\t",
            "\ufeff",
            "é\u2028",
            "\0",
            "x=\\",
        ],
    ]
)
WORDS = st.text(max_size=8) | st.sampled_from(
    ["all", "hosts", "children", "vars", "_meta", "hostvars", "ansible_host", "ansible_port", "user", "ip", "a[1:9]"]
)
TREES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
TEXTS = (
    st.text(max_size=200) | st.lists(LINES | st.text(max_size=20), max_size=20).map("\n".join) | TREES.map(json.dumps)
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (test_ssh_config.RIGS, "ssh"),
        ("User me\nHost *\n", "ssh"),
        ("  host=rig\n", "ssh"),
        ("Include conf.d/*\n", "ssh"),
        (test_ansible.INI, "ansible"),
        (test_ansible.YAML, "ansible"),
        (test_ansible.LIST, "ansible"),
        ("rig1\nrig2 ansible_host=10.0.0.1\n", "ansible"),
        ("host ansible_host=10.0.0.1\n", "ansible"),
        ("gpus: {hosts: {a: null}}", "ansible"),
        ("gpus: {hosts: [a], vars: {}}", "ansible"),
        (test_skypilot.POOLS, "skypilot"),
        ("pool: {hosts: [a]}", "skypilot"),
    ],
)
def test_a_list_is_told_by_its_content(text: str, kind: Kind) -> None:
    assert read_text(text, "list")[0] == kind
    assert read_text(text.replace("\n", "\r\n"), "list") == read_text(text, "list") == read_text(text, "list", kind)


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "---\n", "[gpus]\n", "Host *\n", "{}"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_list_may_be_empty(text: str, kind: Kind | None) -> None:
    if (kind, text[:1]) in {("skypilot", "["), ("skypilot", "H"), ("ssh", "["), ("ssh", "{"), ("ssh", "-")}:
        with pytest.raises(SettingsError, match=r"list:1:|list: "):
            read_text(text, "list", kind)
    elif (kind, text[:1]) != ("ansible", "H"):
        assert read_text(text, "list", kind)[1].machines == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("$ANSIBLE_VAULT;1.1;AES256\n6162\n", "list:1: is locked by ansible-vault"),
        ("#!/usr/bin/env python\nprint()\n", "list:1: is a program, which is not run here; run `list --list`"),
        ("some words\nof a poem\n", "list:1: is neither a configuration of SSH, nor"),
        ("nodes:\n  - {name: a}\n", "list:1:1: is a fleet file already"),
        ("- hosts: all\n", "list:1: is neither"),
        ("---\n- hosts: all\n  tasks: []\n", "list:2:1: is neither an Ansible inventory nor"),
        ("all: {hosts: [a}\n", "list:1:16: is no YAML"),
        ("all: \x07\n", "list:1:6: holds the character"),
    ],
)
def test_what_is_none_of_them_is_refused(text: str, told: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_text(text, "list")
    assert str(error.value).startswith(told)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(text=TEXTS, kind=st.sampled_from(KINDS))
def test_any_text_gives_nodes_or_is_refused(text: str, kind: Kind | None) -> None:
    try:
        _, listing = read_text(text, "list", kind)
    except SettingsError as error:
        told = str(error)
    else:
        told = "list"
        _is_a_fleet(listing)
    assert told.startswith(("list", "/"))


def _is_a_fleet(listing: Listing) -> None:
    found = imported(listing, class_="c")
    written = fleet_text(found, "list", "c", ["x"])
    assert all(line.isprintable() for line in written.split("\n"))
    assert read_yaml(written, "fleet").value["nodes"] == ([dict(node) for node in found.nodes] or None)
    if found.nodes:
        nodes = load(None, {"HOSTLER_NODES": json.dumps(imported(listing).nodes, ensure_ascii=False)}).fleet.nodes
        assert len({node.name for node in nodes}) == len(found.nodes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", ["Host {}\n", "{} ansible_user={}\n", "a: {{hosts: ['{}']}}\n", "[{}]\n", "{}:\n"])
@pytest.mark.parametrize("length", [6_000, pytest.param(30_000, marks=pytest.mark.long)])
def test_long_lines_take_no_time(kind: Kind | None, line: str, length: int) -> None:
    for filling in (*(each * length for each in "x[= "), "a." * (length // 2), '"' * (length + 1)):
        try:
            found = imported(
                read_text(line.replace("{}", filling).replace("{{", "{").replace("}}", "}"), "list", kind)[1]
            )
        except SettingsError:
            continue
        assert len(fleet_text(found, "list")) < 2000


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read(tmp_path / "none")
    with pytest.raises(SettingsError, match="is a folder; give one file of it"):
        read(tmp_path)
    (tmp_path / "x").write_bytes("Host rig\n".encode("utf-16"))
    with pytest.raises(SettingsError, match=r"x:1:1: byte 0xff is no UTF-8"):
        read(tmp_path / "x")
