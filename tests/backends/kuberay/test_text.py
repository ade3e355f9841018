"""YAML that every reader reads the same."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import example, given, settings, strategies as st

from hostler.backends.kuberay.text import stream, written

WORDS = st.text(max_size=60).filter(lambda text: yaml.reader.Reader.NON_PRINTABLE.search(text) is None)
VALUES = st.recursive(
    st.one_of(WORDS, st.integers(), st.booleans()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=30)
@given(st.dictionaries(WORDS, VALUES, max_size=5))
@example({"a": "\n\x85", "b": "\n\u2028", "c": "x\r\ny", "d": "\n\u2029 z"})
def test_what_is_written_is_read_again(value: dict[str, object]) -> None:
    assert yaml.safe_load(written(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "1e3",
        "0x10",
        "0o17",
        "017",
        "12:30",
        "1_000",
        ".5",
        "yes",
        "N",
        "on",
        "null",
        "~",
        "",
        "2026-01-01",
        "- a",
        "=",
        "<<",
    ],
)
def test_texts_that_readers_of_other_versions_take_for_something_else_are_quoted(text: str) -> None:
    assert re.fullmatch(r'a: (".*"|\'.*\')\n', written({"a": text}))


def test_words_and_addresses_stay_as_they_are() -> None:
    assert written({"image": "registry.example.org/rl:v1", "kind": "RayJob"}) == (
        "image: registry.example.org/rl:v1\nkind: RayJob\n"
    )


def test_the_same_object_twice_is_written_twice() -> None:
    labels = {"a": "b"}
    assert "&" not in written({"one": labels, "two": labels})


def test_a_stream_has_a_document_for_each() -> None:
    manifests = [{"a": 1}, {"b": "x\ny\n"}]
    assert list(yaml.safe_load_all(stream(manifests))) == manifests
