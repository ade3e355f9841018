"""The reference of the HTTP API as a page, made from the OpenAPI document: operations by tag, with curl commands."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
Piece: TypeAlias = tuple[str, str | None]
"""A text, and the name of the shape that it leads to; `None`: it leads nowhere."""
Pieces: TypeAlias = tuple[Piece, ...]
Words: TypeAlias = tuple[tuple[str, bool], ...]
"""A paragraph: texts, and whether each is code."""
Prose: TypeAlias = tuple[Words, ...]

JSON, BYTES, STREAM = "application/json", "application/octet-stream", "text/event-stream"
INPUT = "-Input"
UNFOLDED = frozenset({"Entry"})
"""Shapes that have one of so many others in them that these are not listed."""
PLAIN = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false", "null": "null"}
BOUNDS = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
BODY_WIDTH = 72
"""Characters of a line of JSON in a command."""


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a field of a shape."""

    name: str
    type: Pieces
    required: bool
    default: str | None
    about: Prose
    place: str = ""
    """Of a parameter: `path`, `query` or `header`."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path."""

    id: str
    method: str
    path: str
    title: Words
    """The first sentence of `about`."""
    about: Prose
    parameters: tuple[Field, ...]
    body: Pieces
    """Empty for an operation without a body."""
    body_required: bool
    answer: Pieces
    status: str
    curl: str


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape of bodies or answers: a mapping with fields, or another word for a type."""

    name: str
    about: Prose
    fields: tuple[Field, ...]
    type: Pieces


@dataclass(frozen=True, slots=True)
class Reference:
    """All that the page shows."""

    version: str
    about: Prose
    groups: tuple[tuple[str, tuple[Operation, ...]], ...]
    """Operations by tag."""
    shapes: tuple[Shape, ...]


def reference(document: Schema) -> Reference:
    """The reference that an OpenAPI document describes."""
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    groups: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            (tag,) = operation.get("tags") or ("other",)
            groups.setdefault(tag, []).append(_operation(method.upper(), path, operation, schemas))
    names = sorted(_reachable(document["paths"], schemas), key=str.lower)
    return Reference(
        version=document["info"]["version"],
        about=prose(document["info"].get("description", "")),
        groups=tuple((tag, tuple(each)) for tag, each in groups.items()),
        shapes=tuple(_shape(name, schemas[name]) for name in names),
    )


def prose(text: str) -> Prose:
    """The paragraphs of a text, with what stands in backticks as code."""
    paragraphs = (" ".join(each.split()) for each in re.split(r"\n\s*\n", text.strip()))
    return tuple(
        tuple((piece, i % 2 == 1) for i, piece in enumerate(each.split("`")) if piece) for each in paragraphs if each
    )


def typed(schema: Schema) -> Pieces:
    """The type of a value, in a few words, from its schema."""
    if "$ref" in schema:
        name = _name(schema["$ref"])
        return ((name.removesuffix(INPUT), name),)
    if "const" in schema or "enum" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        return ((" or ".join(json.dumps(each) for each in values), None),)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _joined([typed(each) for each in schema[several]], " or ")
    return _plainly_typed(schema)


def example_of(schema: Schema, schemas: Mapping[str, Schema]) -> Any:
    """A value that fits a schema: required fields, and those with a default other than null and empty."""
    if "$ref" in schema:
        return example_of(schemas[_name(schema["$ref"])], schemas)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return example_of(schema[several][0], schemas)
    kind = schema.get("type")
    if kind == "array":
        return [example_of(schema["items"], schemas)] if "items" in schema else []
    if kind == "object":
        required = schema.get("required", ())
        return {
            name: each["default"] if each.get("default") else example_of(each, schemas)
            for name, each in schema.get("properties", {}).items()
            if name in required or each.get("default")
        }
    return {"string": "…", "integer": 1, "number": 60, "boolean": True}.get(str(kind))


def written(value: Any, indent: str = "") -> str:
    """A value as JSON, with a line for each part of what is too long for one line."""
    text = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(text) <= BODY_WIDTH or not isinstance(value, list | dict):
        return text
    inner = indent + "  "
    if isinstance(value, list):
        lines = [inner + written(each, inner) for each in value]
    else:
        lines = [f"{inner}{json.dumps(name)}: {written(each, inner)}" for name, each in value.items()]
    begin, end = "[]" if isinstance(value, list) else "{}"
    return f"{begin}\n" + ",\n".join(lines) + f"\n{indent}{end}"


def _operation(method: str, path: str, said: Schema, schemas: Mapping[str, Schema]) -> Operation:
    body: Schema = said.get("requestBody", {})
    contents: Mapping[str, Schema] = body.get("content", {})
    status = next(code for code in said["responses"] if code.startswith("2"))
    kind, content = next(iter(said["responses"][status].get("content", {}).items()), (JSON, {}))
    return Operation(
        id=said["operationId"],
        method=method,
        path=path,
        title=_first_sentence(said.get("description", "")),
        about=prose(said.get("description", "")),
        parameters=tuple(map(_parameter, said.get("parameters", ()))),
        body=_content(*next(iter(contents.items()))) if contents else (),
        body_required=bool(body.get("required")),
        answer=_content(kind, content),
        status=status,
        curl=_curl(method, path, said, schemas, kind),
    )


def _first_sentence(text: str) -> Words:
    return next(iter(prose(re.split(r"[.;:](?=\s|$)", text, maxsplit=1)[0])), ())


def _content(kind: str, content: Schema) -> Pieces:
    return typed(content["schema"]) if kind == JSON and "schema" in content else ((kind, None),)


def _parameter(said: Schema) -> Field:
    return Field(
        name=said["name"],
        type=typed(said["schema"]),
        required=bool(said.get("required")),
        default=_default(said["schema"]),
        about=prose(said.get("description", "")),
        place=said["in"],
    )


def _shape(name: str, schema: Schema) -> Shape:
    required = schema.get("required", ())
    fields = tuple(
        Field(
            name=field,
            type=(("one of many shapes, chosen by its kind", None),) if _is_unfolded(name, each) else typed(each),
            required=field in required,
            default=_default(each),
            about=prose(each.get("description", "")),
        )
        for field, each in schema.get("properties", {}).items()
    )
    return Shape(name=name, about=prose(schema.get("description", "")), fields=fields, type=typed(schema))


def _default(schema: Schema) -> str | None:
    default = schema.get("default")
    return None if default in (None, "", [], {}) else json.dumps(default, ensure_ascii=False)


def _curl(method: str, path: str, said: Schema, schemas: Mapping[str, Schema], answer: str) -> str:
    """A command that asks for the operation, with the parameters that it cannot do without."""
    options = ["curl -sS"]
    if answer == STREAM:
        options[0] += " -N"
    if answer == BYTES:
        options[0] += " -o FILE"
    contents: Mapping[str, Schema] = said.get("requestBody", {}).get("content", {})
    if method != ("POST" if contents else "GET"):
        options[0] += f" -X {method}"
    options.append('-H "Authorization: Bearer $HOSTLER_TOKEN"')
    for kind, content in contents.items():
        options += [f"-H 'Content-Type: {kind}'", f"--data-binary {_data(kind, content, schemas)}"]
    required = [each for each in said.get("parameters", ()) if each["in"] == "query" and each.get("required")]
    query = "&".join(f"{each['name']}={each['name'].upper()}" for each in required)
    where = re.sub(r"\{(\w+)[^}]*\}", lambda found: found[1].upper(), path) + (f"?{query}" if query else "")
    return " \\\n  ".join([*options, f'"$HOSTLER_URL{where}"'])


def _data(kind: str, content: Schema, schemas: Mapping[str, Schema]) -> str:
    if kind != JSON:
        return "@FILE"
    value = content["example"] if "example" in content else example_of(content["schema"], schemas)
    return shlex.quote(written(value))


def _plainly_typed(schema: Schema) -> Pieces:
    kind = schema.get("type")
    if kind == "array":
        parts = [typed(each) for each in schema.get("prefixItems", ())]
        if parts:
            return (("list of ", None), *_joined(parts, ", "))
        return (("list of ", None), *typed(schema.get("items", {})))
    if kind == "object":
        others = (*schema.get("patternProperties", {}).values(), schema.get("additionalProperties"))
        each = next((other for other in others if isinstance(other, Mapping) and other), None)
        return (("mapping", None),) if each is None else (("mapping to ", None), *typed(each))
    bounds = "".join(f" {sign} {_number(schema[name])}" for name, sign in BOUNDS.items() if name in schema)
    return ((PLAIN.get(str(kind), "any value") + bounds, None),)


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


def _joined(parts: Sequence[Pieces], between: str) -> Pieces:
    different = list(dict.fromkeys(parts))
    return tuple(piece for i, part in enumerate(different) for piece in ((((between, None),) if i else ()) + part))


def _name(place: str) -> str:
    return place.rpartition("/")[2]


def _is_unfolded(name: str, schema: Schema) -> bool:
    return name in UNFOLDED and "oneOf" in schema


def _reachable(paths: Schema, schemas: Mapping[str, Schema]) -> set[str]:
    """Names of the shapes that operations speak of, and of those that these do."""
    found: set[str] = set()
    new = set(_named(paths))
    while new:
        found |= new
        new = {each for name in new if name not in UNFOLDED for each in _named(schemas[name])} - found
    return found


def _named(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("$ref"), str):
            yield _name(value["$ref"])
        for each in value.values():
            yield from _named(each)
    elif isinstance(value, list):
        for each in value:
            yield from _named(each)
