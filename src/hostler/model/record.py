"""The one shape of every value in Hostler: a frozen, slotted dataclass with a strict JSON form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

from pydantic import ConfigDict

T = TypeVar("T")

STRICT_JSON = ConfigDict(extra="forbid", allow_inf_nan=False)
"""No unknown field; and no infinite number, which JSON cannot hold: it would be read back as `null`."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make `cls` a value: immutable, compared by content, keyword arguments only, no unknown field in its JSON."""
    made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    made.__pydantic_config__ = STRICT_JSON  # type: ignore[attr-defined]
    return made


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def entity(cls: type[T]) -> type[T]:
    """Make `cls` a thing with a life: slotted and mutable, changed by `core` alone; the same strict JSON form."""
    made = dataclass(slots=True, kw_only=True)(cls)
    made.__pydantic_config__ = STRICT_JSON  # type: ignore[attr-defined]
    return made
