"""The second half of the start screen, where the story of an adopted attempt cannot be read."""

from __future__ import annotations

from io import StringIO

import pytest

from hostler.model.errors import StoreError
from hostler.runtime import introduction
from hostler.runtime.clock import SteadyClock
from hostler.runtime.introduction import Introduction
from hostler.runtime.report import Reporter
from hostler.runtime.statedir import StateDir
from tests.backends.fake import FakeNode
from tests.runtime.conftest import running, script, submit, until

pytestmark = pytest.mark.anyio


async def test_attempt_whose_story_cannot_be_read_is_unknown(
    directory: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(introduction, "SETTLED_S", 0.0)
    out = StringIO()
    async with running(directory, FakeNode()) as controller:
        (job,) = await submit(controller, script("over"))
        await until(lambda: controller.job(job).job.state.final)

        async def unreadable(name: str) -> None:
            raise StoreError("the disk is full")

        monkeypatch.setattr(controller, "story", unreadable)
        show = Reporter(controller, out, SteadyClock(), "test", ())
        await Introduction(controller, show, {job: f"{job}.1"}, 9).show()
    lines = out.getvalue().splitlines()
    assert "Adopted    1 unknown" in lines
    assert any(line.startswith("Next") for line in lines)
