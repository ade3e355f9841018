"""Faults become events of a virtual world: each kind at its own times, on a node or device by chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from hostler.model.fleet import NodeSpec
from hostler.sim.agent import VirtualAgent
from hostler.sim.faults import Faults, Lives
from hostler.sim.ground import Ground
from hostler.sim.telemetry import LIES, Lie

RECONNECT_S = 1.0
USUAL_LIFE_S = 12 * 3600.0
"""Mean life of an ephemeral node that says nothing of it."""


class Struck(Protocol):
    """What mishaps happen to."""

    ground: Ground
    agents: dict[str, VirtualAgent]
    lies: dict[str, Lie]
    happened: Counter[str]

    def cut(self, name: str, back_in_s: float) -> None:
        """The link to a node is gone for so long."""

    def lose_agent(self, name: str, back_in_s: float) -> None:
        """A node is gone for good; another one stands in for it after so long."""

    def crash(self) -> None:
        """The controller dies, and is started again soon."""

    def set_clock(self, by_s: float) -> None:
        """The controller's clock is set."""


class Mishaps:
    """Plans everything that goes wrong in a world. One random source, so that one seed is one history."""

    def __init__(self, world: Struck, nodes: Sequence[NodeSpec], faults: Faults, lives: Lives | None, random: Random):
        self._world = world
        self._agenda = world.ground.agenda
        self._nodes = list(nodes)
        self._faults = faults
        self._lives = lives
        self._random = random

    def plan(self) -> None:
        """Plan the first of each kind; each plans the next."""
        for kind, (every_s, strike) in self._kinds().items():
            if every_s is not None and self._nodes:
                self._plan(kind, every_s, strike)
        for node in self._nodes:
            if node.ephemeral and self._lives is not None:
                self._plan_death(node)

    def _kinds(self) -> dict[str, tuple[float | None, Callable[[str], None]]]:
        faults, world = self._faults, self._world
        return {
            "link cut": (faults.link_cut_every_s, self._cut_link),
            "partition": (faults.partition_every_s, self._part),
            "agent lost": (faults.agent_lost_every_s, self._lose_agent),
            "agent restarted": (faults.agent_restart_every_s, self._restart_agent),
            "machine rebooted": (faults.reboot_every_s, self._reboot),
            "worker killed": (faults.worker_killed_every_s, lambda name: world.agents[name].kill_worker()),
            "process killed": (faults.process_killed_every_s, lambda name: world.agents[name].kill_process()),
            "controller killed": (faults.controller_crash_every_s, lambda _: world.crash()),
            "clock set": (faults.clock_jump_every_s, self._set_clock),
            "straggler": (faults.straggler_every_s, self._straggle),
            "device hung": (faults.hang_every_s, self._hang),
            "disk full": (faults.disk_full_every_s, self._fill_disk),
            "telemetry lied": (faults.lie_every_s, self._lie),
        }

    def _plan(self, kind: str, every_s: float, strike: Callable[[str], None]) -> None:
        delay_s = self._random.expovariate(1 / every_s)
        if self._agenda.now + delay_s > self._faults.until_s:
            return

        def happen() -> None:
            self._world.happened[kind] += 1
            strike(self._random.choice(self._nodes).name)
            self._plan(kind, every_s, strike)

        self._agenda.later(delay_s, happen)

    def _plan_death(self, node: NodeSpec) -> None:
        assert self._lives is not None
        life_s = self._lives.drawn_s(self._random, node.lifetime_s or USUAL_LIFE_S)
        if life_s is None or self._agenda.now + life_s > self._faults.until_s:
            return
        away_s = self._random.expovariate(1 / self._lives.replace_s)

        def die() -> None:
            self._world.happened["node died"] += 1
            self._world.lose_agent(node.name, away_s)
            self._agenda.later(away_s, lambda: self._plan_death(node))

        self._agenda.later(life_s, die)

    def _outage_s(self) -> float:
        return self._random.expovariate(1 / self._faults.outage_s)

    def _cut_link(self, name: str) -> None:
        self._world.cut(name, self._outage_s())

    def _part(self, name: str) -> None:
        self._world.cut(name, self._random.expovariate(1 / self._faults.partition_s))

    def _lose_agent(self, name: str) -> None:
        self._world.lose_agent(name, self._outage_s())

    def _restart_agent(self, name: str) -> None:
        self._world.cut(name, RECONNECT_S)
        self._world.agents[name].restart()

    def _reboot(self, name: str) -> None:
        self._cut_link(name)
        self._world.agents[name].reboot()

    def _set_clock(self, _: str) -> None:
        self._world.set_clock(self._random.uniform(-1.0, 1.0) * self._faults.clock_jump_s)

    def _straggle(self, name: str) -> None:
        self._weaken(name, self._faults.straggler_speed, self._faults.straggler_s)

    def _hang(self, name: str) -> None:
        self._weaken(name, 0.0, self._faults.hang_s)

    def _weaken(self, name: str, health: float, mean_s: float) -> None:
        devices = next(node.devices for node in self._nodes if node.name == name)
        if devices:
            device, engine = self._random.choice(devices).id, self._world.ground.engine
            engine.set_health(device, health)
            self._agenda.later(self._random.expovariate(1 / mean_s), lambda: engine.set_health(device, 1.0))

    def _fill_disk(self, name: str) -> None:
        agent = self._world.agents[name]
        agent.disk_full = True
        self._agenda.later(self._random.expovariate(1 / self._faults.disk_full_s), lambda: _empty(agent))

    def _lie(self, name: str) -> None:
        self._world.lies[name] = self._random.choice(LIES)
        self._agenda.later(self._random.expovariate(1 / self._faults.lie_s), lambda: self._be_honest(name))

    def _be_honest(self, name: str) -> None:
        self._world.lies.pop(name, None)


def _empty(agent: VirtualAgent) -> None:
    agent.disk_full = False
