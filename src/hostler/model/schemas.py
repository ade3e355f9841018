"""Paths in values and in their JSON Schemas: which fields a mapping at a path may have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys of mappings and indices of lists."""
Schema: TypeAlias = dict[str, Any]


def show(path: KeyPath) -> str:
    """A key path as text: `nodes[0].name`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def node_at(schema: Schema, path: KeyPath, value: object = None) -> Schema | None:
    """The schema of the value at `path`; `None` for a path that the schema does not have.

    `value` is the whole value, if it is at hand: where a field chooses between alternatives, its value there counts.
    """
    node: Schema | None = schema
    for part in path:
        node = None if node is None else _child(schema, _chosen(node, value), part)
        value = _part(value, part)
    return None if node is None else _chosen(node, value)


def keys_at(schema: Schema, path: KeyPath, value: object = None) -> tuple[str, ...]:
    """The keys that a mapping at `path` may have; empty where all keys are allowed, or the value is not a mapping."""
    node = node_at(schema, path, value)
    return () if node is None else tuple(properties_of(schema, node))


def branches(schema: Schema, node: Schema) -> Iterator[Schema]:
    """The alternatives of a node, references followed."""
    if "$ref" in node:
        yield from branches(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
        return
    options = node.get("anyOf", node.get("oneOf"))
    if options is None:
        yield node
        return
    for option in options:
        yield from branches(schema, option)


def items_of(schema: Schema, node: Schema) -> Schema | None:
    """The schema of the items of a list; `None` for a node that is not a list."""
    found = (branch["items"] for branch in branches(schema, node) if isinstance(branch.get("items"), dict))
    return next(found, None)


def properties_of(schema: Schema, node: Schema) -> Schema:
    """The fields of all alternatives of a node, by name."""
    return {name: below for branch in branches(schema, node) for name, below in branch.get("properties", {}).items()}


def _chosen(node: Schema, value: object) -> Schema:
    discriminator = node.get("discriminator")
    if not isinstance(discriminator, dict) or not isinstance(value, dict):
        return node
    tag = value.get(discriminator["propertyName"])
    reference = discriminator["mapping"].get(tag) if isinstance(tag, str) else None
    return node if reference is None else {"$ref": reference}


def _part(value: object, part: str | int) -> object:
    if isinstance(value, dict):
        return value.get(part)
    is_there = isinstance(value, list | tuple) and isinstance(part, int) and part < len(value)
    return value[part] if is_there else None  # type: ignore[index]


def _child(schema: Schema, node: Schema, part: str | int) -> Schema | None:
    if isinstance(part, int):
        return items_of(schema, node)
    for branch in branches(schema, node):
        others = (*branch.get("patternProperties", {}).values(), branch.get("additionalProperties"))
        rest = next((other for other in others if isinstance(other, dict)), None)
        found = branch.get("properties", {}).get(part, rest)
        if found is not None:
            return dict(found)
    return None
