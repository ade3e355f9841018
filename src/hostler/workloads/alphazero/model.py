"""Model files: a network's weights in safetensors, with a manifest of what they are for and where they come from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import NoneType
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from hostler import __version__
from hostler.workloads.alphazero.artifacts import MODEL, Artifact, Artifacts
from hostler.workloads.alphazero.game import Game
from hostler.workloads.alphazero.network import Network, build
from hostler.workloads.alphazero.stage import StageError

SCHEMA = 1
METADATA_KEY = "hostler"
LENGTH_BYTES = 8  # a safetensors file begins with the length of its JSON header
TYPES = {
    **dict.fromkeys(("config", "game", "code"), (str,)),
    **dict.fromkeys(("base", "dataset"), (str, NoneType)),
}  # of the manifest's fields; the others are whole numbers


class ModelError(StageError):
    """A model that cannot be used for what was ordered; the text names the model and both sides."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a model file says of itself.

    `base` and `dataset` are the SHA-256 of what it was made from, `None` for an untrained model; `steps` is the number
    of optimiser steps between `base` and these weights, `seed` that of the order, `code` the version of Hostler.
    """

    schema: int
    config: str
    game: str
    rules_version: int
    players: int
    actions: int
    planes: int
    cells: int
    channels: int
    blocks: int
    base: str | None
    dataset: str | None
    steps: int
    seed: int
    code: str

    @classmethod
    def untrained(cls, game: Game, config: str, *, channels: int, blocks: int, seed: int) -> Manifest:
        """That of a network fresh from `network.build` with the same arguments."""
        described = {**_game_facts(game), "config": config, "channels": channels, "blocks": blocks, "seed": seed}
        return cls(schema=SCHEMA, base=None, dataset=None, steps=0, code=__version__, **described)


def publish(artifacts: Artifacts, network: Network, manifest: Manifest) -> Artifact:
    """Make the model an artifact."""
    return artifacts.publish(MODEL, to_bytes(network, manifest))


def to_bytes(network: Network, manifest: Manifest) -> bytes:
    """The model file; equal weights and manifests give equal bytes, on whatever device the network is."""
    metadata = {METADATA_KEY: json.dumps(asdict(manifest), sort_keys=True, separators=(",", ":"))}
    return save(plain_tensors(network.state_dict()), metadata)


def load_network(artifacts: Artifacts, sha256: str, game: Game, config: str) -> Network:
    """The network of a model, on the CPU. Raises `ModelError` if it is of another config, game or shape."""
    return load_model(artifacts, sha256, game, config)[0]


def load_model(artifacts: Artifacts, sha256: str, game: Game, config: str) -> tuple[Network, Manifest]:
    """As `load_network`, with what the file says of itself.

    Raises `artifacts.ArtifactError` if the file is missing or does not have the hash that it is named by.
    """
    data = artifacts.read(sha256, MODEL)
    try:
        manifest = read_manifest(data)
        check_fits(manifest, game, config)
        return _network(data, manifest, game), manifest
    except ModelError as error:
        raise ModelError(f"model {sha256}: {error}") from error


def read_manifest(data: bytes) -> Manifest:
    """The manifest of a model file. Raises `ModelError` if there is none, or one of another schema."""
    text = safetensors_metadata(data).get(METADATA_KEY)
    if text is None:
        raise ModelError(f"no model of Hostler: its metadata has no {METADATA_KEY!r}")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ModelError(f"its manifest is no JSON ({error})") from error
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ModelError(f"its manifest has schema {_of(found, 'schema')}, this version reads schema {SCHEMA}")
    names = {field.name for field in fields(Manifest)}
    if found.keys() != names:
        raise ModelError(
            f"its manifest lacks {sorted(names - found.keys())}, unknown are {sorted(found.keys() - names)}"
        )
    for name, value in found.items():
        if type(value) not in TYPES.get(name, (int,)):
            raise ModelError(f"its manifest says {name}: {value!r}, which is of the wrong type")
    return Manifest(**found)


def check_fits(manifest: Manifest, game: Game, config: str) -> None:
    """Raise `ModelError` naming both sides unless the model is one for this config and this very game."""
    expected = {"config": config, **_game_facts(game)}
    for name, wanted in expected.items():
        found = getattr(manifest, name)
        if found != wanted:
            raise ModelError(f"its {name} is {found!r}, that of the order is {wanted!r}")


def safetensors_metadata(data: bytes) -> Mapping[str, str]:
    """The free-form metadata of a safetensors file held in memory, which the library reads from paths only.

    Format: an unsigned 64-bit little-endian length, then that many bytes of JSON (the safetensors README, "Format").
    Raises `ModelError` if the bytes are none.
    """
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    header = data[LENGTH_BYTES : LENGTH_BYTES + length]
    if len(data) < LENGTH_BYTES or len(header) < length:
        raise ModelError(f"no safetensors file: {len(data)} bytes, its header alone would take {length}")
    try:
        found = json.loads(header)
    except ValueError as error:
        raise ModelError(f"no safetensors file: its header is no JSON ({error})") from error
    metadata = found.get("__metadata__", {}) if isinstance(found, dict) else {}
    return metadata if isinstance(metadata, dict) else {}


def plain_tensors(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies on the CPU in row-major order that share no memory: what safetensors stores."""
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


def _game_facts(game: Game) -> dict[str, Any]:
    return {
        "game": game.name,
        "rules_version": game.rules_version,
        "players": game.players,
        "actions": game.actions,
        "planes": game.planes,
        "cells": int(game.graph.shape[0]),
    }


def _network(data: bytes, manifest: Manifest, game: Game) -> Network:
    network = build(game, channels=manifest.channels, blocks=manifest.blocks, seed=manifest.seed)
    expected = network.state_dict()
    try:
        tensors = load(data)
    except SafetensorError as error:
        raise ModelError(f"its tensors cannot be read: {error}") from error
    _check_tensors(tensors, expected)
    network.load_state_dict(tensors)
    return network


def _check_tensors(found: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> None:
    if found.keys() != expected.keys():
        missing, unknown = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
        raise ModelError(f"its tensors are not those of the network: missing are {missing}, unknown are {unknown}")
    for name, tensor in expected.items():
        if found[name].shape != tensor.shape:
            shapes = f"{tuple(found[name].shape)}, that of the network {tuple(tensor.shape)}"
            raise ModelError(f"its tensor {name} has shape {shapes}")
        if not bool(torch.isfinite(found[name]).all()):
            raise ModelError(f"its tensor {name} holds values that are not finite")


def _of(found: object, name: str) -> object:
    return found.get(name) if isinstance(found, dict) else None
