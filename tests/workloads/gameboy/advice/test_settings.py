"""The section `advice`: what may stand there, and what the model is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.workloads.gameboy.advice.settings import Shaping, check, read_advice, token
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.strict import SpecError
from tests.workloads.gameboy.advice.asking import asking, section


def test_what_a_section_says_is_read() -> None:
    asked = asking(rests={"after": 2}, alarm={"calls": 7}, at_once=4, key="TOKEN")
    assert (asked.of, asked.at_once, asked.key) == (("room_x", "room_y", "taken"), 4, "TOKEN")
    assert (asked.rests.after, asked.rests.first_s, asked.alarm.calls, asked.alarm.share) == (2, 5.0, 7, 0.8)
    assert asked.shaping == Shaping(weight=500_000, cap=4_000_000, decay_updates=10)
    assert (asked.width(7), asking(observe=False).width(7)) == (8, 0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"url": "llm:8000"}, "url has to be like http://"),
        ({"url": "http://somebody:secret@llm/v1"}, "without anything secret"),
        ({"url": "http://llm/v1?key=secret"}, "without anything secret"),
        ({"modle": "x"}, "training.advice.modle is nothing that is known"),
        ({"of": None}, "training.advice.of is missing"),
        ({"calls_per_s": 0}, "calls_per_s has to be a number from 0.001"),
        ({"observe": False, "shaping": None}, "nobody would make anything of it"),
        ({"timeout_s": 20, "stale_s": 10}, "timeout_s is more than stale_s"),
        ({"prompt": "Room {room_x}"}, r"of: the prompt does not say \{room_y\}"),
        ({"prompt": "{room_x}{room_y}{taken}{keys}"}, r"prompt: \{keys\} is not in `of`"),
        ({"prompt": "{room_x.__class__}{room_y}{taken}"}, r"prompt: \{room_x.__class__\} is not in `of`"),
        ({"prompt": "{room_x:5}{room_y}{taken}"}, "has to be a name, and nothing else"),
        ({"prompt": "{room_x"}, "braces that mean themselves are doubled"),
        ({"shaping": {"weight": 2, "cap": 1, "decay_updates": 3}}, "cap is less than the weight"),
        ({"shaping": {"weight": 2, "cap": 3}}, "shaping.decay_updates is missing"),
        ({"shaping": {"weight": 1e-7, "cap": 3, "decay_updates": 1}}, "no more than six digits"),
        ({"rests": {"first_s": 9, "longest_s": 8}}, "rests.longest_s is less"),
        ({"alarm": {"share": 2}}, "alarm.share has to be a number from 0 to 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        read_advice(section(**changes))


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://llm:8000", "http://llm:8000/v1"),
        ("http://llm:8000/", "http://llm:8000/v1"),
        ("https://llm/v1/", "https://llm/v1"),
        ("https://llm/openai/deployments/x", "https://llm/openai/deployments/x"),
    ],
)
def test_a_base_without_a_path_is_that_of_openai(url: str, base: str) -> None:
    assert asking(url=url).url == base


def test_a_game_has_to_have_the_values(keyrooms: Game) -> None:
    check(asking(), keyrooms)
    with pytest.raises(SpecError, match=r"of: there is no value 'room'"):
        check(asking(of=["room"], prompt="{room}"), keyrooms)
    first, *others = keyrooms.reward.components
    taken = replace(keyrooms, reward=replace(keyrooms.reward, components=(replace(first, name="advice"), *others)))
    with pytest.raises(SpecError, match=r"reward.components.advice: that is what advice is paid as"):
        check(asking(), taken)
    check(asking(shaping=None), taken)


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4))
def test_a_state_is_the_values_that_made_it(keyrooms: Game, room_x: int, room_y: int, taken: int) -> None:
    asked = asking()
    state = (room_x * 4 + room_y) * 5 + taken
    assert asked.decoded(state, keyrooms) == {"room_x": room_x, "room_y": room_y, "taken": taken}
    assert asked.asked(state, keyrooms) == f"Room {room_x}, {room_y}; {taken} keys were found. Which button?"


def test_the_token_is_named_and_never_written() -> None:
    assert token(asking(), {}) is None
    assert token(asking(key="LLM_TOKEN"), {"LLM_TOKEN": "t"}) == "t"
    for environment in ({}, {"LLM_TOKEN": ""}):
        with pytest.raises(SpecError, match="there is no variable LLM_TOKEN"):
            token(asking(key="LLM_TOKEN"), environment)


@pytest.mark.parametrize("held", ["two\nlines", "with blanks", "\u00e4", "nul\0"])
def test_what_is_no_token_is_refused_without_being_told(held: str) -> None:
    """A client that is given one says what is wrong with it, and that is told to all who read the log."""
    with pytest.raises(SpecError, match="is no token") as refused:
        token(asking(key="LLM_TOKEN"), {"LLM_TOKEN": held})
    assert held not in str(refused.value)


def test_a_token_ends_before_its_line_does() -> None:
    assert token(asking(key="LLM_TOKEN"), {"LLM_TOKEN": "t0\n"}) == "t0"


def test_a_promise_is_worth_less_with_each_update_and_nothing_in_the_end() -> None:
    shaping = Shaping(weight=1_000_000, cap=1_000_000, decay_updates=4)
    assert [shaping.weight_at(updates) for updates in range(6)] == [1_000_000, 750_000, 500_000, 250_000, 0, 0]


def test_a_checkpoint_is_of_what_is_asked_and_not_of_whom() -> None:
    assert asking().made_of == asking(url="http://elsewhere/v1", key="K", calls_per_s=1, timeout_s=1).made_of
    for changes in (
        {"model": "large"},
        {"observe": False},
        {"shaping": None},
        {"of": ["room_x"], "prompt": "{room_x}"},
    ):
        assert asking().made_of != asking(**changes).made_of
