"""Manifests of snapshots and pieces of their contents, as clients send them."""

from __future__ import annotations

import json

from hostler.model.errors import SpecError
from hostler.snapshots import upload
from hostler.snapshots.manifest import SnapshotFile, encode, is_path, manifest_of, parse

from .base import Target

SHA = "ab" * 32


def target(data: bytes) -> None:
    """A manifest that is written as it was read, with paths below its folder; whole pieces; or a `SpecError`."""
    try:
        manifest = parse(data)
    except SpecError as error:
        assert 0 < len(str(error)) < 10_000
    else:
        assert encode(manifest) == data
        assert all(is_path(file.path) for file in manifest.files)
    try:
        pieces = list(upload.parse(data))
    except SpecError as error:
        assert 0 < len(str(error)) < 10_000
    else:
        assert all(piece.offset + len(piece.data) <= piece.size for piece in pieces)
        assert sum(len(piece.data) for piece in pieces) <= len(data)


def manifest(*paths: str) -> bytes:
    return encode(manifest_of([SnapshotFile(path, SHA, 3, False) for path in paths]))


def piece(size: int, offset: int, data: bytes) -> bytes:
    return json.dumps([SHA, size, offset, len(data)]).encode() + b"\n" + data


TARGET = Target(
    name="snapshots",
    run=target,
    seeds=(
        manifest(),
        manifest("a.py", "data/b.txt", "data/deep/c"),
        manifest("caf\udce9", "ü"),
        piece(3, 0, b"abc"),
        piece(9, 6, b"abc") + piece(0, 0, b"") + piece(4, 1, b"\n[]"),
    ),
    reads=("hostler.snapshots.manifest", "hostler.snapshots.upload"),
    large={
        "deep": lambda: b'{"files":' + b"[" * (1 << 20),
        "files": lambda: manifest(*(f"d{number % 100}/f{number}" for number in range(12_000))),
        "long paths": lambda: manifest(*(f"{number}" + "/x" * 2000 for number in range(250))),
        "twins": lambda: b'{"files":[' + b",".join([json.dumps(["a", SHA, 3, False]).encode()] * 12_000) + b"]}",
        "digits": lambda: b'{"files":[["a","x",' + b"9" * (1 << 20) + b",false]]}",
        "pieces": lambda: piece(0, 0, b"") * 12_000,
        "no line": lambda: b"[" * (1 << 20),
    },
)
