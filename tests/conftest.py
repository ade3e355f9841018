"""What holds for all tests."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# No test depends on speed: a crowded machine must not fail one.
settings.register_profile("house", parent=settings.default, deadline=None)
settings.load_profile("house")


@pytest.fixture(autouse=True)
def stays() -> Iterator[None]:
    """The agent moves about as it starts programs: whoever comes next is where everybody began."""
    folder = os.getcwd()
    yield
    os.chdir(folder)
