"""What a killed training goes on from: files in its work folder that name their own hash."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from hostler.workloads.alphazero.artifacts import ArtifactError, replace
from hostler.workloads.alphazero.model import safetensors_metadata

KEPT = 2  # the newest, and the one before for when that is damaged
HASH_DIGITS = 16
NAME = re.compile(r"checkpoint-(\d{9,})-([0-9a-f]{16})\.safetensors")
METADATA_KEY = "training"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`step` optimiser steps are done; `tensors` by group and name; `facts` is anything that JSON can hold."""

    step: int
    tensors: Mapping[str, Mapping[str, torch.Tensor]]
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """The newest checkpoint that is whole, and the names of those that are not."""

    checkpoint: Checkpoint | None
    damaged: tuple[str, ...]


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write it so that it is there as a whole or not at all, then drop all but the newest `KEPT`."""
    flat = {f"{group}:{name}": each for group, named in checkpoint.tensors.items() for name, each in named.items()}
    content = save(flat, {METADATA_KEY: json.dumps(dict(checkpoint.facts), sort_keys=True)})
    path = folder / f"checkpoint-{checkpoint.step:09d}-{_digits(content)}.safetensors"
    try:
        replace(path, content)
    except OSError as error:
        raise ArtifactError(
            f"{path} cannot be written: {error.strerror}; see to its folder, then start again"
        ) from error
    others = [each for each in _newest_first(folder) if each != path]
    for old in others[KEPT - 1 :]:  # never the one just written: those that tell more steps may all be damaged
        old.unlink(missing_ok=True)
    return path


def newest(folder: Path) -> Found:
    """What to go on from; a damaged file is passed over, and named."""
    damaged: list[str] = []
    for path in _newest_first(folder):
        try:
            content = path.read_bytes()
        except OSError as error:
            damaged.append(f"{path.name} ({error.strerror})")
            continue
        step, digits = _told(path)
        if _digits(content) == digits:
            return Found(_parsed(step, content), tuple(damaged))
        damaged.append(path.name)
    return Found(None, tuple(damaged))


def _newest_first(folder: Path) -> list[Path]:
    return sorted((path for path in folder.iterdir() if NAME.fullmatch(path.name)), key=_told, reverse=True)


def _told(path: Path) -> tuple[int, str]:
    match = NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1]), match[2]


def _digits(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:HASH_DIGITS]


def _parsed(step: int, content: bytes) -> Checkpoint:
    tensors: dict[str, dict[str, torch.Tensor]] = {}
    for flat, tensor in load(content).items():
        group, _, name = flat.partition(":")
        tensors.setdefault(group, {})[name] = tensor
    return Checkpoint(step, tensors, json.loads(safetensors_metadata(content)[METADATA_KEY]))
