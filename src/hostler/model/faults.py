"""Faults of values in Hostler's words. pydantic finds them; its texts are never shown.

`RULES` has the words for each kind of fault. Requests, settings and records read back use the same ones.
"""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

from pydantic import ValidationError

from hostler.model.schemas import KeyPath

Fault: TypeAlias = Mapping[str, Any]
"""A fault as pydantic has it: `type`, `loc`, `msg`, `input`, `ctx`."""
Faults: TypeAlias = dict[KeyPath, list[Fault]]
"""Faults by the path of their value. Where several types are allowed, a value may have a fault for each."""

RULE_MOST = 1000
"""Characters of one rule."""
UNSEEN: object = object()
"""In the place of a value that is not at hand."""
VALUE_SHOWN = 200
KEYS_SHOWN = 60
NOT_VALID = "is not valid here"
EXTRA = frozenset({"extra_forbidden", "unexpected_keyword_argument", "unexpected_positional_argument"})
MISSING = frozenset(
    {
        "missing",
        "missing_argument",
        "missing_keyword_only_argument",
        "missing_positional_only_argument",
        "union_tag_not_found",
    }
)
OWN_WORDS = frozenset({"value_error", "assertion_error"})
"""Kinds of faults that have the text of an exception of ours."""
TAGGED = frozenset({"union_tag_invalid", "union_tag_not_found"})

_MAPPING = "should be a mapping"
_LIST = "should be a list"
_TEXT = "should be a text (put it in quotes)"
_BOOLEAN = "should be a valid boolean"
_INTEGER = "should be a valid integer"
_NUMBER = "should be a valid number"

RULES: Mapping[str, str] = {
    "json_invalid": "should be a JSON document: {error}",
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dataclass_type": _MAPPING,
    "dataclass_exact_type": _MAPPING,
    "arguments_type": _MAPPING,
    "dict_type": _MAPPING,
    "frozen_dict_type": _MAPPING,
    "mapping_type": _MAPPING,
    "invalid_key": "should have texts as its keys",
    "list_type": _LIST,
    "tuple_type": _LIST,
    "named_tuple_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "iterable_type": _LIST,
    "deque_type": _LIST,
    "string_type": _TEXT,
    "string_unicode": "should be a text of Unicode characters",
    "bytes_type": "should be bytes",
    "bool_type": _BOOLEAN,
    "bool_parsing": _BOOLEAN,
    "int_type": _INTEGER,
    "int_parsing": _INTEGER,
    "int_parsing_size": "should be an integer of at most 4300 digits",
    "int_from_float": _INTEGER,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "should be a finite number",
    "none_required": "should be null",
    "greater_than": "should be greater than {gt}",
    "greater_than_equal": "should be greater than or equal to {ge}",
    "less_than": "should be less than {lt}",
    "less_than_equal": "should be less than or equal to {le}",
    "multiple_of": "should be a multiple of {multiple_of}",
    "string_too_short": "the text should have at least {min_length} character{s}",
    "string_too_long": "the text should have at most {max_length} character{s}",
    "string_pattern_mismatch": "the text should match pattern '{pattern}'",
    "string_not_ascii": "the text should have ASCII characters only",
    "bytes_too_short": "should have at least {min_length} byte{s}",
    "bytes_too_long": "should have at most {max_length} byte{s}",
    "too_short": "the {collection} should have at least {min_length} item{s}, not {actual_length}",
    "too_long": "the {collection} should have at most {max_length} item{s}, not {actual_length}",
    "enum": "should be {expected}",
    "literal_error": "should be {expected}",
    "union_tag_invalid": "should be {expected_tags}",
    "recursion_loop": "should not be nested in itself",
    "recursion_depth_exceeded": "is nested too deeply",
    **dict.fromkeys(MISSING, "is missing"),
    **dict.fromkeys(EXTRA, "is not known here"),
}
"""Words for each kind of fault that values from JSON can have; other kinds are `NOT_VALID`."""

ADVICE = {
    "gpu_id": "Hostler chooses the device; `resources: {device: gpu}` asks for a GPU",
    "expected_output": "write the result to $HOSTLER_RESULT and set `require_result: true`",
    "command": "write the command as a list, `argv: [program, argument]`; there is no shell",
    "depends_on": "write `after`",
}
"""Keys that people bring along from elsewhere."""

_COLLECTIONS = {"Dictionary": "mapping", "FrozenDict": "mapping", "Mapping": "mapping"}
_LENGTHS = ("min_length", "max_length")


def faults_in(error: ValidationError, value: object, most: int | None = None) -> Faults:
    """The faults of a validation by their paths in `value`, the value that was validated (`UNSEEN`: by location).

    With `most`, faults beyond that number are left out.
    """
    found: Faults = {}
    for fault in map(dict, error.errors(include_url=False)[:most]):
        if not _follows(fault):
            found.setdefault(path_in(value, fault), []).append(fault)
    around = {path[:length] for path in found for length in range(len(path))}
    return {path: group for path, group in found.items() if not _is_superseded(path, group, around)}


