"""A real loop with stores on nodes: copies come there, a flipped bit is found in time and mended, a store that leaves
the fleet file is given up and what it held is copied elsewhere."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hostler.model.artifacts import HUB, Standing
from hostler.stores.base import LABEL
from tests.backends.ssh import sshd
from tests.backends.ssh.sshd import Sshd
from tests.integration.conftest import NODE, Fleet, a_fleet, until
from tests.integration.test_copies import GOAL, copies_by_standing
from tests.integration.test_loop_commands import own, run
from tests.livefolders import files_below

pytestmark = [pytest.mark.long, pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")]


def settings(server: Sshd, stores: dict[str, Path], **replication: Any) -> dict[str, Any]:
    """A fleet of this machine and one behind SSH, with stores on both: `vault` is there, the others are here."""
    far = {
        "name": "rig1",
        "backend": "ssh",
        "host": "127.0.0.1",
        "port": server.port,
        "identity": str(server.folder / "client"),
        "dir": str(server.folder / "on"),
        "cpu_slots": 0,
        "gpus": "none",
    }
    placed = [
        {"name": name, "kind": "node", "node": "rig1" if name == "vault" else "here", "path": str(root)}
        | {"domain": name, "reserve_gb": 0.0}
        for name, root in stores.items()
    ]
    return {
        "nodes": [NODE, far],
        "ssh": {"config": [], "known_hosts": [str(server.known_hosts)]},
        "configs": [own("coins", idle_after=GOAL)],
        "stores": placed,
        "replication": replication,
    }


def objects(root: Path) -> list[Path]:
    return sorted(path for path in files_below(root / "objects") if "." in path.name)


def flip(path: Path) -> bytes:
    right = path.read_bytes()
    path.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    return right


def leave(fleet: Fleet) -> None:
    assert fleet.controller is not None
    fleet.signal(signal.SIGTERM)
    fleet.signal(signal.SIGTERM)
    try:
        fleet.ended()
    except subprocess.TimeoutExpired:
        fleet.kill()
        raise


def test_stores_on_nodes_hold_copies_that_are_read_again_and_mended(tmp_path: Path) -> None:
    roots = {name: tmp_path / name for name in ("vault", "shelf", "attic")}
    for root in roots.values():
        root.mkdir()
    used = {name: roots[name] for name in ("vault", "shelf")}
    with (
        sshd.running(tmp_path / "sshd") as server,
        a_fleet(tmp_path, **settings(server, used)) as fleet,
    ):
        assert run(fleet) == 0, fleet.log()
        found = copies_by_standing(fleet, {**used, HUB: fleet.state / "artifacts"})
        assert found[Standing.GAMES] == {2}
        assert found[Standing.MODEL] == {3}
        assert all((root / LABEL).exists() for root in used.values())
        # All copies are due at once now.
        fleet.settle(**settings(server, used, reread_s=20.0, scrub_mb_per_s=100.0))
        wrong = {path: flip(path) for path in (objects(roots["vault"])[0], objects(roots["shelf"])[0])}
        fleet.start()
        until(lambda: all(path.exists() and path.read_bytes() == right for path, right in wrong.items()), "mended")
        leave(fleet)
        for path in wrong:
            assert (path.parents[2] / "quarantine" / path.name).exists()
        fleet.settle(**settings(server, {"shelf": roots["shelf"], "attic": roots["attic"]}))
        assert run(fleet) == 0, fleet.log()
        assert "the store vault is in the fleet file no more" in (fleet.state / "controller.log").read_text()
        left = {"shelf": roots["shelf"], "attic": roots["attic"], HUB: fleet.state / "artifacts"}
        assert copies_by_standing(fleet, left)[Standing.MODEL] == {3}
        assert copies_by_standing(fleet, left)[Standing.GAMES] == {2}
