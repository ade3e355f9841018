"""What is shown of the queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.core import waits as waiting
from hostler.core.explain import verdict_of
from hostler.core.index import Index
from hostler.core.listed import device_ids
from hostler.core.starting import Verdict
from hostler.core.state import Device, Job, State
from hostler.core.views import job_detail, node_views, queue_rows, status_view
from hostler.model import inputs
from hostler.model.rules import Cost, Rules
from hostler.model.work import DeviceKind, Resources, WorkKind
from tests.core.builders import Driver, ended, fleet, link_up, node, script, sweep
from tests.core.test_explain import fleet as rigs, rig

GPU = Resources(device="gpu")


def waits(world: Driver, limit: int = 10) -> list[str | None]:
    return [row.waits_for for row in queue_rows(world.state, world.core.index, limit)]


def test_a_job_that_fits_on_no_device_says_so() -> None:
    world = fleet()
    world.submit(script(), script(), script(resources=GPU), sweep(resources=GPU))
    gate = "fits on no device: needs a GPU, n/cpu0 is a CPU slot"
    assert waits(world) == ["the device it fits on is taken", gate, gate]
    assert waits(world, limit=2) == ["the device it fits on is taken", gate]


def test_a_fleet_without_devices_refuses_nothing_yet() -> None:
    world = Driver()
    world.submit(script(resources=GPU))
    assert waits(world) == ["the fleet has no devices yet"]


def test_devices_that_are_taken_are_counted() -> None:
    world = fleet(devices=3)
    world.submit(*[script() for _ in range(5)])
    assert waits(world) == ["all 3 devices are taken"] * 2


def test_what_is_too_dear_fits_nowhere_either() -> None:
    rules = Rules(cost=Cost(max_price_per_h={WorkKind.SCRIPT: 1.0}))
    world = rigs(rig(price_per_h=3.0), rules=rules)
    world.submit(script(resources=GPU))
    assert waits(world) == ["fits on no device: costs 3 per hour, script may cost 1"]


def test_one_gate_is_told_in_its_own_words() -> None:
    world = fleet()
    world.tell(inputs.LinkDown(node="n", why="the cable is out"))
    world.submit(script())
    assert waits(world) == ["out of reach: the cable is out"]


def test_several_gates_are_counted() -> None:
    world = fleet(devices=2)
    world.tell(inputs.NodeFound(node=node("m")), link_up("m", agent="m"))
    world.tell(inputs.LinkDown(node="m", why="gone"))
    world.submit(script(), script(), script())
    assert waits(world) == ["of 3 devices, 2 are taken, 1 is out of reach"]


def test_a_sweep_that_has_devices_waits_for_nothing() -> None:
    world = fleet()
    world.submit(sweep(stop=1 << 40))
    assert waits(world) == [None]


def test_of_a_large_fleet_few_devices_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Driver()
    world.tell(inputs.NodeFound(node=node(devices=200, kind=DeviceKind.CUDA)), link_up())
    world.submit(*[script() for _ in range(210)])
    asked: list[str] = []

    def count(state: State, index: Index, job: Job, device: Device) -> Verdict:
        asked.append(device.spec.id)
        return verdict_of(state, index, job, device)

    monkeypatch.setattr(waiting, "verdict_of", count)
    monkeypatch.setattr(waiting, "LOOKS", 80)
    assert waits(world) == ["all 8 looked at of 200 devices are taken"] * 10
    assert len(asked) <= 80


def test_a_device_tells_what_it_holds_and_a_node_what_it_costs() -> None:
    world = Driver()
    rented = replace(node(kind=DeviceKind.CUDA, vram_gb=96.0), provider="vast", ephemeral=True, price_per_h=2.5)
    world.tell(inputs.Begin(version="test", epoch=1), inputs.NodeFound(node=rented), link_up())
    (job,) = world.submit(script("trains", config="hex8_2p"))
    (view,) = node_views(world.state, world.core.index)
    (held,) = view.devices[0].held
    assert (view.provider, view.ephemeral, view.price_per_h, view.tier) == ("vast", True, 2.5, 1)
    assert (held.id, held.job, held.name, held.work, held.config) == (f"{job}.1", job, "trains", "script", "hex8_2p")
    assert held.since == world.now


def test_a_sweep_tells_what_was_searched_in_a_day() -> None:
    world = fleet()
    (job,) = world.submit(sweep(stop=1_000_000))
    chunk, start, stop = world.chunk(job)
    world.tell(world.searched(chunk))
    assert day(world, job) == stop - start
    world.tell(inputs.Tick(), after_s=26 * 3600)
    assert day(world, job) == 0
    later, first, last = world.chunk(job)
    world.tell(world.searched(later))
    assert day(world, job) == last - first
    assert len(world.state.sweeps[job].hours) == 1, "what is older is forgotten"


def day(world: Driver, job: str) -> int:
    detail = job_detail(world.state, world.core.index, world.state.jobs[job])
    assert detail.sweep is not None
    return detail.sweep.day


def test_card_that_is_selected_no_more_is_listed_only_while_it_holds_work() -> None:
    world = Driver()
    cards = node("n", devices=2, kind=DeviceKind.CUDA, vram_gb=24.0)
    world.tell(inputs.NodeFound(node=cards), link_up())
    world.submit(script())
    (used,) = (name for name, device in world.state.devices.items() if device.attempts)
    kept = tuple(each for each in cards.devices if each.id != used)

    def listed() -> tuple[int, list[str], list[str]]:
        state, index = world.state, world.core.index
        (shown,) = node_views(state, index)
        return (
            status_view(state, index, "", "").devices,
            [each.id for each in shown.devices],
            [*device_ids(state, index)],
        )

    both = [each.id for each in cards.devices]
    assert listed() == (2, both, both)
    world.tell(inputs.NodeFound(node=replace(cards, devices=kept)))
    assert listed() == (2, both, both)
    world.tell(ended("j1.1"))
    assert listed() == (1, [kept[0].id], [kept[0].id])
