"""Changes of a document: at each place of it, each extreme value, and keys that are gone, doubled or unknown."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.fuzz.extremes import JSON

Path: TypeAlias = tuple[str | int, ...]

DEPTH = 9
"""Levels of a schema that places are taken from."""
SECOND = "0twice0"
MARKS = ("0first0", "0other0")
SHAPES = ("gone", "renamed", "unknown beside", "twice", "of an extreme name")
"""What becomes of a key, beside its value."""


@dataclass(frozen=True)
class Document:
    """A good document of a reader, and the places of it where something else may stand."""

    name: str
    value: Any
    places: tuple[Path, ...]


@dataclass(frozen=True)
class Case:
    """One changed document."""

    document: str
    text: str
    what: str
    """What was changed, for whoever reads a failure."""


def document(name: str, value: Any, schema: Mapping[str, Any] | None = None) -> Document:
    """A document with its own places, and with those that its schema names beside them."""
    own = list(places(value))
    named = () if schema is None else schema_places(schema, schema, DEPTH)
    return Document(name, value, tuple(dict.fromkeys((*own, *named))))


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Each place of a value, the whole of it first."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def schema_places(whole: Mapping[str, Any], part: Mapping[str, Any], depth: int, path: Path = ()) -> Iterator[Path]:
    """Each place that a JSON schema knows, lists with their first item and mappings with one key."""
    if not depth:
        return
    if path:
        yield path
    if "$ref" in part:
        found: Any = whole
        for step in part["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        part = found
    for word in ("anyOf", "oneOf", "allOf"):
        for each in part.get(word, ()):
            yield from schema_places(whole, each, depth - 1, path)
    for name, each in part.get("properties", {}).items():
        yield from schema_places(whole, each, depth - 1, (*path, name))
    for word, key in (("items", 0), ("additionalProperties", "some")):
        if isinstance(part.get(word), dict):
            yield from schema_places(whole, part[word], depth - 1, (*path, key))


def replaced(value: Any, path: Path, put: Any) -> Any:
    """The value with something else at a place, which is made where it is not there."""
    if not path:
        return put
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        items = list(value) if isinstance(value, list) and value else [None]
        items[min(key, len(items) - 1)] = replaced(items[min(key, len(items) - 1)], rest, put)
        return items
    known = value if isinstance(value, dict) else {}
    return {**known, key: replaced(known.get(key), rest, put)}


def reshaped(value: Any, path: Path, way: str) -> Any:
    """The value with a key of it gone, renamed, doubled, or with another one beside it."""
    if not path:
        return [value, value] if way == "twice" else {}
    if len(path) > 1:
        inner = value[path[0]] if isinstance(value, list | dict) and path[0] in _keys(value) else {}
        return replaced(value, path[:1], reshaped(inner, path[1:], way))
    key = path[0]
    if isinstance(value, list):
        rest = [each for at, each in enumerate(value) if at != key]
        return rest if way == "gone" else [*value, *value] if way == "twice" else [*rest, MARKS[0]]
    known = value if isinstance(value, dict) else {}
    others = {name: each for name, each in known.items() if name != key}
    if way == "gone":
        return others
    if way == "unknown beside":
        return {**known, f"{key}_": MARKS[0]}
    if way == "twice":
        return {**others, key: known.get(key), SECOND: MARKS[0]}
    return {**others, (f"{key}?" if way == "renamed" else MARKS[0]): known.get(key)}


def _keys(value: Any) -> Sequence[Any]:
    return range(len(value)) if isinstance(value, list) else list(value)


def singles(made: Document, texts: Sequence[str] = JSON) -> int:
    """How many changes at one place a document has."""
    return len(made.places) * (len(texts) + 2 * len(SHAPES))


def single(made: Document, number: int, texts: Sequence[str] = JSON) -> tuple[Path, str, str]:
    """One of them: the place, the way (`value` for another value), and the text that is put."""
    at, number = divmod(number, len(texts) + 2 * len(SHAPES))
    if number < len(texts):
        return made.places[at], "value", texts[number]
    way, twice = divmod(number - len(texts), 2)
    return made.places[at], SHAPES[way], "1" if twice else texts[0]


def changed(made: Document, path: Path, way: str, text: str, other: tuple[Path, str] | None = None) -> Case:
    """A document with one change, and perhaps another value at a second place."""
    value = replaced(made.value, path, MARKS[0]) if way == "value" else reshaped(made.value, path, way)
    what = f"{made.name} {_shown(path)}: {way} {text:.60}"
    if other is not None and other[0]:
        value = replaced(value, other[0], MARKS[1])
        what += f"; {_shown(other[0])}: {other[1]:.60}"
    as_text = json.dumps(value)
    if SECOND in as_text:
        as_text = as_text.replace(json.dumps(SECOND), json.dumps(path[-1] if path else ""))
    name = text if text.startswith('"') else json.dumps(text)
    as_text = as_text.replace(f'"{MARKS[0]}": ', f"{name}: ").replace(f'"{MARKS[0]}"', text)
    return Case(made.name, as_text if other is None else as_text.replace(f'"{MARKS[1]}"', other[1]), what)


def drawn(documents: Sequence[Document], count: int, chance: random.Random, texts: Sequence[str] = JSON) -> list[Case]:
    """So many changed documents: of all changes at one place as many as there is room for, in every document alike,
    then changes at two places."""
    orders = [chance.sample(range(singles(made, texts)), min(singles(made, texts), count)) for made in documents]
    cases = list[Case]()
    for at in range(max(map(len, orders))):
        for made, order in zip(documents, orders, strict=True):
            if at < len(order):
                cases.append(changed(made, *single(made, order[at], texts)))
        if len(cases) >= count:
            return cases[:count]
    while len(cases) < count:
        made = chance.choice(documents)
        first = single(made, chance.randrange(singles(made, texts)), texts)
        cases.append(changed(made, *first, (chance.choice(made.places), chance.choice(texts))))
    return cases


def _shown(path: Path) -> str:
    return ".".join(map(str, path)) or "the whole"
