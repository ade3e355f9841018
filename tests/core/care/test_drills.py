"""A drill for each control loop: the real input goes in through the one door, the real event and its effect come out.

A loop that was never seen to fire is a loop that does not: in a fleet before this one, four of five inputs were zero.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hostler.core.care import effects
from hostler.model import events, inputs
from hostler.model.rules import USUAL
from hostler.model.telemetry import DeviceTelemetry, Level
from hostler.model.work import WorkKind
from tests.core.builders import ended, script, sweep
from tests.core.care.builders import GPU, Ward, ward, work
from tests.core.loop.builders import loop

SELFPLAY, TRAINING, EXPORT, SCRIPT = WorkKind.SELFPLAY, WorkKind.TRAINING, WorkKind.EXPORT, WorkKind.SCRIPT


def blocked(world: Ward) -> set[WorkKind]:
    """Kinds of work that may not be started on the node."""
    return {kind for kind in WorkKind if effects.blocked(world.state, "n", kind) is not None}


def selfplay(world: Ward, count: int = 1) -> tuple[str, ...]:
    """Self-play is asked for and, as far as there is room, begins."""
    ids = world.submit(*[work(SELFPLAY, f"s{number}") for number in range(count)])
    world.start(*[each for each in ids if world.state.jobs[each].attempt is not None])
    return ids


class TestConcurrency:
    def test_too_little_to_do_means_more_lanes_and_they_are_filled(self) -> None:
        world = ward()
        ids = selfplay(world, 6)
        assert len(world.state.devices[GPU].attempts) == 1
        world.hear(20, busy=0.3)
        (change,) = world.of(events.ConcurrencySet)
        assert (change.device, change.was, change.lanes, change.utilization) == (GPU, 1, 2, 0.3)
        assert change.why == "utilisation 30%, wanted 60% to 80%"
        assert effects.lanes(world.state, GPU) == 2
        assert [event.job for event in world.of(events.AttemptLeased)] == [ids[1]]
        assert len(world.state.devices[GPU].attempts) == 2

    def test_too_much_to_do_means_fewer_and_the_next_one_waits(self) -> None:
        world = ward()
        first, second, *_ = selfplay(world, 6)
        world.hear(20, busy=0.3)
        world.start(second)
        world.hear(40, busy=1.0)
        assert [event.lanes for event in world.of(events.ConcurrencySet)] == [1]
        world.tell(ended(world.state.jobs[first].attempt.id))  # type: ignore[union-attr]
        assert world.of(events.AttemptLeased) == []

    def test_in_the_band_nothing_happens(self) -> None:
        world = ward()
        selfplay(world, 6)
        assert world.hear(150, busy=0.7) == []

    def test_lanes_that_are_free_are_no_reason_for_more(self) -> None:
        world = ward()
        selfplay(world, 1)
        world.hear(250, busy=0.3)
        assert world.state.care.lanes == {"n": {GPU: 2}}

    def test_nothing_is_concluded_from_other_work(self) -> None:
        world = ward()
        world.start(*world.submit(work(TRAINING)))
        assert world.hear(150, busy=0.2) == []

    def test_unknown_utilisation_keeps_one_lane(self) -> None:
        world = ward()
        selfplay(world, 6)
        assert world.hear(150, busy=None) == []
        assert effects.lanes(world.state, GPU) == 1

    def test_what_cannot_be_a_utilisation_is_unknown(self) -> None:
        world = ward()
        selfplay(world, 6)
        for nonsense in (-0.5, 45.0):
            assert world.hear(100, busy=nonsense) == []

    def test_each_device_has_its_own(self) -> None:
        world = ward(gpus=2)
        ids = world.submit(*[work(SELFPLAY, f"s{number}") for number in range(6)])
        world.start(*[each for each in ids if world.state.jobs[each].attempt is not None])
        idle, busy = DeviceTelemetry(utilization=0.3), DeviceTelemetry(utilization=0.95)
        world.hear(20, devices={GPU: idle, "n/cuda1": busy})
        assert world.state.care.lanes == {"n": {GPU: 2}}

    def test_fewer_lanes_at_most_hold_at_once(self) -> None:
        world = ward()
        selfplay(world, 6)
        world.hear(20, busy=0.3)
        world.set(lanes_max=1)
        assert effects.lanes(world.state, GPU) == 1

    def test_it_expires_with_the_telemetry(self) -> None:
        world = ward()
        selfplay(world, 6)
        world.hear(20, busy=0.3)
        assert world.wait(359) == []
        world.wait(2)
        (change,) = world.of(events.ConcurrencySet)
        assert (change.lanes, change.utilization) == (1, None)
        assert "unknown for 360 s" in change.why
        assert world.core.wake_at() is None

    def test_it_expires_where_the_device_alone_is_silent(self) -> None:
        world = ward()
        selfplay(world, 6)
        world.hear(20, busy=0.3)
        world.hear(20, busy=None)
        assert world.state.care.lanes == {"n": {GPU: 2}}
        world.hear(10, busy=None)
        assert world.state.care.lanes == {}


class TestIdle:
    def test_selfplay_that_idles_gets_another_lane_at_once(self) -> None:
        """With gains so small that the controller alone would take its time."""
        world = ward()
        world.set(pid_kp=0.0, pid_ki=0.0, pid_kd=0.0)
        selfplay(world, 6)
        world.hear(20, busy=0.02)
        assert world.of(events.IdleResourceDetected) == []
        world.hear(1, busy=0.02)
        (idle,) = world.of(events.IdleResourceDetected)
        assert (idle.node, idle.device, idle.utilization, idle.idle_s) == ("n", GPU, 0.02, 300)
        assert idle.gate is None
        assert "gets a lane more" in idle.why
        assert len(world.of(events.AttemptLeased)) == 1
        assert effects.lanes(world.state, GPU) == 2

    def test_the_next_has_its_own_grace_and_what_is_full_is_told_once(self) -> None:
        world = ward()
        world.set(pid_kp=0.0, pid_ki=0.0, pid_kd=0.0)
        ids = selfplay(world, 6)
        for number in range(1, 4):
            world.hear(22, busy=0.02)
            assert len(world.of(events.IdleResourceDetected)) == 1
            world.start(ids[number])
        world.hear(150, busy=0.02)
        (last,) = world.of(events.IdleResourceDetected)
        assert "as many lanes as it may" in last.why

    def test_a_device_without_work_while_work_waits_is_seen_with_the_gate(self) -> None:
        world = ward()
        world.hear(memory_free_gb=1.0, busy=0.0)
        (job,) = world.submit(script())
        world.hear(21, memory_free_gb=1.0, busy=0.0)
        (idle,) = world.of(events.IdleResourceDetected)
        assert idle.gate is not None
        assert idle.gate.startswith("pressure: n: memory 0.984 share used")
        assert job in idle.why
        assert world.hear(100, memory_free_gb=1.0, busy=0.0) == []

    def test_a_device_without_work_is_free_capacity_and_no_event(self) -> None:
        world = ward()
        assert world.hear(100, busy=0.0) == []

    def test_no_reading_is_not_idle(self) -> None:
        world = ward()
        selfplay(world, 6)
        world.hear(100, busy=None)
        assert world.of(events.IdleResourceDetected) == []

    def test_work_that_just_began_has_its_grace(self) -> None:
        world = ward()
        world.hear(100, busy=0.0)
        selfplay(world, 6)
        world.hear(19, busy=0.0)
        assert world.of(events.IdleResourceDetected) == []


NODE_DRILLS: list[tuple[str, dict[str, Any], type[Any], set[WorkKind]]] = [
    ("memory", {"memory_free_gb": 12.0}, events.ResourceConstraint, set(WorkKind)),
    ("load", {"load": 17.5}, events.NodeOverloaded, {SCRIPT}),
    ("disk", {"disk_free_gb": 290.0}, events.DiskSpaceLow, {TRAINING, EXPORT}),
    ("disk free", {"disk_total_gb": 10.0, "disk_free_gb": 4.5}, events.DiskSpaceLow, set(WorkKind)),
    ("backlog", {"backlog_s": 2000.0}, events.BackpressureActivated, {SELFPLAY}),
]
drills = pytest.mark.parametrize(
    ("signal", "fields", "fact", "held"), NODE_DRILLS, ids=[signal for signal, *_ in NODE_DRILLS]
)


class TestPressure:
    @drills
    def test_it_fires_holds_back_and_releases(
        self, signal: str, fields: dict[str, Any], fact: type[Any], held: set[WorkKind]
    ) -> None:
        world = ward()
        assert world.hear(3) == []
        assert blocked(world) == set()
        world.hear(**fields)
        assert len(world.of(fact)) == 1
        (activated,) = world.of(events.BackpressureActivated)
        assert (activated.node, activated.level) == ("n", Level.CRITICAL)
        assert signal in [each.name for each in activated.signals]
        assert blocked(world) == held
        assert world.hear(50, **fields) == []
        world.hear()
        (released,) = world.of(events.BackpressureReleased)
        assert released.node == "n"
        assert world.events == [released]
        assert blocked(world) == set()

    @drills
    def test_the_work_waits_and_goes_when_it_is_released(
        self, signal: str, fields: dict[str, Any], fact: type[Any], held: set[WorkKind]
    ) -> None:
        kind = EXPORT if EXPORT in held else next(iter(held))
        world = ward()
        world.hear(**fields)
        (job,) = world.submit(work(kind))
        assert world.state.jobs[job].attempt is None
        world.hear()
        assert [event.job for event in world.of(events.AttemptLeased)] == [job]

    @drills
    def test_it_expires_with_the_telemetry(
        self, signal: str, fields: dict[str, Any], fact: type[Any], held: set[WorkKind]
    ) -> None:
        world = ward()
        world.hear(**fields)
        assert world.wait(359) == []
        assert blocked(world) == held
        world.wait(2)
        (released,) = world.of(events.BackpressureReleased)
        assert "unknown for" in released.why
        assert blocked(world) == set()
        assert world.core.wake_at() is None

    @drills
    def test_a_field_that_is_not_told_any_more_expires_too(
        self, signal: str, fields: dict[str, Any], fact: type[Any], held: set[WorkKind]
    ) -> None:
        world = ward()
        silent: dict[str, Any] = dict.fromkeys(fields)
        world.hear(**fields)
        world.hear(20, **silent)
        assert blocked(world) == held
        world.hear(10, **silent)
        assert blocked(world) == set()

    def test_a_sweep_waits_too_and_goes_on_where_it_is(self) -> None:
        world = ward()
        world.hear(memory_free_gb=1.0)
        world.submit(sweep(stop=10**9))
        assert world.of(events.ChunkLeased) == []
        world.hear()
        assert len(world.of(events.ChunkLeased)) > 0
        world.hear(memory_free_gb=1.0)
        world.tell(world.searched(world.chunk("j1")[0]))
        assert len(world.of(events.ChunkLeased)) > 0

    def test_a_disk_that_will_be_full_within_the_hour(self) -> None:
        world, seen = ward(), []
        for minute in range(10):
            seen += world.hear(4, disk_total_gb=10_000.0, disk_free_gb=9000.0 - 180.0 * minute)
        (told, _) = seen
        assert isinstance(told, events.DiskSpaceLow)
        assert told.signal.name == "disk full in"
        assert blocked(world) == {TRAINING, EXPORT}
        world.hear(60, disk_total_gb=10_000.0, disk_free_gb=7300.0)
        assert blocked(world) == set()

    def test_the_disk_goes_through_its_levels_and_only_the_last_holds_back(self) -> None:
        world = ward()
        levels = []
        for free_gb in (410.0, 390.0, 345.0, 295.0):
            world.hear(disk_free_gb=free_gb)
            levels += [event.level for event in world.of(events.BackpressureActivated)]
            assert blocked(world) == (set() if free_gb > 300 else {TRAINING, EXPORT})
        assert levels == [Level.WARNING, Level.CLEAN, Level.CRITICAL]

    def test_the_worst_of_two_counts_and_one_gone_leaves_the_other(self) -> None:
        world = ward()
        world.hear(load=17.5, disk_free_gb=390.0)
        (activated,) = world.of(events.BackpressureActivated)
        assert [each.name for each in activated.signals] == ["load", "disk"]
        world.hear(disk_free_gb=390.0)
        (activated,) = world.of(events.BackpressureActivated)
        assert (activated.level, [each.name for each in activated.signals]) == (Level.WARNING, ["disk"])

    def test_at_the_limit_it_does_not_flicker(self) -> None:
        world = ward()
        changes = 0
        for step in range(100):
            changes += len(world.hear(disk_free_gb=299.0 if step % 2 else 301.0))
        assert changes == 4  # the way up in two steps; from there on both readings are critical

    def test_a_healthy_node_that_lies_is_not_believed(self) -> None:
        world = ward()
        world.hear(memory_free_gb=1.0)
        world.hear(5, memory_free_gb=900.0)
        world.hear(5, memory_free_gb=float("nan"))
        assert blocked(world) == set(WorkKind)


class TestQueue:
    def test_depth_stops_selfplay_from_being_queued_and_releases(self) -> None:
        world = ward()
        world.set(queue_max=11)
        (first, *_) = world.submit(*[work(TRAINING, f"t{number}") for number in range(10)])
        assert effects.queue_blocked(world.state) is None
        (last, _) = world.submit(work(TRAINING, "t10"), work(TRAINING, "t11"))
        (activated,) = world.of(events.BackpressureActivated)
        assert (activated.node, activated.signals[0].name, activated.signals[0].value) == (None, "queue", 11)
        assert "queue 11 jobs, critical from 11" in (effects.queue_blocked(world.state) or "")
        world.tell(inputs.Cancel(job="j5"))
        assert effects.queue_blocked(world.state) is not None
        world.tell(inputs.Cancel(job="j6"))
        assert len(world.of(events.BackpressureReleased)) == 1
        assert effects.queue_blocked(world.state) is None
        assert {first, last} == {"j1", "j11"}

    def test_a_loop_queues_no_selfplay_meanwhile_and_goes_on_afterwards(self) -> None:
        world = loop()
        world.until_running(SELFPLAY)
        scripts = world.submit(*[script(f"s{number}", priority=-9) for number in range(8)])
        crowded = replace(world.state.rules, targets=replace(world.state.rules.targets, queue_max=6))
        world.tell(inputs.Configure(rules=crowded))
        assert effects.queue_blocked(world.state) is not None
        for _ in range(2):  # what runs, and what was queued before
            for job in world.running(SELFPLAY):
                world.end(job)
        assert world.waiting(SELFPLAY) == []
        world.tell(*(inputs.Cancel(job=name) for name in scripts[2:]))
        assert len(world.of(events.BackpressureReleased)) == 1
        assert len(world.waiting(SELFPLAY)) + len(world.running(SELFPLAY)) > 0


def test_a_disk_with_much_room_is_not_held_against_its_node() -> None:
    world = ward()
    world.tell(inputs.Configure(rules=USUAL))
    world.hear(disk_total_gb=1000.0, disk_free_gb=120.0)
    (activated,) = world.of(events.BackpressureActivated)
    assert activated.level is Level.WARNING
    assert effects.blocked(world.state, "n", WorkKind.TRAINING) is None
    world.hear(disk_total_gb=1000.0, disk_free_gb=40.0)
    assert effects.blocked(world.state, "n", WorkKind.TRAINING) is not None