def path_in(value: object, fault: Fault) -> KeyPath:
    """Where in `value` a fault is. pydantic's locations also have alternatives of types, which are not keys."""
    loc: KeyPath = fault["loc"]
    if value is UNSEEN:
        return loc
    kind = fault["type"]
    last: KeyPath = ()
    if kind in MISSING and kind not in TAGGED:
        loc, last = loc[:-1], loc[-1:]
    elif kind in TAGGED:
        last = (str(fault["ctx"]["discriminator"]).strip("'"),)
    if loc and loc[-1] == "[key]":
        return _path_of_key(value, loc[:-1])
    paths = _ways(value, loc)
    greedy, end = next(paths)
    if _is(end, fault["input"]):
        return (*greedy, *last)
    meant = next((path for path, end in paths if _is(end, fault["input"])), greedy)
    return (*meant, *last)


def rule_of(fault: Fault) -> str:
    """The rule that a value breaks: `should be …`, or another sentence about it."""
    kind = fault["type"]
    context: dict[str, Any] = {name: _whole(value) for name, value in fault.get("ctx", {}).items()}
    if kind in OWN_WORDS:
        return shortened(str(context["error"]))
    if kind not in RULES:
        return NOT_VALID
    length = next((context[name] for name in _LENGTHS if name in context), None)
    context |= {"s": "" if length == 1 else "s", "collection": _COLLECTIONS.get(context.get("field_type", ""), "list")}
    if "expected_tags" in context:
        context["expected_tags"] = " or ".join(context["expected_tags"].rsplit(", ", 1))
    return RULES[kind].format_map(context)


def shortened(rule: str) -> str:
    """A sentence of ours, which may repeat a value of any length: without its middle, for the end says what to do."""
    return rule if len(rule) <= RULE_MOST else f"{rule[: RULE_MOST // 2]}…{rule[-RULE_MOST // 2 :]}"


def rules_of(faults: Sequence[Fault]) -> str:
    """The rules of all alternatives: `should be … or …`."""
    return " or ".join(dict.fromkeys(map(rule_of, faults))).replace(" or should be ", " or ")


def found_by(fault: Fault) -> str:
    """` (found …)`: the value, in a few characters; empty where a rule of ours is about several values."""
    value = fault["input"]
    if fault["type"] == "union_tag_invalid":
        value = fault["ctx"]["tag"]
    if fault["type"] in OWN_WORDS and isinstance(value, dict | list | tuple):
        return ""
    length = f", {len(value)} characters" if isinstance(value, str) and len(value) > _REPR.maxstring else ""
    return f" (found {shown(value)}{length})"


def near(word: str, words: Sequence[str]) -> str:
    """`; did you mean …?`, or an empty text."""
    close = get_close_matches(word[:100], words, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown(key: str, keys: Sequence[str], lead: str) -> str:
    """`lead`, the key that was probably meant instead of an unknown one, and all known keys."""
    advice = ADVICE.get(key)
    hint = f"; {advice}" if advice else near(key, keys)
    more = f", and {len(keys) - KEYS_SHOWN} more" if len(keys) > KEYS_SHOWN else ""
    return f"{lead}{hint} (allowed here: {', '.join(keys[:KEYS_SHOWN]) or 'nothing'}{more})"


def shown(value: object) -> str:
    """A value in at most a few words."""
    text = "nothing" if value is None else _REPR.repr(value)
    return text if len(text) <= VALUE_SHOWN else text[:VALUE_SHOWN] + "…"


def _follows(fault: Fault) -> bool:
    """Whether it only follows from another fault: a list is called too short when one of its items is refused."""
    return bool(fault["type"] == "too_short" and len(fault["input"]) >= fault["ctx"]["min_length"])


def _is_superseded(path: KeyPath, faults: Sequence[Fault], around: Collection[KeyPath]) -> bool:
    """Whether one of the alternatives for a list or mapping read on into it: that is the one that was meant."""
    return path in around and isinstance(faults[0]["input"], dict | list)


def _ways(value: object, loc: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    """The paths in `value` that a location may stand for, with what is there; first the one with the most keys."""
    if not loc:
        yield (), value
        return
    part, rest = loc[0], loc[1:]
    is_index = isinstance(part, int) and isinstance(value, list | tuple) and part < len(value)
    if is_index or (isinstance(value, dict) and part in value):
        for path, end in _ways(value[part], rest):  # type: ignore[index]
            yield (part, *path), end
    yield from _ways(value, rest)


def _path_of_key(value: object, loc: KeyPath) -> KeyPath:
    return next(_ways(value, loc))[0]


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is(one: object, other: object) -> bool:
    return one is other or (type(one) is type(other) and one == other)


class _Short(reprlib.Repr):
    """Few characters of each value, whatever it is."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = 60

    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:  # more digits than Python writes
            return "an integer of more than 4300 digits"


_REPR = _Short()
