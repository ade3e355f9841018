"""Values of environment variables in answers to readers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from hostler.model import codec
from hostler.model.work import ScriptPayload
from hostler.web.hiding import HIDDEN, answer_reader, shown


@pytest.fixture(autouse=True)
def reader() -> Iterator[None]:
    answer_reader(True)
    yield
    answer_reader(False)


@given(st.dictionaries(st.text(min_size=1).filter(lambda name: "\0" not in name), st.text()), st.text())
def test_readers_see_names_and_all_else(env: dict[str, str], other: str) -> None:
    payload = ScriptPayload(schema=1, argv=("x", other, '"env":{"A":"b"}'), env=env, cwd=other)
    told = json.loads(shown(codec.adapter(ScriptPayload).dump_json(payload)))
    whole = codec.plain(payload)
    assert told.pop("env") == dict.fromkeys(env, HIDDEN)
    whole.pop("env")
    assert told == whole


def test_nested_and_spaced_objects_are_hidden_and_numbers_stay() -> None:
    data = b'[{"env": {"A": "x", "B": null}, "n": 123456789012345678901234567890}, {"env":3}, {"env":{"A":"\\"}"}}]'
    assert shown(data) == (
        b'[{"env": {"A": "(hidden)", "B": null}, "n": 123456789012345678901234567890}, {"env":3}, '
        b'{"env":{"A":"(hidden)"}}]'
    )


def test_operators_see_values() -> None:
    answer_reader(False)
    assert shown(b'{"env":{"A":"x"}}') == b'{"env":{"A":"x"}}'
