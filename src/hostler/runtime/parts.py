"""The parts of a running controller for people: what each is for, when it last did something, what keeps it from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from hostler.core import Core
from hostler.core.state import Node
from hostler.model.errors import StoreError
from hostler.model.fleet import Link
from hostler.model.readings import Part
from hostler.runtime.vitals import Vitals

JOURNAL, COMMANDS, RATINGS, PLANS, SNAPSHOTS = "journal", "commands", "ratings", "plans", "snapshots"
COMPACTION = "compaction"
DOES = {
    JOURNAL: "makes entries durable before anything follows from them",
    COMMANDS: "hands commands to the nodes",
    RATINGS: "fits ratings, in a process of its own",
    PLANS: "solves the fleet's programme, in a thread",
    SNAPSHOTS: "folds the journal for the next start, in a process of its own",
    COMPACTION: "packs the journal's old entries into segments",
}
LATE_S = 1.0
"""An event loop that was so late is worth a word."""


def parts(vitals: Vitals, core: Core, nodes: Collection[str], store_trouble: StoreError | None) -> Sequence[Part]:
    """Everything that works here; then the links to the `nodes`."""
    return [
        *_own(vitals, store_trouble),
        _loop(vitals),
        *(_link(core, core.state.nodes[name]) for name in nodes if name in core.state.nodes),
    ]


def _own(vitals: Vitals, store_trouble: StoreError | None) -> Iterator[Part]:
    for name, does in DOES.items():
        last_at, times = vitals.last.get(name, (None, 0))
        fault = str(store_trouble) if name == JOURNAL and store_trouble is not None else None
        yield Part(name=name, does=does, last_at=last_at, times=times, fault=fault)


def _loop(vitals: Vitals) -> Part:
    lag_s = vitals.lag_s
    late = lag_s is not None and lag_s >= LATE_S
    return Part(
        name="event loop",
        does="does one thing at a time, all of the above",
        last_at=vitals.looked_at,
        times=None,
        fault=f"it was late by {lag_s:.1f} s within the last minute" if late else None,
    )


def _link(core: Core, node: Node) -> Part:
    """A node that tells nothing of itself was heard of when its link came up."""
    heard = core.index.telemetry.get(node.spec.name)
    linked_at = node.since if node.link is Link.UP else None
    return Part(
        name=f"node {node.spec.name}",
        does=f"keeps the link to a node ({node.spec.backend})",
        last_at=linked_at if heard is None or heard.at is None else heard.at,
        times=None,
        fault=node.trouble,
    )
