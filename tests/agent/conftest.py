from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import Agent, until


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """An agent of its own; whatever it leaves behind is ended, and is a failure."""
    running = Agent(tmp_path / "agent")
    yield running
    running.stop()
    leftovers = running.leftovers()
    for pid in leftovers:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not running.leftovers(), "the end of what the agent left behind")
    assert leftovers == []
