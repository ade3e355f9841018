"""What befalls controllers, their store and the place of results: each kind at its own times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hostler.sim.cluster.contender import Contender

if TYPE_CHECKING:
    from hostler.sim.cluster.world import Cluster

LONG = 0.1
"""Share of troubles that last ten times as long as others."""
SLOW = 100.0
ALONE_S = 120.0
"""Longer than any lease, and what a controller waits beyond."""


class Misfortune:
    """Plans everything that goes wrong in a cluster beside what befalls nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._agenda = cluster.agenda
        self._random = cluster.random
        self._troubles = cluster.troubles

    def plan(self) -> None:
        """Plan the first of each kind; each plans the next."""
        self._cluster.store.tears = self._troubles.tears
        for contender in self._cluster.contenders.values():
            contender.way.loses = self._troubles.loses
        for kind, (every_s, strike) in self._kinds().items():
            if every_s is not None:
                self._plan(kind, every_s, strike)
        self._agenda.later(self._troubles.nodes.until_s, self._calm)

    def _kinds(self) -> dict[str, tuple[float | None, Callable[[Contender], None]]]:
        troubles = self._troubles
        return {
            "controller killed": (troubles.crash_every_s, Contender.die),
            "controller stopped": (troubles.stall_every_s, self._stop),
            "controller asked to leave": (troubles.resign_every_s, Contender.leave),
            "clock set": (troubles.clock_every_s, self._set_clock),
            "controller and node apart": (troubles.part_every_s, self._part),
            "store out of reach": (troubles.store_cut_every_s, self._cut_store),
            "store without power": (troubles.store_down_every_s, lambda _: self._stop_store()),
            "store full": (troubles.store_full_every_s, lambda _: self._fill_store()),
            "alone": (troubles.alone_every_s, self._leave_alone),
            "slow": (troubles.slow_every_s, self._slow),
            "shelf full": (troubles.shelf_every_s, lambda _: self._fill_shelf()),
            "shelf without power": (troubles.shelf_every_s, lambda _: self._cluster.shelf.lose_power()),
        }

    def _plan(self, kind: str, every_s: float, strike: Callable[[Contender], None]) -> None:
        delay_s = self._random.expovariate(1 / every_s)
        if self._agenda.now + delay_s > self._troubles.nodes.until_s:
            return

        def happen() -> None:
            struck = self._struck()
            self._cluster.happened[kind] += 1
            self._cluster.tell(f"{kind} ({struck.name})")
            strike(struck)
            self._plan(kind, every_s, strike)

        self._agenda.later(delay_s, happen)

    def _struck(self) -> Contender:
        """More often than not the one that leads."""
        leader = self._cluster.leader()
        if leader is not None and self._random.random() < 0.6:
            return leader
        return self._random.choice(list(self._cluster.contenders.values()))

    def _lasts_s(self) -> float:
        factor = 10.0 if self._random.random() < LONG else 1.0
        lasts_s = self._random.expovariate(1 / self._troubles.mean_s) * factor
        self._cluster.quiet_at = max(self._cluster.quiet_at, self._agenda.now + lasts_s)
        return lasts_s

    def _stop(self, contender: Contender) -> None:
        contender.process.stop(self._lasts_s())

    def _set_clock(self, contender: Contender) -> None:
        contender.clocks.offset_s += self._random.uniform(-1.0, 1.0) * self._troubles.clock_s

    def _part(self, contender: Contender) -> None:
        self._cluster.part(contender.name, self._random.choice(list(self._cluster.specs)), self._lasts_s())

    def _cut_store(self, contender: Contender) -> None:
        contender.way.cut = True
        self._agenda.later(self._lasts_s(), lambda: _mend(contender))

    def _leave_alone(self, contender: Contender) -> None:
        cluster = self._cluster
        name = self._busiest()
        contender.way.cut = True
        cluster.quiet_at = max(cluster.quiet_at, self._agenda.now + ALONE_S)
        self._agenda.later(ALONE_S, lambda: _mend(contender))
        for who in cluster.contenders:
            if who != contender.name:
                cluster.part(who, name, ALONE_S)

    def _busiest(self) -> str:
        """The node whose work has lasted longest, if any has work: there is the most to lose."""
        agents = self._cluster.agents
        began = {name: [each.began or 0.0 for each in agent.running()] for name, agent in agents.items()}
        busy = [name for name in began if began[name]]
        return min(busy, key=lambda name: min(began[name])) if busy else self._random.choice(list(agents))

    def _stop_store(self) -> None:
        if self._cluster.store.up:
            self._cluster.store.lose_power()
            self._agenda.later(self._random.uniform(0.1, 8.0), self._cluster.store.recover)

    def _fill_store(self) -> None:
        self._cluster.store.full = True
        self._agenda.later(self._lasts_s(), self._empty_store)

    def _empty_store(self) -> None:
        self._cluster.store.full = False

    def _slow(self, contender: Contender) -> None:
        self._set_pace(contender, SLOW)
        self._agenda.later(self._lasts_s(), lambda: self._set_pace(contender, 1.0))

    def _set_pace(self, contender: Contender, slow: float) -> None:
        contender.way.slow = slow
        for (who, _), wire in self._cluster.wires.items():
            if who == contender.name:
                wire.slow = slow

    def _fill_shelf(self) -> None:
        self._cluster.shelf.full = True
        self._agenda.later(self._lasts_s(), self._empty_shelf)

    def _empty_shelf(self) -> None:
        self._cluster.shelf.full = False

    def _calm(self) -> None:
        """No more chance: what lasts still ends by itself."""
        self._cluster.store.tears = 0.0
        for contender in self._cluster.contenders.values():
            contender.way.loses = 0.0


def _mend(contender: Contender) -> None:
    contender.way.cut = False
