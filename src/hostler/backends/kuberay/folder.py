"""Manifests as files: one for each object, named in the order they are to be made."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hostler.backends.kuberay.objects import Manifest
from hostler.backends.kuberay.text import written
from hostler.model.errors import UsageError

MARK = "# Made by `hostler kuberay render` for {name}; do not edit."


def files(name: str, manifests: Iterable[Manifest]) -> dict[str, str]:
    """Names and texts of the files of `name`."""
    head = MARK.format(name=name)
    return {
        f"{at:02}-{each['kind'].lower()}-{each['metadata']['name']}.yaml": f"{head}\n{written(each)}"
        for at, each in enumerate(manifests, start=1)
    }


def write(folder: Path, name: str, manifests: Iterable[Manifest]) -> tuple[list[Path], list[Path]]:
    """Write them, each whole or not at all; what an earlier call left there for `name`, and is rendered no more, goes.

    Returns what is there now, and what has gone. Raises `UsageError` where the folder cannot be written to.
    """
    made = files(name, manifests)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in made.items():
            _publish(folder / file, text)
        stale = [path for path in sorted(folder.glob("*.yaml")) if path.name not in made and _is_ours(path, name)]
        for path in stale:
            path.unlink()
    except OSError as error:
        raise UsageError(f"{folder} cannot be written to: {error}") from error
    return [folder / file for file in made], stale


def _publish(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)


def _is_ours(path: Path, name: str) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline().rstrip("\n") == MARK.format(name=name)
