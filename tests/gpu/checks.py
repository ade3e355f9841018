"""The checks of `make gpu`, in the order in which they are played; each returns in words what it has seen.

A check fails by raising. One that cannot run on this machine raises `Skipped`, and does not count as run.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import subprocess
from collections.abc import Callable
from typing import TypeAlias

import psutil

from tests.agent.harness import Agent
from tests.agent.test_attempts import shell
from tests.gpu.world import PROBE, PYTHON, CheckFailed, World, bare, listed

GIB = 1 << 30
HELD_BYTES = GIB
FOREIGN_BYTES = 3 * GIB
ROOM_GIB = 12
"""Memory that the host must have free for the checks of memory limits."""
LIMIT_GB = 8.0
"""More than the libraries of CUDA and PyTorch need resident, much less than they reserve as addresses."""
UUID_BEGIN = 16
"""Characters of a UUID that tell the cards of a machine apart."""
ON_GPU = {"device": "gpu"}


class Skipped(Exception):
    """This machine lacks what the check needs."""


Check: TypeAlias = Callable[[World], str]


def detection(world: World) -> str:
    """The controller knows the cards that the CUDA runtime shows in the same environment, by nvidia-smi's numbers."""
    found = world.devices()
    if found.keys() != world.cards.keys():
        raise CheckFailed(f"the controller has {sorted(found)}, CUDA and nvidia-smi have {sorted(world.cards)}")
    for name, card in world.cards.items():
        if found[name]["model"] != card.model or not found[name]["vram_gb"]:
            raise CheckFailed(f"{name} is {found[name]['model']!r} of {found[name]['vram_gb']} GB, not {card.model!r}")
    return listed(list(world.cards.values()))


def proof(world: World) -> str:
    """The canary of each card gives the right answer: a kernel runs, and its memory keeps what is written to it."""

    def proved() -> bool:
        kept_out = [each["canary"] for each in world.devices().values() if each["canary"] is not None]
        wrong = [each["why"] for each in kept_out if "wrong" in each["why"] or "failed" in each["why"]]
        if wrong:
            raise CheckFailed(wrong[0])
        return not kept_out

    world.until(proved, "the right answer of each canary")
    return f"{len(world.cards)} of {len(world.cards)} cards proved"


def binding(world: World) -> str:
    """A job on each card sees that card and no other: all at a time, so that none is left out."""
    gate = world.gate()
    jobs = [world.probe("show-and-wait", gate, resources=ON_GPU) for _ in world.cards]
    try:
        for job in jobs:
            world.answer(job)
    finally:
        gate.touch()
    places = {str(world.done(job)["device"]): world.seen(job) for job in jobs}
    wanted = {name: [bare(card.uuid)] for name, card in world.cards.items()}
    if places != wanted:
        raise CheckFailed(f"jobs saw {places}, not {wanted}")
    return f"{len(jobs)} jobs side by side, each saw its own card alone"


def hiding(world: World) -> str:
    """A job on a CPU slot sees no card."""
    job = world.probe("show", resources={"device": "cpu"})
    world.done(job)
    if world.seen(job):
        raise CheckFailed(f"a job on a CPU slot saw {world.seen(job)}")
    return "a job on a CPU slot saw none"


def default_device(world: World) -> str:
    """A job that names no device is put on a card where one is free."""
    job = world.probe("show")
    place = world.done(job)["device"]
    if place not in world.cards or world.seen(job) != [bare(world.cards[place].uuid)]:
        raise CheckFailed(f"it was put on {place} and saw {world.seen(job)}")
    return f"it was put on {place}"


