"""Can this node write to a folder, and does it see what others wrote there? Python's own library and nothing else.

`python -m hostler.workloads.gameboy.reaching write|read|clean FOLDER TOKEN NODE [NODE ...]`, one JSON document on
standard output. `write` leaves a file of this node's name (the first NODE), whole and on the disk; `read` tells which
nodes' files are there and right; `clean` takes all of them away. Exit status 1 where the folder cannot be used.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

PREFIX = ".hostler-probe-"


def main(arguments: Sequence[str]) -> int:
    """One of the three."""
    what, folder, token, *nodes = arguments
    try:
        if what == "write":
            write(Path(folder), token, nodes[0])
            told: dict[str, object] = {"wrote": nodes[0]}
        elif what == "read":
            told = {"read": [node for node in nodes if reads(Path(folder), token, node)]}
        else:
            clean(Path(folder), token, nodes)
            told = {"cleaned": True}
    except OSError as error:
        print(json.dumps({"error": f"{folder}: {error.strerror}"}))
        return 1
    print(json.dumps(told))
    return 0


def write(folder: Path, token: str, node: str) -> None:
    """Publish a file as a checkpoint is: beside its name, to the disk, then renamed."""
    path = _path(folder, token, node)
    beside = path.with_name(f"{path.name}.part")
    try:
        with beside.open("x") as file:
            file.write(_text(token, node))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def reads(folder: Path, token: str, node: str) -> bool:
    """Whether that node's file is there, and all of it."""
    os.listdir(folder)  # network file systems look anew for what they were told to be missing
    try:
        return _path(folder, token, node).read_text() == _text(token, node)
    except FileNotFoundError:
        return False


def keeps(folder: Path) -> bool:
    """Whether what is written here is read here again; nothing is left. Raises `OSError` where it cannot be written."""
    token, node = secrets.token_hex(8), "here"
    write(folder, token, node)
    try:
        return reads(folder, token, node)
    finally:
        clean(folder, token, [node])


def clean(folder: Path, token: str, nodes: Sequence[str]) -> None:
    """Leave nothing."""
    for node in nodes:
        _path(folder, token, node).unlink(missing_ok=True)


def _path(folder: Path, token: str, node: str) -> Path:
    return folder / f"{PREFIX}{token}-{hashlib.sha256(node.encode()).hexdigest()[:32]}"


def _text(token: str, node: str) -> str:
    return f"{token} {node}\n" * 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
