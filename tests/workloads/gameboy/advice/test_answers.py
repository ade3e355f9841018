"""Answers: what keeps to the schema is advice, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.gameboy.advice.answers import PROMISES, Advice, Garbage, read_answer, schema
from tests.workloads.gameboy.advice.stub import completion

ACTIONS = ("noop", "up", "a")


@given(st.sampled_from(ACTIONS), st.sampled_from(PROMISES))
def test_whatever_the_schema_allows_is_advice(action: str, promise: float) -> None:
    answer = {"action": action, "promise": promise}
    jsonschema_rs.validate(schema(ACTIONS), answer)
    assert read_answer(completion(json.dumps(answer)), ACTIONS) == Advice(ACTIONS.index(action), promise)


@pytest.mark.parametrize(
    "content",
    [
        "go EAST to the tree",
        "",
        "[]",
        "null",
        '{"action": "up"}',
        '{"action": "start", "promise": 0.5}',
        '{"action": ["up"], "promise": 0.5}',
        '{"action": "up", "promise": 1.5}',
        '{"action": "up", "promise": NaN}',
        '{"action": "up", "promise": true}',
        '{"action": "up", "promise": "0.5"}',
        '{"action": "up", "promise": 0.5, "why": "because"}',
        '{"action": "up", "promise": 0.5',
        "[" * 100_000,
    ],
)
def test_what_does_not_match_is_garbage(content: str) -> None:
    with pytest.raises(Garbage):
        read_answer(completion(content), ACTIONS)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"{}", b'{"choices": []}', b'{"choices": [{"message": {"content": null}}]}']
)
def test_what_is_no_completion_is_garbage(body: bytes) -> None:
    with pytest.raises(Garbage, match="no chat completion"):
        read_answer(body, ACTIONS)


@settings(max_examples=30)
@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(
        lambda each: json.dumps(each).encode()
    )
)
def test_anything_at_all_is_advice_or_garbage(body: Any) -> None:
    with pytest.raises(Garbage):
        read_answer(body, ACTIONS)
