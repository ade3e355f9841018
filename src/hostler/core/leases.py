"""Until when does what a node out of reach runs stay its own?

Its agent ends that by itself at the end of the lease, counted from the last word it had from the controller. The
controller counts from when the link broke, which is not earlier, and waits a little longer still: clocks differ.
"""

from __future__ import annotations

from hostler.core.index import Index
from hostler.core.state import Node, State
from hostler.model.fleet import Link
from hostler.model.units import duration

CHORE = "lease "
"""What the name of a chore begins with that looks whether the lease of a node, which follows, is over."""
DRIFT = 1.05
"""How many times as fast as the node's clock the controller's may go."""
MARGIN_S = 30.0
"""What ending everything may take there."""
TRIED_S = 60.0
"""For so long a new controller tries to reach a node before it gives anything up."""


def ends_at(state: State, node: Node) -> float | None:
    """When what the node has is given to others; `None`: it can be reached, or keeps it for ever."""
    lease_s = node.spec.lease_s
    if node.link is Link.UP or lease_s is None:
        return None
    return max(away_since(node) + lease_s * DRIFT + MARGIN_S, state.begun_at + TRIED_S)


def away_since(node: Node) -> float:
    """When a node that is out of reach was linked last, at the latest."""
    return node.since if node.linked_until is None else node.linked_until


def watch(state: State, index: Index, node: Node) -> None:
    """Look again when the lease of the node is over."""
    at = ends_at(state, node)
    if at is not None:
        index.do_later(CHORE + node.spec.name, at)


def away(state: State, node: Node, now: float, then: str = "is started elsewhere") -> str:
    """What is known of work on a node out of reach, in words; `then` says what becomes of it after the lease."""
    name, since = node.spec.name, duration(max(now - away_since(node), 0.0))
    said = f"{name} has been out of reach for {since} ({node.trouble or 'it does not answer'}), it may run on there"
    at = ends_at(state, node)
    if at is None:
        return f"{said}; {name} keeps it, however long that lasts (`lease_s: never`)"
    return f"{said}; it {then} in {duration(max(at - now, 0.0))} unless {name} answers"
