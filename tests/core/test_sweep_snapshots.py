"""Snapshots of sweeps: where workers start, what is kept and cleared on nodes, and what a submission may state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.core import notes
from hostler.model import commands, inputs
from hostler.model.errors import SpecError
from hostler.model.work import JobState
from tests.core.builders import Driver, fleet, link_up, node, script, sweep

OLD, NEW = "ab" * 32, "cd" * 32


def keeps(world: Driver) -> list[commands.Keep]:
    return [each for each in world.commands if isinstance(each, commands.Keep)]


def clears(world: Driver) -> list[commands.Clear]:
    return [each for each in world.commands if isinstance(each, commands.Clear)]


def test_worker_order_has_the_snapshot_and_the_sweep() -> None:
    world = fleet()
    world.submit(sweep(snapshot=OLD), sweep("other", cwd="/project"))
    lent = {each.chunk.id: each.worker for each in world.commands if isinstance(each, commands.Lend)}
    (first,) = [worker for name, worker in lent.items() if name.startswith("j1.")]
    assert (first.snapshot, first.sweep, first.cwd) == (OLD, "j1", None)


def test_worker_order_without_a_snapshot_names_no_shared_folder() -> None:
    world = fleet()
    world.submit(sweep(cwd="/project"))
    (lend,) = [each for each in world.commands if isinstance(each, commands.Lend)][:1]
    assert (lend.worker.snapshot, lend.worker.sweep, lend.worker.cwd) == (None, None, "/project")


def test_folder_of_a_sweep_is_kept_while_the_sweep_is_not_over() -> None:
    world = fleet()
    world.tell(inputs.NodeFound(node=node("m")))
    world.submit(sweep(snapshot=OLD, stop=10**6))
    world.tell(inputs.LinkDown(node="n", why="cut"))
    world.commands.clear()
    world.tell(link_up())
    assert keeps(world) == [commands.Keep(node="n", attempts=(), sweeps=("j1",))]
    world.commands.clear()
    world.tell(link_up("m"))
    assert keeps(world) == [commands.Keep(node="m", attempts=())], "the sweep has no worker there"


def test_folder_of_a_sweep_is_cleared_on_its_nodes_when_the_sweep_is_over() -> None:
    world = fleet()
    world.tell(inputs.NodeFound(node=node("m")))
    world.submit(sweep(snapshot=OLD, stop=10**6))
    world.commands.clear()
    world.tell(inputs.Cancel(job="j1"))
    chunks = list(world.state.sweeps["j1"].leases)
    assert clears(world) == [], "its chunks are still there"
    world.tell(*(world.returned(chunk, "recalled") for chunk in chunks))
    assert world.job_state("j1") is JobState.CANCELLED
    assert clears(world) == [commands.Clear(node="n", attempt="j1", output=False)]
    last = [type(each) for each in world.commands if isinstance(each, commands.CloseWorker | commands.Clear)]
    assert last == [commands.CloseWorker, commands.Clear]


def test_folder_of_a_sweep_that_is_over_is_not_kept_on_a_node_that_comes_back() -> None:
    world = fleet()
    world.submit(sweep(snapshot=OLD, stop=10**6))
    world.tell(inputs.Cancel(job="j1"))
    world.tell(*(world.returned(chunk, "recalled") for chunk in list(world.state.sweeps["j1"].leases)))
    world.tell(inputs.LinkDown(node="n", why="cut"))
    world.commands.clear()
    world.tell(link_up())
    assert keeps(world) == [commands.Keep(node="n", attempts=())]


def test_sweep_without_a_snapshot_clears_no_folder() -> None:
    world = fleet()
    world.submit(sweep(stop=10**6))
    world.tell(inputs.Cancel(job="j1"))
    world.tell(*(world.returned(chunk, "recalled") for chunk in list(world.state.sweeps["j1"].leases)))
    assert clears(world) == []


@pytest.mark.parametrize("folder", [{"cwd": "/project"}, {"files": ("*.py",)}])
def test_sweep_with_a_snapshot_and_a_folder_is_refused(folder: dict[str, object]) -> None:
    world = fleet()
    with pytest.raises(SpecError, match="it has a snapshot and a folder"):
        world.submit(sweep(snapshot=OLD, **folder))


def test_sweep_submitted_again_under_its_key_keeps_its_snapshot() -> None:
    world = fleet()
    first, again = sweep(key="k", snapshot=OLD), sweep(key="k", snapshot=NEW)
    world.submit(first)
    world.submit(again)
    assert list(world.state.jobs) == ["j1"]
    assert notes.with_earlier_files(world.state, [again], ["j1"]) == ["j1"]
    assert notes.with_earlier_files(world.state, [first], ["j1"]) == []


def test_script_with_a_snapshot_and_a_folder_is_refused_still() -> None:
    world = fleet()
    spec = script()
    wrong = replace(spec, payload=replace(spec.payload, snapshot=OLD, cwd="/project"))
    with pytest.raises(SpecError, match="it has a snapshot and a folder"):
        world.submit(wrong)
