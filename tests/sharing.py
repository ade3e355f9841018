"""Pytest plugin: test processes share the work of compiling test files, and collect tests without garbage collection.

Each process of xdist collects all tests. With cold caches, each would compile every test file, with rewritten
assertions, at the same moment as all others. Here each process imports a share of the files first: when it comes to the
others, most of them are in the cache already.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import this process's share of the test files."""
    # What is collected stays: to search it for garbage, over and over, is a sixth of the collection.
    gc.disable()
    worker = getattr(session.config, "workerinput", None)
    if worker is None or [Path(each).resolve() for each in session.config.args] != [FOLDER]:
        return
    number, workers = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in sorted(FOLDER.rglob("test_*.py"))[number::workers]:
        name = ".".join(("tests", *path.relative_to(FOLDER).with_suffix("").parts))
        # What cannot be imported, or skips itself, is reported when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave out what is collected whenever garbage is looked for from now on."""
    gc.collect()
    gc.freeze()
    gc.enable()
