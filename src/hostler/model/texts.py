"""NUL characters in the texts of records: PostgreSQL has no form for them, so no text here may have one.

A value of its owner's (`Any`: a result, a hit, parameters) is kept as JSON inside a text, and may hold any character.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache

NUL_RULE = "contains a NUL character (U+0000), which no text here may have; leave it out"
NUL_IN_JSON = b"\\u0000"
"""How serializers write that character. JSON without these bytes has none; with them it is looked for."""


def nul_fault(value: object) -> str | None:
    """Which text of a record contains a NUL character, and the rule; `None` where none does."""
    path = _nul_in(value)
    return None if path is None else f"{'.'.join(path) or 'it'} {NUL_RULE}"


def _nul_in(value: object) -> tuple[str, ...] | None:
    """The path of the first text with a NUL character."""
    if isinstance(value, str):
        return () if "\0" in value else None
    for name, part in _parts(value):
        if "\0" in name:
            return (ascii(name),)
        found = _nul_in(part)
        if found is not None:
            return (name, *found)
    return None


def _parts(value: object) -> Iterable[tuple[str, object]]:
    if isinstance(value, Mapping):
        return ((str(name), part) for name, part in value.items())
    if isinstance(value, tuple | list | set | frozenset):
        return ((str(place), part) for place, part in enumerate(value))
    if is_dataclass(value) and not isinstance(value, type):
        return ((name, getattr(value, name)) for name in _typed(type(value)))
    return ()


@cache
def _typed(shape: type) -> tuple[str, ...]:
    """The fields of a record that are not its owner's own values."""
    return tuple(field.name for field in fields(shape) if "Any" not in str(field.type))
