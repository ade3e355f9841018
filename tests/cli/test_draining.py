"""Commands while the controller drains."""

from __future__ import annotations

import pytest

from hostler.model.inputs import Drain, Submit
from tests.cli.conftest import Hostler
from tests.core.builders import script
from tests.web.core_desk import Window


@pytest.fixture
def draining(served: Window) -> Window:
    """A job runs, and the controller drains."""
    served.tell(Submit(specs=(script("train"),)))
    served.tell(Drain())
    return served


def test_submission_prints_that_the_controller_drains(draining: Window, hostler: Hostler) -> None:
    said = hostler("submit", "--", "ls")
    assert said.status == 0
    assert "the controller is draining: nothing new starts" in said.err


def test_status_prints_what_the_draining_waits_for(draining: Window, hostler: Hostler) -> None:
    lines = hostler("status").out.splitlines()
    assert "draining waits for j1; nothing new starts; `hostler down --now` ends" in lines
    assert "draining waits for j1" in hostler("status", "--watch").out
