"""The manifest of a snapshot: bytes, digest, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from hostler.model.errors import SpecError
from hostler.snapshots.manifest import SnapshotFile, digest_of, encode, is_path, manifest_of, parse

SHA = "ab" * 32
parts = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda part: part not in (".", "..")
)
trees = st.lists(parts, min_size=1, max_size=3).map(lambda each: "f/" + "/".join(f"{part}." for part in each))


def raw(*rows: object, **more: object) -> bytes:
    return json.dumps({"files": list(rows), "schema": 1, **more}, separators=(",", ":")).encode()


@given(st.sets(trees, max_size=6), st.integers(0, 1 << 40), st.booleans())
def test_manifest_is_read_back_as_it_was(paths: set[str], size: int, executable: bool) -> None:
    paths = {path for path in paths if not any(other.startswith(f"{path}/") for other in paths)}
    made = manifest_of([SnapshotFile(path, SHA, size, executable) for path in paths])
    assert parse(encode(made)) == made


def test_digest_does_not_depend_on_the_order_of_files() -> None:
    one, two = SnapshotFile("a", SHA, 1, False), SnapshotFile("b", "cd" * 32, 2, True)
    assert digest_of(encode(manifest_of([one, two]))) == digest_of(encode(manifest_of([two, one])))
    other = one._replace(executable=True)
    assert digest_of(encode(manifest_of([one]))) != digest_of(encode(manifest_of([other])))


def test_name_that_is_not_utf8_is_kept() -> None:
    made = manifest_of([SnapshotFile("caf\udce9.txt", SHA, 1, False)])
    assert parse(encode(made)) == made


@pytest.mark.parametrize(
    "path", ["", "/a", "a//b", "a/", "./a", "a/../b", "..", "a\0b", "x" * 256, "a/" * 2100 + "a", "\ud800"]
)
def test_path_that_leads_out_of_the_folder_or_cannot_be_is_refused(path: str) -> None:
    assert not is_path(path)
    with pytest.raises(SpecError, match="not a path below its folder"):
        parse(raw([path, SHA, 1, False]))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"files":' + b"[" * 100_000, "cannot be read"),
        (raw(["a", SHA, 1]), "needs path, SHA-256, size, executable"),
        (raw(["a", SHA.upper(), 1, False]), "is not one"),
        (raw(["a", SHA, -1, False]), "needs a size"),
        (raw(["a", SHA, True, False]), "needs a size"),
        (raw(["a", SHA, 1, 1]), "needs a size"),
        (raw(["a", SHA, 1, False], ["a", SHA, 1, False]), "twice"),
        (raw(["a", SHA, 1, False], ["a/b", SHA, 1, False]), "runs through a file"),
        (raw(["b", SHA, 1, False], ["a", SHA, 1, False]), "canonical"),
        (raw(["a", SHA, 1, False], more=1), "canonical"),
        (raw(["a", SHA, 1, False]) + b"\n", "canonical"),
        (b"x" * (13 << 20), "at most"),
    ],
)
def test_manifest_that_is_not_valid_is_refused_with_the_reason(data: bytes, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        parse(data)
