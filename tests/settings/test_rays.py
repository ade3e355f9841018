"""One address of the Ray cluster of a training, said by its plan or by the nodes that are on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hostler.model.rl import Share
from hostler.policy.feasibility import examine
from hostler.settings import load, ray_secrets, rl_entrance, rl_entrance_faults, rl_plan
from hostler.settings.loading import Loaded

A, B = "http://a:8265", "http://b:8265"


def written(folder: Path, cluster: dict[str, Any], **nodes: dict[str, Any]) -> Loaded:
    """A fleet file whose nodes are shares of Ray clusters."""
    rl = {"runners": 1, "envs_per_runner": 1, "batch_steps": 64, "frame_skip": 8, "hosts": [{"name": "h", "cpus": 8}]}
    shares = [{"name": name, "backend": "ray", "ray": ray} for name, ray in nodes.items()]
    told: dict[str, Any] = {"rl": {**rl, "cluster": {"kind": "ray", **cluster}}}
    if shares:
        told |= {"nodes": shares, "dialin": {"listen": "127.0.0.1:8767"}}
    path = folder / "fleet.yaml"
    path.write_text(json.dumps(told))
    return load(path, {})


def test_the_plan_alone_says_where_it_is(tmp_path: Path) -> None:
    loaded = written(tmp_path, {"address": A, "token_env": "T", "python": "/opt/python"})
    found = rl_entrance(loaded)
    assert found is not None
    assert (found.asked.address, found.asked.token_env, found.python, found.whose) == (
        A, "T", "/opt/python", "rl.cluster",
    )  # fmt: skip
    assert ray_secrets(loaded, ["T", "U"]) == {"T"}
    assert rl_entrance(written(tmp_path, {})) is None


@pytest.mark.parametrize("cluster", [{}, {"address": A}, {"address": "http://A:8265/"}])
def test_nodes_on_it_say_how_one_gets_in(tmp_path: Path, cluster: dict[str, Any]) -> None:
    loaded = written(tmp_path, cluster, one={"address": A, "token_file": "token"}, two={"address": f"{A}/"})
    found = rl_entrance(loaded)
    assert found is not None
    assert (found.asked.token_file, found.whose) == ("token", "node 'one'")
    assert rl_entrance_faults(loaded) == ()
    assert rl_plan(loaded, None, Share()).address == A


@pytest.mark.parametrize(
    ("cluster", "nodes", "told"),
    [
        (
            {"address": B},
            {"one": {"address": A}},
            f"`rl.cluster.address` is {B}, and `ray.address` of node 'one' is {A}",
        ),
        (
            {},
            {"one": {"address": A}, "two": {"address": B}},
            f"`ray.address` of node 'one' is {A} and `ray.address` of node 'two' is {B}, and `rl.cluster.address` says "
            "neither",
        ),
        (
            {"token_file": "x"},
            {"one": {"address": A, "token_file": "y"}},
            "`rl.cluster.token_file` is x, and `ray.token_file` of node 'one', on that cluster, is y",
        ),
    ],
)
def test_two_places_that_contradict_each_other_are_a_finding(
    tmp_path: Path, cluster: dict[str, Any], nodes: dict[str, Any], told: str
) -> None:
    loaded = written(tmp_path, cluster, **nodes)
    assert rl_entrance_faults(loaded) == (told,)
    found = [each for each in examine(rl_plan(loaded, None, Share())).findings if each.code == "address"]
    assert told in [each.words for each in found]
