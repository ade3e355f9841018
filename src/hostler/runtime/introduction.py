"""The second half of the start screen: nodes once they have answered, and what was adopted of an earlier controller."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from hostler.model.errors import HostlerError
from hostler.model.work import JobState
from hostler.runtime.controller import Controller
from hostler.runtime.report import Reporter
from hostler.runtime.welcome import Adopted, node_lines

PATIENCE_S = 5.0
"""Nodes that have not answered by then are shown as they are."""
LOOK_S = 0.1
SETTLED_S = 0.3
"""After the last node has answered: its reports on attempts and cards follow."""
JOBS_MAX = 1000
UNDER_WAY = frozenset({JobState.LEASED, JobState.LAUNCHING, JobState.RUNNING, JobState.COLLECTING})
LOST = frozenset({"lost", "unknown", "lease"})
"""Ends that nobody has seen (`policy.retry.REASONS`)."""


def open_attempts(controller: Controller) -> dict[str, str]:
    """The attempts that an earlier controller left under way, by their jobs."""
    return {job.id: job.attempt for job in controller.jobs(UNDER_WAY, 0, JOBS_MAX) if job.attempt is not None}


class Introduction:
    """Shows the nodes and the next commands once, some seconds after the start at the latest."""

    def __init__(self, controller: Controller, show: Reporter, held: Mapping[str, str], room: int) -> None:
        """`held` are attempts under way, by their jobs; `room` is the number of lines."""
        self._controller = controller
        self._show = show
        self._held = held
        self._room = room

    async def show(self) -> None:
        """Wait for the nodes, and show them."""
        left_s = PATIENCE_S
        while left_s > 0 and any(node.link != "up" for node in self._controller.nodes()):
            await asyncio.sleep(LOOK_S)
            left_s -= LOOK_S
        await asyncio.sleep(SETTLED_S)
        for line in node_lines(self._controller.nodes(), await self._adopted(), self._room):
            self._show.say(line)

    async def _adopted(self) -> Adopted:
        up = {node.name for node in self._controller.nodes() if node.link == "up"}
        counts = {"running": 0, "ended": 0, "lost": 0, "unknown": 0}
        for name, attempt in self._held.items():
            try:
                counts[await self._fate(name, attempt, up)] += 1
            except HostlerError:  # as on a full disk, whose notice follows
                counts["unknown"] += 1
        return Adopted(**counts)

    async def _fate(self, name: str, attempt: str, up: Collection[str]) -> str:
        """What became of an attempt, as a field of `Adopted`. Raises `HostlerError` where that cannot be read."""
        job = (await self._controller.having(name)).job().job
        if job.state in UNDER_WAY and job.attempt == attempt:
            known = job.device is None or job.device.rpartition("/")[0] in up
            return "running" if known else "unknown"
        return "lost" if await self._is_lost(name, attempt) else "ended"

    async def _is_lost(self, job: str, attempt: str) -> bool:
        events = [entry.event for entry in await self._controller.story(job)]
        return any(
            event.kind == "attempt.ended" and event.attempt == attempt and event.reason in LOST for event in events
        )
