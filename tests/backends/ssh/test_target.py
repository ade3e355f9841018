"""Jump hosts as people write them, and host keys as files hold them."""

from __future__ import annotations

from pathlib import Path

import asyncssh
import pytest

from hostler.backends.ssh import trust
from hostler.backends.ssh.bootstrap import command
from hostler.backends.ssh.target import Target, jump, jumps
from hostler.model.errors import LinkRefused


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("hop", Target(host="hop", via=())),
        ("me@hop", Target(host="hop", user="me", via=())),
        ("me@hop:2222", Target(host="hop", user="me", port=2222, via=())),
        ("me@there@hop", Target(host="hop", user="me@there", via=())),
        ("[::1]:22", Target(host="::1", port=22, via=())),
        ("[fe80::1]", Target(host="fe80::1", via=())),
    ],
)
def test_a_jump_host(text: str, target: Target) -> None:
    assert jump(text) == target


@pytest.mark.parametrize("text", ["", "@", "me@", ":22", "hop:", "hop:ssh", "hop:22x"])
def test_what_is_no_jump_host(text: str) -> None:
    with pytest.raises(LinkRefused, match=r"\[user@\]host\[:port\]"):
        jump(text)


def test_a_line_of_jump_hosts() -> None:
    assert list(jumps("a, me@b:22")) == ["a", "me@b:22"]
    assert list(jumps("none")) == []


def test_a_key_is_known_once_it_was_accepted(tmp_path: Path) -> None:
    files = tmp_path / "mine" / "known_hosts", tmp_path / "missing"
    keys = [asyncssh.generate_private_key("ssh-ed25519").convert_to_public() for _ in range(2)]
    found = [trust.shown("rig", 22, key) for key in keys]
    assert trust.known(files, "rig", "", 22) == set()
    trust.add(files[0], found[0])
    assert trust.known(files, "rig", "", 22) == {found[0].key}
    assert trust.known(files, "other", "", 22) == set()
    far = trust.shown("rig", 2222, keys[1])
    trust.add(files[0], far)
    assert trust.known(files, "rig", "", 2222) == {far.key}
    assert files[0].stat().st_mode & 0o077 == 0


def test_a_file_without_its_last_newline_keeps_its_last_line(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    keys = [trust.shown(name, 22, asyncssh.generate_private_key("ssh-ed25519")) for name in ("a", "b")]
    file.write_text(f"{keys[0].host} {keys[0].key}")
    trust.add(file, keys[1])
    assert trust.known([file], "a", "", 22) == {keys[0].key}
    assert trust.known([file], "b", "", 22) == {keys[1].key}


def test_a_revoked_key_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    found = trust.shown("a", 22, asyncssh.generate_private_key("ssh-ed25519"))
    file.write_text(f"a {found.key}\n@revoked a {found.key}\n")
    assert trust.known([file], "a", "", 22) == set()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    found = trust.shown("a", 22, asyncssh.generate_private_key("ssh-ed25519"))
    with pytest.raises(LinkRefused, match="mine/known_hosts"):
        trust.add(tmp_path / "mine" / "known_hosts", found)


@pytest.mark.parametrize(
    ("python", "begin"),
    [
        ("python3", "python3 -c "),
        ("~/my venv/bin/python", "~/'my venv/bin/python' -c "),
        ("/opt/a; reboot", "'/opt/a; reboot' -c "),
        ("~root", "'~root' -c "),
    ],
)
def test_no_shell_takes_the_interpreter_apart(python: str, begin: str) -> None:
    assert command(python).startswith(begin)
