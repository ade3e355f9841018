"""The stream between the controller and one agent."""

from __future__ import annotations

from random import Random

from hostler.sim.agenda import Action, Agenda

LATENCY_S = 0.02


class Link:
    """Carries messages in order, each `LATENCY_S` long under way; a cut loses what is under way in both directions."""

    def __init__(self, agenda: Agenda, random: Random, told_again: float, late_s: float) -> None:
        self.up = False
        self.greeted = False
        """Whether the agent has told its inventory, before which it tells no facts."""
        self.connection = 0
        self.away_until = 0.0
        """No connection can be made before: there is nobody at the other end."""
        self._agenda = agenda
        self._random = random
        self._told_again = told_again
        self._late_s = late_s

    def open(self) -> None:
        """A new connection begins."""
        self.cut()
        self.up = True

    def cut(self) -> None:
        """The connection is no more."""
        self.up = self.greeted = False
        self.connection += 1

    def carry(self, deliver: Action) -> None:
        """Bring a message to the other side, if the connection lives that long."""
        if not self.up:
            return
        own = self.connection
        self._agenda.later(LATENCY_S, lambda: deliver() if own == self.connection else None)

    def haunt(self, deliver: Action) -> None:
        """Now and then, a second copy of a message turns up much later."""
        if self._random.random() < self._told_again:
            self._agenda.later(self._random.uniform(0.0, self._late_s), deliver)
