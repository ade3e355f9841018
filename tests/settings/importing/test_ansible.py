"""Hosts of Ansible inventories, in all their forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hostler.backends.ssh import Target
from hostler.model.errors import SettingsError
from hostler.settings.importing import read
from tests.settings.importing.conftest import Targets, left_out, taken

INI = """\
; a comment
loose.example.com
here ansible_connection=local ansible_python_interpreter=/opt/python

[rigs]
rig[01:03]  ansible_user=root  # who
rig02       ansible_host=10.0.0.2 ansible_port=2222 ansible_password="geheim #1"

[amd]
rig03

[amd:vars]
ansible_ssh_private_key_file = '~/.ssh/amd'  # theirs
ansible_python_interpreter=auto_silent

[gpus:children]
amd
rigs  # all of them

[gpus:vars]
ansible_user=me
ansible_ssh_private_key_file=~/.ssh/gpus
ansible_ssh_common_args=-o ProxyCommand="ssh -W %h:%p -q me@bastion"
ansible_become_pass=geheim
"""
YAML = """\
all:
  hosts:
    loose.example.com:
    here: {ansible_connection: local, ansible_python_interpreter: /opt/python}
  children:
    gpus:
      vars:
        ansible_user: me
        ansible_ssh_private_key_file: ~/.ssh/gpus
        ansible_ssh_common_args: '-o ProxyCommand="ssh -W %h:%p -q me@bastion"'
        ansible_become_pass: !vault |
          $ANSIBLE_VAULT;1.1;AES256
          6162
      children:
        rigs:
          hosts:
            rig[01:03]: {ansible_user: root}
            rig02: {ansible_host: 10.0.0.2, ansible_port: 2222, ansible_password: geheim}
        amd:
          hosts: rig03
          vars: {ansible_ssh_private_key_file: ~/.ssh/amd}
