"""The connection between one controller and one node: in order both ways, at times slow, and cut as a whole."""

from __future__ import annotations

from random import Random

from hostler.model.record import record
from hostler.sim.agenda import Action, Agenda
from hostler.sim.cluster.troubles import Troubles

LATENCY_S = 0.02
LATE_S = 15.0


@record
class Peer:
    """One connection, as its node knows it."""

    epoch: int
    who: str
    connection: int


class Wire:
    """Messages arrive in the order they were sent; a cut loses what is under way in both directions."""

    def __init__(self, agenda: Agenda, random: Random, troubles: Troubles) -> None:
        self.up = False
        self.greeted = False
        """Whether the node has told its inventory, before which it tells no facts."""
        self.connection = 0
        self.away_until = 0.0
        self.slow = 1.0
        self._agenda = agenda
        self._random = random
        self._troubles = troubles
        self._last = {"down": 0.0, "up": 0.0}

    def open(self) -> None:
        """A new connection begins."""
        self.cut()
        self.up = True
        self._last = {"down": 0.0, "up": 0.0}

    def cut(self) -> None:
        """The connection is no more."""
        self.up = self.greeted = False
        self.connection += 1

    def to_node(self, deliver: Action) -> None:
        """Bring a message to the node, if the connection lives that long."""
        self._carry("down", deliver)

    def to_controller(self, deliver: Action) -> None:
        """The same the other way."""
        self._carry("up", deliver)

    def _carry(self, way: str, deliver: Action) -> None:
        if not self.up:
            return
        own = self.connection
        arrives = self._arrival(way)
        self._last[way] = arrives
        self._agenda.at(arrives, lambda: deliver() if own == self.connection else None)

    def _arrival(self, way: str) -> float:
        """When a message sent now is there: not before the one sent before it."""
        return max(self._agenda.now + self._under_way_s(), self._last[way])

    def _under_way_s(self) -> float:
        if self._random.random() < self._troubles.late and self._agenda.now < self._troubles.nodes.until_s:
            return self._random.uniform(0.0, LATE_S)
        return LATENCY_S * self.slow * self._random.uniform(0.5, 1.5)
