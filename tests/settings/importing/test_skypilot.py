"""Hosts of SkyPilot's SSH node pools."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.backends.ssh import Target
from hostler.model.errors import SettingsError
from tests.settings.importing.conftest import Targets, left_out, taken

POOLS = """\
my-cluster:
  user: ubuntu
  identity_file: ~/.ssh/id
  password: geheim
  hosts:
    - 1.2.3.4
    - ip: 1.2.3.5
      user: root
      identity_file: /keys/five
    - ip: configured
    - {user: nobody}
my-box:
  hosts: [hostname, 1.2.3.4]
none: {hosts: []}
"""


def test_pools_give_targets(targets: Targets, home: Path) -> None:
    (home / ".ssh" / "config").write_text("Host conf*\n User me\nHost *\n Port 22\n")
    assert targets(POOLS) == {
        "1.2.3.4": Target(host="1.2.3.4", user="ubuntu", identity=home / ".ssh" / "id"),
        "1.2.3.5": Target(host="1.2.3.5", user="root", identity=Path("/keys/five")),
        "configured": Target(host="configured"),
        "hostname": Target(host="hostname"),
    }


def test_what_is_left_out_and_not_copied() -> None:
    assert left_out(POOLS) == {
        "my-cluster": "my-cluster.hosts[3] has no ip, by which SkyPilot would find it",
        "none": "a pool without hosts",
        "1.2.3.4": "the same machine as 1.2.3.4",
    }
    found = taken(POOLS)
    assert "geheim" not in str(found)
    assert found.notes[0].startswith("password of 1.2.3.4, 1.2.3.5, configured was not copied")


def test_only_one_pool(targets: Targets) -> None:
    assert list(targets(POOLS, only="my-box")) == ["hostname", "1.2.3.4"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: {hosts: x}\n", "list:1:12: a.hosts: should be a list"),
        ("a: [x]\n", "list:1:4: a: should be a mapping"),
        ("a: {hosts: [[x]]}\n", "list:1:13: a.hosts[0]: should be a mapping"),
        ("a: {hosts: [{ip: 5}]}\n", "list:1:13: a.hosts[0]: its ip should be a text"),
        ("a: {user: 5, hosts: [x]}\n", "list:1:22: a.hosts[0].user: should be a text"),
        ("a:\n  hosts: [x\n", "list:3:1: is no YAML"),
    ],
)
def test_faults_have_their_place(text: str, told: str) -> None:
    with pytest.raises(SettingsError) as error:
        taken(text, "skypilot")
    assert str(error.value).startswith(told)