"""
GPUS = {
    "ansible_user": "root",
    "ansible_ssh_common_args": '-o ProxyCommand="ssh -W %h:%p -q me@bastion"',
    "ansible_ssh_private_key_file": "~/.ssh/gpus",
    "ansible_become_pass": "geheim",
}
LIST = json.dumps(
    {
        "_meta": {
            "hostvars": {
                "here": {"ansible_connection": "local", "ansible_python_interpreter": "/opt/python"},
                "rig01": GPUS,
                "rig02": {**GPUS, "ansible_host": "10.0.0.2", "ansible_port": 2222, "ansible_password": "geheim"},
                "rig03": {**GPUS, "ansible_ssh_private_key_file": "~/.ssh/amd"},
                "nowhere": {},
            }
        },
        "all": {"children": ["ungrouped", "gpus"]},
        "ungrouped": {"hosts": ["loose.example.com", "here"]},
        "gpus": {"children": ["rigs", "amd"]},
        "rigs": {"hosts": ["rig01", "rig02", "rig03"]},
        "amd": ["rig03"],
    },
    indent=4,
)
FORMS = pytest.mark.parametrize(
    "text", [INI, INI.replace("\n", "\r\n"), YAML, LIST], ids=["ini", "crlf", "yaml", "list"]
)


@FORMS
def test_every_form_gives_the_same_targets(targets: Targets, home: Path, text: str) -> None:
    over, key = ("me@bastion",), home / ".ssh" / "gpus"
    assert targets(text) == {
        "loose.example.com": Target(host="loose.example.com"),
        "here": None,
        "rig01": Target(host="rig01", user="root", identity=key, via=over),
        "rig02": Target(host="10.0.0.2", port=2222, user="root", identity=key, via=over),
        "rig03": Target(host="rig03", user="root", identity=home / ".ssh" / "amd", via=over),
    }


@FORMS
def test_passwords_are_named_and_never_copied(text: str) -> None:
    found = taken(text)
    assert "geheim" not in str(found)
    secrets = [note.partition(" was not copied")[0] for note in found.notes]
    assert secrets == ["ansible_become_pass of rig01, rig02, rig03", "ansible_password of rig02"]


@FORMS
def test_only_some_by_name_address_or_group(targets: Targets, text: str) -> None:
    assert list(targets(text, only="rig0[12]")) == ["rig01", "rig02"]
    assert list(targets(text, only="10.*")) == ["rig02"]
    assert list(targets(text, only="amd")) == ["rig03"]
    assert list(targets(text, only="gpus")) == ["rig01", "rig02", "rig03"]


def test_the_python_of_a_node() -> None:
    said = [
        node.get("python")
        for node in taken("a ansible_python_interpreter=/x\nb ansible_python_interpreter=auto\n").nodes
    ]
    assert said == ["/x", None]


@pytest.mark.parametrize(
    ("pattern", "hosts"),
    [
        ("n[1:3]", ["n1", "n2", "n3"]),
        ("n[08:10].lan", ["n08.lan", "n09.lan", "n10.lan"]),
        ("n[0:9:4]", ["n0", "n4", "n8"]),
        ("[a:c]x", ["ax", "bx", "cx"]),
        ("r[1:2]-[a:b]", ["r1-a", "r1-b", "r2-a", "r2-b"]),
    ],
)
def test_ranges(targets: Targets, pattern: str, hosts: list[str]) -> None:
    assert list(targets(f"[g]\n{pattern}\n")) == hosts
    assert list(targets(f"g:\n  hosts:\n    {json.dumps(pattern)}:\n")) == hosts


def test_ports_beside_names(targets: Targets) -> None:
    found = targets("[g]\nn[1:2]:2222\n[2001:db8::1]:23\nn2 ansible_port=5\n::2\n")
    assert [(each.host, each.port) for each in found.values() if each is not None] == [
        *[("n1", 2222), ("n2", 5), ("2001:db8::1", 23), ("::2", None)],
    ]


def test_inner_groups_win_over_outer_ones_and_later_over_earlier(targets: Targets) -> None:
    text = "[all:vars]\nansible_user=all\n[c]\nx\n[a]\nx\ny\n[z:children]\na\n[z:vars]\nansible_user=z\n"
    users = {name: each and each.user for name, each in targets(text).items()}
    assert users == {"x": "z", "y": "z"}
    users = {name: each and each.user for name, each in targets(text + "[a:vars]\nansible_user=a\n").items()}
    assert users == {"x": "a", "y": "a"}
    first = "[a]\nx\n[b]\nx\n[b:vars]\nansible_user=b\n[a:vars]\nansible_user=a\n"
    assert {each and each.user for each in targets(first).values()} == {"b"}
    assert {each and each.user for each in targets(first + "ansible_group_priority=9\n").values()} == {"a"}


def test_templates_are_filled_in_as_far_as_that_is_sure(targets: Targets) -> None:
    text = (
        "a ansible_host={{inventory_hostname}}.lan\nb ansible_host='{{ ip }}' ip=10.0.0.9\n"
        "c ansible_user='{{ who | lower }}'\n"
    )
    found = targets(text)
    assert {name: each and each.host for name, each in found.items()} == {"a": "a.lan", "b": "10.0.0.9"}
    assert left_out(text) == {"c": "ansible_user cannot be told from this file alone"}
    (note,) = taken("a ansible_python_interpreter='{{ venv }}/bin/python'\n").notes
    assert note == "a: ansible_python_interpreter cannot be told from this file alone"
    assert "a" in left_out("a ansible_connection='{{ how }}'\n")
    assert "secret" not in str(taken("a ansible_host='{{ ansible_password }}' ansible_password=secret\n"))


def test_what_no_ssh_reaches_is_left_out() -> None:
    each = {"w": "winrm", "d": "docker", "s": "ssh", "l": "local"}
    text = "".join(f"{name} ansible_connection={connection}\n" for name, connection in each.items())
    assert list(left_out(text)) == ["w", "d"]
    assert left_out(text + "m ansible_connection=local\n")["m"] == "the same machine as l"


def test_a_host_twice_is_one_node(targets: Targets) -> None:
    text = "[a]\nx ansible_host=10.0.0.1\n[b]\nx\ny ansible_host=10.0.0.1\n"
    assert list(targets(text)) == ["x"]
    assert left_out(text) == {"y": "the same machine as x"}


def test_characters_that_json_writes_as_two(targets: Targets) -> None:
    text = json.dumps(
        {"_meta": {"hostvars": {"rig": {"note": "\\\U0001f600", "ansible_user": "u"}}}, "g": {"hosts": ["rig"]}}
    )
    assert targets(text) == {"rig": Target(host="rig", user="u")}


def test_jump_hosts_of_others_are_left_out(targets: Targets) -> None:
    text = "[g]\nrig\nbastion ansible_host=b.lan\n[g:vars]\nansible_ssh_common_args=-J me@b.lan:22\n"
    assert list(targets(text)) == ["rig"]
    assert "jump host" in left_out(text)["bastion"]


def test_variables_in_files_of_their_own_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("[rigs]\nrig1\n")
    assert read(tmp_path / "hosts")[1].notes == ()
    (tmp_path / "group_vars").mkdir()
    (note,) = read(tmp_path / "hosts")[1].notes
    assert "group_vars beside it are not read" in note


def test_arguments_that_mean_nothing_to_hostler_are_told() -> None:
    notes = taken("a ansible_ssh_extra_args='-o StrictHostKeyChecking=no -o Ciphers=x'\n").notes
    assert [note.partition(":")[0] for note in notes] == ["a", "a"]


@pytest.mark.parametrize(
    "value", ["ansible_port=x", "ansible_port=99999999", "ansible_user='a b'", "ansible_user=-x", "ansible_host=,b"]
)
def test_what_cannot_be_is_left_out(value: str) -> None:
    assert "a" in left_out(f"a {value}\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[a:group]\n", "list:1:1: [a:group] is unknown"),
        ("[a]\nx key\n", "list:2:1: behind the name of a host stands key=value"),
        ("[a]\nx pw='geheim\n", "list:2:1: a quotation mark is not closed"),
        ("[a]\n'' b=c\n", "list:2:1: the name of a host is empty"),
        ("[a:vars]\ngeheim\n", "list:2:1: below [GROUP:vars] stands key=value"),
        ("[a:children]\nb c\n", "list:2:1: below [a:children] stands one group a line"),
        ("[a:children]\nb\n[b:children]\na\n", "list: groups are children of their own children"),
        ("[a]\nx[3:1]\n", "list:2:1: the range [3:1] is empty"),
        ("[a]\nx[1:5:0]\n", "list:2:1: the range [1:5:0] is empty"),
        ("[a]\nx[a:B]\n", "list:2:1: the range [a:B] is empty"),
        ("[a]\nx[1:999999999]\n", "list:2:1: the range [1:999999999] stands for more than"),
        ("[a]\nx[1:999]-[1:999]\n", "list:2:1: the range stands for more than"),
        ("[a]\nx[1:6000]\ny[1:6000]\n", "list:3:1: there are more than 10000 hosts"),
        ("all: {hosts: [1]}\n", "list:1:15: all.hosts[0]: should be the name of a host"),
        ("all: {hosts: 1}\n", "list:1:14: all.hosts: should be the names of hosts"),
        ("all: {children: [1]}\n", "list:1:18: all.children[0]: should be the name of a group"),
        ("all: {children: x}\n", "list:1:17: all.children: should be a mapping"),
        ("all: {vars: [x]}\n", "list:1:13: all.vars: should be a mapping"),
        ("all:\n  hosts:\n    a:\n    a:\n", "list:4:5: all.hosts.a: is written twice; the first is in line 3"),
        ("all:\n\thosts: a\n", "list:2:1: a tab cannot indent"),
        ("all: {hosts: {a: {x: !python/object y}}}\n", "list:1:22: tags are not supported"),
    ],
)
def test_faults_have_their_place_and_tell_no_value(text: str, told: str) -> None:
    with pytest.raises(SettingsError) as error:
        taken(text, "ansible")
    assert str(error.value).startswith(told)
    assert "geheim" not in str(error.value)
