"""What must be true of a world with several controllers, whatever goes wrong; asked when it could be broken."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from hostler.core import Core, State
from hostler.core.conduct import FAULTS_MOST, WINDOW_S
from hostler.core.orders import sweep_of_worker
from hostler.core.snapshot import load_state
from hostler.model import events, inputs
from hostler.model.codec import load_event
from hostler.model.commands import Clear, Command, Launch, Lend
from hostler.model.events import Entry, Event
from hostler.model.fleet import Link
from hostler.policy.leadership import LEASE_S
from hostler.sim.agenda import Agenda
from hostler.sim.agent import FOLDER_GONE, Fact, VirtualAgent
from hostler.sim.cluster.shelf import Shelf, content_of, sha256
from hostler.sim.cluster.store import Line, Row, Saved
from hostler.sim.nature import devices_of

Story: TypeAlias = Callable[[str], None]

COUNTED_S = 2 * WINDOW_S
"""A fault that is only counted has at least `FAULTS_MOST` recorded ones so long before it is acknowledged."""
SLACK = 0.95
"""How much shorter a lease may be than it says: clocks do not go at the same rate."""


class Broken(AssertionError):
    """An invariant does not hold. `what` is its name."""

    def __init__(self, what: str, how: str) -> None:
        super().__init__(f"{what}: {how}")
        self.what = what


def entry_of(line: Line) -> Entry:
    """An entry, read from the journal's line."""
    return Entry(seq=line.seq, at=line.at, event=_event(line.event))


@lru_cache(maxsize=4096)
def _event(text: str) -> Event:
    """Everybody reads the same lines."""
    return load_event(text)


