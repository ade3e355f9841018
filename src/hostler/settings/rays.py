"""The secret that a Ray cluster asks for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from hostler.model.errors import SettingsError
from hostler.settings.loading import Loaded
from hostler.settings.nodes import Node
from hostler.settings.ray import Ray


def ray_token(loaded: Loaded, node: Node, environ: Mapping[str, str]) -> str | None:
    """What a cluster lets us in by; `None`: no token is named. Raises `SettingsError` where it cannot be read."""
    asked = node.ray or Ray()
    if asked.token_env is not None:
        found, source = environ.get(asked.token_env, "").strip(), f"the variable {asked.token_env}"
    elif asked.token_file is not None:
        path = loaded.base_dir / os.path.expanduser(asked.token_file)
        found, source = _first_line(node, path), str(path)
    else:
        return None
    if not found or not found.isascii() or not found.isprintable():
        raise SettingsError(f"node {node.name!r}: {source} holds no token; `ray get-auth-token` shows it, there")
    return found


def ray_secrets(loaded: Loaded, names: Iterable[str]) -> frozenset[str]:
    """Of these variables those with tokens of clusters: nothing that runs on this machine is to have them."""
    named = {node.ray.token_env for node in loaded.fleet.nodes if node.ray is not None}
    return frozenset(name for name in names if name in named)


def _first_line(node: Node, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(f"node {node.name!r}: {path} cannot be read: {why}; put the token into it") from error
