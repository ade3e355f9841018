"""From values to settings: everything that is wrong, told at once, each with its place and what would be right."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from hostler.model.errors import SettingsError
from hostler.settings.reading import KeyPath, Tree, show
from hostler.settings.schema import keys_at, schema_of

M = TypeVar("M", bound=BaseModel)

MOST = 20
"""Faults told at once."""

ADVICE = {
    "gpu_id": "Hostler chooses the device; `resources: {device: gpu}` asks for a GPU",
    "expected_output": "write the result to $HOSTLER_RESULT and set `require_result: true`",
    "command": "write the command as a list, `argv: [program, argument]`; there is no shell",
    "depends_on": "write `after`",
}
"""Keys that people bring along from elsewhere."""

_EXTRA = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_SHAPES = {
    "model_type": "a mapping",
    "dataclass_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "string_type": "a text (put it in quotes)",
}
_WORDS = {"Tuple": "the list", "String": "the text", "Dictionary": "the mapping", " after validation": ""}


def checked(model: type[M], tree: Tree) -> M:
    """The settings of a tree. Raises `SettingsError` with one line for each fault."""
    try:
        # By way of JSON, where strict means strict and a list is still a list.
        return model.model_validate_json(json.dumps(tree.value), strict=True)
    except ValidationError as error:
        raise SettingsError("\n".join(_lines(error, model, tree))) from error


def near(word: str, words: Sequence[str]) -> str:
    """`; did you mean …?`, or nothing."""
    close = get_close_matches(word, words, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def shown(value: object) -> str:
    """A value in at most a few words."""
    return "nothing" if value is None else _REPR.repr(value)


def _lines(error: ValidationError, model: type[BaseModel], tree: Tree) -> list[str]:
    faults: dict[KeyPath, list[dict[str, Any]]] = {}
    for fault in map(dict, error.errors(include_url=False)):
        if not _follows(fault):
            faults.setdefault(_path(fault, tree), []).append(fault)
    around = {path[:length] for path in faults for length in range(len(path))}
    told = [path for path, group in faults.items() if not _is_superseded(path, group, around)]
    more = [] if len(told) <= MOST else [f"... and {len(told) - MOST} more"]
    return [_line(path, faults[path], model, tree) for path in told[:MOST]] + more


def _follows(fault: dict[str, Any]) -> bool:
    """Whether it only follows from another fault: a list is called too short when one of its items is refused."""
    return bool(fault["type"] == "too_short" and len(fault["input"]) >= fault["ctx"]["min_length"])


def _is_superseded(path: KeyPath, faults: Sequence[dict[str, Any]], around: Collection[KeyPath]) -> bool:
    """Whether one of the alternatives for a list or mapping read on into it: that is the one that was meant."""
    return path in around and isinstance(faults[0]["input"], (dict, list))


def _path(fault: dict[str, Any], tree: Tree) -> KeyPath:
    """Where the fault is in the tree: pydantic also names the alternatives of a type, which are no keys."""
    path: KeyPath = ()
    for part in fault["loc"]:
        if (*path, part) in tree.values:
            path = (*path, part)
    return (*path, fault["loc"][-1]) if fault["type"] == "missing" else path


def _line(path: KeyPath, faults: list[dict[str, Any]], model: type[BaseModel], tree: Tree) -> str:
    kind, name = faults[0]["type"], show(path)[:200] or "the whole"
    if kind in _EXTRA:
        return f"{tree.key(path)}: {name}: {_unknown(str(path[-1]), keys_at(schema_of(model), path[:-1]))}"
    if kind == "missing":
        return f"{tree.at(path)}: {name}: is missing"
    rules = " or ".join(dict.fromkeys(_rule(fault) for fault in faults)).replace(" or should be ", " or ")
    found = "" if isinstance(faults[0]["input"], (dict, list)) and kind == "value_error" else _found(faults[0]["input"])
    return f"{tree.at(path)}: {name}: {rules}{found}"


def _unknown(key: str, allowed: Sequence[str]) -> str:
    advice = ADVICE.get(key)
    hint = f"; {advice}" if advice else near(key, allowed)
    return f"is no setting{hint} (allowed here: {', '.join(allowed) or 'nothing'})"


def _rule(fault: dict[str, Any]) -> str:
    shape = _SHAPES.get(fault["type"])
    if shape is not None:
        return f"should be {shape}"
    message: str = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return message


def _found(value: object) -> str:
    length = f", {len(value)} characters" if isinstance(value, str) and len(value) > _REPR.maxstring else ""
    return f" (found {shown(value)}{length})"


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 60
