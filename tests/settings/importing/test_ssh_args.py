"""Arguments of `ssh`."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hostler.settings.importing.ssh_args import hops, jump_host, ssh_args


@pytest.mark.parametrize(
    ("line", "via"),
    [
        ("-J b", ("b",)),
        ("-Jme@b:22,c", ("me@b:22", "c")),
        ("-o ProxyJump=b", ("b",)),
        ('-C -o "ProxyJump b"', ("b",)),
        ("-oproxyjump=ssh://me@b:22/", ("me@b:22",)),
        ("-J none", ()),
        ("-J first -J second", ("first",)),
        ("-o ProxyCommand='ssh -W %h:%p -q me@b'", ("me@b",)),
        ("-o ProxyCommand='/usr/bin/ssh -p 99 -l me b -W [%h]:%p'", ("me@b:99",)),
        ("-o ProxyCommand='ssh -J a -W %h:%p b'", ("a", "b")),
        ("-o ProxyCommand='ssh b nc %h %p'", None),
        ("-o ProxyCommand='ssh -W 10.0.0.1:22 b'", None),
        ("-o ProxyCommand=", None),
        ("-q -4", None),
    ],
)
def test_the_way_over_jump_hosts(line: str, via: tuple[str, ...] | None) -> None:
    found = ssh_args(line)
    assert found.via == via
    assert bool(found.remarks) == (via is None and "Proxy" in line)


def test_ssh_args_give_port_user_and_identity() -> None:
    found = ssh_args("-p 1 -l me -i ~/k -o Port=2 -o User=you -o IdentityFile=no -o ControlMaster=auto -vvv")
    assert (found.port, found.user, found.identity, found.remarks) == ("1", "me", "~/k", [])
    found = ssh_args("-o Port=2 -o User=you -o IdentityFile=/k")
    assert (found.port, found.user, found.identity, found.remarks) == ("2", "you", "/k", [])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("-o StrictHostKeyChecking=no", "always checks host keys"),
        ("-o UserKnownHostsFile=/dev/null", "always checks host keys"),
        ("-o Ciphers=aes128-ctr", "Ciphers of its SSH arguments is not taken over"),
        ("-F other", "-F names a configuration"),
        ("-D 1080", "-D of its SSH arguments"),
        ("-o 'ProxyCommand=ssh -i key -W %h:%p b'", "the key for its jump host"),
        ("-o 'Port=1", "quotation mark"),
    ],
)
def test_what_is_not_taken_over_is_told(line: str, told: str) -> None:
    (remark,) = ssh_args(line).remarks
    assert told in remark


@given(st.text(st.sampled_from("-oJWiplF =\"'%hp:ssh ProxyCommand[]@,"), max_size=60))
def test_any_line_is_read(line: str) -> None:
    ssh_args(line)


def test_hosts_of_jump_hosts() -> None:
    each = ["b", "me@B", "b:22", "me@b:22", "[::1]:22", "me@[::1]", "::1"]
    assert [jump_host(jump) for jump in each] == ["b", "b", "b", "b", "::1", "::1", "::1"]
    assert hops("none") == hops(" , ") == ()
