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
from hostler.workloads.alphazero.network import Network, build, skeleton
from hostler.workloads.alphazero.stage import StageError

SCHEMA = 1
METADATA_KEY = "hostler"
MOST_CHANNELS, MOST_BLOCKS = 4096, 256
DTYPE = "F32"  # of all tensors, as safetensors calls it
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
        check_tensors(data, manifest, game)
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
    except (ValueError, TypeError, RecursionError) as error:
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


def check_tensors(data: bytes, manifest: Manifest, game: Game) -> None:
    """Raise `ModelError` unless the file has the tensors of such a network, by its header, before any is read."""
    for name, least, most in (("channels", 1, MOST_CHANNELS), ("blocks", 0, MOST_BLOCKS)):
        if not least <= (found := getattr(manifest, name)) <= most:
            raise ModelError(f"its manifest says {name}: {found}, which is not in {least}..{most}")
    expected = skeleton(game, channels=manifest.channels, blocks=manifest.blocks).state_dict()
    told = {name: entry for name, entry in _header(data).items() if name != "__metadata__"}
    if told.keys() != expected.keys():
        missing, unknown = sorted(expected.keys() - told.keys()), sorted(told.keys() - expected.keys())
        raise ModelError(f"its tensors are not those of the network: missing are {missing}, unknown are {unknown}")
    for name, tensor in expected.items():
        _check_entry(name, told[name], tensor)


def safetensors_metadata(data: bytes) -> Mapping[str, str]:
    """The free-form metadata of a safetensors file held in memory, which the library reads from paths only.

    Format: an unsigned 64-bit little-endian length, then that many bytes of JSON (the safetensors README, "Format").
    Raises `ModelError` if the bytes are none.
    """
    metadata = _header(data).get("__metadata__", {})
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
    try:
        tensors = load(data)
        network = build(game, channels=manifest.channels, blocks=manifest.blocks, seed=manifest.seed)
        network.load_state_dict(tensors)
    except (SafetensorError, RuntimeError, MemoryError, TypeError, ValueError, KeyError) as error:
        raise ModelError(f"its tensors cannot be read: {type(error).__name__}: {error}") from error
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ModelError(f"its tensor {name} holds values that are not finite")
    return network


def _header(data: bytes) -> Mapping[str, Any]:
    """The JSON with which a safetensors file begins. Raises `ModelError`."""
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    header = data[LENGTH_BYTES : LENGTH_BYTES + length]
    if len(data) < LENGTH_BYTES or len(header) < length:
        raise ModelError(f"no safetensors file: {len(data)} bytes, its header alone would take {length}")
    try:
        found = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"no safetensors file: its header is no JSON ({error})") from error
    return found if isinstance(found, dict) else {}


def _check_entry(name: str, entry: object, expected: torch.Tensor) -> None:
    shape, dtype = _of(entry, "shape"), _of(entry, "dtype")
    if shape != list(expected.shape):
        told = tuple(shape) if isinstance(shape, list) else shape
        raise ModelError(f"its tensor {name} has shape {told}, that of the network {tuple(expected.shape)}")
    if dtype != DTYPE:
        raise ModelError(f"its tensor {name} is of {dtype}, that of the network of {DTYPE}")


def _of(found: object, name: str) -> object:
    return found.get(name) if isinstance(found, dict) else None
