"""A real loop whose games, datasets and models come to stores: as many copies as are wanted, whatever happens."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from hostler.model.artifacts import SUFFIXES, ArtifactKind, Standing
from hostler.store import catalogue, open_journal
from hostler.stores.base import ObjectName
from tests.integration.conftest import Fleet, a_fleet, until
from tests.integration.loops import journal_of
from tests.integration.test_loop_commands import own, run

GOAL = {"promotions": 1, "candidates": 5, "failures": 3}


def copies_by_standing(fleet: Fleet, roots: dict[str, Path]) -> dict[Standing, set[int]]:
    """By standing, how many whole copies its artifacts have: every file hashed again, none taken on trust."""
    journal = open_journal(fleet.state)
    try:
        with journal.catalogue() as connection:
            known = catalogue.page(connection, limit=10_000)
            names = [each.sha256 for each in known]
            told, worth = catalogue.copies_of(connection, names), catalogue.standings(connection, names)
    finally:
        journal.close()
    assert {each.kind for each in known} >= {ArtifactKind.GAMES, ArtifactKind.DATASET, ArtifactKind.MODEL}
    found: dict[Standing, set[int]] = {}
    for each in known:
        path = ObjectName(each.sha256, SUFFIXES[each.kind]).path
        there = {place for place, root in roots.items() if (root / path).exists()}
        assert there == {copy.place for copy in told[each.sha256]}, each
        assert all(copy.verified_at is not None for copy in told[each.sha256]), "each was read where it lies"
        for place in there:
            assert hashlib.sha256((roots[place] / path).read_bytes()).hexdigest() == each.sha256
        found.setdefault(worth[each.sha256].standing, set()).add(len(there))
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "fact"), [("a segment gone", "copies.gone"), ("a segment damaged", "copies.damaged")]
)
def test_the_word_of_a_stage_on_this_machine_is_not_taken_for_a_copy(tmp_path: Path, fault: str, fact: str) -> None:
    """Its files are the controller's own and nobody fetches them: none had been opened, and they counted for weeks."""
    config = own("coins", ("selfplay", fault))
    config["export"] |= {"min_games": 20_000, "fresh_games": 20_000, "window_games": 30_000}
    with a_fleet(tmp_path, configs=[config]) as fleet:
        fleet.start()
        until(lambda: told(fleet, "config.segments"), "the first segments", log=fleet.log)
        made = told(fleet, "config.segments")[0]
        wrong, right = (each["sha256"] for each in made["event"]["segments"])
        # Copies are read again after weeks: what comes within this wait was read because it was new.
        named = lambda: [each for each in told(fleet, fact) if wrong in each["event"]["artifacts"]]  # noqa: E731
        until(named, f"what becomes of {fault}", log=fleet.log)
        read = lambda: [each for each in told(fleet, "copies.verified") if right in each["event"]["artifacts"]]  # noqa: E731
        until(read, "the reading of the other segment", log=fleet.log)
        (copy,) = fleet.client.artifact(right)["artifact"]["copies"]
        assert (copy["counts"], copy["verified_at"]) == (True, read()[0]["at"])
        lost = fleet.client.artifact(wrong)["artifact"]
        assert [each["damaged"] for each in lost["copies"]] == ([True] if fact == "copies.damaged" else [])
        assert lost["counted"] == 0
        assert not told(fleet, "job.failed")
        fleet.kill()
    with journal_of(fleet) as (core, entries):
        assert core.state.seq == entries[-1].seq


def told(fleet: Fleet, kind: str) -> list[Any]:
    """Entries of a kind, oldest first."""
    return [entry for entry in fleet.client.entries() if entry["event"]["kind"] == kind]


@pytest.mark.long
def test_work_finds_what_only_another_store_has(tmp_path: Path) -> None:
    attic = tmp_path / "attic"
    attic.mkdir()
    stores = [{"name": "attic", "kind": "directory", "path": str(attic), "domain": "attic", "reserve_gb": 0.0}]
    goal = {"promotions": 1, "candidates": 1, "failures": 3}
    with a_fleet(tmp_path, configs=[own("coins", idle_after=goal)], stores=stores) as fleet:
        assert run(fleet) == 0, fleet.log()
        home = fleet.state / "artifacts"
        taken = [each for each in (home / "objects").glob("*/*") if (attic / each.relative_to(home)).exists()]
        for each in taken:
            each.unlink()
        fleet.settle(configs=[own("coins", idle_after={**goal, "promotions": 2, "candidates": 2})], stores=stores)
        run(fleet)  # whether the next candidate is better does not matter
        back = [each for each in taken if each.exists()]
    assert any(each.name.endswith(SUFFIXES[ArtifactKind.MODEL]) for each in back)
    assert any(each.name.endswith(SUFFIXES[ArtifactKind.GAMES]) for each in back)
