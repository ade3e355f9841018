"""What is not wanted any more: its task is barred first, then the cluster is told to cancel it."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable, Sequence

from hostler.backends.outbox import Outbox
from hostler.backends.slurm.berths import Place
from hostler.backends.slurm.cluster import Cluster
from hostler.backends.slurm.desk import Desk
from hostler.backends.slurm.errors import SlurmDown, SlurmRefused
from hostler.model.errors import FilesError
from hostler.model.inputs import Trouble

NOBODY = json.dumps({"job": "nobody", "why": "it was not wanted any more"}) + "\n"
"""A claim (see `agent.berth`) that is no job's."""
AT_ONCE = 16
"""Batches whose tasks are barred at a time: a desk that is asked for everything at once seems to hang."""
REST_S, AGAIN_S = 5.0, 180.0
"""Rest after a first cancellation that failed, doubled after each further one; the longest, and the one after a
cancellation that was taken, of what waits in the queue all the same."""
NAMED_MOST = 5


async def bar(desk: Desk, places: Iterable[Place]) -> None:
    """Have these find nothing to do should they begin after all: their tasks are claimed, by nobody.

    What has begun already is not disturbed: nothing looks at a claim again, unless it begins anew. What was not
    submitted needs none. Raises `LinkLost`; what cannot be written now is tried with the next look.
    """
    claims: dict[str, list[Place]] = {}
    for batch, berth in places:
        if not berth.barred and (batch.job is not None or batch.prepared):
            claims.setdefault(batch.token, []).append((batch, berth))
    groups = list(claims.values())
    for begin in range(0, len(groups), AT_ONCE):
        await asyncio.gather(*(_bar_batch(desk, group) for group in groups[begin : begin + AT_ONCE]))


async def _bar_batch(desk: Desk, places: Sequence[Place]) -> None:
    try:
        await desk.prepare(places[0][0].token, {f"{berth.task}/claim": NOBODY for _, berth in places})
    except FilesError:
        return
    for _, berth in places:
        berth.barred = True


class Canceller:
    """Has the cluster of one pool cancel jobs. What it does not take is said once, and tried ever more seldom."""

    def __init__(self, name: str, cluster: Cluster, outbox: Outbox) -> None:
        self._name = name
        self._cluster = cluster
        self._outbox = outbox
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._said = ""

    def due(self, names: Iterable[str]) -> bool:
        """Whether any of these, which the queue has still, is to be cancelled now."""
        now = self._cluster.clock.now()
        return any(self._not_before.get(name, now) <= now for name in names)

    def untold(self, name: str) -> bool:
        """Whether the cluster has not taken its cancellation of late, and is not being told of it either."""
        return name in self._failures or self.due([name])

    async def cancel(self, names: Sequence[str]) -> None:
        """All in one command. What it does not reach now, a later look at the queue finds waiting still."""
        if not names:
            return
        self._not_before.update(dict.fromkeys(names, math.inf))  # it is on its way
        try:
            await self._cluster.slurm.cancel(names)
        except (SlurmDown, SlurmRefused) as error:
            self._failed(names, str(error))
            return
        now = self._cluster.clock.now()
        self._not_before = {name: until for name, until in self._not_before.items() if until > now - AGAIN_S}
        self._not_before.update(dict.fromkeys(names, now + AGAIN_S))
        known = self._not_before.keys() - set(names)  # of what has left the queue by itself, nothing is kept
        self._failures = {name: count for name, count in self._failures.items() if name in known}
        self._said = ""
        self._cluster.hurry()

    def _failed(self, names: Sequence[str], why: str) -> None:
        now = self._cluster.clock.now()
        for name in names:
            failures = self._failures[name] = self._failures.get(name, 0) + 1
            self._not_before[name] = now + min(REST_S * 2.0 ** min(failures - 1, 30), AGAIN_S)
        if self._said != why and not self._outbox.ended:
            self._said = why
            more = f" and {len(names) - NAMED_MOST} more" if len(names) > NAMED_MOST else ""
            words = f"job {', '.join(names[:NAMED_MOST])}{more} cannot be cancelled: {why}; it is tried again"
            self._outbox.post(Trouble(where=f"node {self._name}", what=words))
