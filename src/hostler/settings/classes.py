"""Classes of nodes: what a class says is laid under what each of its nodes says, with the place it was written at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hostler.model.errors import SettingsError
from hostler.model.faults import near, shown
from hostler.model.schemas import KeyPath
from hostler.settings.faults import checked
from hostler.settings.nodes import NodeClasses
from hostler.settings.reading import Origin, Tree, branch_at
from hostler.settings.section import Section

MERGED = ("env", "rocm", "slurm", "ray")
"""Keys whose own keys are merged, not replaced; and so are those of mappings within them."""


class Classes(Section):
    """The part of a fleet file that classes are in."""

    classes: NodeClasses
    """Classes of nodes by name."""


def classified(tree: Tree) -> Tree:
    """The tree with every node complete. Raises `SettingsError` at faulty classes, and at names of none.

    What else is wrong with nodes stays for others to tell.
    """
    members = dict(_members(tree.value))
    given = _part(tree.value, "classes")
    if given is not None:
        checked(Classes, branch_at(tree, ("classes",)).wrapped("classes"))
    classes = {name: branch_at(tree, ("classes", name)) for name in given or ()}
    faults = [_unknown(tree, index, name, list(classes)) for index, name in members.items() if name not in classes]
    if faults:
        raise SettingsError("\n".join(faults))
    return _completed(tree, {index: classes[name] for index, name in members.items()})


def _members(value: Any) -> Iterator[tuple[int, str]]:
    """The nodes that say a class, as far as they can be read at all."""
    nodes = _part(value, "nodes")
    for index, node in enumerate(nodes if isinstance(nodes, list) else ()):
        name = _part(node, "class")
        if isinstance(name, str):
            yield index, name


def _completed(tree: Tree, classes: Mapping[int, Tree]) -> Tree:
    if not classes:
        return tree
    nodes, values, keys = list(tree.value["nodes"]), dict(tree.values), dict(tree.keys)
    for index, shared in classes.items():
        for path in _inherited(nodes[index], shared.value or {}):
            values |= _moved(shared.values, path, ("nodes", index))
            keys |= _moved(shared.keys, path, ("nodes", index))
        nodes[index] = _merged(nodes[index], shared.value or {})
    return Tree({**tree.value, "nodes": nodes}, values, keys)


def _inherited(said: Mapping[str, Any], shared: Mapping[str, Any]) -> Iterator[KeyPath]:
    """The ways to what a class says and its node does not."""
    for key, value in shared.items():
        if key not in said:
            yield (key,)
        elif key in MERGED:
            yield from ((key, *path) for path in _missing(said[key], value))


def _missing(said: Any, shared: Any) -> Iterator[KeyPath]:
    """The ways to what one mapping has and another has not, the mappings within them included."""
    if not isinstance(said, dict) or not isinstance(shared, dict):
        return
    for key, value in shared.items():
        if key not in said:
            yield (key,)
        else:
            yield from ((key, *path) for path in _missing(said[key], value))


def _merged(said: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    inner = {key: _laid_over(said[key], shared[key]) for key in MERGED if key in said and key in shared}
    return {**shared, **said, **inner}


def _laid_over(said: Any, shared: Any) -> Any:
    if not isinstance(said, dict) or not isinstance(shared, dict):
        return said
    return {**shared, **{key: _laid_over(value, shared.get(key)) for key, value in said.items()}}


def _moved(origins: Mapping[KeyPath, Origin], below: KeyPath, to: KeyPath) -> dict[KeyPath, Origin]:
    return {(*to, *path): origin for path, origin in origins.items() if path[: len(below)] == below}


def _unknown(tree: Tree, index: int, name: str, known: list[str]) -> str:
    there = f"known: {', '.join(known)}" if known else "there are no `classes`"
    place = tree.at(("nodes", index, "class"))
    return f"{place}: nodes[{index}].class: there is no class {shown(name)}{near(name, known)} ({there})"


def _part(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
