"""What must always be true of devices that share work, and of work that shares devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from hostler.core import accounts
from hostler.core.index import Index
from hostler.core.state import Attempt, Device, Job, State
from hostler.model.work import WorkKind

CLOSE = 1e-6


def holding_faults(state: State, index: Index, fresh: Index, jobs: Collection[Job]) -> Iterator[str]:
    """Where attempts, devices, nodes and accounts contradict each other or what is kept in the index about them."""
    accounts.recount(state, fresh)
    for job in jobs:
        if job.attempt is not None:
            yield from _attempt(state, job, job.attempt)
    for device in state.devices.values():
        if len(device.attempts) > 1:
            yield from _shared(state, device)
    yield from _trainings(jobs)
    yield from _kept(index, fresh)


def _attempt(state: State, job: Job, attempt: Attempt) -> Iterator[str]:
    nodes = {state.devices[name].spec.node for name in attempt.devices}
    if len(nodes) != 1 or len(set(attempt.devices)) != len(attempt.devices):
        yield f"{attempt.id} holds {attempt.devices}, which are not different devices of one node"
    for name in attempt.others:
        if attempt.id not in state.devices[name].attempts:
            yield f"{attempt.id} is not on {name}, which it holds"
    if attempt.lane and not job.spec.resources.shared:
        yield f"{attempt.id} is in lane {attempt.lane} and shares with nobody"


def _shared(state: State, device: Device) -> Iterator[str]:
    """Several on one device: either all share it, each in a lane of its own, or one follows the other in lane 0."""
    jobs = [state.jobs[name.rpartition(".")[0]] for name in device.attempts]
    attempts = [job.attempt for job in jobs if job.attempt is not None]
    if any(len(attempt.devices) > 1 for attempt in attempts):
        yield f"{device.spec.id} holds {device.attempts}, of which one takes several devices"
    lanes = Counter(attempt.lane for attempt in attempts)
    shared = [job.spec.resources.shared for job in jobs]
    if all(shared):
        if max(lanes.values()) > 1:
            yield f"{device.spec.id} has a lane for two of {device.attempts}"
        vram_gb = device.spec.vram_gb
        if vram_gb is not None and sum(job.spec.resources.vram_gb for job in jobs) > vram_gb + CLOSE:
            yield f"{device.spec.id} has promised more than its {vram_gb:g} GB to {device.attempts}"
    elif any(shared) or set(lanes) != {0}:
        yield f"{device.spec.id} is shared by {device.attempts}, of which some share with nobody"


def _trainings(jobs: Collection[Job]) -> Iterator[str]:
    running = Counter(
        job.spec.serves
        for job in jobs
        if job.attempt is not None and job.spec.work is WorkKind.TRAINING and job.spec.serves is not None
    )
    twice = [config for config, count in running.items() if count > 1]
    if twice:
        yield f"two trainings at a time of {twice}"


def _kept(index: Index, fresh: Index) -> Iterator[str]:
    kept: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
        "what runs takes of nodes": (index.nodes, fresh.nodes),
        "what runs takes of devices": (index.uses, fresh.uses),
        "what accounts have out": (index.live, fresh.live),
    }
    for what, (told, should) in kept.items():
        wrong = [key for key in {*told, *should} if not _same(told.get(key), should.get(key))]
        if wrong:
            yield f"{what}: {[(key, told.get(key), should.get(key)) for key in wrong]}"
    if +index.trainings != +fresh.trainings or +index.playing != +fresh.playing:
        yield f"trainings {index.trainings}, self-play {index.playing}; should be {fresh.trainings}, {fresh.playing}"
    if _filled(index.yieldable) != _filled(fresh.yieldable):
        yield f"devices that could be had are {_filled(index.yieldable)}, should be {_filled(fresh.yieldable)}"
    if _filled(index.members) != _filled(fresh.members):
        yield f"classes are {_filled(index.members)}, should be {_filled(fresh.members)}"


def _same(told: Any, should: Any) -> bool:
    """Sums may differ by rounding; when something was last started on a node is not made anew."""
    if told == should:
        return True
    ours, theirs = _numbers(told), _numbers(should)
    return all(abs(a - b) <= CLOSE * (1 + abs(a)) for a, b in zip(ours, theirs, strict=True))


def _numbers(value: Any) -> tuple[float, float, float, float]:
    if value is None:
        return 0.0, 0.0, 0.0, 0.0
    first, second, third, fourth, *_ = *(getattr(value, name) or 0.0 for name in value.__slots__), 0.0, 0.0
    return first, second, third, fourth


def _filled(sets: Mapping[str, Any]) -> dict[str, set[str]]:
    return {key: set(names) for key, names in sets.items() if names}
