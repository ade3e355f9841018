"""Hosts of a configuration of SSH."""

from __future__ import annotations

from pathlib import Path

import asyncssh
import pytest

from hostler.backends.ssh import Target
from hostler.model.errors import SettingsError
from hostler.settings.importing import read
from hostler.settings.importing.ssh_config import Config
from tests.settings.importing.conftest import Targets, left_out, taken

RIGS = """\
# My rigs.
ServerAliveInterval 60
Host rig1 rig1.lan  # the big one
    HostName 10.0.0.1
    User me
Host=rig2
\tport = 2222
\tProxyJump me@bastion:22
HOST "rig3"
  ProxyCommand nc -X 5 "%h
Host bastion
  HostName b.example.com
Host github.com work-git
Host work-git
  HostName git.corp.example
  User git
Host *.lab !x.lab
Host *
  User nobody
Match host rig9
  Port 9
"""


def no_files(pattern: str, origin: object) -> list[tuple[str, str]]:
    """There is nothing to include."""
    return []


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_names_alone_are_taken_over(targets: Targets, end: str) -> None:
    found = targets(RIGS.replace("\n", end))
    assert found == {name: Target(host=name) for name in ("rig1", "rig2", "rig3")}


def test_what_is_left_out_has_a_reason() -> None:
    reasons = left_out(RIGS)
    assert list(reasons) == ["github.com", "work-git", "*.lab", "rig1.lan", "bastion"]
    assert reasons["github.com"] == reasons["work-git"] == "a Git server"
    assert reasons["rig1.lan"] == "the same machine as rig1"
    assert "jump host" in reasons["bastion"]
    assert "pattern" in reasons["*.lab"]
    assert taken(RIGS).notes == (
        "what `Host *` says stays where it is; Hostler heeds it",
        "list:20:1: Match is left alone: hosts that it alone names are not seen",
    )


def test_hosts_are_the_same_where_the_whole_way_is(targets: Targets) -> None:
    boxes = "".join(
        f"Host {name}\n HostName ssh5.vast.ai\n Port {port}\n" for name, port in [("a", 1), ("b", 2), ("c", 1)]
    )
    assert list(targets(boxes)) == ["a", "b"]
    sites = "".join(f"Host {name}\n HostName 10.0.0.1\n ProxyJump {name}.example\n" for name in "ab")
    assert list(targets(sites)) == ["a", "b"]
    assert list(targets("Host a b\n HostName %h.lan\n")) == ["a", "b"]


def test_names_that_are_none_of_nodes_keep_their_host(targets: Targets) -> None:
    long = "r" * 100
    found = targets(f"Host _rig köln köln! {long} 机器 Rig rig\n")
    hosts = {name: each.host for name, each in found.items() if each is not None}
    made = {"rig-2": "_rig", "koln": "köln", "koln-2": "köln!", "r" * 64: long, "node": "机器"}
    assert hosts == {**made, "Rig": "Rig"}
    assert "the same machine as Rig" in left_out("Host Rig rig\n")["rig"]


def test_names_are_unique(targets: Targets) -> None:
    found = targets("Host a,b a+b a-b a/b ,\n")
    hosts = {name: each.host for name, each in found.items() if each is not None}
    assert hosts == {"a-b-2": "a,b", "a-b-3": "a+b", "a-b": "a-b", "a-b-4": "a/b"}
    assert left_out("Host , -\n") == {",": "its host cannot be used", "-": "its host cannot be used"}


def test_the_first_value_holds() -> None:
    config = Config.read("Host r*\n Port 1\nHost rig !rag\n Port 2\n User u\n", "c", no_files)
    assert (config.said("rig", "port"), config.said("rig", "user"), config.said("rag", "user")) == ("1", "u", None)
    assert (config.said("r[", "port"), config.said("x", "port")) == ("1", None)


def test_it_is_understood_as_asyncssh_does(tmp_path: Path) -> None:
    text = 'Host a b\n Port 7\nHost "b" c\n HostName x.lan\n User u\nHost * !c\n Port 9\nHost d?\n User e\n'
    path = tmp_path / "config"
    path.write_text(text)
    config = Config.read(text, "c", no_files)
    for name in ("a", "b", "c", "d1"):
        options = asyncssh.SSHClientConnectionOptions(host=name, config=[str(path)], username=(), port=())
        assert options.port == int(config.said(name, "port") or 22)
        assert options.host == (config.said(name, "hostname") or name)
        assert config.said(name, "user") in (options.username, None)


def test_which_hosts_it_was_written_for() -> None:
    config = Config.read("User a\nHost *\nUser b\nHost *.lan !no.lan\nUser c\nHost x\n", "c", no_files)
    assert [name for name in ("x", "y", "a.lan", "no.lan") if config.knows(name)] == ["x", "a.lan"]


def test_includes_are_followed_and_hold_where_they_are_said(home: Path) -> None:
    ssh = home / ".ssh"
    (ssh / "conf.d").mkdir()
    (ssh / "conf.d" / "1").write_text("Host one\nInclude deeper none-there\n")
    (ssh / "conf.d" / "2").write_text("Host two outer\n Port 2\n")
    (ssh / "deeper").write_text("User me\n")
    (ssh / "config").write_text(
        "Include conf.d/1\nHost outer\nInclude ~/.ssh/conf.d/2\n HostName o\nMatch all\nInclude x\n"
    )
    kind, listing = read(Path("~/.ssh/config"))
    assert kind == "ssh"
    assert [each.name for each in listing.machines] == ["one", "outer"]
    assert listing.machines[0].origin.source == str(ssh / "conf.d" / "1")
    assert listing.machines[1].place == ("o", "2", "")


def test_what_includes_itself_is_refused(home: Path) -> None:
    (home / ".ssh" / "config").write_text("Include config\n")
    with pytest.raises(SettingsError, match="does it include itself"):
        read(Path("~/.ssh/config"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Host a\nHost\n", "list:2:1: Host needs a value"),
        ("Host a\n  Port ''\n  User =\n", "list:3:3: User needs a value"),
        ("Host a\n  [gpu]\n", "list:2:3: is no line of a configuration of SSH"),
        ('Host "a\n', "list:1:1: Host: a quotation mark is not closed"),
        ("Host a\nInclude \0\n", "list:2:1: Include: a null byte"),
    ],
)
def test_faults_have_their_place(text: str, told: str) -> None:
    with pytest.raises(SettingsError) as error:
        taken(text, "ssh")
    assert str(error.value).startswith(told)
