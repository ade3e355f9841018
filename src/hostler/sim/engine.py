"""How fast does work on virtual devices go on? It shares them with other work, and devices have bad hours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import field

from hostler.model.record import entity
from hostler.sim.agenda import Action, Agenda


@entity
class Task:
    """Something at work. `left` and `per_s` are in its own unit, items say; `share` is what it can use of a device."""

    devices: tuple[str, ...]
    left: float
    per_s: float
    """Its speed while nothing keeps it from going on."""
    share: float
    done: Action
    since: float
    rate: float = 0.0
    turn: int = 0
    """Which of the ends that were planned for it counts."""


@entity
class Strain:
    """What a device has to do now, and how well it is."""

    tasks: list[Task] = field(default_factory=list)
    health: float = 1.0
    """What is left of its speed: below 1 for a straggler, 0 where it hangs."""

    @property
    def demand(self) -> float:
        """What its work could use of it; more than 1 where it is crowded."""
        return sum(task.share for task in self.tasks)

    @property
    def pace(self) -> float:
        """What becomes of the speed that a task would have alone on a healthy device."""
        return self.health * min(1.0, 1.0 / max(self.demand, 1.0))


class Engine:
    """Tasks on devices, each done when its amount is. What runs on several devices goes as the slowest lets it."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._strains: dict[str, Strain] = defaultdict(Strain)

    def begin(
        self, devices: Sequence[str], amount: float, per_s: float, done: Callable[[], None], share: float = 1.0
    ) -> Task:
        """Go to work on `amount`; `done` is called at the end of it, unless the task leaves before."""
        task = Task(devices=tuple(devices), left=amount, per_s=per_s, share=share, done=done, since=self._agenda.now)
        for device in task.devices:
            self._strains[device].tasks.append(task)
        self._replan(task.devices)
        return task

    def leave(self, task: Task) -> None:
        """End a task; what it had not done is in `task.left`."""
        self._settle(task)
        task.turn += 1
        for device in task.devices:
            strain = self._strains[device]
            strain.tasks = [each for each in strain.tasks if each is not task]
        self._replan(task.devices)

    def lessen(self, task: Task, by: float) -> None:
        """A task has so much less to do."""
        self._settle(task)
        task.left = max(task.left - by, 0.0)
        self._plan_end(task)

    def left(self, task: Task) -> float:
        """What is not done yet of a task."""
        self._settle(task)
        return task.left

    def set_health(self, device: str, health: float) -> None:
        """From now on the device has this share of its speed."""
        self._strains[device].health = health
        self._replan((device,))

    def demand(self, device: str) -> float:
        """What the work on a device could use of it."""
        return self._strains[device].demand

    def _replan(self, devices: Sequence[str]) -> None:
        """Something on these devices has changed: work there goes at another pace."""
        touched = [task for device in devices for task in self._strains[device].tasks]
        for task in touched:
            rate = task.per_s * min(self._strains[device].pace for device in task.devices)
            if rate != task.rate:
                self._settle(task)
                task.rate = rate
                self._plan_end(task)

    def _settle(self, task: Task) -> None:
        task.left = max(task.left - (self._agenda.now - task.since) * task.rate, 0.0)
        task.since = self._agenda.now

    def _plan_end(self, task: Task) -> None:
        task.turn += 1
        turn = task.turn
        if task.rate > 0:
            self._agenda.later(task.left / task.rate, lambda: self._end(task, turn))

    def _end(self, task: Task, turn: int) -> None:
        if turn == task.turn:
            self.leave(task)
            task.left = 0.0
            task.done()
