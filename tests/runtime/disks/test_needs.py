"""What is in use, read off a loop that learns: whatever it may still order is in it."""

from __future__ import annotations

import json

from hostler.core.care.state import Pressed
from hostler.core.fetching import told_of
from hostler.core.loop.stages import window
from hostler.model.files import named_in
from hostler.model.fleet import Link
from hostler.model.learning import ModelStatus
from hostler.model.telemetry import Level, Signal
from hostler.model.work import JobState, StagePayload, WorkKind
from hostler.policy import pressure
from hostler.runtime.disks.needs import Orders, is_full, needed_on, needs
from hostler.workloads.alphazero.artifacts import digest
from tests.core.builders import fleet, script
from tests.core.loop.builders import Loop, loop, small
from tests.core.loop.test_closing import apart

NONE: frozenset[str] = frozenset()


def learnt() -> Loop:
    world = loop(small(), devices=3)
    world.until(lambda: len(world.config().models) > 2 and world.running(WorkKind.SELFPLAY))
    return world


def test_whatever_a_stage_could_be_ordered_to_read_is_in_use() -> None:
    world = learnt()
    config, found = world.config(), needs(world.state, Orders(), NONE)
    assert {each.sha256 for each in window(config)} <= found.artifacts
    assert config.current in found.artifacts
    kept = {name for name, each in config.models.items() if each.status is not ModelStatus.REJECTED}
    assert kept <= found.artifacts
    assert next(reversed(config.datasets)) in found.artifacts
    for job in world.state.jobs.values():
        if isinstance(job.spec.payload, StagePayload) and not job.state.final:
            words = json.dumps(job.spec.payload.order)
            assert all(name in found.artifacts for name in config.segments if name in words)


def test_what_work_on_a_node_was_ordered_to_read_is_needed_there() -> None:
    world = learnt()
    found = needed_on(world.state, "n")
    held = [job for job in world.state.jobs.values() if job.attempt is not None]
    named = {
        name for job in held if isinstance(job.spec.payload, StagePayload) for name in named_in(job.spec.payload.order)
    }
    assert named
    assert named <= found
    assert needed_on(world.state, "another") == frozenset()


def test_what_comes_after_others_reads_what_their_results_name() -> None:
    world = learnt()
    job = world.until_running(WorkKind.TRAINING)
    (script_,) = world.submit(script("looks at it", after=(job.id,), priority=100))
    world.end(job)
    result = world.state.jobs[job.id].result
    assert named_in(result)
    world.until(lambda: world.state.jobs[script_].attempt is not None)
    assert named_in(result) <= needed_on(world.state, "n")
    assert named_in(result) <= needs(world.state, Orders(), NONE).artifacts


def test_what_is_to_be_fetched_is_needed_until_it_is_here() -> None:
    world = apart()
    job = world.until_running(WorkKind.SELFPLAY)
    result = world.report(job)
    world.end(job, result=result)
    assert job.attempt is not None
    assert told_of(result) <= needed_on(world.state, world.state.devices[job.attempt.device].spec.node)


def test_a_node_is_full_where_its_disk_presses_and_it_answers() -> None:
    world = fleet()
    assert not is_full(world.state, "n")
    assert not is_full(world.state, "never seen")
    for name, level, verdict in (
        (pressure.DISK, Level.WARNING, False),
        (pressure.DISK, Level.CLEAN, True),
        (pressure.DISK_FREE, Level.CRITICAL, True),
        (pressure.MEMORY, Level.CRITICAL, False),
    ):
        signal = Signal(name=name, value=0.7, limit=0.65, level=level)
        world.state.care.nodes["n"] = {name: Pressed(signal=signal, since=0.0)}
        assert is_full(world.state, "n") is verdict, name
    signal = Signal(name=pressure.DISK, value=0.7, limit=0.65, level=Level.CRITICAL)
    world.state.care.nodes["n"] = {pressure.DISK: Pressed(signal=signal, since=0.0)}
    world.state.nodes["n"].link = Link.DOWN
    assert not is_full(world.state, "n")


def test_games_that_are_older_than_the_window_are_not() -> None:
    world = loop(small(export__window_games=60), devices=3)
    world.until(lambda: sum(each.games for each in world.config().segments.values()) > 1000)
    config, found = world.config(), needs(world.state, Orders(), NONE)
    assert {each.sha256 for each in window(config)} <= found.artifacts
    assert set(config.segments) - found.artifacts


def test_attempts_are_over_when_nothing_holds_them() -> None:
    world = loop(small(), devices=1)
    (job,) = world.submit(script("waits"))
    world.until(lambda: world.state.jobs[job].attempt is not None)
    found = needs(world.state, Orders(), NONE)
    assert found.is_over(f"{job}.1") is False
    assert found.is_over(f"{job}.0") is True
    assert [found.is_over(name) for name in ("j99999.1", "strange.1", "j1", "j1.x", "")] == [None] * 5


def test_work_folders_belong_to_stages_by_the_name_that_these_give_them() -> None:
    world = learnt()
    running = world.running(WorkKind.SELFPLAY)[0]
    over = next(
        each
        for each in world.state.jobs.values()
        if each.state is JobState.DONE and isinstance(each.spec.payload, StagePayload)
    )
    names = {}
    for job in (running, over):
        assert isinstance(job.spec.payload, StagePayload)
        names[digest(job.spec.payload.order)] = job.state
    orders = Orders()
    assert needs(world.state, orders, frozenset({*names, "0" * 64})).orders == names
    assert needs(world.state, orders, NONE).orders == {}
