"""Alerts are decided by the core: in simulation they come at the right virtual minute, and through every fault once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.model.alerts import USUAL_ALERTS
from hostler.model.commands import AttemptOrder
from hostler.model.events import AlertEnded, AlertFired, AttemptStarted
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.rules import USUAL
from hostler.model.work import DeviceKind, Resources
from hostler.sim import Script, World, script_job
from hostler.sim.controller import replayed
from hostler.sim.faults import all_kinds
from hostler.sim.nature import Course, Plain
from hostler.sim.world import Manner

HOUR_S = 3600.0
RULES = replace(USUAL, alerts=USUAL_ALERTS)


class Lazy(Plain):
    """Jobs of which a quarter of the device's time is used at first, and all of it later."""

    def course(self, order: AttemptOrder, devices: tuple[str, ...]) -> Course:
        made = super().course(order, devices)
        return replace(made, reading=0.25 if made.amount < 1.5 * HOUR_S else 0.95)


def rigs(count: int) -> tuple[NodeSpec, ...]:
    """Nodes with two GPUs each."""
    return tuple(
        NodeSpec(
            name=f"rig-{number}",
            backend="virtual",
            devices=tuple(
                DeviceSpec(
                    id=f"rig-{number}/cuda{n}", node=f"rig-{number}", kind=DeviceKind.CUDA, index=n, vram_gb=24.0
                )
                for n in range(2)
            ),
        )
        for number in range(count)
    )


def test_idle_gpus_of_a_virtual_fleet_are_told_of_at_the_right_minute() -> None:
    world = World(1, rigs(3), Lazy({}), validate=True, rules=RULES, manner=Manner(quick=True, telemetry_every_s=15.0))
    gpu = Resources(device="gpu")
    world.submit(
        1.0, [script_job(f"lazy-{n}", Script(seconds=HOUR_S), key=f"lazy-{n}", resources=gpu) for n in range(6)]
    )
    world.submit(
        2.0, [script_job(f"busy-{n}", Script(seconds=2 * HOUR_S), key=f"b{n}", resources=gpu) for n in range(6)]
    )
    world.run(4 * HOUR_S)
    entries = world.controller.entries()
    begun = min(entry.at for entry in entries if isinstance(entry.event, AttemptStarted))
    fired = [entry for entry in entries if isinstance(entry.event, AlertFired) and entry.event.rule != "elo_stalled"]
    assert {(entry.event.rule, entry.event.subject) for entry in fired} == {
        ("fleet_idle", "fleet"), *(("gpu_idle", f"rig-{n}") for n in range(3)),
    }  # fmt: skip
    assert len(fired) == 4
    for entry in fired:
        # Half an hour after the first look at work, and not later than two looks after that.
        assert begun + 1800.0 <= entry.at <= begun + 1800.0 + 90.0
        assert entry.event.value == pytest.approx(0.25, abs=0.02)
    ended = {entry.event.subject: entry for entry in entries if isinstance(entry.event, AlertEnded)}
    assert len(ended) == 4
    for entry in ended.values():
        # The mean over five minutes goes from 0.25 towards 0.95, and passes 0.6 after 3.5 minutes.
        assert begun + HOUR_S + 150.0 <= entry.at <= begun + HOUR_S + 360.0
        assert entry.event.value >= 0.6


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3))])
def test_through_all_faults_alerts_take_turns_and_come_back_from_the_journal(seed: int) -> None:
    world = World(
        seed, rigs(2), Lazy({}), replace(all_kinds(scale=8.0, until_s=2 * HOUR_S)), rules=RULES,
        manner=Manner(telemetry_every_s=15.0),
    )  # fmt: skip
    gpu = Resources(device="gpu")
    jobs = [script_job(f"j{n}", Script(seconds=1200.0), key=f"key-{n}", resources=gpu) for n in range(20)]
    world.submit(1.0, jobs)
    world.run(6 * HOUR_S)
    fires: dict[tuple[str, str], str] = {}
    for event in (entry.event for entry in world.controller.entries()):
        if isinstance(event, AlertFired):
            assert (event.rule, event.subject) not in fires
            fires[event.rule, event.subject] = event.id
        elif isinstance(event, AlertEnded):
            assert fires.pop((event.rule, event.subject)) == event.id
    core = world.controller.core
    assert core is not None
    assert replayed(world.controller.journal).state.alerts == core.state.alerts
    assert fires == {(a.rule, a.subject): a.id for each in core.state.alerts.firing.values() for a in each.values()}
