"""What a node must know to call the controller."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hostler.backends.dialin import fingerprint
from hostler.model.errors import UsageError
from hostler.runtime.dialin import address, identity, invitation, joined, split, switchboard
from hostler.runtime.statedir import StateDir
from hostler.settings import Loaded, load


def loaded(folder: Path, dialin: str) -> Loaded:
    (folder / "fleet.yaml").write_text(
        f"state_dir: state\ndialin: {dialin}\nnodes:\n- {{name: far, backend: dialin}}\n- {{name: here}}\n"
    )
    return load(folder / "fleet.yaml", {})


@pytest.mark.parametrize(
    ("dialin", "to"),
    [
        ("{listen: '10.0.0.1:8767'}", "10.0.0.1:8767"),
        ("{listen: '[fd00::1]:8767'}", "[fd00::1]:8767"),
        ("{listen: '0.0.0.0:8767'}", f"{socket.getfqdn()}:8767"),
        ("{listen: '0.0.0.0:8767', address: 'hub:443'}", "hub:443"),
    ],
)
def test_what_nodes_call(tmp_path: Path, dialin: str, to: str) -> None:
    assert address(loaded(tmp_path, dialin), StateDir(tmp_path / "state")) == to
    assert joined(*split(to)) == to


def test_a_port_that_is_not_known_yet(tmp_path: Path) -> None:
    fleet, directory = loaded(tmp_path, "{listen: '127.0.0.1:0'}"), StateDir(tmp_path / "state")
    with pytest.raises(UsageError, match="start it first"):
        address(fleet, directory)
    directory.path.mkdir()
    directory.announce({"dialin": "127.0.0.1:4711"})
    assert address(fleet, directory) == "127.0.0.1:4711"


def test_an_invitation_stays_the_same_until_another_is_asked_for(tmp_path: Path) -> None:
    fleet, directory = loaded(tmp_path, "{listen: '10.0.0.1:8767'}"), StateDir(tmp_path / "state")
    node = fleet.fleet.nodes[0]
    first = invitation(fleet, directory, node, new=False)
    assert invitation(fleet, directory, node, new=False) == first
    assert (first.folder, first.python) == ("~/.hostler/far", "python3")
    later = invitation(fleet, directory, node, new=True)
    assert later.token != first.token
    assert later.fingerprint == first.fingerprint == fingerprint(directory.certificate)


def test_only_nodes_of_the_file_that_call_are_known(tmp_path: Path) -> None:
    fleet, directory = loaded(tmp_path, "{listen: '10.0.0.1:8767'}"), StateDir(tmp_path / "state")
    for name in ("far", "here", "gone"):
        directory.make_call_token(name)
    calls = switchboard(fleet, directory)
    assert calls.is_own("far", str(directory.call_token("far")))
    assert not calls.is_own("here", str(directory.call_token("here")))
    assert not calls.is_own("gone", str(directory.call_token("gone")))


def test_a_certificate_of_one_s_own(tmp_path: Path) -> None:
    fleet = loaded(tmp_path, "{listen: '10.0.0.1:8767', certificate: c.pem, key: k.pem}")
    assert identity(fleet, StateDir(tmp_path / "state")) == (tmp_path / "c.pem", tmp_path / "k.pem")
    with pytest.raises(UsageError, match=r"no certificate can be read from .*c\.pem"):
        invitation(fleet, StateDir(tmp_path / "state"), fleet.fleet.nodes[0], new=False)
