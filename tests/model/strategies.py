"""Any value of the model, made from its type hints and the bounds written in them."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal

import annotated_types
from hypothesis import strategies as st
from pydantic.fields import FieldInfo
from pydantic.types import AllowInfNan

from hostler.model.learning import Match

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTEGERS = st.integers(-(2**100), 2**100)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@cache
def records(shape: Any) -> st.SearchStrategy[Any]:
    """Any value of a record class."""
    if shape is Match:
        return matches()
    hints = typing.get_type_hints(shape, include_extras=True)
    return st.builds(shape, **{field.name: _values(hints[field.name]) for field in fields(shape)})


@st.composite
def matches(draw: st.DrawFn) -> Match:
    """Matches refuse what is none: groups are games from every seat, of different players."""
    players = draw(st.integers(2, 4))
    game = st.permutations(range(players)).map(tuple)
    groups = st.lists(st.lists(game, min_size=players, max_size=players).map(tuple), max_size=3).map(tuple)
    a, b = draw(st.lists(TEXT, min_size=2, max_size=2, unique=True))
    return Match(a=a, b=b, groups=draw(groups))


def _values(hint: Any) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _bounded(arguments[0], arguments[1:])
    if origin in (typing.Union, types.UnionType):
        return st.one_of([_values(each) for each in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        if Ellipsis not in arguments:
            return st.tuples(*map(_values, arguments))
        return st.lists(_values(arguments[0]), max_size=3).map(tuple)
    if origin is frozenset:
        return st.frozensets(_values(arguments[0]), max_size=3)
    if origin in (dict, Mapping):
        return st.dictionaries(_values(arguments[0]), _values(arguments[1]), max_size=3)
    if is_dataclass(hint) and isinstance(hint, type):
        return records(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    return SIMPLE[hint]


SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: INTEGERS,
    float: FLOATS,
    bool: st.booleans(),
    type(None): st.none(),
    Any: JSON,
}


def _bounded(hint: Any, extras: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    said = [each for extra in extras if isinstance(extra, FieldInfo) for each in extra.metadata]
    given = [each for each in said if not isinstance(each, AllowInfNan)]  # `FLOATS` are finite
    pattern = next((each.pattern for each in given if getattr(each, "pattern", None)), None)
    if pattern is not None:
        return st.from_regex(pattern, fullmatch=True)
    values = _within(hint, given) if hint in (int, float) else _values(hint)
    for bound in given:
        values = values.filter(_keeps(bound))
    return values


def _within(hint: Any, given: list[Any]) -> st.SearchStrategy[Any]:
    """Numbers between the bounds: filtering alone would throw most of them away."""
    least = max((getattr(each, "ge", getattr(each, "gt", None)) for each in given if _is_lower(each)), default=None)
    most = min((getattr(each, "le", getattr(each, "lt", None)) for each in given if not _is_lower(each)), default=None)
    if hint is int:
        return st.integers(-(2**100) if least is None else least, 2**100 if most is None else most)
    return st.floats(least, most, allow_nan=False, allow_infinity=False)


def _is_lower(bound: Any) -> bool:
    return isinstance(bound, (annotated_types.Ge, annotated_types.Gt))


def _keeps(bound: Any) -> Any:
    match bound:
        case annotated_types.Ge(ge=least):
            return lambda value: value >= least
        case annotated_types.Gt(gt=below):
            return lambda value: value > below
        case annotated_types.Lt(lt=above):
            return lambda value: value < above
        case annotated_types.Le(le=most):
            return lambda value: value <= most
        case annotated_types.MinLen(min_length=least):
            return lambda value: len(value) >= least
        case annotated_types.MaxLen(max_length=most):
            return lambda value: len(value) <= most
    raise NotImplementedError(bound)
