"""Searches for seeds from the command line: parts of ranges, controls, keys."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.cli.sieving import all_items, key_of, part_of, question, with_control
from hostler.model.errors import UsageError

PARAMS: dict[str, Any] = {
    "schema": 1,
    "generator": "java-random",
    "output": {"kind": "bound", "bound": 1000},
    "draws": [1, 2, 3, 4],
    "skip": 0,
}


@given(start=st.integers(0, 2**64), size=st.integers(50, 2**64), parts=st.integers(1, 50))
def test_parts_are_the_range_and_none_overlap(start: int, size: int, parts: int) -> None:
    found = [part_of((start, start + size), f"{i}/{parts}") for i in range(1, parts + 1)]
    assert (found[0][0], found[-1][1]) == (start, start + size)
    assert all(one[1] == other[0] for one, other in pairwise(found))
    sizes = [stop - begin for begin, stop in found]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("words", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", "1/3/5", ""])
def test_what_is_no_part_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="is no part; write I/N"):
        part_of((0, 10), words)


def test_a_range_has_no_more_parts_than_items() -> None:
    with pytest.raises(UsageError, match="has no 11 parts"):
        part_of((0, 10), "1/11")


def test_the_same_question_has_the_same_key_and_its_control_another() -> None:
    key = key_of("sieve", PARAMS, (0, 10))
    assert key == key_of("sieve", dict(reversed(PARAMS.items())), (0, 10))
    assert key != key_of("sieve", {**PARAMS, "skip": 1}, (0, 10))
    asked, control = with_control({"name": "sieve", "key": key, "params": PARAMS})
    assert (control["name"], control["key"]) == ("sieve-control", f"{key}-control")
    assert control["params"]["draws"] != asked["params"]["draws"]


def test_a_question_is_made_of_a_file_and_what_is_said_beside_it(tmp_path: Path) -> None:
    (tmp_path / "draws.txt").write_text("1\n2\n3\n4\n")
    made = question(Path("draws.txt"), "java", "nextInt(1000)", {}, tmp_path)
    assert made == PARAMS
    assert all_items(made) == (0, 1 << 48)
    with pytest.raises(UsageError, match="cannot be read"):
        question(Path("none.txt"), "java", "nextInt(1000)", {}, tmp_path)
