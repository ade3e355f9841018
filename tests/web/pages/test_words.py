"""Values in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, text

from hostler.web.pages import words


@pytest.mark.parametrize(
    "made",
    [
        words.known(None),
        words.quantity(None, "/s"),
        words.number(None),
        words.percent(None),
        words.duration(None),
        words.money(None),
        words.age(None, 0),
        words.until(None, 0),
        words.short(None),
    ],
)
def test_nothing_known_is_never_a_number(made: str) -> None:
    assert made == words.UNKNOWN


@given(floats(0, 1))
def test_only_the_whole_is_100_percent(share: float) -> None:
    assert (words.percent(share) == "100 %") == (share == 1 or share > 1 - 1e-9)


@given(text())
def test_words_are_escaped(given_text: str) -> None:
    assert "<" not in words.known(given_text or "x").replace(words.UNKNOWN, "")
    assert "<b>" not in words.short(f"<b>{given_text}")


@given(integers())
def test_integers_of_any_size_are_short(value: int) -> None:
    assert len(words.integer(abs(value) ** 9)) <= 16


def test_times_count_on_from_the_server_s() -> None:
    assert ">1m 40s ago</time>" in words.age(1000.0, 1100.4)
    assert ">in 5 s</time>" in words.until(1105.9, 1100.4)
    assert ">now</time>" in words.until(1100.0, 1100.4)
    assert 'datetime="1970-01-01T00:16:40.000Z"' in words.since(1000.0, 1100.0)


def test_ages_that_are_left_open_are_filled_in() -> None:
    text = f"{words.age(1000.0, None)} {words.since(1000.0, None)} {words.until(1200.0, None)}"
    assert words.filled(text, 1100.4) == f"{words.age(1000.0, 1100.4)} {words.since(1000.0, 1100.4)} " + str(
        words.until(1200.0, 1100.4)
    )


def test_an_open_age_in_a_name_is_but_an_age() -> None:
    assert words.filled("\x021.000 ago\x03", 61.0) == "1m 00s ago"
    assert words.filled("\x021e400 ago\x03", 61.0) == "\x021e400 ago\x03"


def test_readings_have_their_unit() -> None:
    assert words.reading(0.5, "share") == "50 %"
    assert words.reading(90.0, "s") == "1m 30s"
    assert words.reading(187.0, "games/h") == "187 games/h"
    assert words.reading(None, "s") == words.UNKNOWN
