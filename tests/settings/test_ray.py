"""Shares of Ray clusters in a fleet file: pilots become nodes, contradictions are refused, tokens are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostler.model.errors import SettingsError
from hostler.settings import Loaded, load, ray_secrets, ray_token

ADDRESS = "http://127.0.0.1:8265"


def written(folder: Path, *nodes: dict[str, Any], **more: Any) -> Path:
    path = folder / "fleet.yaml"
    path.write_text(yaml.safe_dump({"dialin": {"listen": "127.0.0.1:8767"}, "nodes": list(nodes), **more}))
    return path


def share(**asked: Any) -> dict[str, Any]:
    return {"name": "ray", "backend": "ray", "ray": {"address": ADDRESS, **asked}}


def test_each_pilot_is_a_node_that_knows_where_it_was_written(tmp_path: Path) -> None:
    loaded = load(
        written(tmp_path, {"name": "here"}, share(pilots=2, cpus=4.0), {"name": "there", "backend": "dialin"}), {}
    )
    assert [node.name for node in loaded.fleet.nodes] == ["here", "ray-1", "ray-2", "there"]
    places = {loaded.origin(("nodes", at, "ray", "cpus")) for at in (1, 2)}
    assert len(places) == 1
    assert places != {"default"}
    assert loaded.origin(("nodes", 3, "backend")) != loaded.origin(("nodes", 1, "backend"))


def test_a_class_says_what_several_shares_have_in_common(tmp_path: Path) -> None:
    common = {"cluster": {"backend": "ray", "ray": {"address": ADDRESS, "pilots": 2}}}
    nodes = [
        {"name": "a", "class": "cluster", "ray": {"cpus": 2.0}},
        {"name": "b", "class": "cluster", "ray": {"gpus": 1}},
    ]
    loaded = load(written(tmp_path, *nodes, classes=common), {})
    assert [node.name for node in loaded.fleet.nodes] == ["a-1", "a-2", "b-1", "b-2"]
    asked = [node.ray for node in loaded.fleet.nodes]
    assert [(each.cpus, each.gpus) for each in asked if each is not None] == [(2.0, 0), (2.0, 0), (1.0, 1), (1.0, 1)]


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({"name": "r", "backend": "ray"}, "ray.address is missing"),
        *(
            ({"name": "r", "backend": "ray", "ray": {"address": address}}, "names no host, or a port that is none")
            for address in ("http://[::1", "http://head:eighty", "http://head:0", "http://head:99999", "http://:8265")
        ),
        ({"name": "r", "ray": {"address": ADDRESS}}, "write `backend: ray`, too"),
        (share(token_file="t", token_env="T"), "keep one of them"),
        (share(ca="ca.pem"), "begins with https"),
        (share(resources={"GPU": 1.0}), "a setting of its own"),
        (share(pilots=0), "pilots"),
        ({**share(gpus=1), "gpus": "none"}, "keep one of them"),
        (share(address="ftp://x"), "address"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, node: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load(written(tmp_path, node), {})


def test_pilots_must_find_the_controller_again(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nobody would hear it"):
        load(written(tmp_path, share(), dialin={}), {})
    with pytest.raises(SettingsError, match="name one in"):
        load(written(tmp_path, share(), dialin={"listen": "127.0.0.1:0"}), {})
    load(written(tmp_path, share(), dialin={"listen": "127.0.0.1:0", "address": "head:8767"}), {})


def token_of(loaded: Loaded, environ: Mapping[str, str]) -> str | None:
    """That of the only share."""
    asked = loaded.fleet.nodes[0].ray
    assert asked is not None
    return ray_token(loaded, asked, "the share", environ)


def test_a_token_comes_from_a_file_or_a_variable_and_from_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    cases = (
        ({"token_file": "token"}, "from-a-file"),
        ({"token_env": "RAY_T"}, "from-a-variable"),
        ({}, None),
    )
    for asked, token in cases:
        loaded = load(written(tmp_path, share(**asked)), {})
        assert token_of(loaded, {"RAY_T": "from-a-variable"}) == token
    loaded = load(written(tmp_path, share(token_env="RAY_T")), {})
    assert ray_secrets(loaded, ["RAY_T", "OTHER"]) == {"RAY_T"}
    with pytest.raises(SettingsError, match="the variable RAY_T holds no token"):
        token_of(loaded, {})
    loaded = load(written(tmp_path, share(token_file="gone")), {})
    with pytest.raises(SettingsError, match="cannot be read"):
        token_of(loaded, {})
