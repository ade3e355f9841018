"""Until when does what a node out of reach runs stay its own?

Its agent ends that by itself at the end of the lease, counted from the last word it had from the controller. The
controller counts from when the link broke, which is not earlier, and waits a little longer still: clocks differ.

What waits in the queue of a cluster out of reach loses nothing by that, and keeps its place. It may begin there at any
time, and then has a lease of its own. So it is kept for two of them: what begins within the first has ended by itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from hostler.core.index import Index
from hostler.core.state import Device, Job, Node, State
from hostler.model.events import job_of
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
POOL_TRIED_S = 3600.0
"""The same for a pool, whose cluster may be asked little, and answers slowly: what is done there waits to be told."""


def ends_at(state: State, node: Node, *, queued: bool = False) -> float | None:
    """When what the node has is given to others; `None`: it can be reached, or keeps it for ever.

    `queued`: what waits in the queue of its cluster.
    """
    lease_s = node.spec.lease_s
    if node.link is Link.UP or lease_s is None:
        return None
    tried_s = TRIED_S if node.spec.pool is None else POOL_TRIED_S
    leases = 2 if queued else 1
    return max(away_since(node) + leases * lease_s * DRIFT + MARGIN_S, state.begun_at + tried_s)


def is_queued(node: Node, job: Job) -> bool:
    """Whether the attempt of a job waits in the queue of the node's cluster, as far as is known, and is wanted."""
    attempt = job.attempt
    waits = attempt is not None and attempt.started_at is None and attempt.ended is None
    return node.spec.pool is not None and waits and job.cancelling is None


def first_end(state: State, node: Node, devices: Iterable[Device]) -> float | None:
    """When the first of what the devices of a node have is given to others; `None`: nothing is."""
    kinds: set[bool] = set()
    for device in devices:
        kinds |= {is_queued(node, state.jobs[job_of(name)]) for name in device.attempts}
        if device.chunks:
            kinds.add(False)
    return ends_at(state, node, queued=min(kinds)) if kinds else None


def away_since(node: Node) -> float:
    """When a node that is out of reach was linked last, at the latest."""
    return node.since if node.linked_until is None else node.linked_until


def watch(state: State, index: Index, node: Node) -> None:
    """Look again when the lease of the node is over."""
    at = ends_at(state, node)
    if at is not None:
        index.do_later(CHORE + node.spec.name, at)


def watch_queued(state: State, index: Index, node: Node) -> None:
    """The lease is over: look again when that of what waits in the queue of its cluster is, too."""
    at = ends_at(state, node, queued=True)
    if node.spec.pool is not None and at is not None and at > index.now:
        index.do_later(CHORE + node.spec.name, at)


def away(state: State, node: Node, job: Job, now: float, then: str = "is started elsewhere") -> str:
    """What is known of a job on a node out of reach, in words; `then` says what becomes of it after the lease."""
    name, since, queued = node.spec.name, duration(max(now - away_since(node), 0.0)), is_queued(node, job)
    said = f"{name} has been out of reach for {since} ({node.trouble or 'it does not answer'}), "
    said += "it waits on there" if queued else "it may run on there"
    at = ends_at(state, node, queued=queued)
    if at is None:
        return f"{said}; {name} keeps it, however long that lasts (`lease_s: never`)"
    return f"{said}; it {then} in {duration(max(at - now, 0.0))} unless {name} answers"
