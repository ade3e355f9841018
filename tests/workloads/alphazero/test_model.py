from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from hostler import __version__
from hostler.workloads.alphazero.artifacts import MODEL, ArtifactError, Artifacts
from hostler.workloads.alphazero.model import (
    Manifest,
    ModelError,
    load_model,
    load_network,
    publish,
    read_manifest,
    to_bytes,
)
from hostler.workloads.alphazero.network import Network, build
from tests.workloads.alphazero.trivial import Spacing, make

CONFIG = "spacing7_2p"
SIZE = {"channels": 4, "blocks": 1, "seed": 3}


def model(game: Spacing | None = None, config: str = CONFIG) -> tuple[Network, Manifest]:
    game = game or make()
    return build(game, **SIZE), Manifest.untrained(game, config, **SIZE)


def published(root: Path, content: bytes) -> tuple[Artifacts, str]:
    artifacts = Artifacts(root)
    return artifacts, artifacts.publish(MODEL, content).sha256


def test_a_model_comes_back_with_its_weights_and_its_manifest(tmp_path: Path) -> None:
    network, manifest = model()
    artifacts = Artifacts(tmp_path)
    found, told = load_model(artifacts, publish(artifacts, network, manifest).sha256, make(), CONFIG)
    assert told == manifest
    assert (told.game, told.cells, told.planes, told.actions) == ("spacing 7 2p", 7, 3, 8)
    assert (told.base, told.dataset, told.steps, told.code) == (None, None, 0, __version__)
    planes = torch.rand(5, 3, 7)
    for ours, theirs in zip(network(planes), found(planes), strict=True):
        assert torch.equal(ours, theirs)


def test_weights_come_from_the_file_and_not_from_the_seed_in_the_manifest(tmp_path: Path) -> None:
    network, manifest = model()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
    artifacts, sha256 = published(tmp_path, to_bytes(network, manifest))
    found = load_network(artifacts, sha256, make(), CONFIG)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), found.parameters(), strict=True))


def test_equal_weights_and_manifests_give_equal_bytes_and_others_do_not() -> None:
    network, manifest = model()
    again, _ = model()
    assert to_bytes(network, manifest) == to_bytes(again, manifest)
    assert to_bytes(network, replace(manifest, steps=1)) != to_bytes(network, manifest)
    with torch.no_grad():
        next(again.parameters()).view(-1)[0] += 1e-3
    assert to_bytes(again, manifest) != to_bytes(network, manifest)


@pytest.mark.parametrize(
    ("game", "config", "told"),
    [
        (make(), "spacing9_2p", r"its config is 'spacing7_2p', that of the order is 'spacing9_2p'"),
        (make(9), CONFIG, r"its game is 'spacing 7 2p', that of the order is 'spacing 9 2p'"),
        (make(7, 3), CONFIG, r"its game is 'spacing 7 2p', that of the order is 'spacing 7 3p'"),
    ],
)
def test_a_model_of_another_config_or_game_is_refused_with_both_names(
    tmp_path: Path, game: Spacing, config: str, told: str
) -> None:
    artifacts, sha256 = published(tmp_path, to_bytes(*model()))
    with pytest.raises(ModelError, match=rf"model {sha256}: {told}"):
        load_network(artifacts, sha256, game, config)


def test_a_model_of_other_rules_is_refused(tmp_path: Path) -> None:
    artifacts, sha256 = published(tmp_path, to_bytes(*model()))
    game = make()
    game.rules_version = 2
    with pytest.raises(ModelError, match="its rules_version is 1, that of the order is 2"):
        load_network(artifacts, sha256, game, CONFIG)


def test_a_manifest_that_lies_about_the_shape_of_the_network_is_refused(tmp_path: Path) -> None:
    network, manifest = model()
    artifacts, wide = published(tmp_path, to_bytes(network, replace(manifest, channels=8)))
    with pytest.raises(
        ModelError, match=r"its tensor stem\.linear\.weight has shape \(4, 9\), that of the network \(8, 9\)"
    ):
        load_network(artifacts, wide, make(), CONFIG)
    artifacts, deep = published(tmp_path, to_bytes(network, replace(manifest, blocks=2)))
    with pytest.raises(ModelError, match=r"missing are \['blocks\.1\."):
        load_network(artifacts, deep, make(), CONFIG)


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    network, manifest = model()
    with torch.no_grad():
        network.stem.linear.weight[0, 0] = float("nan")
    artifacts, sha256 = published(tmp_path, to_bytes(network, manifest))
    with pytest.raises(ModelError, match=r"stem\.linear\.weight holds values that are not finite"):
        load_network(artifacts, sha256, make(), CONFIG)


