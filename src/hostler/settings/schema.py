"""The JSON Schema of settings, and ways around in it: what may stand where, and what it means."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonRef
from pydantic_core.core_schema import ModelSchema

from hostler.settings.descriptions import descriptions
from hostler.settings.models import RECORD_FIELDS
from hostler.settings.reading import KeyPath

Schema = dict[str, Any]

DIALECT = GenerateJsonSchema.schema_dialect


@cache
def schema_of(model: type[BaseModel]) -> Schema:
    """The JSON Schema of a model, descriptions included."""
    schema = {"$schema": DIALECT, **model.model_json_schema(schema_generator=_Untitled)}
    for record in RECORD_FIELDS.keys() & schema["$defs"].keys():
        properties = schema["$defs"][record]["properties"]
        for name in RECORD_FIELDS[record].keys() & properties.keys():
            properties[name]["description"] = RECORD_FIELDS[record][name]
    return schema


def node_at(schema: Schema, path: KeyPath) -> Schema | None:
    """What the schema says of the value at `path`; `None` where nothing may stand."""
    node: Schema | None = schema
    for part in path:
        node = None if node is None else _child(schema, node, part)
    return node


def keys_at(schema: Schema, path: KeyPath) -> tuple[str, ...]:
    """The keys that a mapping at `path` may have; empty where any may stand, or none."""
    node = node_at(schema, path)
    return () if node is None else tuple(_properties(schema, node))


def settings_of(schema: Schema, items: bool) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """The path and the schema of every setting that is no section; with `items`, also those within lists, as `[]`."""
    yield from _settings(schema, schema, (), items)


def branches(schema: Schema, node: Schema) -> Iterator[Schema]:
    """The alternatives of a node, references followed."""
    if "$ref" in node:
        yield from branches(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
        return
    options = node.get("anyOf")
    if options is None:
        yield node
        return
    for option in options:
        yield from branches(schema, option)


class _Untitled(GenerateJsonSchema):
    """Without the titles that only repeat the names, with what stands below fields as their descriptions; and what fits
    several alternatives, as `{}` may, fits."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: ModelSchema) -> Schema:
        made, model = super().model_schema(schema), schema["cls"]
        for name, text in descriptions(model).items():
            field = model.model_fields.get(name)
            if field is not None and not self._says(node := made["properties"][field.alias or name], text):
                node.setdefault("description", text)
        return made

    def tagged_union_schema(self, schema: Any) -> Schema:
        made = super().tagged_union_schema(schema)
        return {("anyOf" if key == "oneOf" else key): value for key, value in made.items()}

    def _says(self, node: Schema, text: str) -> bool:
        """Whether the section that is meant says the same of itself."""
        meant = self.get_schema_from_definitions(JsonRef(node["$ref"])) if "$ref" in node else None
        return meant is not None and meant.get("description") == text


def _settings(
    schema: Schema, node: Schema, path: tuple[str, ...], items: bool
) -> Iterator[tuple[tuple[str, ...], Schema]]:
    for name, below in _properties(schema, node).items():
        here = (*path, name)
        inner = _items(schema, below) if items else None
        if _properties(schema, below):
            yield from _settings(schema, below, here, items)
            continue
        yield here, below
        if inner is not None and _properties(schema, inner):
            yield from _settings(schema, inner, (*path, f"{name}[]"), items)


def _child(schema: Schema, node: Schema, part: str | int) -> Schema | None:
    if isinstance(part, int):
        return _items(schema, node)
    for branch in branches(schema, node):
        others = (*branch.get("patternProperties", {}).values(), branch.get("additionalProperties"))
        rest = next((other for other in others if isinstance(other, dict)), None)
        found = branch.get("properties", {}).get(part, rest)
        if found is not None:
            return dict(found)
    return None


def _items(schema: Schema, node: Schema) -> Schema | None:
    found = (branch["items"] for branch in branches(schema, node) if isinstance(branch.get("items"), dict))
    return next(found, None)


def _properties(schema: Schema, node: Schema) -> Schema:
    return {name: below for branch in branches(schema, node) for name, below in branch.get("properties", {}).items()}
