"""Pytest plugin: which process of xdist plays which test, and when.

Each process takes the next test when it is free. Tests that share something costly stay in one process. Tests that
wait for other processes are spread over the run, so that the cores have work while they wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

TOGETHER = tuple(
    f"tests/{name}.py"
    for name in (
        "integration/test_python_environments",
        "integration/test_snapshots",
        "integration/test_wheel",
        "integration/test_groups",
        "integration/test_device_selection",
        "integration/test_restart",
        "integration/test_logs",
        "integration/test_python",
        "integration/test_python_guide",
        "integration/test_results",
        "integration/test_submitting",
        "integration/test_submitted_environment",
        "integration/test_access",
        "integration/test_fetching",
        "integration/test_seeds",
        "integration/test_loop_real",
        "integration/test_everyday",
        "integration/test_executor",
        "integration/test_startup",
        "integration/test_artifacts",
        "integration/test_hostile",
        "agent/test_canary",
        "agent/test_dial",
        "agent/test_environments",
        "agent/test_upgrade",
        "canary/test_canary",
        "benchmarks/test_decisions",
        "benchmarks/test_history",
        "benchmarks/test_learning",
        "benchmarks/test_providers",
        "benchmarks/test_stages",
        "cli/test_artifacts",
        "cli/test_commands",
        "lab/test_datacentre",
        "report/test_page",
        "report/test_sieve_page",
        "stores/test_stores",
        "web/test_schema",
        "workloads/alphazero/test_chain",
        "workloads/alphazero/test_learner",
        "workloads/alphazero/test_play",
        "workloads/alphazero/test_training_crash",
    )
)
"""Modules whose tests share what is costly to make, or continue where the one before has left a loop. Those of one
folder begin in this order: the longest first."""
IN_ONE_FOLDER = "tests/browser/"
"""These share one controller and one browser."""
TOGETHER_OF = {"tests/integration/test_loop_commands.py": "test_a_command_that_breaks_its_contract"}
"""Modules of which only some tests share something."""
WAITING = "tests/integration"
"""The folder of the longest tests, which wait for controllers."""
BEGUN_BY = 0.9
"""The share of a run by which the last of them has begun: at the end, all other processes would wait for it."""


def scope_of(nodeid: str) -> str:
    """The name of what is played by one process: a test, a module or a folder."""
    module, _, test = nodeid.partition("::")
    if module.startswith(IN_ONE_FOLDER):
        return IN_ONE_FOLDER
    apart = module not in TOGETHER and not test.startswith(TOGETHER_OF.get(module, "::"))
    return nodeid if apart else module


def spread(modules: Sequence[str]) -> list[str]:
    """Modules in the order in which they are begun: those of each folder evenly over the run (`BEGUN_BY`).

    Tests of one folder cost alike: those of `integration` wait for controllers, those of `workloads` compute.
    """
    place: dict[str, float] = {}
    by_folder = sorted(modules, key=_folder)
    for folder, those in groupby(by_folder, key=_folder):
        ordered = sorted(those, key=lambda module: TOGETHER.index(module) if module in TOGETHER else len(TOGETHER))
        for number, module in enumerate(ordered):
            place[module] = number / len(ordered) * (BEGUN_BY if folder == WAITING else 1.0)
    return sorted(modules, key=lambda module: place[module])


def _folder(module: str) -> str:
    return module.rpartition("/")[0]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a process of xdist, order the modules; the tests of each stay as they are."""
    if not hasattr(config, "workerinput"):
        return
    by_module: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_module.setdefault(item.nodeid.partition("::")[0], []).append(item)
    items[:] = [item for module in spread(list(by_module)) for item in by_module[module]]


class _OneByOne(LoadScopeScheduling):  # type: ignore[misc]
    """Each process takes the next test when it is free; what belongs together goes to one of them.

    xdist itself hands out blocks beforehand: the last of three processes worked on for minutes when others were done.
    Its own `--dist loadgroup` does not see its marks under pytest 9.
    """

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Note the end of a test and hand out the next. What is done is forgotten: xdist would search it each time."""
        nodeid = self.registered_collections[node][item_index]
        scopes = self.assigned_work[node]
        scope = self._split_scope(nodeid)
        scopes[scope][nodeid] = True
        if all(scopes[scope].values()):
            del scopes[scope]
        self._reschedule(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How tests are handed to processes, with `-n`."""
    config.option.loadscopereorder = False
    return _OneByOne(config, log)
