"""A process of a machine: it goes step by step, and between any two of them it can be stopped, or die."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from hostler.model.record import record
from hostler.sim.agenda import Action, Agenda


@record
class Hazard:
    """What befalls a process between two of its steps."""

    dies: float = 0.0
    """Share of steps before which it dies."""
    stalls: float = 0.0
    """Share of steps before which it is stopped (SIGSTOP, a machine that swaps), and goes on where it was."""
    stall_s: float = 5.0
    """Mean time it is stopped for."""


class Clocks:
    """The clocks of one machine: one that people set, and one that only goes on; both at a rate of their own."""

    def __init__(self, agenda: Agenda, offset_s: float, rate: float) -> None:
        self._agenda = agenda
        self._rate = rate
        self.offset_s = offset_s

    def wall(self) -> float:
        """What its clock shows; it may be set."""
        return self._agenda.now + self.offset_s

    def steady(self) -> float:
        """Seconds since some moment of its own; they never go back."""
        return self._agenda.now * self._rate


class Process:
    """Steps of one life after the other. `died` is called when chance ends a life."""

    def __init__(self, agenda: Agenda, random: Random, hazard: Callable[[], Hazard], died: Action) -> None:
        self.life = 0
        self.alive = False
        self._agenda = agenda
        self._random = random
        self._hazard = hazard
        self._died = died
        self._stopped_until = 0.0
        self._waiting: deque[Action] = deque()

    @property
    def stopped(self) -> bool:
        """Whether it does nothing now, and will go on."""
        return self._agenda.now < self._stopped_until

    def begin(self) -> None:
        """A new life."""
        self.end()
        self.alive = True

    def end(self) -> None:
        """Nothing of this life is done any more."""
        self.life += 1
        self.alive = False
        self._stopped_until = 0.0
        self._waiting.clear()

    def do(self, delay_s: float, step: Action) -> None:
        """Do a step of this life after a while."""
        life = self.life
        self._agenda.later(delay_s, lambda: self._come_to(life, step))

    def stop(self, for_s: float) -> None:
        """Do nothing for so long, and then everything that has come meanwhile, in order."""
        life = self.life
        self._stopped_until = max(self._stopped_until, self._agenda.now + for_s)
        self._agenda.later(for_s, lambda: self._go_on(life))

    def _come_to(self, life: int, step: Action) -> None:
        if life != self.life or not self.alive:
            return
        self._waiting.append(step)
        if len(self._waiting) == 1 and not self.stopped:
            self._go_on(life)

    def _go_on(self, life: int) -> None:
        while life == self.life and self._waiting and not self.stopped:
            if self._stumbles():
                return
            step = self._waiting[0]
            step()
            if life == self.life:
                self._waiting.popleft()

    def _stumbles(self) -> bool:
        hazard, chance = self._hazard(), self._random.random()
        if chance < hazard.dies:
            self._died()
            return True
        if chance < hazard.dies + hazard.stalls:
            self.stop(self._random.expovariate(1 / hazard.stall_s))
            return True
        return False
