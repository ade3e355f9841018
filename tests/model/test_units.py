from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hostler.model.units import duration, printable, quantity, share


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "?"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (59.6, "1m 00s"),
        (3599.6, "1h 00m"),
        (200, "3m 20s"),
        (90000, "1d 1h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "?/s"), (0, "0/s"), (999, "999/s"), (999.6, "1 k/s"), (131_400_000, "131 M/s"), (0.123, "0.123/s")],
)
def test_quantities(amount: float | None, text: str) -> None:
    assert (quantity(amount, "/s") if amount is not None else quantity(None) + "/s") == text


@given(st.integers(1, 10**30), st.data())
def test_only_the_whole_is_100_percent(whole: int, data: st.DataObject) -> None:
    part = data.draw(st.integers(0, whole))
    assert (share(part, whole) == "100 %") == (part == whole)


@given(st.text(), st.integers(1, 40))
def test_printable_is_harmless_and_short(text: str, limit: int) -> None:
    safe = printable(text, limit)
    assert len(safe) <= limit
    assert safe.isprintable()
