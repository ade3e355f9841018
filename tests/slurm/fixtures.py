"""Fixtures for every test that wants a real Slurm, wherever it lies (see tests/conftest.py).

Each test process has a lab of its own, and each test finds it as new. Who breaks a lab for good makes one by
`Lab.running`. Where Slurm cannot be had such tests are skipped, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.slurm.lab import Lab, available

FIXTURES = ("slurm", "slurm_accounted")


@pytest.fixture
def slurm(_slurm: Lab) -> Iterator[Lab]:
    """A Slurm without accounting, with nothing to do."""
    yield _slurm
    _slurm.reset()


@pytest.fixture
def slurm_accounted(_slurm_accounted: Lab) -> Iterator[Lab]:
    """A Slurm with slurmdbd: `sacct`, an account, qualities of service and preemption; with nothing to do."""
    yield _slurm_accounted
    _slurm_accounted.reset()


@pytest.fixture(scope="session")
def _slurm() -> Iterator[Lab]:
    _skip_unless(available())
    with Lab.running() as lab:
        yield lab


@pytest.fixture(scope="session")
def _slurm_accounted(slurm_cache: Path) -> Iterator[Lab]:
    _skip_unless(available(accounting=True))
    with Lab.running(accounting=True, cache=slurm_cache) as lab:
        yield lab


@pytest.fixture(scope="session")
def slurm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all test processes of one run keep the database that takes ten seconds to make."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "slurm-database"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`-m slurm` finds them all, and so does `-m services`."""
    for item in items:
        if set(FIXTURES) & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slurm)
        if item.get_closest_marker("slurm") is not None:
            item.add_marker(pytest.mark.services)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Whoever reads of a failure reads what Slurm said."""
    report = yield
    if report.failed:
        labs = [lab for lab in getattr(item, "funcargs", {}).values() if isinstance(lab, Lab)]
        report.sections.extend(("Slurm's logs", lab.logs()) for lab in labs)
    return report


def _skip_unless(reason: str | None) -> None:
    if reason is not None:
        pytest.skip(reason)
