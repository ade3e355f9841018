"""Searches for seeds from the command line: parts of ranges, controls, keys."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.cli.sieving import (
    Search,
    Who,
    key_of,
    narrowed,
    part_of,
    searches,
    searches_of_all,
    sweeps_of,
)
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
    search = Search("java-random", "nextInt(1000)", PARAMS, (0, 10))
    asked, control = sweeps_of(search, {"name": "sieve"}, None, control=True)
    assert (asked["key"], asked["range"], asked["program"]) == (key, [0, 10], "sieve")
    assert (control["name"], control["key"]) == ("sieve-control", f"{key}-control")
    assert control["params"]["draws"] != asked["params"]["draws"]
    (alone,) = sweeps_of(search, {"name": "sieve"}, "mine", control=False)
    assert alone["key"] == "mine"


def test_a_search_is_made_of_each_file_and_what_is_said_beside_it(tmp_path: Path) -> None:
    for name, draws in (("one.txt", "1\n2\n3\n4\n"), ("two.txt", "5\n6\n")):
        (tmp_path / name).write_text(draws)
    one, two = searches([Path("one.txt"), Path("two.txt")], "java", "nextInt(1000)", {}, tmp_path)
    assert one == Search("java-random", "nextInt(1000)", PARAMS, (0, 1 << 48))
    assert two.params["draws"] == [5, 6]
    with pytest.raises(UsageError, match="cannot be read"):
        searches([Path("none.txt")], "java", "nextInt(1000)", {}, tmp_path)


def test_all_generators_are_asked_by_their_usual_calls_and_by_what_is_said_of_skips(tmp_path: Path) -> None:
    (tmp_path / "draws.txt").write_text("1\n6\n3\n")
    found, left = searches_of_all([Path("draws.txt")], "1:6", {"skip": [0, 3]}, tmp_path)
    assert not left
    assert {"php-mt_rand", "java-random", "v8-random", "numpy-pcg64"} <= {each.generator for each in found}
    assert all(each.params["skip"] == [0, 3] and each.items > 1 << 30 for each in found)
    shifted = next(each for each in found if each.generator == "java-random" and "nextInt" in each.calls)
    assert (shifted.calls, shifted.params["draws"]) == ("nextInt(6) + 1", [0, 5, 2])


@pytest.mark.parametrize(
    ("draws", "values", "told"),
    [
        ("1\n7\n", "1:6", "draws"),
        ("0.5\n0.25\n", "0:1", "no integer"),
        ("1\n2\n", None, "give values, LOW:HIGH"),
        ("1\n2\n", "6:1", "fewer than two"),
        ("1\n2\n", "1-6", "write LOW:HIGH"),
    ],
)
def test_what_nobody_can_be_asked_is_refused(tmp_path: Path, draws: str, values: str | None, told: str) -> None:
    (tmp_path / "draws.txt").write_text(draws)
    with pytest.raises(UsageError, match=told):
        searches_of_all([Path("draws.txt")], values, {}, tmp_path)


def test_all_generators_are_asked_of_what_filters_and_columns_leave(tmp_path: Path) -> None:
    (tmp_path / "draws.csv").write_text("draw,session,id\n1,a,7\n6,b,8\n3,a,9\n")
    how = {"filters": {"sessions": ["a"]}, "ignore": ["id"]}
    found, _ = searches_of_all([Path("draws.csv")], "1:6", how, tmp_path)
    assert next(each for each in found if each.generator == "php-mt_rand").params["draws"] == [1, 3]
    with pytest.raises(UsageError, match="sessions: 7: must be a list"):
        searches_of_all([Path("draws.csv")], "1:6", {"filters": {"sessions": 7}}, tmp_path)


def test_a_range_is_cut_to_what_there_is_only_where_many_are_asked() -> None:
    search = Search("x", "next()", PARAMS, (0, 100))
    assert narrowed(search, (50, 200), None, clipped=True) == Search("x", "next()", PARAMS, (50, 100))
    assert narrowed(search, (100, 200), None, clipped=True) is None
    assert narrowed(search, (50, 200), "2/3") == Search("x", "next()", PARAMS, (100, 150))


def test_generator_options_that_conflict_are_refused() -> None:
    with pytest.raises(UsageError, match="leave out --generator"):
        Who("php8", None, True, None, 1.0)
    with pytest.raises(UsageError, match="goes with --all-generators"):
        Who("php8", "rand()", False, "1:6", 1.0)
