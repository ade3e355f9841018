"""Fixtures for every test that wants a real Ray cluster. Where there is none, these are skipped, with the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.raytown.town import Town, ray_python, town, until_empty

FIXTURES = ("ray_town", "ray_python_found")


@pytest.fixture(scope="session")
def ray_python_found() -> str:
    """A Python that has Ray."""
    python = ray_python()
    if python is None:
        pytest.skip("there is no Ray: `make ray` installs it, or name a Python that has it in TESTS_RAY_PYTHON")
    return python


@pytest.fixture(scope="session")
def _ray_town(ray_python_found: str) -> Iterator[Town]:
    with town(ray_python_found, (2, 2)) as found:
        yield found


@pytest.fixture
def ray_town(_ray_town: Town) -> Iterator[Town]:
    """A head, and two machines of two CPUs, with nothing to do. Who breaks one makes a cluster of its own."""
    yield _ray_town
    _ray_town.stop_all()
    until_empty(_ray_town)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`-m ray` finds them all, and so does `-m services`."""
    for item in items:
        if set(FIXTURES) & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.ray)
        if item.get_closest_marker("ray") is not None:
            item.add_marker(pytest.mark.services)
