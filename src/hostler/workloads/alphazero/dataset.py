"""Datasets: the positions of accepted games, ready for training. docs/reference/learning.md lays down the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero import npz
from hostler.workloads.alphazero.game import States
from hostler.workloads.alphazero.stage import StageError

SCHEMA = 1
_SHA256 = re.compile(r"[0-9a-f]{64}")

LAYOUT: npz.Layout = {
    "states": ("int8", 2),
    "policy_offsets": ("int64", 1),
    "policy_action": ("int32", 1),
    "policy_probability": ("float32", 1),
    "places": ("int8", 2),
    "root_value": ("float32", 2),
    "game": ("int32", 1),
    "ply": ("int16", 1),
}
HEADER = frozenset(
    (
        "schema",
        "config",
        "game",
        "rules_version",
        "players",
        "actions",
        "games",
        "positions",
        "segments",
        "models",
        "quality",
    )
)


class DatasetError(StageError):
    """The bytes are no dataset; the message names what is wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """The arrays of the file; a row is a position."""

    header: Mapping[str, Any]
    """With the lineage: the SHA-256 of all `segments` and `models` that the games come from."""
    states: States
    policy_offsets: NDArray[np.int64]
    policy_action: NDArray[np.int32]
    policy_probability: NDArray[np.float32]
    places: NDArray[np.int8]
    root_value: NDArray[np.float32]
    game: NDArray[np.int32]
    ply: NDArray[np.int16]


def write(dataset: Dataset) -> bytes:
    """The file of a dataset: the same bytes for the same content."""
    return npz.pack(dataset.header, {name: getattr(dataset, name) for name in LAYOUT})


def read(content: bytes) -> Dataset:
    """The dataset of a file, consistent in itself. Raises `DatasetError`."""
    try:
        header, arrays = npz.unpack(content, LAYOUT)
    except npz.NpzError as error:
        raise DatasetError(f"the dataset cannot be read: {error}") from error
    if header.keys() != HEADER or header["schema"] != SCHEMA:
        raise DatasetError(
            f"the dataset's header has schema {header.get('schema')!r} and the fields {sorted(header)}; "
            f"this version reads schema {SCHEMA} with {sorted(HEADER)}"
        )
    _check_types(header)
    dataset = Dataset(header, **arrays)
    _check_shapes(dataset)
    return dataset


def _check_types(header: Mapping[str, Any]) -> None:
    for name in ("rules_version", "players", "actions", "games", "positions"):
        if type(header[name]) is not int or header[name] < 0:
            raise DatasetError(f"the dataset's header has {name} {header[name]!r}, which is no count")
    for name in ("segments", "models"):
        lineage = header[name]
        if not isinstance(lineage, list) or not all(isinstance(e, str) and _SHA256.fullmatch(e) for e in lineage):
            raise DatasetError(f"the dataset's header has {name} that are no list of SHA-256s")


def _check_shapes(dataset: Dataset) -> None:
    positions, players = dataset.header["positions"], dataset.header["players"]
    offsets, entries = dataset.policy_offsets, len(dataset.policy_action)
    due = {
        "states": (positions, dataset.states.shape[1]),
        "policy_offsets": (positions + 1,),
        "policy_probability": (entries,),
        "places": (positions, players),
        "root_value": (positions, players),
        "game": (positions,),
        "ply": (positions,),
    }
    for name, shape in due.items():
        if (found := getattr(dataset, name).shape) != shape:
            raise DatasetError(f"the dataset's {name} has the shape {found}, but by its header it must be {shape}")
    if offsets[0] != 0 or offsets[-1] != entries or bool((offsets[1:] < offsets[:-1]).any()):
        raise DatasetError(f"the dataset's policy_offsets must rise from 0 to {entries}")
