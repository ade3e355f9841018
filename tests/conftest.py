"""What holds for all tests."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

pytest_plugins = (
    "tests.tiers",
    "tests.slurm.fixtures",
    "tests.raytown.fixtures",
    "tests.workloads.compiling",
    "tests.sharing",
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


# Tests of these share what is costly to make for their module, or go on where the one before has left a loop.
TOGETHER = frozenset(
    f"tests/{name}.py"
    for name in (
        "agent/test_canary",
        "agent/test_dial",
        "benchmarks/test_decisions",
        "benchmarks/test_history",
        "benchmarks/test_learning",
        "benchmarks/test_providers",
        "benchmarks/test_stages",
        "integration/test_access",
        "integration/test_artifacts",
        "integration/test_everyday",
        "integration/test_hostile",
        "integration/test_loop_real",
        "integration/test_restart",
        "integration/test_results",
        "integration/test_seeds",
        "integration/test_snapshots",
        "integration/test_startup",
        "integration/test_submitted_environment",
        "integration/test_wheel",
        "lab/test_datacentre",
        "report/test_page",
        "web/test_schema",
        "workloads/alphazero/test_chain",
        "workloads/alphazero/test_learner",
        "workloads/alphazero/test_play",
        "workloads/alphazero/test_training_crash",
    )
)
# These share one controller and one browser.
IN_ONE_FOLDER = "tests/browser/"
# Those of which only some tests do.
TOGETHER_OF = {"tests/integration/test_loop_commands.py": "test_a_command_that_breaks_its_contract"}


class _OneByOne(LoadScopeScheduling):  # type: ignore[misc]
    """Each process takes the next test when it is free; what belongs together goes to one of them, and goes first.

    xdist itself hands out blocks beforehand: the last of three processes worked on for minutes when others were done.
    Its own `--dist loadgroup` does not see its marks under pytest 9.
    """

    def _split_scope(self, nodeid: str) -> str:
        module, _, test = nodeid.partition("::")
        if module.startswith(IN_ONE_FOLDER):
            return IN_ONE_FOLDER
        apart = module not in TOGETHER and not test.startswith(TOGETHER_OF.get(module, "::"))
        return nodeid if apart else module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How tests are handed to processes, with `-n`."""
    return _OneByOne(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """A run that selected nothing says why that may be."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        terminalreporter.write_line(
            "No test was selected. A path must exist, -k looks at names, and each tier has only its own tests."
        )