def environment(world: World) -> str:
    """An agent reports the card that CUDA_VISIBLE_DEVICES names by the begin of its UUID, and binds a job to it."""
    card = list(world.cards.values())[-1]
    begin = card.uuid[:UUID_BEGIN]
    agent = Agent(world.folder / "agent", CUDA_VISIBLE_DEVICES=begin)
    try:
        client = agent.client()
        client.send(type="probe", id=1)
        found = client.message("probe")["facts"]["devices"]
        if [each["index"] for each in found or ()] != [card.number]:
            raise CheckFailed(f"the agent reports {found} for CUDA_VISIBLE_DEVICES={begin}")
        env = {"CUDA_VISIBLE_DEVICES": str(card.number), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        client.launch(shell("a1", f"exec '{PYTHON}' '{PROBE}' show", env=env))
        client.ended("a1")
        said = base64.b64decode(client.read("a1")["data"]).decode()
    finally:
        agent.stop()
    if [bare(each["uuid"]) for each in json.loads(said or "[]")] != [bare(card.uuid)]:
        raise CheckFailed(f"a job of the agent saw {said}, not {card.uuid}")
    return f"CUDA_VISIBLE_DEVICES={begin} left card {card.number}, and a job saw it"


def telemetry(world: World) -> str:
    """Memory that a job takes of a card is in the telemetry of that card within a minute, and goes with the job."""
    gate = world.gate()
    before = {name: _used_gb(world, name) for name in world.cards}
    job = world.probe("hold", HELD_BYTES, gate, resources=ON_GPU)
    try:
        world.until(lambda: "held" in world.printed(job), "the memory of the job")
        place = str(world.fleet.job(job)["device"])
        wanted = before[place] + 0.9 * HELD_BYTES / GIB
        during = world.until(lambda: _at_least(_now_gb(world, place), wanted), f"{wanted:.1f} GB used of {place}")
    finally:
        gate.touch()
    world.done(job)
    world.until(lambda: _at_most(_now_gb(world, place), during - 0.9 * HELD_BYTES / GIB), f"less used of {place}")
    return f"{place}: {before[place]:.1f} GB before, {during:.1f} GB during a job that held {HELD_BYTES / GIB:g} GiB"


def memory_limit(world: World) -> str:
    """A limit of host memory lets a job use CUDA, and ends one that takes more."""
    _expect_room()
    gate = world.gate()
    gate.touch()
    need = {**ON_GPU, "memory_gb": LIMIT_GB}
    world.done(world.probe("hold", HELD_BYTES, gate, resources=need))
    return f"CUDA ran within {LIMIT_GB:g} GB; {_ended_for_memory(world, 'eat')}"


def memory_limit_with_torch(world: World) -> str:
    """The same with PyTorch imported, whose libraries reserve many more addresses than they use."""
    if importlib.util.find_spec("torch") is None:
        raise Skipped("torch is not installed")
    _expect_room()
    job = world.probe("torch", 0, resources={**ON_GPU, "memory_gb": LIMIT_GB})
    world.done(job)
    if "computed 1048576 1" not in world.printed(job):
        raise CheckFailed(f"PyTorch printed {world.printed(job)[-300:]}")
    return f"PyTorch computed on one card within {LIMIT_GB:g} GB; {_ended_for_memory(world, 'torch')}"


def foreign_process(world: World) -> str:
    """A card on which a process that Hostler has not started holds memory gets no work; `explain` names the process."""
    name, card = next(iter(world.cards.items()))
    gate = world.gate()
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": str(card.number), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    words = [PYTHON, str(PROBE), "hold", str(FOREIGN_BYTES), str(gate)]
    with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, start_new_session=True, text=True) as foreign:
        try:
            assert foreign.stdout is not None
            if foreign.stdout.readline().strip() != "held":
                raise CheckFailed("the foreign process could not take its memory")
            use = world.until(lambda: world.devices()[name]["foreign_use"], f"the use of {name} by others")
            job = world.probe("show", resources=ON_GPU)
            says = world.fleet.client.explain(job)["devices"].get(name, "")
            if len(world.cards) > 1 and world.done(job)["device"] == name:
                raise CheckFailed(f"{job} was put on {name}, which others use")
            if len(world.cards) == 1 and (world.fleet.job(job)["state"] != "pending" or "by others" not in says):
                raise CheckFailed(f"{job} is {world.fleet.job(job)['state']}, and {name} says {says!r}")
            if len(world.cards) == 1:
                world.fleet.client.cancel(job)
        finally:
            gate.touch()
    return f"{name} was left to {use['who']}"


CHECKS: tuple[Check, ...] = (
    detection,
    proof,
    binding,
    hiding,
    default_device,
    environment,
    telemetry,
    memory_limit,
    memory_limit_with_torch,
    foreign_process,
)


def _used_gb(world: World, name: str) -> float:
    """Memory used of a card, once its driver has told."""
    world.until(lambda: world.devices()[name]["vram_used_gb"] is not None, f"the telemetry of {name}")
    return _now_gb(world, name) or 0.0


def _now_gb(world: World, name: str) -> float | None:
    used: float | None = world.devices()[name]["vram_used_gb"]
    return used


def _at_least(used: float | None, wanted: float) -> float | None:
    return used if used is not None and used >= wanted else None


def _at_most(used: float | None, wanted: float) -> bool:
    return used is not None and used <= wanted


def _expect_room() -> None:
    free = psutil.virtual_memory().available / GIB
    if free < ROOM_GIB:
        raise Skipped(f"{free:.1f} GiB of host memory are free, {ROOM_GIB} GiB are needed")


def _ended_for_memory(world: World, what: str) -> str:
    """A job that takes more than its limit is ended for that."""
    retry = {"max_attempts": {"memory": 1, "exit": 1, "signal": 1}}
    limit = {**ON_GPU, "memory_gb": LIMIT_GB}
    job = world.probe(what, int((LIMIT_GB + 1) * GIB), resources=limit, retry=retry)
    found = world.ended(job)
    if (found["state"], found["failure"]) != ("failed", "memory"):
        words = f"{found['state']} ({found['failure']}: {found['why']})"
        raise CheckFailed(f"a job that took {LIMIT_GB + 1:g} GB of {LIMIT_GB:g} GB is {words}")
    return f"a job that took more ended: {found['why']}"
