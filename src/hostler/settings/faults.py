"""From values to settings: everything that is wrong, told at once, each with its place and what would be right."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from hostler.model.errors import SettingsError
from hostler.model.faults import EXTRA, MISSING, Fault, faults_in, found_by, rules_of, unknown
from hostler.model.schemas import KeyPath, keys_at, show
from hostler.settings.reading import Tree
from hostler.settings.schema import schema_of

M = TypeVar("M", bound=BaseModel)

MOST = 20
"""Faults told at once."""


def checked(model: type[M], tree: Tree) -> M:
    """The settings of a tree. Raises `SettingsError` with one line for each fault."""
    try:
        # By way of JSON, where strict means strict and a list is still a list.
        return model.model_validate_json(json.dumps(tree.value), strict=True)
    except ValidationError as error:
        raise SettingsError("\n".join(_lines(error, model, tree))) from error


def _lines(error: ValidationError, model: type[BaseModel], tree: Tree) -> list[str]:
    told = faults_in(error, tree.value)
    more = [] if len(told) <= MOST else [f"... and {len(told) - MOST} more"]
    return [_line(path, told[path], model, tree) for path in list(told)[:MOST]] + more


def _line(path: KeyPath, faults: list[Fault], model: type[BaseModel], tree: Tree) -> str:
    kind, name = faults[0]["type"], show(path)[:200] or "the whole"
    if kind in EXTRA:
        keys = keys_at(schema_of(model), path[:-1])
        return f"{tree.key(path)}: {name}: {unknown(str(path[-1]), keys, 'is no setting')}"
    if kind in MISSING:
        return f"{tree.at(path)}: {name}: {rules_of(faults)}"
    return f"{tree.at(path)}: {name}: {rules_of(faults)}{found_by(faults[0])}"
