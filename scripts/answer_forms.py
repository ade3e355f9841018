"""The forms of answers, which the client checks: from the schemas of openapi.json to two modules of Python literals.

A form is the name of a plain kind (`str`, `int`, `float`, `bool`, `null`, `any`) or of an object; `[form]` is a list,
`[form, form]` one of that many items, `{"": form}` an object with any names, `(form, ...)` one of several, and
`{"kind": {...}}` one that its field `kind` names. Choices of words are texts: a later controller may know more words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

API = "/api/v1"
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "null"}
EVENT = "Event"
"""The form of journal events, which has a module of its own: few commands show them."""
LINE = 120

INTRO = '''"""{what}

Made by `scripts/make_reference.py` from docs/reference/openapi.json; do not edit. `scripts/answer_forms.py` says how a
form is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

'''


def forms_modules(document: Mapping[str, Any]) -> Mapping[str, str]:
    """The modules by their names: the forms of answers, and those of events."""
    schemas = document["components"]["schemas"]
    answers = dict(_answers(document))
    objects = _objects(schemas, answers.values(), without={EVENT})
    events = _form(schemas, schemas["Entry"]["properties"]["event"], unfolded=True)
    assert isinstance(events, dict)
    only_events = {
        name: each for name, each in _objects(schemas, [events], without=set()).items() if name not in objects
    }
    made = INTRO.format(what="The form of each answer by its method and path, and the forms of the objects in them.")
    made += _literal("ANSWERS", answers) + "\n\n" + _literal("OBJECTS", objects)
    told = INTRO.format(what="The form of each journal event by its kind, and the forms of the objects in them.")
    told += _literal("EVENTS", events["kind"]) + "\n\n" + _literal("OBJECTS", only_events)
    return {"answer_forms.py": made, "event_forms.py": told}


def _answers(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """`GET /jobs/{name}` and the form of its answer, where that is JSON."""
    for path, methods in document["paths"].items():
        for method, each in methods.items():
            for status, answer in each["responses"].items():
                schema = answer.get("content", {}).get("application/json", {}).get("schema")
                if status.startswith("2") and schema and path.startswith(API):
                    yield f"{method.upper()} {path.removeprefix(API)}", _form(document["components"]["schemas"], schema)


def _objects(schemas: Mapping[str, Any], forms: Iterable[Any], without: set[str]) -> Mapping[str, Mapping[str, Any]]:
    """The forms of the objects that these forms name, and of those that they name in turn."""
    found: dict[str, Mapping[str, Any]] = {}
    new = set().union(*map(_named, forms)) - without
    while new:
        name = new.pop()
        schema = schemas[name]
        required = schema.get("required", ())
        found[name] = {
            field if field in required else f"{field}?": EVENT
            if (name, field) == ("Entry", "event")
            else _form(schemas, each)
            for field, each in schema.get("properties", {}).items()
        }
        new |= set().union(*map(_named, found[name].values())) - set(found) - without
    return dict(sorted(found.items()))


def _named(form: Any) -> set[str]:
    if isinstance(form, str):
        return {form} if form[0].isupper() else set()
    return set[str]().union(*map(_named, form.values() if isinstance(form, dict) else form))


def _form(schemas: Mapping[str, Any], schema: Mapping[str, Any], *, unfolded: bool = False) -> Any:
    """The form of a schema. Those of names that are no objects are put in their place."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return name if "properties" in schemas[name] else _form(schemas, schemas[name])
    if "discriminator" in schema:
        by_name = {name: each.rpartition("/")[2] for name, each in schema["discriminator"]["mapping"].items()}
        return {schema["discriminator"]["propertyName"]: dict(sorted(by_name.items()))}
    if "const" in schema or "enum" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        return _one_of(type(each).__name__ for each in values)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _one_of(_form(schemas, each) for each in schema[several])
    kind = schema.get("type")
    if kind == "array":
        return [_form(schemas, each) for each in schema.get("prefixItems") or [schema.get("items", {})]]
    if kind == "object":
        each = schema.get("additionalProperties", {})
        return {"": _form(schemas, each) if isinstance(each, dict) else "any"}
    return PLAIN.get(str(kind), "any")


def _one_of(forms: Iterable[Any]) -> Any:
    """One of several forms, each of them once."""
    found: list[Any] = []
    for form in forms:
        found += [each for each in (form if isinstance(form, tuple) else (form,)) if each not in found]
    return "any" if "any" in found else found[0] if len(found) == 1 else tuple(found)


def _literal(name: str, value: Mapping[str, Any]) -> str:
    return f"{name}: Mapping[str, Any] = {_text(value, '')}\n"


def _text(value: Any, indent: str) -> str:
    """A value as its formatter would write it: on one line, or an item on each."""
    inline = _inline(value)
    if not isinstance(value, dict) or (len(value) == 1 and len(indent + inline) < LINE - 20):
        return inline
    lines = (f'{indent}    "{key}": {_text(each, indent + "    ")},\n' for key, each in value.items())
    return "{\n" + "".join(lines) + indent + "}"


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {_inline(each)}' for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_inline, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return f'"{value}"'