def test_a_damaged_or_missing_file_is_named(tmp_path: Path) -> None:
    artifacts, sha256 = published(tmp_path, to_bytes(*model()))
    path = artifacts.path(sha256, MODEL)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=rf"{sha256}\.safetensors is damaged"):
        load_network(artifacts, sha256, make(), CONFIG)
    with pytest.raises(ArtifactError, match="cannot be read"):
        load_network(artifacts, "0" * 64, make(), CONFIG)


def test_what_is_no_model_is_refused() -> None:
    network, manifest = model()
    whole = to_bytes(network, manifest)
    for cut in (0, 5, 8, 100):
        with pytest.raises(ModelError, match="no safetensors file"):
            read_manifest(whole[:cut])
    with pytest.raises(ModelError, match="its header is no JSON"):
        read_manifest((4).to_bytes(8, "little") + b"\xff\xff\xff\xff")
    with pytest.raises(ModelError, match="no model of Hostler"):
        read_manifest(save({"a": torch.zeros(1)}))
    with pytest.raises(ModelError, match="its manifest is no JSON"):
        read_manifest(save({"a": torch.zeros(1)}, {"hostler": "{"}))
    with pytest.raises(ModelError, match="has schema 2, this version reads schema 1"):
        read_manifest(to_bytes(network, replace(manifest, schema=2)))
    with pytest.raises(ModelError, match="its manifest says channels: '4', which is of the wrong type"):
        read_manifest(to_bytes(network, replace(manifest, channels="4")))
    with pytest.raises(ModelError, match=r"lacks \['actions'"):
        read_manifest(save({"a": torch.zeros(1)}, {"hostler": '{"schema": 1}'}))


def test_a_truncated_tensor_section_is_refused(tmp_path: Path) -> None:
    artifacts, sha256 = published(tmp_path, to_bytes(*model())[:-4])
    with pytest.raises(ModelError, match="its tensors cannot be read"):
        load_network(artifacts, sha256, make(), CONFIG)


def test_the_file_is_plain_safetensors() -> None:
    network, manifest = model()
    tensors = load(to_bytes(network, manifest))
    assert tensors.keys() == network.state_dict().keys()
    assert all(np.isfinite(tensor.numpy()).all() for tensor in tensors.values())


def lying(**changes: int) -> bytes:
    network, manifest = model()
    return to_bytes(network, replace(manifest, **changes))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"channels": -1}, "its manifest says channels: -1, which is not in 1..4096"),
        ({"channels": 10**6}, "its manifest says channels: 1000000, which is not in"),
        ({"blocks": -1}, "its manifest says blocks: -1, which is not in 0..256"),
        ({"blocks": 10**7}, "its manifest says blocks: 10000000, which is not in"),
        ({"channels": 4096, "blocks": 256}, "its tensors are not those of the network"),
    ],
)
def test_a_size_that_is_not_that_of_the_tensors_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, int], told: str
) -> None:
    monkeypatch.setattr("hostler.workloads.alphazero.model.build", None)
    artifacts, sha256 = published(tmp_path, lying(**changes))
    with pytest.raises(ModelError, match=told):
        load_model(artifacts, sha256, make(), CONFIG)


def test_weights_of_another_dtype_are_refused(tmp_path: Path) -> None:
    network, manifest = model()
    artifacts, sha256 = published(tmp_path, to_bytes(network.double(), manifest))
    with pytest.raises(ModelError, match="is of F64, that of the network of F32"):
        load_model(artifacts, sha256, make(), CONFIG)


def test_a_header_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    artifacts, sha256 = published(tmp_path, (100_000).to_bytes(8, "little") + b"[" * 100_000)
    with pytest.raises(ModelError, match="no safetensors file"):
        load_model(artifacts, sha256, make(), CONFIG)
