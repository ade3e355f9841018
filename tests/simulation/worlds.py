"""Small worlds, each made from its seed: a few nodes, scripts with dependencies, a sweep or two with planted hits."""

from __future__ import annotations

from random import Random

import pytest

from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.record import record
from hostler.model.work import DeviceKind, FailureClass, JobSpec, Retry
from hostler.sim import Faults, Script, World, script_job, sweep_job

SNAPSHOT = "5a" * 32
"""Of the first sweep of a world; the others have none."""
PATIENT = Retry(max_attempts={kind: 50 for kind in FailureClass if kind is not FailureClass.EXIT}, backoff_s=0.5)
"""Faults of the world must not use up a budget here: what is looked for is lost work."""


def in_blocks(quick: int, seeds: int, size: int, first: int = 0) -> list[pytest.ParameterSet]:
    """Seeds as parameters: the `quick` first ones for `make test`, all others for `make test-long`, in blocks.

    Blocks are shared out among test processes, so that many worlds are not played by one of them.
    """
    known = range(first, first + seeds)
    quick_ones, others = known[:quick], known[quick:]
    blocks = [others[at : at + size] for at in range(0, len(others), size)]
    made = [pytest.param(quick_ones, id=_name_of(quick_ones))] if quick_ones else []
    return [*made, *(pytest.param(block, id=_name_of(block), marks=pytest.mark.long) for block in blocks)]


def _name_of(block: range) -> str:
    return f"{block[0]}-{block[-1]}"


@record
class Plan:
    """What a small world is asked to do, and what must come of it. Names are keys."""

    scripts: tuple[JobSpec, ...]
    doomed: frozenset[str]
    """Scripts that always fail, and who comes after them."""
    sweeps: tuple[JobSpec, ...]
    planted: dict[str, tuple[int, ...]]


def small_world(seed: int, faults: Faults, lease_s: float | None = None) -> tuple[World, Plan]:
    """A world and what it was asked to do; its nodes keep for `lease_s` what they have while they are out of reach."""
    random = Random(seed)
    nodes = tuple(_node(f"n{number}", random.randint(1, 3), lease_s) for number in range(random.randint(2, 4)))
    speeds = {device.id: random.choice([300.0, 1000.0, 4000.0]) for node in nodes for device in node.devices}
    world = World(seed, nodes, speeds, faults)
    plan = drawn_plan(random)
    world.submit(0.5, plan.scripts[:3])
    world.submit(random.uniform(0.0, 30.0), plan.sweeps)
    world.submit(random.uniform(5.0, 60.0), plan.scripts)
    return world, plan


def _node(name: str, devices: int, lease_s: float | None = None, *, rented: bool = False) -> NodeSpec:
    specs = (DeviceSpec(id=f"{name}/cpu{n}", node=name, kind=DeviceKind.CPU, index=n) for n in range(devices))
    return NodeSpec(name=name, backend="virtual", devices=tuple(specs), lease_s=lease_s, apart=rented, ephemeral=rented)


def drawn_plan(random: Random) -> Plan:
    scripts: list[JobSpec] = []
    doomed: set[str] = set()
    for number in range(6):
        key = f"s{number}"
        after = tuple(sorted(random.sample([spec.name for spec in scripts], k=random.randint(0, min(2, number)))))
        fails = random.choice([0.0, 0.0, 0.3, 0.3, 1.0 if number else 0.0])
        if fails == 1.0 or doomed & set(after):
            doomed.add(key)
        script = Script(seconds=random.choice([0.05, 1.0, 8.0, 25.0]), fails=fails)
        priority = random.choice([0, 0, 1, -1])
        retry = Retry(
            max_attempts={**PATIENT.max_attempts, FailureClass.EXIT: 1 if fails == 1.0 else 40}, backoff_s=0.5
        )
        scripts.append(script_job(key, script, key=key, after=after, priority=priority, retry=retry))
    sweeps, planted = [], {}
    for number in range(random.randint(1, 2)):
        spec, hits = _sweep(f"w{number}", random)
        sweeps.append(spec)
        planted[spec.name] = hits
    return Plan(scripts=tuple(scripts), doomed=frozenset(doomed), sweeps=tuple(sweeps), planted=planted)


def _sweep(key: str, random: Random) -> tuple[JobSpec, tuple[int, ...]]:
    start = random.choice([0, -1000, 2**63 - 50_000, 2**90])
    stop = start + random.randint(1, 70_000)
    hits = tuple(sorted({random.randrange(start, stop) for _ in range(random.randint(0, 5))} | {start, stop - 1}))
    snapshot = SNAPSHOT if key == "w0" else None
    return sweep_job(key, start, stop, hits, key=key, target_s=8.0, retry=PATIENT, snapshot=snapshot), hits
