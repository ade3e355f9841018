"""The JSON Schema of settings, and ways around in it: what may stand where, and what it means."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonRef
from pydantic_core.core_schema import ModelSchema

from hostler.model.schemas import Schema, items_of, properties_of
from hostler.settings.descriptions import descriptions
from hostler.settings.jobs import JobNeeds
from hostler.settings.models import RECORD_FIELDS

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


def settings_of(schema: Schema, items: bool) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """The path and the schema of every setting that is no section; with `items`, also those within lists, as `[]`."""
    yield from _settings(schema, schema, (), items)


class _Untitled(GenerateJsonSchema):
    """Without the titles that only repeat the names, with what stands below fields as their descriptions; and what fits
    several alternatives, as `{}` may, fits."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: ModelSchema) -> Schema:
        made, model = super().model_schema(schema), schema["cls"]
        for name, text in _texts_of(model).items():
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


def _texts_of(model: type[BaseModel]) -> dict[str, str]:
    beside = RECORD_FIELDS["Resources"] if issubclass(model, JobNeeds) else {}
    return {**beside, **descriptions(model)}


def _settings(
    schema: Schema, node: Schema, path: tuple[str, ...], items: bool
) -> Iterator[tuple[tuple[str, ...], Schema]]:
    for name, below in properties_of(schema, node).items():
        here = (*path, name)
        inner = items_of(schema, below) if items else None
        if properties_of(schema, below):
            yield from _settings(schema, below, here, items)
            continue
        yield here, below
        if inner is not None and properties_of(schema, inner):
            yield from _settings(schema, inner, (*path, f"{name}[]"), items)
