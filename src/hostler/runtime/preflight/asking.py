"""A small program on every node of a cluster, some at a time; each tells one JSON object in its last line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hostler.model.errors import LinkError
from hostler.runtime.preflight.seam import Ran, RayCluster

STEP_S = 40.0
"""For one program on one node: a job of Ray begins within some seconds where nobody else is."""
AT_ONCE = 16
"""Each is two processes on a node, and some work for the head; whoever waits for a turn has its time before it."""
GRACE_S = 5.0
"""So much longer it is waited for who is to keep to that, and to tell why."""
SAID_MAX = 300
LISTED = 5


async def on_each(
    cluster: RayCluster, nodes: Sequence[str], argv: Callable[[str], Sequence[str]]
) -> Mapping[str, Mapping[str, Any]]:
    """What the program of each node tells; `error` is why it tells nothing."""
    turns = asyncio.Semaphore(AT_ONCE)
    answers = await asyncio.gather(*(_one(cluster, node, argv(node), turns) for node in nodes))
    return dict(zip(nodes, answers, strict=True))


def in_words(whose: Mapping[str, str]) -> str:
    """What is to be said of some nodes; those that the same is to be said of, together."""
    same: dict[str, list[str]] = {}
    for node, why in whose.items():
        same.setdefault(why, []).append(node)
    told = [f"{' '.join(nodes[:LISTED])}{_more(nodes)}: {why}" for why, nodes in same.items()]
    return "; ".join(told[:LISTED]) + _more(told)


async def _one(cluster: RayCluster, node: str, argv: Sequence[str], turns: asyncio.Semaphore) -> Mapping[str, Any]:
    try:
        async with turns, asyncio.timeout(STEP_S + GRACE_S):
            ran = await cluster.run(node, argv, STEP_S)
    except TimeoutError:
        return {"error": f"did not answer within {STEP_S:g} s"}
    except LinkError as fault:
        return {"error": str(fault)}
    return _decoded(ran)


def _decoded(ran: Ran) -> Mapping[str, Any]:
    lines = ran.out.strip().splitlines()
    try:
        told = json.loads(lines[-1]) if lines else None
    except ValueError:
        told = None
    if isinstance(told, dict):
        return told
    said = " ".join(ran.err.split())[-SAID_MAX:]
    if ran.status is None:
        return {"error": said or "the probe was killed"}
    return {"error": f"the probe ended with {ran.status}{': ' if said else ''}{said}"}


def _more(listed: Sequence[str]) -> str:
    return f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
