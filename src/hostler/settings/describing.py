"""Every setting with its value, where it comes from and what it means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from hostler.model.schemas import KeyPath, node_at, show
from hostler.settings.loading import Loaded
from hostler.settings.models import Fleet
from hostler.settings.schema import schema_of


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: `path` as in `nodes[0].name`; `origin` is `file:line:column`, a variable, or `default`."""

    path: str
    value: Any
    origin: str
    doc: str


def describe(loaded: Loaded) -> tuple[Setting, ...]:
    """All settings, in the order of the reference. In lists, what was not written and has no default is left out,
    and in classes of nodes all that was not written.
    """
    fleet = loaded.fleet.model_copy(update={"state_dir": str(loaded.state_dir)})
    return tuple(_setting(loaded, path, value) for path, value in _leaves(fleet, ()) if _counts(loaded, path, value))


def _setting(loaded: Loaded, path: KeyPath, value: Any) -> Setting:
    doc = (node_at(schema_of(Fleet), path) or {}).get("description", "")
    return Setting(show(path), value, loaded.origin(path), doc)


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, BaseModel):
        for name, info in type(value).model_fields.items():
            yield from _leaves(getattr(value, name), (*path, info.alias or name))
    elif is_dataclass(value):
        for field in fields(value):
            yield from _leaves(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple) and any(isinstance(item, BaseModel) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    elif isinstance(value, dict) and any(isinstance(item, BaseModel) for item in value.values()):
        for name, item in value.items():
            yield from _leaves(item, (*path, name))
    else:
        yield path, value


def _counts(loaded: Loaded, path: KeyPath, value: Any) -> bool:
    if path[0] == "classes" and len(path) > 1:
        return path in loaded.tree.values  # a class has no defaults: those are its nodes'
    in_list = any(isinstance(part, int) for part in path)
    return not in_list or path in loaded.tree.values or value not in (None, (), {})