class Proof:
    """Sees everything from outside, and knows what no part of the world may know."""

    def __init__(self, agenda: Agenda, shelf: Shelf, tell: Story) -> None:
        self.events: list[Event] = []
        """What is in the journal."""
        self.lines: list[Line] = []
        self._agenda = agenda
        self._shelf = shelf
        self._tell = tell
        self._passed_at = 0.0
        self._tried: list[Line] = []
        self._writers: dict[int, str] = {}
        self._about: set[str] = set()
        """Attempts and chunks of which the journal knows the end, or that it was refused."""
        self._leased: set[str] = set()
        self._open: set[str] = set()
        """Attempts and chunks that are leased by the journal, and whose end it still needs."""
        self._faults: dict[str | None, deque[float]] = defaultdict(lambda: deque(maxlen=FAULTS_MOST))
        """When the newest faults of each node were recorded; those without a node under `None`."""
        self._awaited: set[str] = set()
        """Attempts whose files have not come yet."""
        self._done: set[str] = set()
        self._over: set[str] = set()
        """Jobs that are over, however they ended."""
        self._epochs: dict[str, int] = {}
        self._kept: dict[str, dict[int, Fact]] = {}
        self._began: Counter[tuple[str, str]] = Counter()

    # The journal.

    def begun(self, who: str, epoch: int, before: Row) -> None:
        """A controller has begun an epoch, where this was before."""
        idle_s = self._agenda.now - self._passed_at
        if before.epoch and not before.given_up and idle_s < LEASE_S * SLACK:
            raise Broken("a leader that lives is left alone", f"{who} takes over {idle_s:.2f} s after a renewal")
        self._passed_at = self._agenda.now
        if self._writers.setdefault(epoch, who) != who or epoch != max(self._writers):
            raise Broken("an epoch has one writer", f"{who} begins {epoch}, which is {self._writers[epoch]}'s")
        self._tell(f"{who} begins epoch {epoch}")

    def passed(self, who: str, epoch: int) -> None:
        """A controller's write has gone through the fence."""
        if epoch != max(self._writers, default=0):
            raise Broken("nobody writes in an epoch that is over", f"{who} in {epoch}, {max(self._writers)} has begun")
        self._passed_at = self._agenda.now

    def trying(self, lines: Sequence[Line]) -> None:
        """These are being written, together."""
        self._tried = list(lines)

    def written(self, who: str, epoch: int, lines: Sequence[Line]) -> None:
        """A controller has written what is new in the journal, or tried to."""
        if len(lines) > len(self.lines) and self._writers.get(epoch) != who:
            raise Broken("an epoch has one writer", f"{who} writes in {epoch}, which is {self._writers.get(epoch)}'s")
        self._read(lines)

    def recovered(self, lines: Sequence[Line], row: Row) -> None:
        """The store is there again with this."""
        kept = lines[: len(self.lines)]
        if list(kept) != self.lines:
            raise Broken("what was answered is durable", f"of {len(self.lines)} lines the store has {len(lines)}")
        if lines[len(kept) :] and lines[len(kept) :] != self._tried:
            raise Broken("a batch is written whole or not at all", f"{len(lines) - len(kept)} of {len(self._tried)}")
        if row.epoch < max(self._writers, default=0):
            raise Broken("what was answered is durable", f"epoch {max(self._writers)} is forgotten")
        self._read(lines)

    def compacted(self, lines: Sequence[Line]) -> None:
        """Old lines are in a segment now: who reads finds the same."""
        if list(lines) != self.lines:
            raise Broken("who reads finds the same after compaction", f"{len(lines)} lines of {len(self.lines)}")

    def promised(self, who: str, lines: Sequence[Line]) -> None:
        """A controller believes that these are durable."""
        for line in lines:
            if line.seq > len(self.lines) or self.lines[line.seq - 1] != line:
                raise Broken("what was answered is durable", f"{who} believes {line.seq} is written, and it is not")

    def saved(self, saved: Saved) -> None:
        """A snapshot is kept."""
        state = load_state(saved.data)
        if saved.seq > len(self.lines) or state != replayed(self.lines[: saved.seq]).state:
            raise Broken(
                "a snapshot is what the journal says", f"one of {saved.seq}, the journal has {len(self.lines)}"
            )

    def followed(self, who: str, state: State, leading: State | None) -> None:
        """A standby has replayed so far; the leader may be as far."""
        if leading is not None and leading.seq == state.seq and leading != state:
            raise Broken("a standby's state is the leader's", f"{who} differs at {state.seq}")

    def _read(self, lines: Sequence[Line]) -> None:
        for line in lines[len(self.lines) :]:
            last = self.lines[-1] if self.lines else None
            self.lines.append(line)
            if line.seq != len(self.lines):
                raise Broken("the journal has no gap", f"entry {line.seq} stands where {len(self.lines)} should")
            if last is not None and (line.epoch < last.epoch or line.at < last.at):
                raise Broken("epochs and times never go back", f"{last.epoch} {last.at}, then {line.epoch} {line.at}")
            event = _event(line.event)
            self.events.append(event)
            self._fold(event, line.at)

    def _fold(self, event: Event, at: float) -> None:
        self._fold_lease(event, at)
        if isinstance(event, events.JobDone | events.JobFailed | events.JobCancelled):
            self._over.add(event.job)
        match event:
            case events.AttemptEnded(attempt=name):
                self._about.add(name)
                if event.fetch is not None:
                    self._awaited.add(name)
            case events.ChunkDone(chunk=name) | events.ResultRefused(of=name):
                self._about.add(name)
            case events.FilesFetched(attempt=name, error=None):
                self._awaited.discard(name)
                self._expect_files(event)
            case events.FilesFetched(attempt=name) | events.AttemptLost(attempt=name):
                self._awaited.discard(name)
            case events.JobDone(job=job):
                if job in self._done:
                    raise Broken("one result of a job is accepted", f"a second one of {job}")
                self._expect_own_result(event)
                self._done.add(job)

    def _fold_lease(self, event: Event, at: float) -> None:
        match event:
            case events.AttemptLeased(attempt=name) | events.ChunkLeased(chunk=name):
                self._leased.add(name)
                self._open.add(name)
            case events.AttemptEnded(attempt=name) | events.AttemptLost(attempt=name):
                self._open.discard(name)
            case events.ChunkDone(chunk=name) | events.ChunkReturned(chunk=name) | events.ChunkTaken(chunk=name):
                self._open.discard(name)
            case events.ResultRefused(node=node):
                self._faults[node].append(at)
            case events.TroubleRecorded():
                self._faults[None].append(at)

    def _expect_own_result(self, event: events.JobDone) -> None:
        if event.attempt is not None and event.result["attempt"] != event.attempt:
            raise Broken("one result of a job is accepted", f"{event.attempt} brings that of {event.result['attempt']}")

    def _expect_files(self, event: events.FilesFetched) -> None:
        for file in event.files:
            if file.sha256 != sha256(content_of(event.attempt, file.path)) or not self._shelf.has(file.sha256):
                raise Broken("a file told of is kept, with its right hash", f"{file.path} of {event.attempt}")
        if not event.files:
            raise Broken("a file told of is kept, with its right hash", f"nothing has come of {event.attempt}")

    # Controllers.

    def acted(self, who: str, epoch: int, command: Command, row: Row) -> None:
        """A controller carries a command out."""
        if row.epoch != epoch:
            raise Broken("nobody acts for an epoch that is over", f"{who} in {epoch}, {row.epoch} has begun: {command}")
        match command:
            case Launch():
                cause = command.order.id
            case Lend():
                cause = command.chunk.id
            case _:
                return
        if cause not in self._leased:
            raise Broken("what is done is in the journal before", f"{who} acts on {cause}")

    # Nodes.

    def greeted(self, identity: str, epoch: int) -> None:
        """An agent has let a controller in."""
        if epoch < self._epochs.get(identity, 0):
            raise Broken("agents obey the newest epoch they know", f"{identity} lets {epoch} in")
        self._epochs[identity] = epoch

    def obeyed(self, identity: str, epoch: int, command: Command) -> None:
        """An agent carries a command out."""
        if epoch != self._epochs.get(identity):
            known = self._epochs.get(identity)
            raise Broken(
                "agents obey the newest epoch they know", f"{identity} knows {known}, obeys {epoch}: {command}"
            )
        if isinstance(command, Clear):
            self.cleared(command.attempt)

    def cleared(self, attempt: str) -> None:
        """The folder of an attempt is no more."""
        if attempt in self._awaited:
            raise Broken("nothing is cleared before it is kept", f"the folder of {attempt}")

    def told(self, identity: str, fact: Fact) -> None:
        """An agent has something to tell until it is acknowledged."""
        self._kept.setdefault(identity, {})[fact.seq] = fact
        if isinstance(fact.told, inputs.WorkerRefused) and fact.told.error == FOLDER_GONE:
            self._expect_over(sweep_of_worker(fact.told.worker))
        if isinstance(fact.told, inputs.Started):
            key = identity, fact.told.attempt
            self._began[key] += 1
            if self._began[key] > 1:
                raise Broken("an order is carried out once", f"{fact.told.attempt} begins again on {identity}")

    def _expect_over(self, sweep: str) -> None:
        if sweep not in self._over:
            raise Broken("the folder of a sweep stays until it is over", f"that of {sweep} is gone")

    def acknowledged(self, identity: str, agent: VirtualAgent) -> None:
        """An agent has forgotten what was acknowledged."""
        has = {fact.seq for fact in agent.facts}
        kept = self._kept.get(identity, {})
        for seq in [each for each in kept if each not in has]:
            self._expect_known(identity, kept.pop(seq))

    def _expect_known(self, identity: str, fact: Fact) -> None:
        match fact.told:
            case inputs.Ended(attempt=name) | inputs.Searched(chunk=name):
                if name not in self._about and not self._is_counted(identity, name):
                    raise Broken("what is acknowledged is in the journal", f"the end of {name} on {identity}")

    def _is_counted(self, identity: str, name: str) -> bool:
        """Whether the core may have counted a late end without an event: so many others are in the journal."""
        node, since = identity.partition("#")[0], self._agenda.now - COUNTED_S
        recorded = sum(at >= since for each in (node, None) for at in self._faults[each])
        return name not in self._open and recorded >= FAULTS_MOST

    def look(self, agents: Iterable[VirtualAgent], *, leaps: bool) -> None:
        """What nodes do now."""
        jobs: Counter[str] = Counter()
        for agent in agents:
            has = {fact.seq for fact in agent.facts}
            for seq, fact in self._kept.get(agent.identity, {}).items():
                if seq not in has:
                    raise Broken("agents keep what is not acknowledged", f"{agent.identity} has forgotten {fact.told}")
            if agent.epoch < self._epochs.get(agent.identity, 0):
                raise Broken("agents obey the newest epoch they know", f"{agent.identity} has forgotten it")
            running = [each.order for each in agent.running()]
            busy = Counter(device for each in running for device in devices_of(agent.identity, each.queue))
            if max(busy.values(), default=0) > 1:
                raise Broken("no device is booked twice", f"{busy}")
            jobs.update(each.id.partition(".")[0] for each in running)
        if not leaps and max(jobs.values(), default=0) > 1:
            raise Broken("a job runs once at a time", f"{jobs}")

    # The end.

    def ended(self, states: Sequence[State]) -> None:
        """All is quiet: every controller has the same state, and every result that counts is kept."""
        right = replayed(self.lines).state
        if any(state != right for state in states):
            raise Broken("a standby's state is the leader's", "at the end")
        for event in self.events:
            if isinstance(event, events.FilesFetched) and event.error is None:
                self._expect_files(event)
        down = [node.spec.name for node in right.nodes.values() if node.link is not Link.UP]
        if down:
            raise Broken("everything ends once faults stop", f"{down} are out of reach")


def replayed(lines: Iterable[Line]) -> Core:
    """A core made from the journal alone."""
    core = Core()
    core.replay(map(entry_of, lines))
    return core
