"""Values to JSON and back, strictly: an unknown or a missing field is an error that names it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from hostler.model.errors import CorruptState, SpecError
from hostler.model.events import Event
from hostler.model.work import JobSpec

RecordT = TypeVar("RecordT")

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
        raise SpecError(f"the jobs were refused, none was submitted: {explain(error)}") from error
    return specs


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


def spec_fault(spec: JobSpec) -> str | None:
    """Why a job could not be read back from a journal as it is; `None` where it could."""
    payload = spec.payload
    return (unwritable(payload.params, PARAMS_LEVELS) if payload.kind == "sweep" else None) or record_fault(spec)


def record_fault(value: object) -> str | None:
    """Why a record, made without its types being checked, could not be read back; `None` where it could."""
    return _lost_on_the_way(value, type(value))


def legible(value: RecordT) -> RecordT:
    """The record, with halves of surrogate pairs in its texts written as escapes: UTF-8 has no form for them."""
    texts = {name: getattr(value, name) for name in _texts(type(value))}  # type: ignore[arg-type]
    changed = {name: clean for name, text in texts.items() if (clean := _legible(text)) is not text}
    return replace(value, **changed) if changed else value  # type: ignore[type-var]


def explain(error: ValidationError, limit: int = 5) -> str:
    """A validation error in one line: each fault as `path: message (got …)`."""
    faults = [_fault(dict(fault)) for fault in error.errors(include_url=False)[:limit]]
    more = error.error_count() - len(faults)
    return "; ".join(faults) + (f"; and {more} more" if more > 0 else "")


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
        back = adapter(shape).validate_json(adapter(shape).dump_json(value))
    except ValidationError as error:
        return explain(error)
    except PydanticSerializationError as error:
        return str(error)
    return None if back == value else "JSON has no form for some of its values (NaN, infinity, a tuple)"


@cache
def _texts(shape: Any) -> tuple[str, ...]:
    """Fields of texts; what is `Any` is its owner's, and not for us to change."""
    return tuple(field.name for field in fields(shape) if "str" in str(field.type))


def _legible(value: Any) -> Any:
    if isinstance(value, tuple):
        clean = tuple(map(_legible, value))
        return value if all(new is old for new, old in zip(clean, value, strict=True)) else clean
    if not isinstance(value, str) or value.isascii():
        return value
    clean_text = value.encode(errors="backslashreplace").decode()
    return value if clean_text == value else clean_text


def _fault(fault: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in fault["loc"]) or "value"
    got = repr(fault.get("input"))
    message = str(fault["msg"]).removeprefix("Value error, ")  # what pydantic puts before our own words
    return f"{path}: {message} (got {got if len(got) <= 60 else got[:57] + '...'})"
