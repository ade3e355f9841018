"""Which devices could be had from self-play, if need be, and which of them were put to work last."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from hostler.core.index import Index
from hostler.core.roll import ascending
from hostler.core.state import Device, State
from hostler.model.work import WorkKind

STALE_MOST = 64
"""Stale entries of a heap that are not worth dropping."""


def note(state: State, index: Index, device: Device) -> None:
    """Note whether a device could be had from self-play, after something about it has changed."""
    cls = index.classes.get(device.spec.id)
    if cls is None:
        return
    if not _is_yieldable(state, device):
        index.yieldable[cls].pop(device.spec.id, None)
        return
    index.yieldable[cls][device.spec.id] = None
    index.newly_yieldable[device.spec.id] = None
    index.room_changed = True
    heap = index.begun[cls]
    if len(heap) > 2 * len(index.yieldable[cls]) + STALE_MOST:
        heap[:] = [(-begun_at(state, name), name) for name in index.yieldable[cls]]
        heapq.heapify(heap)
    else:
        heapq.heappush(heap, (-begun_at(state, device.spec.id), device.spec.id))


def last_begun(state: State, index: Index, cls: str) -> Iterator[tuple[float, str]]:
    """Yieldable devices of a class, those first that were put to work last, with when that was."""
    previous = None
    for entry in ascending(index.begun[cls]):
        name = entry[1]
        if entry != previous and name in index.yieldable[cls] and -entry[0] == begun_at(state, name):
            yield -entry[0], name
        previous = entry


def begun_at(state: State, device: str) -> float:
    """When the newest attempt was put on a device that has some."""
    found = (state.jobs[name.rpartition(".")[0]].attempt for name in state.devices[device].attempts)
    return max(attempt.leased_at for attempt in found if attempt is not None)


def _is_yieldable(state: State, device: Device) -> bool:
    jobs = [state.jobs[name.rpartition(".")[0]] for name in device.attempts]
    return bool(jobs) and all(
        job.spec.work is WorkKind.SELFPLAY and job.attempt is not None and job.attempt.yielding is None for job in jobs
    )
