"""Lines are what they should be, all of them, or they are refused; nothing that is written can do more than that."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import (
    binary,
    booleans,
    dictionaries,
    floats,
    integers,
    lists,
    none,
    recursive,
    sampled_from,
    text,
)

from hostler.model.rl_telemetry import Waits
from hostler.web.rl.lines import WORDS_MAX, Calls, Ending, Faulty, Trouble, Update, read
from hostler.workloads.gameboy.shown import NUMBER_MAX
from tests.web.rl.builders import line, told

ANYTHING = recursive(
    none() | booleans() | integers() | floats() | text(max_size=20),
    lambda inner: lists(inner, max_size=5) | dictionaries(text(max_size=8), inner, max_size=5),
    max_leaves=15,
)
NUMBERS_TOO_FAR = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "1e16",
    "9" * 400,
    "9" * 5000,
    "-1",
    '"7"',
    "true",
)


def test_a_line_tells_how_far_it_is() -> None:
    found = read(line(told(3)))
    assert isinstance(found, Update)
    assert (found.steps, found.seconds, found.at, found.steps_asked, found.envs) == (6000, 6.0, 1006.0, 1_000_000, 16)
    assert found.explored == {0: 30, 1: 15, 4: 3}
    assert found.axes == (("room_x", 4), ("room_y", 4))
    assert found.pictures[3].width == 8
    assert found.advice is None
    assert found.update["explained"] is None


def test_what_is_not_told_is_unknown() -> None:
    found = read(b'{"rl": 1, "steps": 0, "seconds": 0, "reward": null, "of": null, "parts": null, "new": [1]}')
    assert isinstance(found, Update)
    assert (found.reward, found.steps_asked, found.updates, found.at, found.spent, found.explored) == (
        None, None, None, None, {}, {},
    )  # fmt: skip


def test_advice_is_numbers_calls_and_words() -> None:
    calls = {"answered": {"calls": 9, "mean_s": 0.5, "longest_s": 2}, "timeout": {"calls": 1}}
    found = read(
        line(told(1, advice={"asked": 10, "success": 0.9, "calls": calls, "trouble": "x" * 5000, "alarm": None}))
    )
    assert isinstance(found, Update)
    assert found.advice is not None
    assert found.advice.numbers == {"asked": 10, "success": 0.9}
    assert found.advice.calls == {"answered": Calls(9, 0.5, 2.0), "timeout": Calls(1, None, None)}
    assert len(found.advice.trouble or "") == WORDS_MAX
    assert found.advice.waits is None


def test_how_long_calls_were_waited_for() -> None:
    waits = {"within": {"0.5": 1, "2.5": 3, "10": 3}, "calls": 4, "seconds": 40}
    found = read(line(told(1, advice={"waits": waits})))
    assert isinstance(found, Update)
    assert found.advice is not None
    assert found.advice.waits == Waits(within=((0.5, 1), (2.5, 3), (10.0, 3)), calls=4, seconds=40.0)


def test_troubles_and_endings_are_lines_of_their_own() -> None:
    assert read(b'{"trouble": "a worker ended"}') == Trouble("a worker ended")
    assert read(b'{"steps": 5, "done": true}') == Ending(done=True)


@pytest.mark.parametrize("other", [b"", b"  ", b"epoch 3", b"[1, 2]", b'"rl"', b"\xff\xfe\0", b'{"loss": 1}', b"{}"])
def test_other_output_is_no_fault(other: bytes) -> None:
    assert read(other) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"rl": 2}, {"rl": True}, {"rl": "1"}, {"rl": None}, {"steps": None}, {"seconds": None}, {"steps": 1.5},
        {"steps": 2**53 + 1}, {"seconds": "1"}, {"reward": [1]}, {"envs": 10**7}, {"at": -1}, {"spent": [1]},
        {"spent": {"emulate": -1}}, {"spent": {"": 1}}, {"spent": {"x" * 101: 1}},
        {"spent": {str(n): 1 for n in range(65)}}, {"parts": {"a": True}}, {"parts": {"a": None}},
        {"shares": {"a": 1.1}},
        {"alarms": "rooms"}, {"alarms": [1]}, {"alarms": [""]}, {"alarms": ["a"] * 65}, {"explored": {"-1": 1}},
        {"explored": {"01": 1}}, {"explored": {"\u0661": 1}}, {"explored": {"65536": 1}}, {"explored": {"1": 0.5}},
        {"explored": [1]}, {"map": 4}, {"map": [4, 4]}, {"map": [["x", 4, 1]]}, {"map": [["x", 0]]},
        {"map": [["x", 300], ["y", 300]]}, {"map": [["x", 1]] * 9}, {"map": [[1, 4]]}, {"pictures": {"0": "iVBOR"}},
        {"pictures": {"0": 7}}, {"pictures": {"1000000": ""}}, {"pictures": {"x": ""}}, {"advice": [1]},
        {"advice": {"asked": "1"}}, {"advice": {"trouble": 1}}, {"advice": {"calls": {"a": 1}}},
        {"advice": {"waits": {"calls": 1}}}, {"advice": {"waits": {"within": {"x": 1}, "calls": 1, "seconds": 1}}},
        {"advice": {"waits": {"within": {"1": 2, "2": 1}, "calls": 2, "seconds": 1}}},
        {"advice": {"waits": {"within": {"1": 2}, "calls": 1, "seconds": 1}}},
        {"advice": {"waits": {"within": {"1": 1, "1.0": 1}, "calls": 1, "seconds": 1}}},
        {"advice": {"waits": {"within": {"0": 1}, "calls": 1, "seconds": 1}}},
        {"advice": {"calls": {"a": {"calls": 1, "mean_s": -1}}}}, {"advice": {"calls": {"a": {}}}},
        {"update": {"loss": {}}},
    ],
)  # fmt: skip
def test_a_line_with_anything_wrong_in_it_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Faulty):
        read(line(told(1, **changes)))


@pytest.mark.parametrize("number", NUMBERS_TOO_FAR)
@pytest.mark.parametrize("key", ["steps", "seconds", "places", "at"])
def test_numbers_are_finite_and_no_larger_than_can_be_shown(key: str, number: str) -> None:
    raw = line(told(1, **{key: "HERE"})).replace(b'"HERE"', number.encode())
    with pytest.raises(Faulty):
        read(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"rl": 1, "steps": 5',
        b'{"rl": 1, "steps": 5, "seconds": 1}}',
        b'{"rl": 1, "steps": 5, "seconds": 1, "alarms": ["\\ud800"]}',
        b'{"rl": 1, "steps": 5, "seconds": 1, "alarms": ["\xff"]}',
        b'{"rl":' * 100_000,
        b"{" + b" " * (1 << 20) + b"}",
        b'{"trouble": 7}',
        b'{"trouble": ""}',
        b'{"done": 1}',
        b'{"done": null}',
    ],
)
def test_what_is_cut_off_or_means_harm_is_refused(raw: bytes) -> None:
    with pytest.raises(Faulty):
        read(raw)


@given(binary(max_size=300))
def test_bytes_of_any_kind_do_no_harm(raw: bytes) -> None:
    for each in (raw, b"{" + raw, line(told(1))[: len(raw)] + raw):
        with suppress(Faulty):
            read(each)


@given(sampled_from([*told(1), "advice", "trouble", "done"]), ANYTHING)
def test_values_of_any_kind_do_no_harm(key: str, value: Any) -> None:
    raw = json.dumps({**told(1), key: value}).encode()
    with suppress(Faulty):
        found = read(raw)
        assert isinstance(found, Update)
        numbers = [found.steps, found.seconds, found.reward, found.places, *found.spent.values(), *found.parts.values()]
        assert all(math.isfinite(each) and abs(each) <= NUMBER_MAX * 10 for each in numbers if each is not None)
        "".join((*found.alarms, *found.parts, *found.update)).encode()


@given(integers(0, 4000))
def test_a_line_cut_anywhere_is_refused_or_other_output(length: int) -> None:
    raw = line(told(1)).rstrip()
    cut = raw[: min(length, len(raw) - 1)]
    with suppress(Faulty):
        assert read(cut) is None
