"""A served world for tests of the web."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.web.core_desk import Window, window


@pytest.fixture
def served() -> Iterator[Window]:
    """A server in front of a fleet of two devices."""
    with window() as made:
        yield made
