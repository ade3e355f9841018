"""Stores and copies in fleet files: what is said of them, and what is refused in plain words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hostler.model.artifacts import USUAL_COPIES, Standing, StoreSpec, Wanted
from hostler.model.errors import SettingsError
from hostler.settings import Loaded, load, replication_rules, store_specs


def loaded(path: Path, **settings: Any) -> Loaded:
    file = path / "fleet.yaml"
    file.write_text(yaml.safe_dump(settings))
    return load(file, {}, {})


def store(**fields: Any) -> dict[str, Any]:
    return {"name": "shelf", "kind": "directory", "path": "copies", **fields}


def test_by_default_there_are_no_stores_and_the_usual_copies(tmp_path: Path) -> None:
    fleet = loaded(tmp_path)
    assert store_specs(fleet) == ()
    assert replication_rules(fleet).wanted == dict(USUAL_COPIES)


def test_each_kind_says_where_it_is(tmp_path: Path) -> None:
    bucket = {"name": "far", "kind": "s3", "bucket": "games", "prefix": "fleet", "endpoint": "http://127.0.0.1:9000"}
    remote = {"name": "attic", "kind": "rclone", "remote": "attic:games", "config": "rclone.conf", "mb_per_s": 10.0}
    shelf, far, attic = store_specs(loaded(tmp_path, stores=[store(), bucket, remote]))
    assert shelf == StoreSpec(
        name="shelf", kind="directory", root=str(tmp_path / "copies"), domain="here", reserve_bytes=10**9
    )
    assert (far.root, far.prefix, far.domain, far.endpoint) == ("games", "fleet", "far", "http://127.0.0.1:9000")
    assert (attic.root, attic.config) == ("attic:games", str(tmp_path / "rclone.conf"))
    assert attic.bytes_per_s == 10e6


def test_a_node_is_a_failure_domain_of_its_own(tmp_path: Path) -> None:
    nodes = [{"name": "here"}, {"name": "rig1", "backend": "ssh", "host": "rig1.example"}]
    vault = {"name": "vault", "kind": "node", "node": "rig1", "path": "/data/hostler"}
    (found,) = store_specs(loaded(tmp_path, nodes=nodes, stores=[vault]))
    assert (found.kind, found.node, found.root, found.domain) == ("node", "rig1", "/data/hostler", "rig1")


def test_how_copies_are_read_again_is_said_once(tmp_path: Path) -> None:
    rules = replication_rules(loaded(tmp_path, replication={"scrub_mb_per_s": 5.0, "away_s": 60.0}))
    assert (rules.scrub_bytes_per_s, rules.away_s, rules.verified_within_s) == (5e6, 60.0, 30 * 86_400.0)


def test_copies_are_said_one_by_one(tmp_path: Path) -> None:
    asked = {"games": {"copies": 3, "domains": 2, "within_s": 60.0}, "reread_s": 1000.0}
    rules = replication_rules(loaded(tmp_path, replication=asked))
    assert rules.wanted[Standing.GAMES] == Wanted(copies=3, domains=2, within_s=60.0)
    assert rules.wanted[Standing.MODEL] == USUAL_COPIES[Standing.MODEL]
    assert rules.verified_within_s == 1000.0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"stores": [store(name="controller")]}, "take another name"),
        ({"stores": [store(), store()]}, "two stores are called 'shelf'"),
        ({"stores": [store(path=None)]}, "needs `path`"),
        ({"stores": [store(bucket="games")]}, "`bucket` says nothing of a store of kind directory"),
        ({"stores": [store(kind="s3", path=None)]}, "needs `bucket`"),
        ({"stores": [{"name": "a", "kind": "rclone", "remote": "-far:"}]}, "remote"),
        ({"stores": [{"name": "a", "kind": "s3", "bucket": "b", "endpoint": "http://me:secret@host"}]}, "endpoint"),
        ({"stores": [{"name": "a", "kind": "node", "path": "/data"}]}, "needs `node`"),
        ({"stores": [{"name": "a", "kind": "node", "node": "rig1"}]}, "needs `path`"),
        ({"stores": [{"name": "a", "kind": "node", "node": "rig1", "path": "data"}]}, "absolute path"),
        ({"stores": [{"name": "a", "kind": "node", "node": "rig1", "path": "/data"}]}, "none of this fleet"),
        (
            {
                "nodes": [{"name": "v", "backend": "virtual", "cpu_slots": 1, "gpus": "none"}],
                "stores": [{"name": "a", "kind": "node", "node": "v", "path": "/data"}],
            },
            "none of this fleet",
        ),
        ({"replication": {"games": {"copies": 1, "domains": 2}}}, "cannot lie in 2 domains"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        loaded(tmp_path, **settings)
