"""Faults in Hostler's words: a rule for each kind, and paths with the keys of the value."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import pytest
from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import PydanticKnownError
from pydantic_core.core_schema import ErrorType

from hostler.model import codec
from hostler.model.faults import NOT_VALID, OWN_WORDS, RULES, UNSEEN, faults_in, found_by, rule_of, unknown
from hostler.model.schemas import keys_at, show
from hostler.model.work import JobSpec, ScriptPayload

KINDS = get_args(ErrorType)
CONTEXT: dict[str, Any] = {
    **dict.fromkeys(("gt", "ge", "lt", "le"), 1.0),
    **dict.fromkeys(("min_length", "max_length", "actual_length", "multiple_of", "max_digits", "decimal_places"), 3),
    **dict.fromkeys(("whole_digits", "expected_version", "tz_expected", "tz_actual"), 3),
    **dict.fromkeys(
        ("pattern", "error", "tag", "discriminator", "class", "class_name", "encoding", "method_name"), "x"
    ),
    **dict.fromkeys(("attribute", "encoding_error", "expected_schemes"), "x"),
    "field_type": "Tuple",
    "expected": "'a' or 'b'",
    "expected_tags": "'a', 'b'",
}


def faults_of(shape: Any, value: Any) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(shape).validate_python(value)
    return codec.fault_lines(caught.value, value, None)


def test_rules_are_for_kinds_that_exist() -> None:
    assert set(RULES) <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_no_rule_is_the_text_of_pydantic(kind: Any) -> None:
    theirs = PydanticKnownError(kind, CONTEXT).message()
    said = rule_of({"type": kind, "loc": (), "msg": theirs, "input": 1, "ctx": CONTEXT})
    assert said == "x" if kind in OWN_WORDS else said != theirs
    assert "Input" not in said
    assert kind in RULES or kind in OWN_WORDS or said == NOT_VALID


@pytest.mark.parametrize(
    ("shape", "value", "said"),
    [
        (dict[str, int | dict[str, int]], {"a": "x"}, "a: should be a valid integer or a mapping (found 'x')"),
        (dict[str, int | dict[str, int]], {"a": {"b": "x"}}, "a.b: should be a valid integer (found 'x')"),
        (tuple[int, ...], ["x"], "[0]: should be a valid integer (found 'x')"),
        (Annotated[list[int], Field(min_length=2)], [1], "the whole: the list should have at least 2 items, not 1"),
        (Annotated[dict[str, int], Field(max_length=1)], {"a": 1, "b": 1}, "the mapping should have at most 1 item, n"),
        (Annotated[str, Field(max_length=1)], "ab", "the text should have at most 1 character (found 'ab')"),
        (Annotated[float, Field(ge=0.5)], 0, "should be greater than or equal to 0.5 (found 0)"),
        (Annotated[float, Field(ge=1.0)], 0, "should be greater than or equal to 1 (found 0)"),
        (None, 1, "should be null (found 1)"),
        (bool, None, "should be a valid boolean (found nothing)"),
    ],
)
def test_a_fault_is_said_with_its_place(shape: Any, value: Any, said: str) -> None:
    (line,) = faults_of(shape, value)
    assert said in line


def test_a_key_with_the_name_of_an_alternative_is_told_from_it() -> None:
    value = {"name": "a", "payload": {"kind": "script", "schema": 1, "script": {"argv": 1}}}
    lines = faults_of(JobSpec, value)
    assert lines == ["payload.argv: is missing", "payload.script: is not a field here"]
    value["payload"] = {"kind": "script", "schema": 1, "argv": [], "script": {"argv": 1}}
    assert faults_of(JobSpec, value)[0] == "payload.argv: the list should have at least 1 item, not 0 (found [])"


def test_a_field_that_chooses_between_alternatives_is_named() -> None:
    names = "'script', 'sweep', 'selfplay', 'training', 'evaluation' or 'export'"
    assert faults_of(JobSpec, {"name": "a", "payload": {}}) == ["payload.kind: is missing"]
    assert faults_of(JobSpec, {"name": "a", "payload": {"kind": "x"}}) == [
        f"payload.kind: should be {names} (found 'x')"
    ]
    assert faults_of(JobSpec, {"name": "a", "payload": 1}) == ["payload: should be a mapping (found 1)"]


def test_fields_that_are_known_are_those_of_the_alternative() -> None:
    schema = TypeAdapter(JobSpec).json_schema()
    script = {"payload": {"kind": "script"}}
    assert keys_at(schema, ("payload",), script) == tuple(ScriptPayload.__dataclass_fields__)
    assert "start" in keys_at(schema, ("payload",))
    assert keys_at(schema, ("nothing", 0)) == ()


def test_an_unknown_key_says_what_was_meant() -> None:
    assert unknown("nmae", ("name", "key"), "is no x") == "is no x; did you mean 'name'? (allowed here: name, key)"
    assert unknown("depends_on", ("after",), "is no x") == "is no x; write `after` (allowed here: after)"
    many = tuple(f"k{i}" for i in range(70))
    assert unknown("z", many, "is no x").endswith("k58, k59, and 10 more)")


def test_a_value_is_shown_in_few_characters() -> None:
    assert len(found_by({"type": "string_too_long", "loc": (), "input": "x" * 10**6})) < 100
    assert len(found_by({"type": "literal_error", "loc": (), "input": [["x" * 100] * 100] * 100})) < 300
    assert "more than 4300 digits" in found_by({"type": "less_than", "loc": (), "input": 10**5000})


def test_without_the_value_places_are_those_of_pydantic() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(JobSpec).validate_python({"name": "a", "payload": {"kind": "script", "schema": 1, "argv": 1}})
    assert [show(path) for path in faults_in(caught.value, UNSEEN)] == ["payload.script.argv"]
    assert "payload.script.argv: should be a list" in codec.explain(caught.value)


def test_rule_that_repeats_a_long_value_is_cut_and_keeps_its_end() -> None:
    fault = {
        "type": "value_error",
        "ctx": {"error": ValueError(f"{'x' * 70_000!r} is no option; write each as one word")},
    }
    assert len(rule_of(fault)) < 1100
    assert rule_of(fault).endswith("is no option; write each as one word")
