"""The user's own resource definitions as JSON Schema: the third layer of validation.

A definition's structural schema is OpenAPI 3 with marks of its own
(https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema).
The API server drops fields that it does not know, and so makes a typo vanish; here unknown fields are refused. Rules in
CEL (`x-kubernetes-validations`) are not evaluated: the API server's dry run is.

Needs jsonschema-rs, of the extra `k8s`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from hostler.backends.kuberay.findings import Fault
from hostler.backends.kuberay.objects import Manifest, named
from hostler.model.errors import SpecError, UsageError

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

Schema: TypeAlias = dict[str, Any]
Kind: TypeAlias = tuple[str, str]
"""`apiVersion` and `kind`."""

BY_DEFINITION = "definition"
INT32 = {"minimum": -(2**31), "maximum": 2**31 - 1}
INT64 = {"minimum": -(2**63), "maximum": 2**63 - 1}
QUANTITY = "[KMGTPE]i"
"""What patterns of quantities have in them."""
SHOWN = 80
"""Characters of a wrong value."""


class Definitions:
    """Resource definitions, ready to check objects with."""

    def __init__(self, schemas: Mapping[Kind, Schema]) -> None:
        """From structural schemas. Raises `UsageError` where jsonschema-rs is missing."""
        self._schemas = {kind: _of_objects(schema) for kind, schema in schemas.items()}
        self._validators = {kind: _validator(schema) for kind, schema in self._schemas.items()}

    @property
    def kinds(self) -> Sequence[Kind]:
        """What they define."""
        return tuple(self._validators)

    def faults(self, manifest: Manifest) -> Iterator[Fault]:
        """What of an object is not as it is defined; nothing for objects that are defined elsewhere."""
        kind = (str(manifest.get("apiVersion")), str(manifest.get("kind")))
        if kind not in self._validators:
            return
        for error in self._validators[kind].iter_errors(manifest):
            for field, what in _told(error, self._schemas[kind]):
                yield Fault(named(manifest), field, what, BY_DEFINITION)


def read(paths: Iterable[Path]) -> Definitions:
    """The definitions of some files, several in each if need be. Raises `UsageError` where there are none."""
    schemas: dict[Kind, Schema] = {}
    for path in paths:
        try:
            found = dict(_of_file(path))
            for schema in found.values():
                strict(schema)
        except _MALFORMED as error:
            raise UsageError(f"{path} has a CustomResourceDefinition that is none ({error})") from error
        if not found:
            raise UsageError(
                f"{path} has no CustomResourceDefinition; `kubectl get crd rayjobs.ray.io -o yaml` makes one"
            )
        schemas |= found
    return Definitions(schemas)


def undefined(definitions: Definitions, manifests: Iterable[Manifest]) -> list[str]:
    """Kinds of KubeRay among the objects that no definition was given for."""
    known = set(definitions.kinds)
    asked = {(str(each["apiVersion"]), str(each["kind"])) for each in manifests}
    return sorted(kind for version, kind in asked - known if version.startswith("ray.io/"))


def strict(schema: Schema) -> Schema:
    """A structural schema as JSON Schema in which unknown fields are errors."""
    made = {key: value for key, value in schema.items() if key in _KEPT}
    made |= _typed(schema)
    if "properties" in schema:
        made["properties"] = {name: strict(below) for name, below in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        made["items"] = strict(schema["items"])
    rest = schema.get("additionalProperties")
    if isinstance(rest, dict):
        made["additionalProperties"] = strict(rest)
    elif "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made["additionalProperties"] = False
    if schema.get("x-kubernetes-embedded-resource"):
        made["properties"] = {"apiVersion": {}, "kind": {}, "metadata": {}, **made.get("properties", {})}
    return made


_KEPT = frozenset(
    {
        "enum", "exclusiveMaximum", "exclusiveMinimum", "maximum", "maxItems", "maxLength", "maxProperties", "minimum",
        "minItems", "minLength", "minProperties", "multipleOf", "pattern", "required", "uniqueItems",
    }
)  # fmt: skip
"""Words that mean the same in JSON Schema."""


def _typed(schema: Schema) -> Schema:
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    kind = schema.get("type")
    made: Schema = {} if kind is None else {"type": [kind, "null"] if schema.get("nullable") else kind}
    bounds = {"int32": INT32, "int64": INT64}.get(str(schema.get("format"))) if kind == "integer" else None
    return made | {name: value for name, value in (bounds or {}).items() if name not in schema}


def _of_file(path: Path) -> Iterator[tuple[Kind, Schema]]:
    try:
        documents = list(yaml.load_all(path.read_text(encoding="utf-8"), _LOADER))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    for document in documents:
        yield from _of_document(document)


def _of_document(document: Any) -> Iterator[tuple[Kind, Schema]]:
    """The versions that a definition serves; lists of definitions, as kubectl prints them, have several."""
    if not isinstance(document, dict):
        return
    if document.get("kind") in ("List", "CustomResourceDefinitionList"):
        for each in document.get("items") or ():
            yield from _of_document(each)
    if document.get("kind") != "CustomResourceDefinition":
        return
    spec = document["spec"]
    for version in spec["versions"]:
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if version.get("served") and schema is not None:
            yield (f"{spec['group']}/{version['name']}", spec["names"]["kind"]), schema


def _of_objects(schema: Schema) -> Schema:
    """What the API server knows of every object, whatever its definition says, is not looked at."""
    made = strict(schema)
    made["properties"] = {"apiVersion": {}, "kind": {}, **made.get("properties", {}), "metadata": {"type": "object"}}
    return made


def _validator(schema: Schema) -> Draft202012Validator:
    try:
        from jsonschema_rs import Draft202012Validator
    except ImportError as error:
        raise UsageError("checking by resource definitions needs jsonschema-rs: pip install 'hostler[k8s]'") from error
    try:
        return Draft202012Validator(schema)
    except ValueError as error:
        raise SpecError(f"the resource definition cannot be used as a schema: {error}") from error


def _told(error: ValidationError, schema: Schema) -> Iterator[tuple[str, str]]:
    """Fields, and what is wrong with them. Of unknown fields there is one for each."""
    field = place(error.instance_path)
    unexpected = getattr(error.kind, "unexpected", None)
    if unexpected is None:
        yield field, _message(error)
        return
    allowed = _properties(schema, error.schema_path[:-1])
    for name in unexpected:
        close = get_close_matches(name, allowed, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        yield (f"{field}.{name}" if field else name), f"is no field of it{hint}"


def _message(error: ValidationError) -> str:
    if error.kind.name == "pattern" and QUANTITY in str(error.kind.as_dict().get("pattern")):
        return f"{_shortened(repr(error.instance))} is no quantity; write it as 6, 500m or 28Gi"
    return _shortened(str(error.message))


def _properties(schema: Schema, path: Sequence[str | int]) -> list[str]:
    """Names of the fields that the schema at `path` knows."""
    node: Any = schema
    for part in path:
        node = node[part]
    return list(node.get("properties", ()))


def place(path: Iterable[str | int]) -> str:
    """`spec.workerGroupSpecs[0].replicas`."""
    made = ""
    for part in path:
        made += f"[{part}]" if isinstance(part, int) else f".{part}" if made else part
    return made


def _shortened(text: str) -> str:
    """Of a long value the beginning, of the message the end, which says what would be right."""
    return text if len(text) <= 3 * SHOWN else f"{text[:SHOWN]} ... {text[-2 * SHOWN :]}"


_MALFORMED = (KeyError, TypeError, AttributeError, RecursionError)
"""What comes of reading a definition that is built otherwise; parts of it are looked at where they are used."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The definitions are megabytes, and the one in Python takes half a minute for them."""
