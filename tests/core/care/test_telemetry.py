"""Whatever nodes tell: the state stays sound, the journal stays small, and a restart keeps what was decided."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.core import Core
from hostler.core.care import effects
from hostler.core.index import CARE, CHORE
from hostler.core.views import node_views, status_view
from hostler.model import events, inputs
from hostler.model.errors import BrokenInvariant, EventRefused, NotFound
from hostler.model.events import EXTERNAL_NAMES
from hostler.model.fleet import MemoryLimits
from hostler.model.telemetry import DeviceTelemetry
from hostler.model.work import DeviceKind, WorkKind
from tests.core.builders import link_up, node, replayed, snapshot
from tests.core.care.builders import GPU, Ward, told, ward, work

anything = st.none() | st.floats() | st.floats(0, 100)
devices = st.dictionaries(
    st.sampled_from([GPU, "n/cuda7", "m/cuda0"]),
    st.builds(DeviceTelemetry, utilization=anything | st.floats(0, 1), vram_used_gb=anything, temperature_c=anything),
)
tales = st.builds(
    inputs.Telemetry,
    node=st.just("n"),
    at=st.floats(0, 100),
    load=anything,
    memory_total_gb=anything,
    memory_free_gb=anything,
    disk_total_gb=anything,
    disk_free_gb=anything,
    backlog_s=anything,
    devices=devices,
)


def is_finite(tale: inputs.Telemetry) -> bool:
    """Whether a journal can hold it: other numbers become `None` where messages of nodes are read."""
    of_devices = [getattr(each, name) for each in tale.devices.values() for name in each.__dataclass_fields__]
    values = [getattr(tale, name) for name in tale.__dataclass_fields__]
    return all(math.isfinite(each) for each in (*values, *of_devices) if isinstance(each, float))


class TestAnything:
    @settings(max_examples=15, deadline=None)
    @given(st.lists(st.tuples(tales, st.sampled_from([0.0, 10.0, 100.0, 1000.0])), max_size=12))
    def test_nothing_that_is_told_breaks_anything(self, told_then: list[tuple[inputs.Telemetry, float]]) -> None:
        world = ward()
        world.start(*world.submit(work(WorkKind.SELFPLAY)))
        for tale, after_s in told_then:
            world.tell(tale, after_s=after_s)
            (answer,) = world.answers
            assert answer is None if is_finite(tale) else isinstance(answer, EventRefused)
        assert replayed(world.entries).state == world.state
        assert snapshot(world.state) == world.state

    def test_a_node_nobody_knows(self) -> None:
        world = ward()
        world.tell(told("stranger"))
        assert isinstance(world.answers[0], NotFound)
        assert "stranger" not in world.core.index.telemetry

    def test_a_reading_that_is_repeated_is_no_new_one(self) -> None:
        """A sampler that hangs tells the same for ever; what it said is as old as it is."""
        world = ward()
        world.hear(memory_free_gb=1.0)
        stuck = told(at=5.0, memory_free_gb=1.0)
        for _ in range(40):
            world.tell(stuck, after_s=15.0)
        assert effects.blocked(world.state, "n", WorkKind.SCRIPT) is None


class TestJournal:
    @pytest.mark.parametrize("readings", [400, pytest.param(2000, marks=pytest.mark.long)])
    def test_noise_around_every_limit_leaves_few_entries(self, readings: int) -> None:
        world, chance = ward(), random.Random(1)
        world.start(*world.submit(work(WorkKind.SELFPLAY)))
        before = len(world.entries)
        for _ in range(readings):
            world.hear(
                load=chance.uniform(15.7, 16.3),
                memory_free_gb=64 * chance.uniform(0.19, 0.21),
                disk_free_gb=1000 * chance.uniform(0.295, 0.305),
                backlog_s=chance.uniform(1700, 1900),
                busy=chance.uniform(0.55, 0.85),
            )
        assert len(world.entries) - before < 20

    def test_a_healthy_fleet_journals_nothing(self) -> None:
        world = ward()
        world.start(*world.submit(work(WorkKind.SELFPLAY)))
        assert world.hear(500, busy=0.7) == []
        assert world.core.wake_at() is None


class TestRestart:
    def pressed(self) -> Ward:
        world = ward()
        ids = world.submit(*[work(WorkKind.SELFPLAY, f"s{number}") for number in range(3)])
        world.start(ids[0])
        world.hear(20, busy=0.3)
        world.hear(memory_free_gb=1.0, busy=0.3)
        assert effects.blocked(world.state, "n", WorkKind.SCRIPT) is not None
        assert effects.lanes(world.state, GPU) == 2
        return world

    @pytest.mark.parametrize("way", ["replay", "snapshot", "both"])
    def test_what_was_decided_holds_for_its_time_counted_from_the_restart(self, way: str) -> None:
        old = self.pressed()
        core = self.again(old, way)
        world = Ward(core, now=old.now + 10_000.0)
        world.tell(inputs.Begin(version="test", epoch=2), link_up())
        assert effects.blocked(world.state, "n", WorkKind.SCRIPT) is not None
        world.wait(350)
        assert effects.blocked(world.state, "n", WorkKind.SCRIPT) is not None
        assert effects.lanes(world.state, GPU) == 2
        world.wait(15)
        assert effects.blocked(world.state, "n", WorkKind.SCRIPT) is None
        assert effects.lanes(world.state, GPU) == 1
        assert not [name for _, name in world.core.index.timers if name.startswith(CHORE + CARE)]

    @pytest.mark.parametrize("way", ["replay", "snapshot", "both"])
    def test_what_is_not_told_at_first_is_not_forgotten(self, way: str) -> None:
        old = self.pressed()
        world = Ward(self.again(old, way), now=old.now)
        world.tell(inputs.Begin(version="test", epoch=2), link_up())
        world.hear(5, memory_free_gb=None, busy=0.7)
        assert effects.blocked(world.state, "n", WorkKind.SCRIPT) is not None
        assert effects.lanes(world.state, GPU) == 2
        world.hear(memory_free_gb=40.0, busy=0.7)
        assert effects.blocked(world.state, "n", WorkKind.SCRIPT) is None

    def again(self, old: Ward, way: str) -> Core:
        if way == "replay":
            return replayed(old.entries)
        if way == "snapshot":
            return Core(snapshot(old.state))
        half = len(old.entries) // 2
        return replayed(old.entries[half:], snapshot(replayed(old.entries[:half]).state))


class TestShown:
    def test_a_node_shows_its_pressures_and_its_devices(self) -> None:
        world = ward()
        world.hear(load=17.5, disk_free_gb=390.0, busy=0.4)
        (shown,) = node_views(world.state, world.core.index)
        load, disk = shown.pressures
        assert (load.signal, load.event, load.level) == ("load", "NODE_OVERLOADED", "critical")
        assert (load.value, load.limit, load.unit) == (17.5, 16.0, "processes per core")
        assert (load.since, load.expires_at) == (world.now, world.now + 360)
        assert load.holds_back == (WorkKind.SCRIPT,)
        assert (disk.event, disk.level, disk.holds_back) == ("DISK_SPACE_LOW", "warning", ())
        (device,) = shown.devices
        assert (device.lanes, device.utilization, device.told_at) == (1, 0.4, world.now)
        assert (device.vram_used_gb, device.temperature_c) == (1.0, 60.0)
        assert status_view(world.state, world.core.index, "v", "f").nodes_pressed == 1

    def test_what_is_too_old_is_unknown(self) -> None:
        world = ward()
        world.hear(busy=0.4)
        world.tell(inputs.Tick(), after_s=61.0)
        (device,) = node_views(world.state, world.core.index)[0].devices
        assert (device.utilization, device.vram_used_gb) == (None, None)
        assert device.told_at == world.now - 61.0

    def test_a_node_that_tells_nothing(self) -> None:
        world = ward()
        (shown,) = node_views(world.state, world.core.index)
        assert shown.pressures == ()
        assert (shown.devices[0].lanes, shown.devices[0].utilization, shown.devices[0].told_at) == (1, None, None)

    def test_the_queue(self) -> None:
        world = ward()
        world.set(queue_max=1)
        world.submit(work(WorkKind.TRAINING, "a"), work(WorkKind.TRAINING, "b"))
        (shown,) = status_view(world.state, world.core.index, "v", "f").pressures
        assert (shown.signal, shown.event, shown.expires_at) == ("queue", "BACKPRESSURE_ACTIVATED", None)
        assert shown.holds_back == (WorkKind.SELFPLAY,)

    def test_names_that_operators_know(self) -> None:
        assert sorted(EXTERNAL_NAMES.values()) == [
            "BACKPRESSURE_ACTIVATED",
            "BACKPRESSURE_RELEASED",
            "DISK_SPACE_LOW",
            "IDLE_RESOURCE_DETECTED",
            "NODE_OVERLOADED",
            "RESOURCE_CONSTRAINT",
        ]


class TestInvariants:
    def break_it(self, world: Ward, match: str) -> None:
        with pytest.raises(BrokenInvariant, match=match):
            world.core.validate()

    def test_one_lane_is_not_noted(self) -> None:
        world = ward()
        world.state.care.lanes["n"] = {GPU: 1}
        self.break_it(world, "one is what every device has")

    def test_pressure_without_signals(self) -> None:
        world = ward()
        world.state.care.nodes["n"] = {}
        self.break_it(world, "nothing presses")

    def test_pressure_that_never_expires(self) -> None:
        world = ward()
        world.hear(memory_free_gb=1.0)
        world.core.index.telemetry["n"].armed = False
        self.break_it(world, "would never expire")


def test_a_device_that_left_the_fleet_takes_its_lanes_along() -> None:
    """Where its node is described without it, nothing is told of it any more, and what was decided expires."""
    world = ward(gpus=2)
    ids = world.submit(*[work(WorkKind.SELFPLAY, f"s{number}") for number in range(4)])
    world.start(*[each for each in ids if world.state.jobs[each].attempt is not None])
    low: dict[str, Any] = {name: DeviceTelemetry(utilization=0.3) for name in (GPU, "n/cuda1")}
    world.hear(20, devices=low)
    assert world.state.care.lanes == {"n": {GPU: 2, "n/cuda1": 2}}
    world.tell(inputs.NodeFound(node=node(devices=1, kind=DeviceKind.CUDA, vram_gb=24.0)))
    world.wait(1000)
    assert world.state.care.lanes == {}
    assert [event.device for event in world.of(events.ConcurrencySet)] == [GPU, "n/cuda1"]
    assert replayed(world.entries).state == world.state


def test_how_memory_limits_are_kept_is_shown_of_a_node_until_its_agent_is_another() -> None:
    world = ward()
    for limits in (MemoryLimits.CGROUP, MemoryLimits.WATCHED, None):
        world.tell(replace(link_up(), memory_limits=limits))
        assert [view.memory_limits for view in node_views(world.state, world.core.index)] == [limits]
