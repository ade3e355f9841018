"""What holds for all tests."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = (
    "tests.tiers",
    "tests.slurm.fixtures",
    "tests.raytown.fixtures",
    "tests.workloads.compiling",
    "tests.sharing",
    "tests.scheduling",
)

# No test depends on speed: a crowded machine must not fail one.
settings.register_profile("house", parent=settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")
# The quick tier tries the same examples in every run: a failure there belongs to the change at hand. New examples are
# drawn by `make test-long`, and by pytest without this profile.
settings.register_profile("same-examples", parent=settings.get_profile("house"), derandomize=True)


@pytest.fixture(autouse=True)
def stays() -> Iterator[None]:
    """The agent moves about as it starts programs: whoever comes next is where everybody began."""
    folder = os.getcwd()
    yield
    os.chdir(folder)


def pytest_configure(config: pytest.Config) -> None:
    """Programs that tests start can be interrupted, even when the tests run in the background.

    A shell without job control starts background commands with SIGINT ignored. Children inherit that, and then tests
    that end a program with Ctrl-C wait in vain.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """A run that selected nothing says why that may be."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        terminalreporter.write_line(
            "No test was selected. A path must exist, -k looks at names, and each tier has only its own tests."
        )
