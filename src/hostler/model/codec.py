"""Values to JSON and back, strictly: an unknown or a missing field is an error that names it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from hostler.model.errors import CorruptState, SpecError
from hostler.model.events import Event
from hostler.model.work import JobSpec


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


def _fault(fault: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in fault["loc"]) or "value"
    got = repr(fault.get("input"))
    return f"{path}: {fault['msg']} (got {got if len(got) <= 60 else got[:57] + '...'})"
