"""Is there still something to wait for?"""

from __future__ import annotations

from collections.abc import Iterable

from hostler.core.index import CHORE, Index
from hostler.core.state import State
from hostler.model.fleet import Link
from hostler.model.work import Resources, WorkKind


def is_stuck(state: State, index: Index, nodes: Iterable[str]) -> bool:
    """Whether work waits that no device of the fleet will ever take, and nothing else goes on.

    `nodes` are those the fleet should have: while one of them is out of reach, its devices may yet come.
    """
    if any(not name.startswith(CHORE) for _, name in index.timers):
        return False
    if any(device.attempts or device.chunks for device in state.devices.values()):
        return False
    if not all(name in state.nodes and state.nodes[name].link is Link.UP for name in nodes):
        return False
    needs = _needs(state, index)
    return bool(needs) and not any(
        members and index.misfit(need, work, cls) is None
        for work, need in needs
        for cls, members in index.members.items()
    )


def _needs(state: State, index: Index) -> set[tuple[WorkKind, Resources]]:
    waiting = {(group.work, group.need) for group in list(index.ready) if index.head(state, group) is not None}
    return waiting | {(state.jobs[name].spec.work, state.jobs[name].spec.resources) for name in index.active}
