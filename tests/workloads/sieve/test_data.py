"""Data files: forms, filters, and what is refused by name, line and cure."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.workloads.sieve.data import ALL, Filters, read
from hostler.workloads.sieve.errors import SpecError

from .support import DRAWS

CSV = """draw,time,session
3,2025-11-03T12:00:00,midday
-,2025-11-03T19:00:00,evening
5,2025-11-04T12:00:00,midday
7,2025-11-04T19:00:00,evening
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text", "draws"),
    [
        ("a.txt", "# recorded\n\n12\n-\n0x1f\nnull\n-3\n", [12, None, 31, None, -3]),
        ("a.txt", "0.5\n0\n1e-3", [0.5, 0.0, 0.001]),
        ("a.txt", "a1b2\n1122\n12e4", ["a1b2", "1122", "12e4"]),
        ("a", "[2, 0, 1]\n-\n[0, 1, 2]", [[2, 0, 1], None, [0, 1, 2]]),
        ("a.json", "[1, null, 3]", [1, None, 3]),
        ("a.json", '{"schema": 2, "draws": ["0011", null]}', ["0011", None]),
        ("a.json", '{"schema": 2, "draws": [{"draw": 0.25}, {"draw": null}]}', [0.25, None]),
        ("a.jsonl", '{"draw": 1}\n# hole\n{"draw": null}\n', [1, None]),
        ("a.csv", "draw\r\n012\r\n13\r\n", [12, 13]),
        ("a.csv", '\ufeffdraw\n"[1, 0]"\n', [[1, 0]]),
    ],
)
def test_forms(tmp_path: Path, name: str, text: str, draws: list[Any]) -> None:
    recording = read(write(tmp_path, name, text))
    assert list(recording.draws) == draws
    assert [type(draw) for draw in recording.draws] == [type(draw) for draw in draws]
    assert recording.sha256 == hashlib.sha256(text.encode()).hexdigest()


@given(st.lists(st.one_of(st.none(), st.integers()), min_size=1).filter(lambda draws: set(draws) != {None}))
def test_every_form_gives_the_draws_back(tmp_path_factory: pytest.TempPathFactory, draws: list[int | None]) -> None:
    folder = tmp_path_factory.mktemp("forms")
    texts = ["-" if draw is None else str(draw) for draw in draws]
    write(folder, "a.txt", "\n".join(texts))
    write(folder, "a.csv", "\n".join(["draw", *texts]))
    write(folder, "a.json", json.dumps({"schema": 2, "draws": draws}))
    write(folder, "a.jsonl", "\n".join(json.dumps({"draw": draw}) for draw in draws))
    for path in folder.iterdir():
        assert list(read(path).draws) == draws


def test_floats_keep_every_digit(tmp_path: Path) -> None:
    digits = ["0.1", "0.30000000000000004", "5e-324", "0.9999999999999999"]
    assert [repr(draw) for draw in read(write(tmp_path, "a.txt", "\n".join(digits))).draws] == digits


def test_the_files_of_schema_1_are_read() -> None:
    recording = read(DRAWS / "java.json")
    assert recording.says["output"] == {"kind": "bound", "bound": 1000}
    assert recording.draws[0] == 58
    assert recording.kept == "java.json: 12 draws"


def test_digits_can_be_told_to_be_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "1122\n3344")
    assert read(path).draws == (1122, 3344)
    assert read(path, hexadecimal=True).draws == ("1122", "3344")


@pytest.mark.parametrize(
    ("filters", "draws", "kept"),
    [
        (ALL, (3, None, 5, 7), "a.csv: 4 draws; 1 of them unknown"),
        (
            Filters(sessions=("midday",)),
            (3, 5),
            "a.csv: 2 of 4 draws: session midday (others dropped)",
        ),
        (
            Filters(sessions=("midday",), others="unknown"),
            (3, None, 5, None),
            "a.csv: 4 of 4 draws: session midday (others unknown); 2 of them unknown",
        ),
        (Filters(until="2025-11-03"), (3, None), "a.csv: 2 of 4 draws: until 2025-11-03; 1 of them unknown"),
        (Filters(since="2025-11-04"), (5, 7), "a.csv: 2 of 4 draws: since 2025-11-04"),
        (Filters(since="2025-11-04T13:00:00"), (7,), "a.csv: 1 of 4 draws: since 2025-11-04T13:00:00"),
        (Filters(window=(2, 2)), (5, 7), "a.csv: 2 of 4 draws: window 2..3"),
        (
            Filters(sessions=("midday",), window=(1, 1)),
            (5,),
            "a.csv: 1 of 4 draws: session midday (others dropped), window 1..1",
        ),
    ],
)
def test_filters(tmp_path: Path, filters: Filters, draws: tuple[Any, ...], kept: str) -> None:
    recording = read(write(tmp_path, "a.csv", CSV), filters)
    assert recording.draws == draws
    assert recording.kept == kept
    assert recording.times is not None
    assert recording.sessions is not None
    assert len(recording.times) == len(recording.sessions) == len(draws)


