"""Quantities: never less than was asked for, and as people write them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from hostler.backends.kuberay.pods import cores, memory


@pytest.mark.parametrize(("count", "text"), [(6, "6"), (0.5, "500m"), (3.5, "3500m"), (0.1, "100m"), (0.0001, "1m")])
def test_cores(count: float, text: str) -> None:
    assert cores(count) == text


@pytest.mark.parametrize(("gigabytes", "text"), [(28, "28Gi"), (1.5, "1536Mi"), (12.5, "12800Mi"), (0.0001, "1Mi")])
def test_memory(gigabytes: float, text: str) -> None:
    assert memory(gigabytes) == text


@given(st.floats(min_value=0.001, max_value=4096))
def test_no_quantity_is_less_than_was_asked_for(asked: float) -> None:
    text = cores(asked)
    thousandths = int(text[:-1]) if text.endswith("m") else 1000 * int(text)
    assert 0 <= thousandths - Fraction(asked) * 1000 + Fraction(1, 10**6) < 1 + Fraction(2, 10**6)
    text = memory(asked)
    mebi = int(text[:-2]) * (1024 if text.endswith("Gi") else 1)
    assert 0 <= mebi - Fraction(asked) * 1024 + Fraction(1, 10**6) < 1 + Fraction(2, 10**6)
