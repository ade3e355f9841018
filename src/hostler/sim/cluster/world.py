"""Several controllers, one store, the nodes, and all that goes wrong between them. One seed, one history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from hostler.model.commands import Clear, Collect, Command, Fit, Keep, NodeCommand, Solve
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Ended, Fetched, LinkDown, Reported, Started, Submit
from hostler.model.work import JobSpec
from hostler.sim.agenda import Agenda
from hostler.sim.agent import Fact, VirtualAgent
from hostler.sim.asking import Done, ask_until_answered
from hostler.sim.cluster.contender import LEADER, Contender
from hostler.sim.cluster.mishaps import Misfortune
from hostler.sim.cluster.process import Clocks, Hazard
from hostler.sim.cluster.proof import Broken, Proof
from hostler.sim.cluster.shelf import Errand, Sent, Shelf, sent
from hostler.sim.cluster.store import Line, VirtualStore
from hostler.sim.cluster.troubles import Troubles
from hostler.sim.cluster.wire import Peer, Wire
from hostler.sim.ground import firm_ground
from hostler.sim.mishaps import Mishaps
from hostler.sim.nature import Plain
from hostler.sim.telemetry import Lie

NOTICE_S = 5.0
"""A cut connection is noticed after this long at most."""
REACH_S = 1.5
HANDSHAKE_S = 1.0
PATIENCE_S = 5.0
"""Whoever submitted something asks again after that, until it is answered."""
WATCH_S = 1.0


class Cluster:
    """Everything that happens between some controllers and their fleet.

    `Broken` is raised as soon as an invariant does not hold. With `keep_story` the `story` tells what happened.
    """

    def __init__(
        self,
        seed: int,
        nodes: Sequence[NodeSpec],
        speeds: Mapping[str, float],
        troubles: Troubles,
        *,
        keep_story: bool = False,
    ) -> None:
        self.agenda = Agenda()
        self.troubles = troubles
        self.happened: Counter[str] = Counter()
        self.story: list[str] = []
        self.quiet_at = 0.0
        """When the last trouble is over that has begun."""
        self.ground = firm_ground(self.agenda, Plain(speeds))
        self.ground.wrong_digest = troubles.nodes.wrong_digest
        self.agents: dict[str, VirtualAgent] = {}
        self.lies: dict[str, Lie] = {}
        self.shelf = Shelf()
        self.proof = Proof(self.agenda, self.shelf, self.tell)
        self.random = Random(seed)  # noqa: S311  reproducible, not secret
        self.store = VirtualStore(self.random, self.proof)
        self.wires: dict[tuple[str, str], Wire] = {}
        self.specs = {node.name: node for node in nodes}
        self._keep_story = keep_story
        self._folders: dict[str, set[str]] = {}
        self._unanswered = 0
        self._is_over = False
        self.contenders = {name: self._contender(name) for name in ("a", "b", "c")[: troubles.controllers]}
        for node in nodes:
            self.agents[node.name] = self._agent(node, 1)
            for who in self.contenders:
                self.wires[who, node.name] = Wire(self.agenda, self.random, troubles)

    def submit(self, at_s: float, specs: Sequence[JobSpec]) -> None:
        """Submit jobs, all with keys, at a time; to one controller after the other until one has answered."""
        self._unanswered += 1
        self.agenda.later(at_s, lambda: self._ask(Submit(specs=tuple(specs))))

    def run(self, max_virtual_s: float) -> None:
        """Live until everything submitted is over and written down. Raises `Broken`."""
        Mishaps(self, list(self.specs.values()), self.troubles.nodes, None, self.random).plan()
        Misfortune(self).plan()
        for contender in self.contenders.values():
            contender.start()
        self._watch()
        while not self._is_over and self.agenda.step(max_virtual_s):
            pass
        if not self.idle():
            raise Broken("everything ends once faults stop", self._what_is_left())

    def rest(self, seconds: float) -> None:
        """Live on after the last fault, so that everything late has come and everything left is tidied."""
        self._live(self.troubles.nodes.until_s)
        away_until = max(wire.away_until for wire in self.wires.values())
        self._live(max(self.agenda.now, away_until, self.quiet_at) + seconds)

    def _live(self, until_s: float) -> None:
        while self.agenda.step(until_s):
            pass

    def idle(self) -> bool:
        """Whether everything that was asked for is over, and written down."""
        leader = self.leader()
        if leader is None or leader.core is None or self._unanswered:
            return False
        counts = leader.core.index.counts
        if sum(counts.values()) != sum(count for state, count in counts.items() if state.final):
            return False
        return leader.is_written and leader.core.state.seq == len(self.store.lines)

    def leader(self) -> Contender | None:
        """Who leads by the store's own word, if that one knows it."""
        leads = (each for each in self.contenders.values() if each.leads and each.epoch == self.store.row.epoch)
        return next(leads, None)

    def tell(self, what: str) -> None:
        """Have something in the story."""
        if self._keep_story:
            self.story.append(f"{self.agenda.now:9.3f}  {what}")

    # What befalls nodes (`Mishaps`).

    def cut(self, name: str, back_in_s: float) -> None:
        """No controller reaches a node for so long."""
        for who in self.contenders:
            self.part(who, name, back_in_s)

    def part(self, who: str, name: str, back_in_s: float) -> None:
        """A controller and a node cannot reach each other for so long."""
        self.tell(f"{who} and {name} are apart for {back_in_s:.1f} s")
        wire = self.wires[who, name]
        wire.away_until = max(wire.away_until, self.agenda.now + back_in_s)
        self._break(who, name)

    def lose_agent(self, name: str, back_in_s: float) -> None:
        """A node is gone for good; another one stands in for it after so long."""
        old = self.agents[name]
        self.tell(f"{old.identity} is lost")
        old.vanish()
        self._folders.pop(old.identity, None)
        self.agents[name] = self._agent(self.specs[name], int(old.identity.rpartition("#")[2]) + 1)
        self.cut(name, back_in_s)

    def crash(self) -> None:
        """A controller dies."""
        self.random.choice(list(self.contenders.values())).die()

    def set_clock(self, by_s: float) -> None:
        """The clock of a controller is set."""
        self.random.choice(list(self.contenders.values())).clocks.offset_s += by_s

    # What controllers do (`Town`).

    def leads(self, contender: Contender) -> None:
        """Every node is tried, again and again."""
        self.tell(f"{contender.name} leads in epoch {contender.epoch}, from entry {len(self.store.lines)}")
        for name in self.specs:
            self._reach(contender, name)

    def act(self, contender: Contender, command: Command) -> None:
        """A command goes to its node, over the connection there is."""
        self.proof.acted(contender.name, contender.epoch, command, self.store.row)
        if isinstance(command, Fit | Solve):
            return
        wire = self.wires[contender.name, command.node]
        peer = Peer(epoch=contender.epoch, who=contender.name, connection=wire.connection)
        if isinstance(command, Collect):
            self._collect(contender, wire, peer, command)
            return
        for _ in range(1 + self._is_doubled()):
            wire.to_node(lambda: self._obey(command.node, peer, command))

    def here(self, contender: Contender) -> None:
        """Nodes hear that it lives: the lease of what they have begins anew."""
        for name in self.specs:
            wire = self.wires[contender.name, name]
            peer = Peer(epoch=contender.epoch, who=contender.name, connection=wire.connection)
            wire.to_node(lambda name=name, peer=peer: self._hear(name, peer))  # type: ignore[misc]

    def promised(self, contender: Contender, lines: Sequence[Line]) -> None:
        """It has heard that these lines are written."""
        self.proof.promised(contender.name, lines)

    def followed(self, contender: Contender) -> None:
        """It has replayed what was new."""
        assert contender.core is not None
        leader = self.leader()
        leading = None if leader in (None, contender) or leader is None or leader.core is None else leader.core.state
        self.proof.followed(contender.name, contender.core.state, leading)

    def gone(self, contender: Contender) -> None:
        """Its connections are cut, and it is started again soon."""
        self.happened["controller ended"] += 1
        self.tell(f"{contender.name} ends")
        for name in self.specs:
            self._break(contender.name, name)
        self.agenda.later(self.random.uniform(0.5, 10.0), contender.start)

    # Connections.

    def _reach(self, contender: Contender, name: str) -> None:
        """Connect to a node's agent, which tells its inventory, then every fact that is not acknowledged."""
        wire = self.wires[contender.name, name]
        if contender.role != LEADER or wire.up:
            return
        if not contender.may_act or self.agenda.now < wire.away_until:
            contender.process.do(REACH_S, lambda: self._reach(contender, name))
            return
        wire.open()
        peer = Peer(epoch=contender.epoch, who=contender.name, connection=wire.connection)
        # A handshake, and then the greeting: who was stopped in between does not look at its tenure again.
        handshake_s = self.random.uniform(0.0, HANDSHAKE_S)
        contender.process.do(handshake_s, lambda: self._say_hello(contender, wire, name, peer))

    def _say_hello(self, contender: Contender, wire: Wire, name: str, peer: Peer) -> None:
        if wire.connection == peer.connection:
            wire.to_node(lambda: self._greet(contender, name, peer))

    def _greet(self, contender: Contender, name: str, peer: Peer) -> None:
        agent, wire, before = self.agents[name], self.wires[peer.who, name], self.agents[name].peer
        if not agent.greet(peer.epoch, peer):
            self.tell(f"{agent.identity} refuses {peer.who} of epoch {peer.epoch}")
            self._break(contender.name, name)
            return
        self.proof.greeted(agent.identity, peer.epoch)
        if isinstance(before, Peer) and before != peer and self._is_open(name, before):
            self._break(before.who, name)
        self._hear(name, peer)  # whoever says nothing more after its greeting has said something then
        wire.greeted = True
        inventory, facts = agent.hello(), list(agent.facts)
        found = Reported(node=name, given=inventory)
        wire.to_controller(lambda: contender.process.do(0.0, lambda: contender.take(found)))
        if facts:
            self._carry(name, peer, facts)

    def _break(self, who: str, name: str) -> None:
        """A connection is gone; its controller notices, and connects anew."""
        wire, agent, contender = self.wires[who, name], self.agents[name], self.contenders[who]
        if not wire.up:
            return
        wire.cut()
        lost = wire.connection
        if isinstance(agent.peer, Peer) and agent.peer.who == who:
            agent.unheard()

        def notice() -> None:
            if wire.connection == lost:
                contender.take(Reported(node=name, given=LinkDown(node=name, why="the connection broke")))
                contender.process.do(REACH_S, lambda: self._reach(contender, name))

        contender.process.do(self.random.uniform(0.0, NOTICE_S), notice)

    def _is_open(self, name: str, peer: Peer) -> bool:
        wire = self.wires[peer.who, name]
        return wire.up and wire.connection == peer.connection

    def _hear(self, name: str, peer: Peer) -> None:
        agent = self.agents[name]
        if agent.hears(peer):
            agent.heard()
            agent.unheard()

    def _obey(self, name: str, peer: Peer, command: NodeCommand) -> None:
        agent = self.agents[name]
        if not agent.hears(peer):
            return
        self.tell(f"{agent.identity} obeys {type(command).__name__} of {peer.who} ({peer.epoch}): {_named(command)}")
        self.proof.obeyed(agent.identity, peer.epoch, command)
        folders = self._folders.setdefault(agent.identity, set())
        if isinstance(command, Clear):
            folders.discard(command.attempt)
        elif isinstance(command, Keep):
            for attempt in sorted(folders - set(command.attempts)):
                self.proof.cleared(attempt)
            folders &= set(command.attempts)
        agent.obey(command)

    # Facts and files.

    def _told(self, name: str, identity: str, fact: Fact) -> None:
        """An agent has a fact: it tells it over the connection it has."""
        self.proof.told(identity, fact)
        if isinstance(fact.told, Started):
            self._folders.setdefault(identity, set()).add(fact.told.attempt)
        if isinstance(fact.told, Ended):
            self.tell(f"{identity}: {fact.told.attempt} ends ({fact.told.exit_code} {fact.told.reason})")
        agent = self.agents.get(name)
        if agent is None or agent.identity != identity:
            return
        peer = agent.peer
        if isinstance(peer, Peer) and self._is_open(name, peer) and self.wires[peer.who, name].greeted:
            self._carry(name, peer, [fact])

    def _carry(self, name: str, peer: Peer, facts: Sequence[Fact]) -> None:
        contender, wire, identity = self.contenders[peer.who], self.wires[peer.who, name], self.agents[name].identity
        told, last = [Reported(node=name, given=fact.told) for fact in facts], facts[-1].seq

        def acknowledge(_: Sequence[Any]) -> None:
            if self._is_open(name, peer):
                wire.to_node(lambda: self._acknowledge(name, peer, identity, last))

        for _ in range(1 + self._is_doubled()):
            wire.to_controller(lambda: contender.process.do(0.0, lambda: self._report(contender, told, acknowledge)))
        if self.random.random() < self.troubles.nodes.told_again:
            late_s = self.random.uniform(0.0, self.troubles.nodes.late_s)
            self.agenda.later(late_s, lambda: contender.process.do(0.0, lambda: contender.take(*told)))

    def _report(self, contender: Contender, told: Sequence[Any], acknowledge: Any) -> None:
        """What an agent has told is taken; it is acknowledged when it is in the journal."""
        contender.take(*told, done=acknowledge)

    def _acknowledge(self, name: str, peer: Peer, identity: str, seq: int) -> None:
        agent = self.agents[name]
        if agent.identity == identity and agent.hears(peer):
            agent.acknowledge(seq)
            self.proof.acknowledged(identity, agent)

    def _collect(self, contender: Contender, wire: Wire, peer: Peer, command: Collect) -> None:
        name, attempt = command.node, command.attempt

        def ask(came: Any) -> None:
            if self._is_open(name, peer):
                wire.to_node(lambda: self._send(name, peer, command, came))

        def told(refs: Any) -> None:
            contender.take(Reported(node=name, given=Fetched(attempt=attempt, files=tuple(refs))))

        Errand(self.shelf, ask, contender.process.do, told).go()

    def _send(self, name: str, peer: Peer, command: Collect, came: Any) -> None:
        agent, contender = self.agents[name], self.contenders[peer.who]
        if not agent.hears(peer):
            return
        files: list[Sent] = []
        if command.attempt in self._folders.get(agent.identity, ()):
            wrong = self.troubles.wrong_files if self._is_bad_time() else 0.0
            files = sent(command.attempt, command.fetch.outputs, self.random, wrong)
        wire = self.wires[peer.who, name]
        wire.to_controller(lambda: contender.process.do(0.0, lambda: came(files)))

    # The rest.

    def _ask(self, given: Submit) -> None:
        def ask(done: Done) -> None:
            contender = self.random.choice(list(self.contenders.values()))
            contender.process.do(0.0, lambda: contender.take(given, done=done))

        ask_until_answered(self.agenda, ask, PATIENCE_S / 2, self._note_answer)

    def _note_answer(self) -> None:
        self._unanswered -= 1

    def _watch(self) -> None:
        self.proof.look(self.agents.values(), leaps=self.troubles.leaps)
        self._is_over = self.idle()
        self.agenda.later(WATCH_S, self._watch)

    def _is_bad_time(self) -> bool:
        return self.agenda.now < self.troubles.nodes.until_s

    def _is_doubled(self) -> bool:
        return self._is_bad_time() and self.random.random() < self.troubles.doubles

    def _contender(self, name: str) -> Contender:
        random = self.random
        clocks = Clocks(self.agenda, random.uniform(-100.0, 100.0), random.uniform(0.98, 1.02))
        nodes = tuple(self.specs.values())
        return Contender(name, self.agenda, random, clocks, self._hazard, self.store, nodes, self)

    def _hazard(self) -> Hazard:
        return self.troubles.hazard if self._is_bad_time() else NO_HAZARD

    def _agent(self, node: NodeSpec, number: int) -> VirtualAgent:
        identity = f"{node.name}#{number}"
        return VirtualAgent(
            identity, node, self.ground, self.random, lambda fact: self._told(node.name, identity, fact)
        )

    def _what_is_left(self) -> str:
        leader = self.leader()
        if leader is None or leader.core is None:
            return f"nobody leads; epoch {self.store.row.epoch}"
        jobs = {name: str(job.state) for name, job in leader.core.state.jobs.items() if not job.state.final}
        return f"{jobs}, {self._unanswered} unanswered, {leader.core.state.seq} of {len(self.store.lines)}"


NO_HAZARD = Hazard()


def _named(command: NodeCommand) -> str:
    for name in ("attempt", "chunk", "worker", "attempts", "order"):
        if hasattr(command, name):
            found = getattr(command, name)
            return str(getattr(found, "id", found))
    return ""
