"""What holds for the tests of workloads."""

from tests.workloads.compiling import pytest_configure

__all__ = ["pytest_configure"]
