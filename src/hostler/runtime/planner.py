"""The slow loop's programme, solved in a thread: the controller never waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from hostler.model.commands import Solve
from hostler.model.inputs import Planned
from hostler.model.planning import Instance, Plan
from hostler.policy import programme


class Planner:
    """Carries out `Solve` commands, one at a time; of several only the newest counts.

    Without the solver (extra `opt`) the answer has rough prices and nothing else.
    """

    def __init__(self, answer: Callable[[Planned], None]) -> None:
        self._answer = answer
        self._wanted: Solve | None = None
        self._wake = asyncio.Event()
        self._solver: programme.Solver | None = None
        self._log = structlog.get_logger()

    def give(self, command: Solve) -> None:
        """Solve this as soon as may be."""
        self._wanted = command
        self._wake.set()

    async def run(self) -> None:
        """Solve until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            command, self._wanted = self._wanted, None
            if command is not None:
                await self._solve(command)

    async def _solve(self, command: Solve) -> None:
        if not programme.available():
            plan = programme.plan_without_solver(command.instance)
        else:
            plan = await asyncio.to_thread(self._solved, command.instance)
            self._log.debug("planned", status=plan.status, bound=plan.bound, seconds=plan.seconds)
        if plan is not None:
            self._answer(Planned(plan=plan))

    def _solved(self, instance: Instance) -> Plan:
        """In a thread. The solver, and numpy with it, is imported for the first instance: a start has none."""
        if self._solver is None:
            self._solver = programme.Solver()
        return self._solver.solve(instance)
