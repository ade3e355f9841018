"""Is there still something to wait for?"""

from __future__ import annotations

from collections.abc import Iterable

from hostler.core.index import CHORE, Index
from hostler.core.state import State
from hostler.model.fleet import Link
from hostler.model.work import Resources, WorkKind
from hostler.policy import cost, fit
from hostler.policy.fit import Gate, Refusal


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
        members and never_on(state, index, need, work, cls) is None
        for work, need in needs
        for cls, members in index.members.items()
    )


def never_on(state: State, index: Index, need: Resources, work: WorkKind, cls: str) -> Refusal | None:
    """Why work will never run on devices of a class, as long as neither it nor the rules change; `None` where it may.

    It does not fit there, it excludes all their nodes, or these devices cost more than such work may.
    """
    refused = index.misfit(need, work, cls) or _excluded(index, need, cls)
    if refused is not None or work not in state.rules.cost.max_price_per_h:
        return refused
    site = index.samples[cls]
    dear = cost.over_cap(state.rules.cost, work, cost.device_price(site.node, site.device))
    return None if dear is None else Refusal(gate=Gate.PRICE, why=dear)


def _excluded(index: Index, need: Resources, cls: str) -> Refusal | None:
    """The refusal of the nodes of a class, if none of them may be taken."""
    refused = None
    for name in index.members.get(cls, ()) if need.nodes or need.exclude_nodes else ():
        refused = fit.node_refusal(need, index.sites[name].node.name)
        if refused is None:
            return None
    return refused


def _needs(state: State, index: Index) -> set[tuple[WorkKind, Resources]]:
    waiting = {(group.work, group.need) for group in list(index.ready) if index.head(state, group) is not None}
    return waiting | {(state.jobs[name].spec.work, state.jobs[name].spec.resources) for name in index.active}
