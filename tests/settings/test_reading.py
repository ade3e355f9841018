"""YAML to values with their places."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.errors import SettingsError
from hostler.model.schemas import show
from hostler.settings.reading import MAX_DEPTH, Origin, grafted, read_file, read_text, uniform

# Beyond U+FFFF, JSON may write surrogate pairs, which are no YAML; a NUL is refused.
TEXTS = st.text(st.characters(codec="utf-8", min_codepoint=1, max_codepoint=0xFFFF), max_size=20)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**1200), 2**1200) | st.floats(allow_nan=False, allow_infinity=False)
)
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=40)
@given(JSON_VALUES)
def test_json_is_read_as_json(value: Any) -> None:
    assert read_text(json.dumps(value), "x").value == value
    assert read_text(json.dumps(value, indent="\t"), "x").value == value


@settings(max_examples=40)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_its_source(text: str) -> None:
    try:
        said = str(read_text(text, "x.yaml").values[()])
    except SettingsError as error:
        said = str(error)
    assert said.startswith("x.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("012", 12),
        ("0x1F", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        (".5", 0.5),
        (".", "."),
        (".inf", ".inf"),
        ("9" * 4000, int("9" * 4000)),
        ("~", None),
        ("true", True),
        ("'true'", "true"),
        ("2**32", "2**32"),
        ("|\n  a\n  b\n", "a\nb\n"),
    ],
)
def test_scalars_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    found = read_text(f"a: {text}", "x").value["a"]
    assert found == value
    assert type(found) is type(value)


def test_every_value_and_key_has_its_place() -> None:
    tree = read_text("a:\n  - b: é\n    çc: [1, 2]\n", "x.yaml")
    assert str(tree.values["a", 0]) == "x.yaml:2:5"
    assert str(tree.keys["a", 0, "çc"]) == "x.yaml:3:5"
    assert str(tree.values["a", 0, "çc", 1]) == "x.yaml:3:13"
    assert tree.at(("a", 0, "missing")) == tree.values["a", 0]
    assert tree.key(("a", 0)) == tree.values["a", 0]
    assert str(tree.wrapped("jobs").values["jobs", "a", 0]) == "x.yaml:2:5"


BOMB = "a: &a [x, x]\n" + "\n".join(f"{b}: &{b} [*{a}, *{a}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True))


@pytest.mark.parametrize(
    ("data", "place", "message"),
    [
        (b"", "", "is empty"),
        (b"# nothing\n", "", "is empty"),
        (b"a:\n\tb: 1\n", ":2:1", "a tab cannot indent"),
        (b"a:\n  b: \xff\n", ":2:6", "byte 0xff is no UTF-8"),
        ("é\né\0".encode(), ":2:2", r"holds the character '\\x00'"),
        (b"a: b: c", ":1:5", "mapping values are not allowed"),
        (b"a: [1,\n", ":2:1", "is no YAML"),
        (b'a: "x', ":1:6", "is no YAML"),
        (b"a: 1\nb: 2\na: 3\n", ":3:1", "a: is written twice; the first is in line 1"),
        (b"a:\n- b: 1\n  b: 1\n", ":3:3", r"a\[0\].b: is written twice"),
        (b"1: x", ":1:1", "keys are texts; 1 is none"),
        (b"true: x", ":1:1", "keys are texts; True is none"),
        (b"? [a]\n: b", ":1:3", "keys are texts"),
        (b"a: *b", ":1:4", "anchors and aliases"),
        (BOMB.encode(), ":1:4", "anchors and aliases"),
        (b"<<: *b", ":1:5", "anchors and aliases"),
        (b"a: !!python/object/apply:os.system [x]", ":1:4", "tags are not supported"),
        (b"a: 1\n---\nb: 1\n", ":2:1", "a second document begins"),
        (b"a: 1e999", ":1:4", "the number is too big"),
        (b"a: -1e999", ":1:4", "the number is too big"),
        (b"a: " + b"1" * 10_000, ":1:4", "a number of 10000 digits is too long"),
        (b"[" * 100_000, f":1:{MAX_DEPTH + 1}", "nested more than"),
        (b"{a: " * 100, ":1:129", "nested more than"),
        (b'"\\ud83d\\ude00"', ":1:4", "is no YAML: found invalid Unicode"),
    ],
)
def test_a_fault_is_told_with_its_place(tmp_path: Path, data: bytes, place: str, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(data)
    with pytest.raises(SettingsError, match=message) as caught:
        read_file(path)
    assert str(caught.value).startswith(f"{path}{place}: ")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.yaml: cannot be read"):
        read_file(tmp_path / "nowhere.yaml")
    with pytest.raises(SettingsError, match="cannot be read"):
        read_file(tmp_path)


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes("a: 1".encode("utf-8-sig"))
    assert read_file(path).value == {"a": 1}


def test_grafting_replaces_a_branch_and_its_places() -> None:
    tree = read_text("a: {b: [1, 2], c: 3}", "x.yaml")
    new = grafted(tree, ("a", "b"), uniform([9], Origin("env")))
    assert new.value == {"a": {"b": [9], "c": 3}}
    assert tree.value["a"]["b"] == [1, 2]
    assert str(new.values["a", "b", 0]) == "env"
    assert ("a", "b", 1) not in new.values
    assert str(new.values["a", "c"]) == "x.yaml:1:19"


def test_grafting_makes_what_is_missing_and_leaves_faults_alone() -> None:
    assert grafted(uniform({}, Origin("x")), ("a", "b"), uniform(1, Origin("env"))).value == {"a": {"b": 1}}
    assert grafted(read_text("a: 5", "x"), ("a", "b"), uniform(1, Origin("env"))).value == {"a": 5}


def test_paths_are_shown_as_people_write_them() -> None:
    assert show(("nodes", 0, "env", "A")) == "nodes[0].env.A"


@pytest.mark.parametrize("text", [r'{"a": "x\0"}', r'{"a\0": 1}', r'["\x00"]'])
def test_text_with_nul_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(SettingsError, match=r"x:1:\d+: the text contains a NUL character"):
        read_text(text, "x")


def test_path_of_any_length_is_shown_in_one_short_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        read_file(tmp_path / ("a\nb" + "x" * 70_000))
    assert len(str(refused.value)) < 700
    assert "\n" not in str(refused.value)
