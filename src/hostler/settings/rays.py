"""How one gets into the Ray clusters of a fleet file: one address of each, and the secret that it asks for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hostler.model.errors import SettingsError
from hostler.model.record import record
from hostler.settings.loading import Loaded
from hostler.settings.nodes import Node
from hostler.settings.ray import Ray
from hostler.settings.rl import RlCluster

USUAL_PYTHON = "python3"


@record
class Entrance:
    """The Ray cluster of a training."""

    asked: Ray
    """How one gets in: address, token, certificates."""
    whose: str
    """Who says so, for people."""
    python: str
    """What runs Hostler's workloads there."""


def ray_token(loaded: Loaded, asked: Ray, whose: str, environ: Mapping[str, str]) -> str | None:
    """What a cluster lets us in by; `None`: no token is named. Raises `SettingsError`, with `whose` it is, where it
    cannot be read."""
    if asked.token_env is not None:
        found, source = environ.get(asked.token_env, "").strip(), f"the variable {asked.token_env}"
    elif asked.token_file is not None:
        path = loaded.base_dir / os.path.expanduser(asked.token_file)
        found, source = _first_line(whose, path), str(path)
    else:
        return None
    if not found or not found.isascii() or not found.isprintable():
        raise SettingsError(f"{whose}: {source} holds no token; `ray get-auth-token` shows it, there")
    return found


def ray_secrets(loaded: Loaded, names: Iterable[str]) -> frozenset[str]:
    """Of these variables those with tokens of clusters: nothing that runs on this machine is to have them."""
    named = {node.ray.token_env for node in loaded.fleet.nodes if node.ray is not None}
    if loaded.fleet.rl is not None:
        named.add(loaded.fleet.rl.cluster.token_env)
    return frozenset(name for name in names if name in named)


def rl_entrance(loaded: Loaded) -> Entrance | None:
    """The Ray cluster of the training that a file plans: that of its nodes, or its own; `None`: it names none."""
    asked = None if loaded.fleet.rl is None else loaded.fleet.rl.cluster
    if asked is None or asked.kind != "ray":
        return None
    nodes = _nodes(loaded)
    if asked.address is None and len(nodes) != 1:
        return None
    node = nodes.get(_same(asked.address or next(iter(nodes))))
    if node is None or node.ray is None:
        return Entrance(asked=asked.entrance, whose="rl.cluster", python=asked.python or USUAL_PYTHON)
    python = asked.python or node.python or USUAL_PYTHON
    return Entrance(asked=node.ray, whose=f"node {node.name!r}", python=python)


def rl_entrance_faults(loaded: Loaded) -> tuple[str, ...]:
    """What a file says of the Ray cluster of its training that contradicts what it says of its nodes."""
    asked = None if loaded.fleet.rl is None else loaded.fleet.rl.cluster
    return () if asked is None or asked.kind != "ray" else tuple(_faults(asked, _nodes(loaded)))


def _faults(asked: RlCluster, nodes: Mapping[str, Node]) -> Iterator[str]:
    listed = " and ".join(f"`ray.address` of node {node.name!r} is {_address(node)}" for node in nodes.values())
    if asked.address is None:
        if len(nodes) > 1:
            yield f"{listed}, and `rl.cluster.address` says neither"
    elif nodes and _same(asked.address) not in nodes:
        yield f"`rl.cluster.address` is {asked.address}, and {listed}"
    node = nodes.get(_same(asked.address)) if asked.address is not None else next(iter(nodes.values()), None)
    for name in ("token_file", "token_env", "ca"):
        own = getattr(asked, name)
        if node is not None and own is not None:
            there = getattr(node.ray, name) or "not said"
            yield f"`rl.cluster.{name}` is {own}, and `ray.{name}` of node {node.name!r}, on that cluster, is {there}"


def _nodes(loaded: Loaded) -> dict[str, Node]:
    """The first node of each Ray cluster, by its address."""
    found: dict[str, Node] = {}
    for node in loaded.fleet.nodes:
        if node.backend == "ray":
            found.setdefault(_same(_address(node)), node)
    return found


def _address(node: Node) -> str:
    assert node.ray is not None
    assert node.ray.address is not None
    return node.ray.address


def _same(address: str) -> str:
    """An address as it is compared: what stands for the same is written in one way."""
    scheme, _, rest = address.rstrip("/").partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.lower()}{slash}{path}"


def _first_line(whose: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(f"{whose}: {path} cannot be read: {why}; put the token into it") from error
