"""What became of tasks that are over: asked by who attends them, answered by the next look at the queue that tells."""

from __future__ import annotations

import asyncio

from hostler.backends.slurm.berths import Batch, Berth
from hostler.backends.slurm.cluster import Cluster, Key, Verdict

UNEXPLAINED_S = 180.0
"""After so long nobody waits any more for the cluster to say what became of a task."""


class Verdicts:
    """Questions that wait for a look at the queue."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._asked: dict[Key, asyncio.Future[Verdict]] = {}

    async def of(self, batch: Batch, berth: Berth) -> Verdict | None:
        """What the cluster says of a task; `None` where it does not come to say anything."""
        key = (batch.token, berth.task)
        asked = self._asked.setdefault(key, asyncio.get_running_loop().create_future())
        self._cluster.hurry()
        try:
            async with asyncio.timeout(UNEXPLAINED_S):
                return await asyncio.shield(asked)
        except TimeoutError:
            return None
        finally:
            self._asked.pop(key, None)

    def tell(self, batch: Batch, berth: Berth, verdict: Verdict) -> None:
        """It is known now, for whoever has asked, or is about to."""
        self._asked.setdefault((batch.token, berth.task), asyncio.get_running_loop().create_future())
        self.answer(batch, berth, verdict)

    def forget(self, batch: Batch, berth: Berth) -> None:
        """What was told is of no use any more."""
        self._asked.pop((batch.token, berth.task), None)

    def awaited(self, batch: Batch, berth: Berth) -> bool:
        """Whether somebody asks."""
        return (batch.token, berth.task) in self._asked

    def answer(self, batch: Batch, berth: Berth, verdict: Verdict) -> None:
        """It is known now, for whoever has asked."""
        asked = self._asked.get((batch.token, berth.task))
        if asked is not None and not asked.done():
            asked.set_result(verdict)
