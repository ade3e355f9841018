"""Whole numbers from outside: each has bounds in the model of what it enters by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hostler.model.codec import adapter
from hostler.model.inputs import Input

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
RANGES = frozenset({"SweepPayload.start", "SweepPayload.stop", "SweepPayload.min_chunk", "SweepPayload.max_chunk"})
"""Ranges may lie beyond 63 bits; `core/submission.py` bounds them to ±2^512, `settings/ranges.py` to 4,096 bits."""
OF_CHUNKS = frozenset({"Searched.start", "Searched.stop", "Returned.position", "Progress.chunks"})
"""Compared with the range of a leased chunk before anything follows from them."""
OUR_OWN = frozenset({
    "Begin.epoch", "Restored.jobs", "Restored.parts", "Fitted.matches", "Rating.games", "Looked.at", "PastJob.number",
})  # fmt: skip
"""Counted by the controller itself."""
OF_FILES = frozenset({
    "Sweep.range", "Sweep.min_chunk", "Sweep.max_chunk",  # ranges, as above
    "GpuChoice.only", "GpuChoice.exclude",  # checked by `_names_card`
})  # fmt: skip

SIDES = {
    "minimum": "least", "exclusiveMinimum": "least", "ge": "least", "gt": "least",
    "maximum": "most", "exclusiveMaximum": "most", "le": "most", "lt": "most",
}  # fmt: skip
"""The words of a bound, and which side it is on; those of pydantic stand where a number may be written as a text."""


def unbounded(schema: Mapping[str, Any]) -> Iterator[str]:
    """The names of whole numbers of a schema that lack a bound, as `Record.field`."""
    for name, part in schema.get("$defs", schema.get("components", {}).get("schemas", {})).items():
        for field, told in part.get("properties", {}).items():
            if _is_open(told, frozenset()):
                yield f"{name.removesuffix('-Input').rpartition('__')[2]}.{field}"


def _is_open(schema: Any, around: frozenset[str]) -> bool:
    """Whether some whole number of a schema lacks a bound, beside those that what is around it states."""
    if isinstance(schema, list):
        return any(_is_open(each, around) for each in schema)
    if not isinstance(schema, dict):
        return False
    bounds = around | {SIDES[word] for word in SIDES.keys() & schema.keys()}
    if schema.get("type") == "integer" and not {"enum", "const"} & schema.keys():
        return len(bounds) < 2
    return any(_is_open(each, bounds) for each in schema.values())


def test_each_whole_number_of_an_input_is_bounded() -> None:
    assert set(unbounded(adapter(Input).json_schema())) == RANGES | OF_CHUNKS | OUR_OWN


@pytest.mark.parametrize("name", ["fleet", "jobs"])
def test_each_whole_number_of_a_file_is_bounded(name: str) -> None:
    assert set(unbounded(json.loads((REFERENCE / f"{name}.schema.json").read_text()))) <= OF_FILES


def test_each_whole_number_of_a_body_is_bounded() -> None:
    document = json.loads((REFERENCE / "openapi.json").read_text())
    bodies = {name: part for name, part in document["components"]["schemas"].items() if name.endswith("-Input")}
    assert set(unbounded({"$defs": bodies})) == RANGES
