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
    assert 'title="1970-01-01 00:16:40 UTC"' in words.since(1000.0, 1100.0)
