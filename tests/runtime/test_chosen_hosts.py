"""Hosts that are named to `hostler init`: addresses with ports, and names that are unknown."""

from __future__ import annotations

import pytest

from hostler.model.errors import UsageError
from hostler.runtime.surveying import Hosts, chosen_hosts


@pytest.mark.parametrize(
    ("word", "node"),
    [
        ("root@127.0.0.1:42221", {"name": "127.0.0.1", "host": "127.0.0.1", "port": 42221, "user": "root"}),
        ("rig.example.org:22", {"name": "rig.example.org", "host": "rig.example.org", "port": 22}),
        ("[::1]:22", {"name": "1", "host": "::1", "port": 22}),
        ("ann@[fe80::2]", {"name": "fe80--2", "host": "fe80::2", "user": "ann"}),
        ("fe80::2", {"name": "fe80--2", "host": "fe80::2"}),
        ("ann@rig", {"name": "rig", "host": "rig", "user": "ann"}),
    ],
)
def test_port_of_an_address_is_split_off(word: str, node: dict[str, object]) -> None:
    (found,) = chosen_hosts([word], Hosts({}), set())
    assert dict(found.node) == {"backend": "ssh", **node}


@pytest.mark.parametrize("word", ["ann@rig:ssh", "rig.example.org:0", "rig.example.org:99999"])
def test_port_that_is_none_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="--ssh "):
        chosen_hosts([word], Hosts({}), set())


def test_unknown_name_that_was_asked_for_is_named_without_an_option() -> None:
    with pytest.raises(UsageError, match=r"^'nohost' is not a host of your ssh configuration"):
        chosen_hosts(["nohost"], Hosts({}), set(), "")
