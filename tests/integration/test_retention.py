"""A real controller with a real loop: what may go is planned, deleted, brought back and deleted for good."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from hostler.model.artifacts import HUB
from hostler.store import catalogue, open_journal
from tests.integration.conftest import Fleet, Hostler, a_fleet, until
from tests.integration.test_loop_commands import own, run

pytestmark = pytest.mark.long

GOAL = {"promotions": 1, "candidates": 5, "failures": 3}
AT_ONCE = dict.fromkeys(("artifacts_s", "logs_s", "caches_s", "empty_s", "checkpoints_s"), 0.0)
WINDOW = {"min_games": 60, "fresh_games": 60, "window_games": 60}
FULL = {"targets": {"disk_store": 0.001, "disk_warning": 0.0001, "disk_roomy_gb": 1e6, "disk_free_gb": 0}}
"""Any disk is too full; but not so that no training would start."""


def segments_here(fleet: Fleet) -> set[str]:
    return {each.name[:64] for each in (fleet.state / "artifacts" / "objects").glob("*/*.segment.npz")}


def copies(fleet: Fleet, names: set[str]) -> dict[str, set[str]]:
    """By artifact, where copies are, as the catalogue has it."""
    journal = open_journal(fleet.state)
    try:
        with journal.catalogue() as connection:
            told = catalogue.copies_of(connection, sorted(names))
    finally:
        journal.close()
    return {name: {copy.place for copy in found if not copy.damaged} for name, found in told.items()}


def test_disks_are_planned_cleaned_and_undone(tmp_path: Path, hostler: Hostler) -> None:
    roots = {name: tmp_path / name for name in ("shelf", "attic")}
    for root in roots.values():
        root.mkdir()
    stores = [
        {"name": name, "kind": "directory", "path": str(root), "domain": name, "reserve_gb": 0.0}
        for name, root in roots.items()
    ]
    config = own("coins", idle_after=GOAL)
    config["export"] = {**config["export"], **WINDOW}
    settings = {"configs": [config], "stores": stores}
    with a_fleet(tmp_path, **settings, retention=AT_ONCE) as fleet:
        assert run(fleet) == 0, fleet.log()
        made = segments_here(fleet)
        fleet.settle(configs=[], stores=stores, retention={**AT_ONCE, "mode": "clean"}, scheduling=FULL)
        fleet.start()
        gone = until(
            lambda: made - segments_here(fleet), "games that are deleted because the disk is full", log=fleet.log
        )
        assert all(copies(fleet, {name})[name] == {"shelf", "attic"} for name in gone)
        told = hostler(fleet, "disk", "plan", "--json").json
        assert {each["sha256"] for each in told["tombstones"]} >= gone
        fleet.kill()

        fleet.settle(configs=[], stores=stores, retention=AT_ONCE)
        fleet.start()
        back = hostler(fleet, "disk", "undo", "--all")
        assert (back.status, back.err) == (0, "")
        assert segments_here(fleet) == made
        assert all(HUB in places for places in copies(fleet, gone).values())

        planned = hostler(fleet, "disk", "plan")
        assert all(len(line) <= 80 for line in planned.out.splitlines())
        assert "exported" in planned.out
        assert hostler(fleet, "disk", "clean").status == 0
        assert segments_here(fleet) == made, "nothing goes without a yes"
        (victim, *_) = sorted(gone)
        (roots["attic"] / "objects" / victim[:2] / f"{victim}.segment.npz").write_bytes(b"damaged meanwhile")
        done = hostler(fleet, "disk", "clean", "--yes", "--json").json
        left = segments_here(fleet)
        assert victim in left, "its copy was read, and was wrong"
        assert victim in {each["path"].rpartition("/")[2][:64] for each in done["left"]}
        assert gone - {victim} <= made - left
        fleet.kill()

        fleet.settle(configs=[], stores=stores, retention={**AT_ONCE, "grace_s": 0.0})
        fleet.start()
        assert hostler(fleet, "disk", "undo", "--all").status == 0
        assert segments_here(fleet) == made
        done = hostler(fleet, "disk", "clean", "--yes", "--json").json
        until(lambda: not fleet.client.disk_tombstones(), "the end of their grace", log=fleet.log)
        assert not list((fleet.state / "artifacts" / ".tombstones").iterdir())
        assert gone - {victim} <= made - segments_here(fleet)
        for name in made - segments_here(fleet):
            for root in roots.values():
                content = (root / "objects" / name[:2] / f"{name}.segment.npz").read_bytes()
                assert hashlib.sha256(content).hexdigest() == name
        kinds = [each["event"]["kind"] for each in fleet.client.entries()]
        assert {"files.retired", "files.restored", "files.deleted", "copies.damaged"} <= set(kinds)
