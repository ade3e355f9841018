"""Every value of the model to JSON and back; nothing unknown gets in, nothing missing is made up."""

from __future__ import annotations

import json
import math
import re
import typing
from dataclasses import MISSING, fields
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pydantic import ValidationError

from hostler.model import codec, commands, inputs
from hostler.model.codec import adapter, error_words
from hostler.model.errors import CorruptState, SpecError
from hostler.model.events import Event
from hostler.model.texts import nul_fault
from hostler.model.work import JobSpec
from tests.model.strategies import JSON, records

EVENTS: tuple[Any, ...] = typing.get_args(typing.get_args(Event)[0])
COMMANDS: tuple[Any, ...] = typing.get_args(commands.Command)
# Wishes look alike without their names, and the envelopes around one are never written.
HOLDERS = (inputs.Asked, inputs.Knowing, inputs.Reported)
INPUTS = [shape for shape in typing.get_args(inputs.Input) if shape not in HOLDERS]
SCRIPT = {"name": "a", "payload": {"kind": "script", "schema": 1, "argv": ["true"]}}

broad = settings(max_examples=4, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


@pytest.mark.parametrize("shape", EVENTS, ids=lambda shape: shape.__name__)
@broad
@given(data=st.data())
def test_an_event_comes_back_as_it_was(shape: Any, data: st.DataObject) -> None:
    event = data.draw(records(shape))
    back = codec.load_event(codec.dump_event(event))
    assert back == event
    assert type(back) is shape
    assert hash(type(back)) == hash(shape)


@pytest.mark.parametrize("shape", [*COMMANDS, *INPUTS], ids=lambda shape: shape.__name__)
@broad
@given(data=st.data())
def test_commands_and_inputs_come_back_as_they_were(shape: Any, data: st.DataObject) -> None:
    value = data.draw(records(shape))
    assert codec.adapter(shape).validate_python(codec.plain(value)) == value
    assert nul_fault(value) is not None or codec.legible(value) is value


@broad
@given(st.lists(records(JobSpec), max_size=3))
def test_specs_come_back_as_they_were(specs: list[JobSpec]) -> None:
    assert codec.load_specs([codec.plain(spec) for spec in specs]) == tuple(specs)
    assert [codec.spec_fault(spec) for spec in specs] == [nul_fault(spec) for spec in specs]


def test_kinds_are_unique() -> None:
    kinds = [shape.__dataclass_fields__["kind"].default for shape in EVENTS]
    assert len(set(kinds)) == len(kinds) > 20


@pytest.mark.parametrize("shape", EVENTS, ids=lambda shape: shape.__name__)
@settings(max_examples=1, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_unknown_and_missing_fields_are_refused_by_name(shape: Any, data: st.DataObject) -> None:
    values = codec.plain(data.draw(records(shape)))
    with pytest.raises(CorruptState, match="surprise"):
        codec.load_event(json.dumps({**values, "surprise": 1}))
    needed = [each.name for each in fields(shape) if each.default is MISSING and each.default_factory is MISSING]
    for name in needed:
        rest = {key: value for key, value in values.items() if key != name}
        with pytest.raises(CorruptState, match=name):
            codec.load_event(json.dumps(rest))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"kind":"nonsense"}', "{}", b"\xff"])
def test_what_is_no_event_is_refused(text: str | bytes) -> None:
    with pytest.raises(CorruptState, match="not an event of this version"):
        codec.load_event(text)


class TestSpecs:
    def test_the_least_there_is(self) -> None:
        (spec,) = codec.load_specs([SCRIPT])
        assert (spec.name, spec.priority, spec.after, spec.work) == ("a", 0, (), "script")

    @pytest.mark.parametrize(
        ("change", "path"),
        [
            ({"nam": "b"}, "jobs[0].nam"),
            ({"name": ""}, "jobs[0].name"),
            ({"name": "x" * 257}, "jobs[0].name"),
            ({"payload": {"kind": "script", "schema": 2, "argv": ["x"]}}, "schema"),
            ({"payload": {"kind": "script", "schema": 1, "argv": []}}, "argv"),
            ({"payload": {"kind": "other"}}, "payload"),
            ({"priority": "high"}, "jobs[0].priority"),
            ({"walltime_s": 0}, "jobs[0].walltime_s"),
            ({"walltime_s": math.inf}, "jobs[0].walltime_s"),
            ({"retry": {"max_attempts": {"boredom": 1}}}, "max_attempts"),
            ({"resources": {"vram_gb": -1}}, "vram_gb"),
            ({"resources": {"device": "tpu"}}, "device"),
        ],
    )
    def test_faults_name_their_place(self, change: dict[str, Any], path: str) -> None:
        with pytest.raises(SpecError, match=re.escape(path)):
            codec.load_specs([{**SCRIPT, **change}])

    def test_many_faults_are_counted(self) -> None:
        with pytest.raises(SpecError, match="and 15 more"):
            codec.load_specs([{"name": "a"}] * 20)
        with pytest.raises(SpecError, match="none was submitted"):
            codec.load_specs({"name": "a"})


class TestCanonicalJson:
    @given(JSON)
    def test_it_does_not_depend_on_the_order_of_keys(self, value: Any) -> None:
        text = codec.canonical_json(value)
        assert text.isascii()
        assert codec.canonical_json(json.loads(text)) == text
        assert codec.canonical_json(reversed_keys(value)) == text

    def test_the_digest_is_that_of_the_text(self) -> None:
        assert codec.canonical_json({"b": [1, 2.5], "a": "ä"}) == '{"a":"\\u00e4","b":[1,2.5]}'
        assert codec.digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        assert codec.digest({"a": 1}) != codec.digest({"a": 2})

    def test_what_is_no_json_has_none(self) -> None:
        with pytest.raises(ValueError, match="not JSON compliant"):
            codec.canonical_json(math.nan)


class TestUnwritable:
    @given(JSON)
    def test_plain_json_can_be_kept(self, value: Any) -> None:
        assert codec.unwritable(value) is None

    @pytest.mark.parametrize("value", [math.nan, math.inf, "\udcff", {"\ud800": 1}, (1, 2), [{"a": [math.nan]}]])
    def test_what_json_has_no_form_for(self, value: Any) -> None:
        assert codec.unwritable(value)

    @pytest.mark.parametrize(("depth", "kept"), [(64, True), (65, False), (5000, False)])
    def test_depth(self, depth: int, kept: bool) -> None:
        value: Any = None
        for _ in range(depth):
            value = [value]
        assert (codec.unwritable(value) is None) is kept


@given(st.text(st.characters()))
def test_legible_text_can_be_written_and_other_text_is_left_alone(text: str) -> None:
    trouble = codec.legible(inputs.Trouble(where="w", what=text))
    trouble.what.encode()
    assert "\0" not in trouble.what
    if not any("\ud800" <= each <= "\udfff" or each == "\0" for each in text):
        assert trouble.what == text


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(each) for each in value] if isinstance(value, list) else value


def test_error_of_a_validation_names_no_types() -> None:
    with pytest.raises(ValidationError) as failed:
        adapter(Event).validate_python({"kind": "job.done", "job": 7})
    assert len(str(failed.value)) > 400
    words = error_words(failed.value)
    assert words.startswith("ValidationError: ")
    assert "tagged-union" not in words
    assert "JobSubmitted" not in words
    assert len(words) < 400


def test_error_of_any_length_is_cut() -> None:
    assert len(error_words(ValueError("x" * 10**6))) == 2000
    assert error_words(KeyError("a")) == "KeyError: 'a'"
