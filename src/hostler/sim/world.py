"""A virtual fleet with its controller, links and faults. One seed, one history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from hostler.model.commands import Command, Fit, Solve
from hostler.model.errors import HostlerError
from hostler.model.events import Entry, Event
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Configure, Declare, Input, LinkDown, NodeFound, Planned, Reported, Submit, Telemetry
from hostler.model.learning import ConfigSpec
from hostler.model.record import record
from hostler.model.rules import Rules
from hostler.model.work import JobSpec
from hostler.policy import programme
from hostler.sim import telemetry
from hostler.sim.agenda import Agenda
from hostler.sim.agent import Fact, VirtualAgent
from hostler.sim.asking import Done, ask_until_answered
from hostler.sim.controller import VirtualController
from hostler.sim.faults import Faults, Lives
from hostler.sim.ground import firm_ground
from hostler.sim.link import Link
from hostler.sim.mishaps import Mishaps
from hostler.sim.nature import Nature, Plain, devices_of
from hostler.sim.report import Report, fold
from hostler.sim.telemetry import Lie

if TYPE_CHECKING:
    from hostler.sim.lab import Lab

NOTICE_S = 5.0
"""A cut link is noticed after this long at most."""
FIT_S = 1.0
SOLVE_S = 0.1
PATIENCE_S = 5.0
"""Whoever submitted something asks again after that, until it is answered."""


@record
class Manner:
    """How a world is played; what is left out makes it faster."""

    quick: bool = False
    """The journal is not written as JSON, and commands are under way for no time."""
    telemetry_every_s: float | None = None
    """How often nodes tell how they are; `None`: never."""


FAITHFUL = Manner()


class World:
    """Everything that happens between a core and its fleet.

    `speeds` are the items per second of each device, or a whole `Nature`. With `validate` the core's invariants are
    asserted after every step (it makes a step slower by what the state is big). Ephemeral nodes die if `lives` tells
    how long they live.
    """

    def __init__(
        self,
        seed: int,
        nodes: Sequence[NodeSpec],
        speeds: Mapping[str, float] | Nature,
        faults: Faults | None = None,
        validate: bool = True,
        lab: Lab | None = None,
        *,
        rules: Rules | None = None,
        lives: Lives | None = None,
        manner: Manner = FAITHFUL,
    ) -> None:
        self.agenda = Agenda()
        self.faults = faults or Faults()
        self.happened: Counter[str] = Counter()
        self.agents: dict[str, VirtualAgent] = {}
        self.lies: dict[str, Lie] = {}
        self.ground = firm_ground(self.agenda, Plain(speeds, lab) if isinstance(speeds, Mapping) else speeds, lab)
        self.ground.wrong_digest, self.ground.bad_devices = self.faults.wrong_digest, self.faults.bad_devices
        self._random = Random(seed)  # noqa: S311  reproducible, not secret
        self._nodes = {node.name: node for node in nodes}
        self._manner = manner
        self._rules = rules
        self._solver = programme.Solver() if programme.available() else None
        self._links: dict[str, Link] = {}
        self._busy: Counter[str] = Counter()
        self._told: dict[str, Telemetry] = {}
        self._unanswered = 0
        self._configs: tuple[ConfigSpec, ...] = ()
        self.controller = VirtualController(
            self.agenda,
            self._random,
            self.faults.crash_at_commit,
            validate,
            self._act,
            self.crash,
            quick=manner.quick,
        )
        self._mishaps = Mishaps(self, nodes, self.faults, lives, self._random)
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
        self._begin()
        while not self.idle() and self.agenda.step(max_virtual_s):
            pass
        return self._report()

    def live(self, until_s: float) -> None:
        """Live until then, whether or not there is anything to do. Go on with `live` or `rest`."""
        if self.controller.life == 0:
            self._begin()
        while self.agenda.step(until_s):
            pass
        self.agenda.now = max(self.agenda.now, until_s)

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

    def entries(self) -> list[Entry]:
        """Every entry that was written, read again."""
        return self.controller.entries()

    def journal(self) -> list[Event]:
        """Every event that was written, read again."""
        return [entry.event for entry in self.entries()]

    # What mishaps do.

    def crash(self) -> None:
        """The controller dies, and is started again soon."""
        if self.controller.core is None:
            return
        self.happened["controller crashed"] += 1
        self.controller.die()
        for name, link in self._links.items():
            link.cut()
            self.agents[name].unheard()
        self.agenda.later(self._random.uniform(0.5, 10.0), self._start)

    def cut(self, name: str, back_in_s: float) -> None:
        """The link to a node is gone for so long."""
        link = self._links[name]
        link.cut()
        self.agents[name].unheard()
        lost = link.connection
        down = Reported(node=name, given=LinkDown(node=name, why="the connection broke"))
        notice_s = self._random.uniform(0.0, NOTICE_S)
        self.agenda.later(notice_s, lambda: self.controller.take(down) if link.connection == lost else None)
        back_at = self.agenda.now + back_in_s
        link.away_until = max(link.away_until, back_at)
        self.agenda.later(back_in_s, lambda: self._reconnect(name))

    def lose_agent(self, name: str, back_in_s: float) -> None:
        """A node is gone for good; another one stands in for it after so long."""
        old = self.agents[name]
        old.vanish()
        self._count_busy(name)
        self.agents[name] = self._agent(self._nodes[name], int(old.identity.rpartition("#")[2]) + 1)
        self.cut(name, back_in_s)

    def set_clock(self, by_s: float) -> None:
        """The controller's clock is set."""
        self.controller.skew_s += by_s

    # The controller's side.

    def _begin(self) -> None:
        self._mishaps.plan()
        self._start()
        if self._manner.telemetry_every_s is not None:
            self._tell_telemetry(self._manner.telemetry_every_s)

    def _start(self) -> None:
        self.controller.start()
        if self._rules is not None:
            self.controller.take(Configure(rules=self._rules), done=_raise_refusals)
        for node in self._nodes.values():
            self.controller.take(Reported(node=node.name, given=NodeFound(node=node)))
        if self._configs:
            self.controller.take(Declare(configs=self._configs), done=_raise_refusals)
        for name in self._nodes:
            self._reconnect(name)

    def _act(self, command: Command) -> None:
        if isinstance(command, Fit):
            self._fit(command)
            return
        if isinstance(command, Solve):
            self._solve(command)
            return
        name = command.node
        link = self._links[name]
        if not self._manner.quick:
            link.carry(lambda: self.agents[name].obey(command))
        elif link.up:
            self.agents[name].obey(command)

    def _solve(self, command: Solve) -> None:
        """The slow loop's answer comes a moment later, if the solver is there."""
        life = self.controller.life
        if self._solver is None:
            plan = programme.plan_without_solver(command.instance)
        else:
            plan = self._solver.solve(command.instance)

        def answer() -> None:
            if life == self.controller.life and plan is not None:
                self.controller.take(Planned(plan=plan))

        self.agenda.later(SOLVE_S, answer)

    def _fit(self, command: Fit) -> None:
        """Ratings come back after a while, as from the process that fits them; it ends with its controller."""
        assert self.ground.lab is not None, "a world with training configs needs a lab"
        lab, life = self.ground.lab, self.controller.life

        def answer() -> None:
            if life == self.controller.life:
                self.controller.take(lab.fit(command))

        self.agenda.later(FIT_S, answer)

    def _ask(self, given: Submit) -> None:
        def ask(done: Done) -> None:
            self.controller.take(given, done=done)

        ask_until_answered(self.agenda, ask, PATIENCE_S, self._note_answer)

    def _note_answer(self) -> None:
        self._unanswered -= 1

    # The wire.

    def _reconnect(self, name: str) -> None:
        """Reach the node's agent: it tells its inventory, then every fact that is not acknowledged."""
        link = self._links[name]
        if self.controller.core is None or link.up or self.agenda.now < link.away_until:
            return
        link.open()
        link.carry(lambda: self._hello(name))

    def _hello(self, name: str) -> None:
        agent, link = self.agents[name], self._links[name]
        inventory = agent.hello()
        agent.heard()
        link.greeted = True
        link.carry(lambda: self.controller.take(Reported(node=name, given=inventory)))
        if agent.facts:
            self._carry(name, *agent.facts)

    def _tell(self, name: str, identity: str, fact: Fact) -> None:
        if self.agents[name].identity == identity and self._links[name].greeted:
            self._carry(name, fact)

    def _carry(self, name: str, *facts: Fact) -> None:
        identity, link = self.agents[name].identity, self._links[name]
        told = [Reported(node=name, given=fact.told) for fact in facts]

        def acknowledge(_: Sequence[Any]) -> None:
            if self._manner.quick:
                self._acknowledge(name, identity, facts[-1].seq)
            else:
                link.carry(lambda: self._acknowledge(name, identity, facts[-1].seq))

        link.carry(lambda: self.controller.take(*told, done=acknowledge))
        link.haunt(lambda: self.controller.take(*told))

    def _acknowledge(self, name: str, identity: str, seq: int) -> None:
        if self.agents[name].identity == identity:
            self.agents[name].acknowledge(seq)

    def _tell_telemetry(self, every_s: float) -> None:
        """All nodes that can be reached tell how they are; nobody tells it again."""
        for name, node in self._nodes.items():
            if self._links[name].greeted:
                lie, before = self.lies.get(name), self._told.get(name)
                self._told[name] = telemetry.told(node, self.agents[name], self.ground, lie, before)
        reached = [Reported(node=name, given=told) for name, told in self._told.items() if self._links[name].greeted]
        if reached:
            self.controller.take(*reached)
        self.agenda.later(every_s, lambda: self._tell_telemetry(every_s))

    # What there is, and what came of it.

    def _agent(self, node: NodeSpec, number: int) -> VirtualAgent:
        identity = f"{node.name}#{number}"
        return VirtualAgent(
            identity, node, self.ground, self._random, lambda fact: self._tell(node.name, identity, fact)
        )

    def _count_busy(self, name: str) -> None:
        for queue, busy_s in self.agents[name].busy_s.items():
            for device in devices_of(name, queue):
                self._busy[device] += busy_s  # type: ignore[assignment]  # a counter of seconds

    def _report(self) -> Report:
        for name in self._nodes:
            self._count_busy(name)
        folded = fold(self.journal())
        core = self.controller.core
        span_s = self.agenda.now
        devices = [device.id for node in self._nodes.values() for device in node.devices]
        return Report(
            idle=self.idle(),
            makespan_s=span_s,
            jobs={} if core is None else dict(core.index.counts),
            accepted=folded.accepted,
            coverage=folded.coverage(),
            hits={name: tuple(sorted(found)) for name, found in folded.hits.items()},
            busy={name: self._busy[name] / span_s if span_s else 0.0 for name in devices},
            refused=folded.refused,
            events=folded.events,
            faults=self.happened,
        )


def _raise_refusals(answers: Sequence[Any]) -> None:
    for answer in answers:
        if isinstance(answer, HostlerError):
            raise answer
