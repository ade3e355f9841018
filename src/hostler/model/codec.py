"""Values to JSON and back, strictly: an unknown or a missing field is an error that names it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar
from unicodedata import category

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json

from hostler.model.errors import CorruptState, SpecError
from hostler.model.events import Event
from hostler.model.faults import EXTRA, MISSING, UNSEEN, Fault, faults_in, found_by, rules_of, unknown
from hostler.model.schemas import KeyPath, Schema, keys_at, show
from hostler.model.texts import NUL_IN_JSON, nul_fault
from hostler.model.work import NAME_MAX, JobSpec

RecordT = TypeVar("RecordT")

ERROR_MOST = 2000
"""Characters of an error of the program."""
FAULTS_MOST = 1000
"""Faults of one value that are looked through: a body of 64 MB may have millions."""
PLACE_SHOWN = 200
"""Characters of the path of a fault: keys may be as long as a body."""
NAME_SHOWN = 60
"""Characters of the name of a field that an error repeats."""
RESULT_LEVELS = 64
PARAMS_LEVELS = 60
"""How deep values of their owner's may be nested. An agent reads 100 levels, what we lay around a value included."""


def dump_event(event: Event) -> str:
    """The JSON text of an event; `kind` tells its class."""
    return adapter(type(event)).dump_json(event).decode()


def load_event(text: str | bytes) -> Event:
    """The event of a JSON text. Raises `CorruptState` if it is none of this version's."""
    try:
        event: Event = adapter(Event).validate_json(text)
    except ValidationError as error:
        raise CorruptState(f"not an event of this version: {text[:200]!r}: {explain(error)}") from error
    return event


def load_specs(values: object) -> tuple[JobSpec, ...]:
    """Job specs from decoded JSON (a list). Raises `SpecError` naming the field of every fault."""
    try:
        specs: tuple[JobSpec, ...] = adapter(tuple[JobSpec, ...]).validate_python(values)
    except ValidationError as error:
        raise refused(fault_lines(error, values, tuple[JobSpec, ...], ("jobs",))) from error
    return specs


def refused(lines: Sequence[str]) -> SpecError:
    """The error for a submission with these faults."""
    return SpecError(f"the jobs were refused, none was submitted: {in_one_line(lines)}")


def plain(value: object) -> Any:
    """A value as decoded JSON."""
    return adapter(type(value)).dump_python(value, mode="json")


def unwritable(value: object, levels: int = RESULT_LEVELS) -> str | None:
    """Why a value of its owner's (decoded JSON) would not come back from journals as it is; `None` where it would.

    Half a surrogate pair, NaN, infinity, and nesting deeper than so many levels are such values.
    """
    if value is None:
        return None
    if _is_deeper(value, levels):
        return f"it is nested deeper than {levels} levels"
    return _lost_on_the_way(value, Any)


def fields_fault(result: object) -> str | None:
    """Why the fields of a script's result cannot be columns of a table; `None` where they can."""
    for name in result if isinstance(result, Mapping) else ():
        if not name:
            return "it has a field with an empty name; give each field a name"
        if len(name) > NAME_MAX:
            return f"its field {name[:NAME_SHOWN]}… has a name of {len(name)} characters; {NAME_MAX} are the most"
        if not name.isprintable() and any(category(each) == "Cc" for each in name):
            return f"the name of its field {name[:NAME_SHOWN]!a} has a control character; leave it out"
    return None


def spec_fault(spec: JobSpec) -> str | None:
    """Why a job could not be read back from a journal as it is; `None` where it could."""
    payload = spec.payload
    return (unwritable(payload.params, PARAMS_LEVELS) if payload.kind == "sweep" else None) or record_fault(spec)


def record_fault(value: object) -> str | None:
    """Why a record, made without its types being checked, could not be read back; `None` where it could."""
    return _lost_on_the_way(value, type(value))


def legible(value: RecordT) -> RecordT:
    """The record, with halves of surrogate pairs and NUL characters in its texts written as escapes.

    UTF-8 has no form for the former, PostgreSQL none for the latter.
    """
    texts = {name: getattr(value, name) for name in _texts(type(value))}  # type: ignore[arg-type]
    changed = {name: clean for name, text in texts.items() if (clean := _legible(text)) is not text}
    return replace(value, **changed) if changed else value  # type: ignore[type-var]


