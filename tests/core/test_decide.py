"""Who gets what, and which devices are looked at for it."""

from __future__ import annotations

import pytest

from hostler.model import commands, events, inputs
from hostler.model.work import Resources
from hostler.policy.placement import LEAD_ATTEMPTS
from tests.core.builders import Driver, ended, fleet, link_up, node, script, sweep


def short(world: Driver, *names: str) -> None:
    """Scripts that took a tenth of a second."""
    world.tell(*(ended(name, started_at=1.0, ended_at=1.1) for name in names))


class TestRoom:
    def test_a_full_fleet_is_not_looked_at_again_until_something_ends(self) -> None:
        world = fleet(devices=3)
        world.submit(*[script() for _ in range(5)])
        assert world.core.index.open == {}
        world.tell(ended("j2.1"))
        assert [event.device for event in world.of(events.AttemptLeased)] == ["n/cpu1"]
        assert world.core.index.open == {}

    def test_devices_with_chunks_still_take_scripts(self) -> None:
        world = fleet(devices=2)
        world.submit(sweep(stop=10**9))
        assert set(world.core.index.open) == {"n/cpu0", "n/cpu1"}
        world.submit(script())
        assert len(world.of(events.AttemptLeased)) == 1

    def test_a_chunk_that_is_done_does_not_wake_the_others(self) -> None:
        world = fleet(devices=4)
        world.submit(sweep(stop=10**9))
        chunk = world.chunk("j1")[0]
        device = world.state.sweeps["j1"].leases[chunk].device
        world.tell(world.searched(chunk))
        assert {event.device for event in world.of(events.ChunkLeased)} == {device}

    def test_a_node_that_comes_takes_what_waits(self) -> None:
        world = fleet()
        world.submit(script(), script(), sweep())
        world.tell(inputs.NodeFound(node=node("m")), link_up("m"))
        assert [event.device for event in world.of(events.AttemptLeased)] == ["m/cpu0"]

    def test_a_draining_controller_gives_nothing(self) -> None:
        world = fleet()
        world.tell(inputs.Drain())
        world.submit(script(), sweep())
        assert world.of(events.AttemptLeased) == []
        assert world.of(events.ChunkLeased) == []


class TestLead:
    def test_short_scripts_are_queued_ahead(self) -> None:
        world = fleet()
        world.submit(*[script(f"s{n}") for n in range(60)])
        for number in range(1, 4):
            short(world, f"j{number}.1")
        held = len(world.state.devices["n/cpu0"].attempts)
        assert 1 < held <= LEAD_ATTEMPTS

    def test_long_ones_are_not(self) -> None:
        world = fleet()
        world.submit(*[script(f"s{n}") for n in range(10)])
        for number in range(1, 5):
            world.tell(ended(f"j{number}.1", started_at=1.0, ended_at=100.0))
        assert len(world.state.devices["n/cpu0"].attempts) == 1

    def test_a_short_script_leaves_the_chunks_where_they_are(self) -> None:
        world = fleet()
        world.submit(*[script(f"s{n}") for n in range(3)])
        for number in range(1, 4):
            short(world, f"j{number}.1")
        world.submit(sweep(stop=10**9))
        world.submit(script("s9"))
        assert [type(each) for each in world.commands] == [commands.Launch]


def test_a_need_that_nothing_has_any_more_is_not_walked() -> None:
    world = fleet()
    world.submit(*[script(resources=Resources(memory_gb=gb)) for gb in range(1, 6)])
    for number in range(1, 6):
        world.tell(ended(f"j{number}.1", ended_at=100.0))
    world.submit(script(resources=Resources(device="gpu")))
    world.tell(inputs.Cancel(job="j6"))
    world.submit(script())
    assert list(world.core.index.ready) == []


class TestOrders:
    def test_python_stands_for_the_interpreter_of_the_node(self) -> None:
        world = fleet()
        world.submit(script("a", "{python}", "{python}"))
        (launch,) = world.commands
        assert isinstance(launch, commands.Launch)
        assert launch.order.argv == ("python3", "{python}")

    def test_a_script_without_dependencies_has_no_inputs(self) -> None:
        world = fleet()
        world.submit(script())
        (launch,) = world.commands
        assert isinstance(launch, commands.Launch)
        assert launch.order.inputs is None

    def test_memory_is_told_in_bytes(self) -> None:
        world = fleet()
        world.submit(script(resources=Resources(memory_gb=1.5)))
        (launch,) = world.commands
        assert isinstance(launch, commands.Launch)
        assert launch.order.memory_bytes == 3 * 2**29

    @pytest.mark.parametrize("devices", [1, 3])
    def test_each_device_has_a_worker_of_its_own(self, devices: int) -> None:
        world = fleet(devices=devices)
        world.submit(sweep(stop=10**9))
        lends = [each for each in world.commands if isinstance(each, commands.Lend)]
        assert {lend.worker.id for lend in lends} == {f"w-j1-n-cpu{n}" for n in range(devices)}
