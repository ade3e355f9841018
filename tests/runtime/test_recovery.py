"""Starting from what an earlier controller left, whatever state that is in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hostler.model.errors import CorruptState
from hostler.model.fleet import Link
from hostler.model.inputs import Ended
from hostler.model.work import JobState, Resources
from hostler.runtime.clock import SteadyClock
from hostler.runtime.controller import Controller
from hostler.runtime.snapshots import recovered, snapshot_of
from hostler.runtime.statedir import StateDir
from hostler.store import Snapshot, open_journal
from tests.backends.fake import FakeNode
from tests.runtime.conftest import running, script, submit, until, until_state

pytestmark = pytest.mark.anyio


async def test_a_damaged_snapshot_only_costs_time(directory: StateDir) -> None:
    async with running(directory, FakeNode()) as controller:
        await submit(controller, script("a"))
        await controller.ended(until_idle=True)
    journal = open_journal(directory.path)
    journal.save_snapshot(Snapshot(seq=journal.newest_seq(), at=1.0, data=b"no snapshot at all"))
    told: list[str] = []
    core = recovered(journal, told.append)
    assert core.state.jobs["j1"].state is JobState.DONE
    assert len(told) == 1
    assert "not a snapshot of this version" in told[0]
    journal.close()


def test_a_snapshot_beyond_the_journal_is_refused(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    core = recovered(journal, pytest.fail)
    journal.save_snapshot(replace(snapshot_of(core), seq=5))
    with pytest.raises(CorruptState, match="entries are missing"):
        recovered(journal, pytest.fail)
    journal.close()


async def test_a_node_taken_out_of_the_fleet_is_awaited_and_given_nothing_new(directory: StateDir) -> None:
    old, new = FakeNode("old", behave=lambda order: None), FakeNode("new")
    async with running(directory, old) as controller:
        await submit(controller, script("a"))
        await until_state(controller, "a", JobState.RUNNING)
    old.slots = 0
    retired = {"old": old}
    async with Controller(
        directory, "test", {"new": new}, SteadyClock(), 10**9, lambda node, _agent: retired[node.name]
    ) as controller:
        await submit(controller, script("b"), script("c"))
        await until_state(controller, "c", JobState.DONE)
        assert controller.job("a").job.state is JobState.RUNNING
        old.finish(Ended(attempt="j1.1", started_at=1.0, ended_at=2.0, exit_code=0))
        await controller.ended(until_idle=True)
    assert old.launched == ["j1.1"]


async def test_a_run_ends_when_what_is_left_fits_nowhere(directory: StateDir) -> None:
    async with running(directory, FakeNode()) as controller:
        await submit(controller, script("a"), script("gpu", resources=Resources(device="gpu")))
        await controller.ended(until_idle=True)
        assert await controller.undone((), 0) == ["j2"]
        assert "fits on no device" in controller.explain("gpu").summary


async def test_a_node_that_never_came_up_is_told_of(directory: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.runtime.controller.AWAY_S", -1.0)
    node = FakeNode()
    node.cut()
    async with running(directory, node) as controller:
        await until(lambda: "node fake: cannot be reached" in controller.troubles())
        assert controller.nodes()[0].link is Link.DOWN
        node.mend()
        await until(lambda: not controller.troubles())
