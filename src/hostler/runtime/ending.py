"""Whether there is anything left for a controller to do."""

from __future__ import annotations

from collections.abc import Collection

from hostler.core import Core
from hostler.core.stuck import is_stuck
from hostler.model.work import FINAL_STATES, HELD_STATES, JobState


def is_drained(core: Core) -> bool:
    """Whether nothing runs any more, sweeps aside of which no chunk is out."""
    counts, state = core.index.counts, core.state
    waiting = (each for each in state.sweeps.values() if not each.leases)
    idle = sum(state.jobs[sweep.job].state is JobState.RUNNING for sweep in waiting)
    return sum(counts[each] for each in HELD_STATES) == idle


def is_done(core: Core, nodes: Collection[str]) -> bool:
    """Whether everything is over, or what is not can never begin on these nodes."""
    if all(not core.index.counts[state] for state in JobState if state not in FINAL_STATES):
        return not core.index.open_configs
    return is_stuck(core.state, core.index, frozenset(nodes))


def left_behind(core: Core, nodes: Collection[str]) -> set[str]:
    """Nodes that hold work, or have batches that are not over, and are none of these."""
    state = core.state
    held = {device.spec.node for device in state.devices.values() if device.attempts or device.chunks}
    return (held | {batch.node for batch in state.batches.values()}).difference(nodes)
