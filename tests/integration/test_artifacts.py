"""Artifacts of a real loop in real stores, by the command line: listed, explained, fetched, and mended."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from hostler.model.artifacts import HUB, Standing
from hostler.stores.base import ObjectName
from tests.integration.conftest import Fleet, Hostler, a_fleet, until
from tests.integration.loops import damaged
from tests.integration.test_copies import GOAL, copies_by_standing
from tests.integration.test_loop_commands import own, run

STORES = ("shelf", "attic")


Copies: TypeAlias = dict[Standing, set[int]]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, Copies]]:
    """A loop has come to a promotion, its controller has ended; and how many copies there were then."""
    path = tmp_path_factory.mktemp("artifacts")
    for name in STORES:
        (path / name).mkdir()
    stores = [
        {"name": name, "kind": "directory", "path": str(path / name), "domain": name, "reserve_gb": 0.0}
        for name in STORES
    ]
    config = own("coins", idle_after=GOAL)
    # A dataset takes two jobs of eight segments: with the models there are more artifacts than hexadecimal digits.
    config["selfplay"]["segment_games"] = 4
    with a_fleet(path, configs=[config], stores=stores) as fleet:
        assert run(fleet) == 0, fleet.log()
        roots = {name: path / name for name in STORES}
        counts = copies_by_standing(fleet, {**roots, HUB: fleet.state / "artifacts"})
        fleet.settle(stores=stores)
        yield fleet, counts


@pytest.fixture(scope="module")
def made(played: tuple[Fleet, Copies]) -> Fleet:
    """A controller goes on with what was made, and has nothing else to do."""
    fleet, _ = played
    fleet.start()
    return fleet


def the(fleet: Fleet, standing: str) -> Any:
    """The newest artifact that is worth this."""
    return fleet.client.artifacts(standing=standing, limit=1)[0]


def test_every_artifact_of_a_loop_has_its_copies_at_the_end(played: tuple[Fleet, Copies]) -> None:
    fleet, counts = played
    assert damaged(fleet) == []
    assert counts[Standing.GAMES] == {2}
    assert counts[Standing.MODEL] == {3}
    assert counts[Standing.DATASET] == {1}


def test_what_there_is_is_listed(made: Fleet, hostler: Hostler) -> None:
    rows = hostler(made, "artifact", "list", "--json", "--limit", "1000").json
    assert {each["kind"] for each in rows} >= {"games", "dataset", "model"}
    assert [each["made_at"] for each in rows] == sorted((each["made_at"] for each in rows), reverse=True)
    models = hostler(made, "artifact", "list", "--standing", "model")
    assert models.status == 0
    assert {line.split()[5] for line in models.out.splitlines()[1:]} == {"3/3"}
    assert max(map(len, models.out.splitlines())) <= 80
    assert hostler(made, "artifact", "list", "--short").out == "no such artifacts\n"


def test_a_model_tells_its_lineage(made: Fleet, hostler: Hostler) -> None:
    model = the(made, "model")["sha256"]
    shown = hostler(made, "artifact", "show", model[:12])
    assert (shown.status, model in shown.out, "3 of 3 wanted count" in shown.out) == (0, True, True)
    detail = made.client.artifact(model)
    assert detail["attempt"] == f"{detail['artifact']['job']}.1"
    view = made.client.lineage(model)
    kinds = {each["kind"] for each in view["parents"]}
    assert kinds == {"dataset", "model", "games"}
    tree = hostler(made, "artifact", "lineage", model).out
    assert "was made from" in tree
    assert all(each["sha256"][:12] in tree for each in view["parents"])


def test_the_bytes_come_from_wherever_they_are(made: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    model = the(made, "model")["sha256"]
    target, kept = tmp_path / "a.safetensors", made.state / "artifacts" / ObjectName(model, ".safetensors").path
    assert hostler(made, "artifact", "get", model[:12], "-o", str(target)).status == 0
    assert hashlib.sha256(target.read_bytes()).hexdigest() == model
    again = hostler(made, "artifact", "get", model[:12], "-o", str(target))
    assert (again.status, "--force" in again.err) == (2, True)
    away = kept.rename(kept.with_name("away"))
    try:
        assert hostler(made, "artifact", "get", model[:12], "-o", str(target), "--force").status == 0
    finally:
        away.rename(kept)
    assert hashlib.sha256(target.read_bytes()).hexdigest() == model


def test_a_flipped_bit_is_found_told_and_mended(made: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    model = the(made, "model")["sha256"]
    name = ObjectName(model, ".safetensors")
    stored = made.path / "attic" / name.path
    wrong = bytearray(stored.read_bytes())
    wrong[len(wrong) // 2] ^= 1
    stored.write_bytes(wrong)
    assert hostler(made, "artifact", "verify", model, "--place", "shelf").status == 0
    found = hostler(made, "artifact", "verify", "--all", "--place", "attic")
    assert (found.status, f"{model[:12]} attic: damaged" in found.out) == (1, True)
    assert (made.path / "attic" / "quarantine" / stored.name).read_bytes() == wrong
    until(stored.exists, "another copy", log=made.log)
    until(lambda: the(made, "model")["counted"] == 3, "its being noted", log=made.log)
    mended = hostler(made, "artifact", "verify", model)
    assert (mended.status, "copies: 3 right" in mended.out) == (0, True)
    assert hashlib.sha256(stored.read_bytes()).hexdigest() == model


@pytest.fixture(scope="module")
def scratched(made: Fleet) -> str:
    """Games of which every copy has another last byte."""
    games = str(made.client.artifacts("games", limit=1)[0]["sha256"])
    for place in (made.state / "artifacts", made.path / "shelf", made.path / "attic"):
        stored = place / ObjectName(games, ".segment.npz").path
        if stored.exists():
            stored.write_bytes(stored.read_bytes()[:-1] + b"?")
    return games


def test_a_flipped_bit_is_never_handed_out(made: Fleet, scratched: str, hostler: Hostler, tmp_path: Path) -> None:
    games = scratched
    said = hostler(made, "artifact", "get", games, "-o", str(tmp_path / "games"))
    assert (said.status, "damaged" in said.err, list(tmp_path.iterdir())) == (1, True, [])
    assert hostler(made, "artifact", "verify", games).status == 1
    assert made.client.artifact(games)["artifact"]["counted"] == 0


@pytest.mark.long
def test_games_of_which_no_copy_is_right_are_at_risk(made: Fleet, scratched: str, hostler: Hostler) -> None:
    assert hostler(made, "artifact", "verify", scratched).status == 1
    until(lambda: (made.client.replication()["backlog"] or {}).get("at_risk") == 1, "its being at risk", log=made.log)


def test_who_asks_for_what_is_not_there_is_told(made: Fleet, hostler: Hostler) -> None:
    for words in (("show", "fffffff"), ("get", "fffffff"), ("verify", "fffffff"), ("lineage", "xyz")):
        said = hostler(made, "artifact", *words)
        assert (said.status, "there is no artifact" in said.err) == (2, True), words
    assert hostler(made, "artifact", "verify").status == 2
    names = [each["sha256"] for each in made.client.all_artifacts()]
    ((first, count),) = Counter(name[0] for name in names).most_common(1)
    assert count > 1, "there are more artifacts than first digits"
    said = hostler(made, "artifact", "show", first)
    assert (said.status, "several artifacts begin with" in said.err) == (2, True)


def test_replication_is_told(made: Fleet) -> None:
    until(lambda: made.client.replication()["stock"] is not None, "a count", log=made.log)
    told = made.client.replication()
    assert {each["name"] for each in told["places"]} == {"controller", *STORES}
    assert all(each["reachable"] and each["free_bytes"] for each in told["places"])
    assert {row["standing"] for row in told["stock"]["rows"]} >= {"games", "dataset", "model"}
