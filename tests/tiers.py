"""Pytest plugin: PostgreSQL, Slurm, Ray, Prometheus and the browser do not start for a test of the quick tier."""

from __future__ import annotations

import pytest

_SLOW = frozenset({"services", "long"})
_current: list[pytest.Item] = []
"""The test that is being set up, played or cleaned up; none outside of pytest."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember the current test: services that start from now on are its own."""
    _current[:] = [item]


def demand_services(program: str) -> None:
    """Raise AssertionError if the current test starts a service although `make test` plays it."""
    for item in _current:
        if not _SLOW & {mark.name for mark in item.iter_markers()}:
            raise AssertionError(f"{item.nodeid} starts {program}: it needs the marker `services` (tests/README.md)")