def test_filters_come_from_json() -> None:
    given = {"sessions": ["midday"], "since": "2025-11-03", "window": [0, 5], "others": "unknown"}
    assert Filters.parse(given) == Filters(("midday",), "2025-11-03", None, (0, 5), "unknown")
    assert Filters.parse({}) == ALL


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([], "is no object"),
        ({"session": ["a"]}, "unknown session; allowed are sessions"),
        ({"sessions": "midday"}, "list of names"),
        ({"window": [1]}, "two integers"),
        ({"window": [-1, 5]}, "from 0"),
        ({"window": [0, 0]}, "from 1 up"),
        ({"since": 2025}, "in quotes"),
        ({"others": "skip"}, "drop or unknown"),
    ],
)
def test_filters_that_are_wrong(given: Any, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        Filters.parse(given)


@pytest.mark.parametrize(
    ("filters", "complaint"),
    [
        (Filters(sessions=("middai",)), "did you mean 'midday'"),
        (Filters(window=(3, 2)), "of the 4 that are there"),
        (Filters(since="2026-01-01"), "no draw lies there; the file goes from 2025-11-03"),
        (Filters(since="monday"), "is no ISO time"),
        (Filters(since="2025-11-03T12:00:00+00:00"), "they have none"),
        (Filters(window=(1, 1)), "no known draw is left of 4"),
    ],
)
def test_filters_that_do_not_fit_the_file(tmp_path: Path, filters: Filters, complaint: str) -> None:
    with pytest.raises(SpecError, match=f"a.csv: .*{complaint}"):
        read(write(tmp_path, "a.csv", CSV), filters)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.txt", "1\n2 3\n", "line 2: '2 3' is no draw"),
        ("a.txt", "1\n\n3", "line 2: is empty; write - "),
        ("a.txt", "1\n1_000", "line 2"),
        ("a.txt", "1\nnan", "line 2"),
        ("a.txt", "1\n0.5", "line 2: 0.5 is a float"),
        ("a.txt", "0.5\n1e999", "line 2: 1e999 is larger"),
        ("a.txt", "a1b2\n5", "line 2: '5' is no bytes"),
        ("a.txt", "", "holds no draws"),
        ("a.txt", "-\n-", "no known draw"),
        ("a.txt", "9" * 5000, "5000 digits"),
        ("a.csv", "draw,prize\n1,2", "line 1: unknown prize.*ignore"),
        ("a.csv", "number\n1", "no column draw"),
        ("a.csv", "draw;time\n1;2", "commas"),
        ("a.csv", "draw,draw\n1,2", "twice"),
        ("a.csv", "draw,session\n1,a\n2\n", "line 3: has 1 fields, not 2"),
        ("a.csv", "draw,session\n1,\n", "line 2: session: '' is no name"),
        ("a.csv", "draw,session\n,a\n", "line 2: '' is no draw"),
        ("a.csv", 'draw\n"1\n', "no CSV"),
        ("a.csv", "draw,time\n1,yesterday", "line 2: time: 'yesterday' is no ISO time"),
        ("a.csv", "draw,time\n1,2025-11-04\n2,2025-11-03\n3,2025-11-05", "line 3: .*sort the file by time"),
        ("a.csv", "draw,time\n1,2025-11-04\n2,2025-11-03", "line 3: .*turn the file round"),
        ("a.csv", "draw,time\n1,2025-11-04\n2,2025-11-05T00:00Z", "all of them alike"),
        ("a.json", "[1,\n2", "line 2: is no JSON text"),
        ("a.json", '{"draw": 1}\n{"draw": 2}', "name the file .jsonl"),
        ("a.json", "5", "not int"),
        ("a.json", "[NaN]", "NaN is no number"),
        ("a.json", "[true]", r"draws\[0\]: True is no draw"),
        ("a.json", '[1, "0.5"]', r"draws\[1\]: '0.5' is no draw"),
        ("a.json", '[1, "ab"]', r"draws\[1\]: 'ab' is a hexadecimal text"),
        ("a.json", '{"schema": 3, "draws": [1]}', "schema: 3 is not supported"),
        ("a.json", '{"schema": 2, "draws": [1], "skip": 1}', "unknown skip"),
        ("a.json", '{"schema": 2, "draws": [1], "draws": [2]}', "'draws' stands twice"),
        ("a.json", '{"schema": 2, "draws": [1], "output": {}}', "generator: missing"),
        ("a.json", '{"schema": 1, "draws": [1]}', "missing generator, output, provenance"),
        ("a.json", '{"schema": 2, "draws": [{"draw": 1}, 2]}', r"draws\[1\]: must be an object"),
        ("a.jsonl", '{"draw": 1}\n{"draw": 2, "session": "a"}', "line 2: session stands in some rows only"),
        ("a.jsonl", '{"value": 1}', "line 1: unknown value"),
        ("a.jsonl", '{"draw": 1}\n{"draw":', "line 2: is no JSON text"),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=f"(?s){name}: .*{complaint}"):
        read(write(tmp_path, name, text))


def test_columns_to_ignore(tmp_path: Path) -> None:
    assert read(write(tmp_path, "a.csv", "draw,prize\n1,2"), ignore=["prize"]).draws == (1,)
    assert read(write(tmp_path, "a.jsonl", '{"draw": 1, "x": 2}\n{"draw": 2}'), ignore=["x"]).draws == (1, 2)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"1\n\xff\n")
    with pytest.raises(SpecError, match="line 2: is no UTF-8"):
        read(path)
    with pytest.raises(SpecError, match="cannot be read"):
        read(tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.txt", "[2, 0, 01]", "line 1: .* is no draw"),
        ("a.txt", f"[{'1' * 5000}]", "line 1: .* is no draw"),
        ("a.json", "[0.5, 1e999]", r"draws\[1\]: inf is no draw"),
        ("a.json", f"[{'1' * 5000}]", "an integer of 5000 digits is none that a generator gives"),
        ("a.jsonl", f'{{"draw": {"1" * 5000}}}', "line 1: .* 5000 digits"),
        ("a.csv", "draw\n-\n", "no known draw is left of 1; record some"),
    ],
)
def test_numbers_that_no_generator_gives(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        read(write(tmp_path, name, text))


def test_a_path_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        read(tmp_path / "a\0b")
