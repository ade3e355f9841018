"""Nodes with several pilots of a Ray cluster become several nodes, each with the place that it was written at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hostler.model.schemas import KeyPath
from hostler.settings.ray import PILOTS_MAX
from hostler.settings.reading import Origin, Tree

NODES: KeyPath = ("nodes",)


def piloted(tree: Tree) -> Tree:
    """The tree with a node for each pilot. What is wrong with nodes stays for others to tell."""
    nodes = tree.value.get("nodes") if isinstance(tree.value, dict) else None
    if not isinstance(nodes, list) or all(_pilots(node) is None for node in nodes):
        return tree
    made = [(index, name, node) for index, node in enumerate(nodes) for name, node in _named(node)]
    value = {**tree.value, "nodes": [node if name is None else {**node, "name": name} for _, name, node in made]}
    sources = [index for index, _, _ in made]
    return Tree(value, _moved(tree.values, sources), _moved(tree.keys, sources))


def _named(node: Any) -> Iterator[tuple[str | None, Any]]:
    """The nodes that become of one, with their names where these are not its own."""
    count = _pilots(node)
    if count is None:
        yield None, node
    else:
        yield from ((f"{node['name']}-{at}", node) for at in range(1, count + 1))


def _pilots(node: Any) -> int | None:
    """How many, where that is said and can be."""
    ray = node.get("ray") if isinstance(node, dict) and isinstance(node.get("name"), str) else None
    count = ray.get("pilots") if isinstance(ray, dict) else None
    return count if type(count) is int and 1 <= count <= PILOTS_MAX else None


def _moved(origins: Any, sources: list[int]) -> dict[KeyPath, Origin]:
    """The places of what is said, for each node those of the one it was made of."""
    kept = {path: origin for path, origin in origins.items() if path[:1] != NODES or len(path) < 2}
    below: dict[int, list[tuple[KeyPath, Origin]]] = {}
    for path, origin in origins.items():
        if path[:1] == NODES and len(path) > 1:
            below.setdefault(path[1], []).append((path[2:], origin))
    for at, source in enumerate(sources):
        kept.update({("nodes", at, *path): origin for path, origin in below.get(source, ())})
    return kept