def explain(error: ValidationError, value: object = UNSEEN, shape: Any = None) -> str:
    """The faults of a validation in one line, each as `path: rule (found …)`.

    `value` is the decoded value that was validated; without it, paths may have names of alternatives of types.
    `shape` is what it was validated as: with it, what is meant by an unknown field is named.
    """
    return in_one_line(fault_lines(error, value, shape))


def error_words(error: BaseException) -> str:
    """An error of the program in one line for people: its type, and what it says, cut to a length.

    Of a validation the faults alone: its own text names every type that was tried.
    """
    why = explain(error) if isinstance(error, ValidationError) else str(error)
    words = f"{type(error).__name__}: {why}"
    return words if len(words) <= ERROR_MOST else f"{words[: ERROR_MOST - 1]}…"


def fault_lines(error: ValidationError, value: object, shape: Any, prefix: KeyPath = ()) -> list[str]:
    """A line for each fault, of at most `FAULTS_MOST`; `prefix` is the path of `value`."""
    return [_fault(path, prefix, faults, value, shape) for path, faults in faults_in(error, value, FAULTS_MOST).items()]


def in_one_line(faults: Sequence[str], limit: int = 5) -> str:
    """Faults one after the other; of many the first, and how many there are."""
    more, least = len(faults) - limit, "at least " if len(faults) >= FAULTS_MOST else ""
    return "; ".join(faults[:limit]) + (f"; and {least}{more} more" if more > 0 else "")


def canonical_json(value: object) -> str:
    """The one JSON text of a value: keys sorted, no spaces, ASCII. The base of every digest."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(params: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of `params`, in hexadecimal."""
    return hashlib.sha256(canonical_json(dict(params)).encode()).hexdigest()


def adapter(shape: Any) -> TypeAdapter[Any]:
    """The (expensive, therefore kept) converter of one shape."""
    return _adapter(shape)


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def _is_deeper(value: object, levels: int) -> bool:
    layer: list[Any] = [value]
    for _ in range(levels):
        layer = [part for each in layer for part in _parts(each)]
    return any(isinstance(each, Mapping | list | tuple) for each in layer)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _lost_on_the_way(value: object, shape: Any) -> str | None:
    try:
        written = adapter(shape).dump_json(value)
        back = adapter(shape).validate_json(written)
    except ValidationError as error:
        return explain(error, from_json(written))
    except PydanticSerializationError as error:
        return str(error)
    if back != value:
        return "JSON has no form for some of its values (NaN, infinity, a tuple)"
    return nul_fault(value) if shape is not Any and NUL_IN_JSON in written else None


@cache
def _texts(shape: Any) -> tuple[str, ...]:
    """Fields that may be texts, whatever their types are called; `Any` is its owner's, and not for us to change."""
    return tuple(field.name for field in fields(shape) if "Any" not in str(field.type))


def _legible(value: Any) -> Any:
    if isinstance(value, tuple):
        clean = tuple(map(_legible, value))
        return value if all(new is old for new, old in zip(clean, value, strict=True)) else clean
    if not isinstance(value, str):
        return value
    if "\0" in value:
        value = value.replace("\0", "\\x00")
    if value.isascii():
        return value
    clean_text = value.encode(errors="backslashreplace").decode()
    return value if clean_text == value else clean_text


def _fault(path: KeyPath, prefix: KeyPath, faults: Sequence[Fault], value: object, shape: Any) -> str:
    place, kind = show((*prefix, *path))[:PLACE_SHOWN] or "the whole", faults[0]["type"]
    if kind in EXTRA:
        keys = () if shape is None else keys_at(_schema(shape), path[:-1], value)
        return f"{place}: {unknown(str(path[-1]), keys, 'is not a field here') if keys else 'is not a field here'}"
    return f"{place}: {rules_of(faults)}{'' if kind in MISSING else found_by(faults[0])}"


@cache
def _schema(shape: Any) -> Schema:
    schema: Schema = adapter(shape).json_schema()
    return schema
