"""Nodes of the fleet that are not connected and of which no device is known, as they have never been connected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hostler.core.state import NEVER_REACHED, RESTARTED, Node, State
from hostler.model.fleet import Link
from hostler.model.work import Resources
from hostler.policy import fit

NAMED = 3
"""Nodes that a text names, with the reason of each."""


def unconnected(state: State, need: Resources) -> Sequence[Node]:
    """Nodes without known devices that work with this need may take once they are connected, in order of their names.

    Those that an earlier fleet file had are left out, unless the need names them.
    """
    return sorted(
        (
            node
            for name, node in state.nodes.items()
            if node.link is not Link.UP
            and not node.spec.devices
            and (node.trouble != RESTARTED or name in need.nodes)
            and fit.node_refusal(need, name) is None
        ),
        key=lambda node: node.spec.name,
    )


def all_unconnected(state: State, need: Resources) -> str | None:
    """That none of the nodes that a need names is connected, and why; `None` where one is, or it names none."""
    named = unconnected(state, need) if need.nodes else ()
    return words(named) if named and {node.spec.name for node in named} >= set(need.nodes) else None


def words(nodes: Iterable[Node]) -> str:
    """That these nodes are not connected, and why."""
    every = list(nodes)
    said = [f"{node.spec.name} is not connected: {reason(node)}" for node in every[:NAMED]]
    if len(every) > NAMED:
        more = len(every) - NAMED
        said.append(f"and {more} more node{'s are' if more > 1 else ' is'} not connected")
    return "; ".join(said)


def reason(node: Node) -> str:
    """Why a node that is down is not connected, and the remedy."""
    return reason_of(node.spec.name, node.spec.backend, node.trouble)


def reason_of(name: str, backend: str, trouble: str | None) -> str:
    """The same of a node by what is known of it; one that nobody could reach yet has a reason by its backend."""
    if trouble == RESTARTED:
        return "it has not answered since this controller started"
    if trouble is not None and trouble != NEVER_REACHED:
        return trouble
    if backend == "dialin":
        return f"it has not called yet; `hostler node invite FLEET {name}` prints what to run there"
    return f"{'its cluster' if backend in ('slurm', 'ray') else 'it'} has not answered yet"
