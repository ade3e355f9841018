"""A virtual fleet with its controller, links and faults. One seed, one history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from hostler.model.codec import load_event
from hostler.model.commands import Command, Fit
from hostler.model.errors import HostlerError
from hostler.model.events import Event
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Declare, Input, LinkDown, NodeFound, Submit
from hostler.model.learning import ConfigSpec
from hostler.model.work import JobSpec
from hostler.sim.agenda import Agenda
from hostler.sim.agent import Fact, VirtualAgent
from hostler.sim.controller import VirtualController
from hostler.sim.faults import Faults
from hostler.sim.link import Link
from hostler.sim.report import Report, fold

if TYPE_CHECKING:
    from hostler.sim.lab import Lab

NOTICE_S = 5.0
"""A cut link is noticed after this long at most."""
RECONNECT_S = 1.0
FIT_S = 1.0
PATIENCE_S = 5.0
"""Whoever submitted something asks again after that, until it is answered."""


class World:
    """Everything that happens between a core and its fleet.

    `speeds` are the items per second of each device. With `validate` the core's invariants are asserted after every
    step (it makes a step slower by what the state is big).
    """

    def __init__(
        self,
        seed: int,
        nodes: Sequence[NodeSpec],
        speeds: Mapping[str, float],
        faults: Faults | None = None,
        validate: bool = True,
        lab: Lab | None = None,
    ) -> None:
        self.agenda = Agenda()
        self.faults = faults or Faults()
        self.happened: Counter[str] = Counter()
        self.agents: dict[str, VirtualAgent] = {}
        self._random = Random(seed)  # noqa: S311  reproducible, not secret
        self._nodes = {node.name: node for node in nodes}
        self._speeds = speeds
        self._lab = lab
        self._links: dict[str, Link] = {}
        self._busy = dict.fromkeys(speeds, 0.0)
        self._unanswered = 0
        self._configs: tuple[ConfigSpec, ...] = ()
        self.controller = VirtualController(
            self.agenda, self._random, self.faults.crash_at_commit, validate, self._act, self._crash
        )
        for node in nodes:
            self._links[node.name] = Link(self.agenda, self._random, self.faults.told_again, self.faults.late_s)
            self.agents[node.name] = self._agent(node, 1)

    def submit(self, at_s: float, specs: Sequence[JobSpec]) -> None:
        """Submit jobs, all with keys, at a time; again and again until the controller has answered."""
        assert all(spec.key is not None for spec in specs), "only what has a key can be asked for twice"
        self._unanswered += 1
        self.agenda.later(at_s, lambda: self._ask(Submit(specs=tuple(specs))))

    def declare(self, *configs: ConfigSpec) -> None:
        """These are the training configs: told at every start of a controller, as `hostler up` does."""
        self._configs = configs

    def tell(self, at_s: float, *inputs: Input) -> None:
        """Give the controller inputs at a time, once; a dead controller does not hear them."""
        self.agenda.later(at_s, lambda: self.controller.take(*inputs))

    def run(self, max_virtual_s: float) -> Report:
        """Live until everything submitted is over, `max_virtual_s` at most."""
        self._plan_faults()
        self._start()
        while not self.idle() and self.agenda.step(max_virtual_s):
            pass
        return self._report()

    def rest(self, seconds: float) -> None:
        """Live on for a while after the last fault, so that everything late has come and everything left is tidied."""
        until_s = max(self.agenda.now, self.faults.until_s) + seconds
        while self.agenda.step(until_s):
            pass

    def idle(self) -> bool:
        """Whether everything that was asked for is over, and written down."""
        core = self.controller.core
        if core is None or self._unanswered or core.state.seq != len(self.controller.journal):
            return False
        counts = core.index.counts
        final = sum(count for state, count in counts.items() if state.final)
        declared = all(spec.name in core.state.configs for spec in self._configs)
        return declared and sum(counts.values()) == final and not core.index.open_configs

    # The controller's side.

    def _start(self) -> None:
        self.controller.start()
        if self._configs:
            self.controller.take(Declare(configs=self._configs), done=_raise_refusals)
        for node in self._nodes.values():
            self.controller.take(NodeFound(node=node))
            self._reconnect(node.name)

    def _crash(self) -> None:
        if self.controller.core is None:
            return
        self.happened["controller crashed"] += 1
        self.controller.die()
        for link in self._links.values():
            link.cut()
        self.agenda.later(self._random.uniform(0.5, 10.0), self._start)

    def _act(self, command: Command) -> None:
        if isinstance(command, Fit):
            self._fit(command)
            return
        name = command.node
        self._links[name].carry(lambda: self.agents[name].obey(command))

    def _fit(self, command: Fit) -> None:
        """Ratings come back after a while, as from the process that fits them; it ends with its controller."""
        assert self._lab is not None, "a world with training configs needs a lab"
        lab, life = self._lab, self.controller.life

        def answer() -> None:
            if life == self.controller.life:
                self.controller.take(lab.fit(command))

        self.agenda.later(FIT_S, answer)

    def _ask(self, given: Submit) -> None:
        answered = False

        def done(answers: Sequence[Any]) -> None:
            nonlocal answered
            if isinstance(answers[0], HostlerError):
                raise answers[0]
            if not answered:
                answered = True
                self._unanswered -= 1

        def ask() -> None:
            if not answered:
                self.controller.take(given, done=done)
                self.agenda.later(PATIENCE_S, ask)

        ask()

    # The wire.

    def _reconnect(self, name: str) -> None:
        """Reach the node's agent: it tells its inventory, then every fact that is not acknowledged."""
        if self.controller.core is None or self._links[name].up:
            return
        link = self._links[name]
        link.open()
        link.carry(lambda: self._hello(name))

    def _hello(self, name: str) -> None:
        agent, link = self.agents[name], self._links[name]
        inventory = agent.hello()
        link.greeted = True
        link.carry(lambda: self.controller.take(inventory))
        if agent.facts:
            self._carry(name, *agent.facts)

    def _tell(self, name: str, identity: str, fact: Fact) -> None:
        if self.agents[name].identity == identity and self._links[name].greeted:
            self._carry(name, fact)

    def _carry(self, name: str, *facts: Fact) -> None:
        identity, link = self.agents[name].identity, self._links[name]
        told = [fact.told for fact in facts]

        def acknowledge(_: Sequence[Any]) -> None:
            link.carry(lambda: self._acknowledge(name, identity, facts[-1].seq))

        link.carry(lambda: self.controller.take(*told, done=acknowledge))
        link.haunt(lambda: self.controller.take(*told))

    def _acknowledge(self, name: str, identity: str, seq: int) -> None:
        if self.agents[name].identity == identity:
            self.agents[name].acknowledge(seq)

    def _cut(self, name: str, back_in_s: float) -> None:
        link = self._links[name]
        link.cut()
        lost = link.connection
        down = LinkDown(node=name, why="the connection broke")
        notice_s = self._random.uniform(0.0, NOTICE_S)
        self.agenda.later(notice_s, lambda: self.controller.take(down) if link.connection == lost else None)
        self.agenda.later(back_in_s, lambda: self._reconnect(name))

    # What goes wrong.

    def _plan_faults(self) -> None:
        faults = self.faults
        kinds: dict[str, tuple[float | None, Callable[[str], None]]] = {
            "link cut": (faults.link_cut_every_s, self._cut_link),
            "agent lost": (faults.agent_lost_every_s, self._lose_agent),
            "agent restarted": (faults.agent_restart_every_s, self._restart_agent),
            "machine rebooted": (faults.reboot_every_s, self._reboot),
            "worker killed": (faults.worker_killed_every_s, lambda name: self.agents[name].kill_worker()),
            "process killed": (faults.process_killed_every_s, lambda name: self.agents[name].kill_process()),
            "controller killed": (faults.controller_crash_every_s, lambda _: self._crash()),
            "clock set": (faults.clock_jump_every_s, self._set_clock),
        }
        for kind, (every_s, strike) in kinds.items():
            if every_s is not None:
                self._plan(kind, every_s, strike)

    def _plan(self, kind: str, every_s: float, strike: Callable[[str], None]) -> None:
        delay_s = self._random.expovariate(1 / every_s)
        if self.agenda.now + delay_s > self.faults.until_s:
            return

        def happen() -> None:
            self.happened[kind] += 1
            strike(self._random.choice(list(self._nodes)))
            self._plan(kind, every_s, strike)

        self.agenda.later(delay_s, happen)

    def _cut_link(self, name: str) -> None:
        self._cut(name, self._random.expovariate(1 / self.faults.outage_s))

    def _lose_agent(self, name: str) -> None:
        old = self.agents[name]
        old.vanish()
        self._count_busy(name)
        self.agents[name] = self._agent(self._nodes[name], int(old.identity.rpartition("#")[2]) + 1)
        self._cut_link(name)

    def _restart_agent(self, name: str) -> None:
        self._cut(name, RECONNECT_S)
        self.agents[name].restart()

    def _reboot(self, name: str) -> None:
        self._cut_link(name)
        self.agents[name].reboot()

    def _set_clock(self, _: str) -> None:
        self.controller.skew_s += self._random.uniform(-1.0, 1.0) * self.faults.clock_jump_s

    # What there is, and what came of it.

    def _agent(self, node: NodeSpec, number: int) -> VirtualAgent:
        identity = f"{node.name}#{number}"
        wrong = self.faults.wrong_digest
        return VirtualAgent(
            identity=identity,
            node=node,
            agenda=self.agenda,
            random=self._random,
            speeds=self._speeds.__getitem__,
            wrong_digest=wrong,
            bad_devices=self.faults.bad_devices,
            lab=self._lab,
            tell=lambda fact: self._tell(node.name, identity, fact),
        )

    def _count_busy(self, name: str) -> None:
        for queue, busy_s in self.agents[name].busy_s.items():
            self._busy[f"{name}/{queue}"] += busy_s

    def journal(self) -> list[Event]:
        """Every event that was written, read again."""
        return [load_event(line.event) for line in self.controller.journal]

    def _report(self) -> Report:
        for name in self._nodes:
            self._count_busy(name)
        folded = fold(self.journal())
        core = self.controller.core
        span_s = self.agenda.now
        return Report(
            idle=self.idle(),
            makespan_s=span_s,
            jobs={} if core is None else dict(core.index.counts),
            accepted=folded.accepted,
            coverage=folded.coverage(),
            hits={name: tuple(sorted(found)) for name, found in folded.hits.items()},
            busy={name: self._busy[name] / span_s if span_s else 0.0 for name in self._speeds},
            refused=folded.refused,
            events=folded.events,
            faults=self.happened,
        )


def _raise_refusals(answers: Sequence[Any]) -> None:
    for answer in answers:
        if isinstance(answer, HostlerError):
            raise answer
