"""A node's agent as docs/reference/agent-protocol.md describes it, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from hostler.model.commands import (
    AttemptOrder,
    CloseWorker,
    Discard,
    Launch,
    Lend,
    NodeCommand,
    Recall,
    Stop,
    WorkerOrder,
)
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Ended, Input, LinkUp, Returned, Searched, Started, WorkerRefused
from hostler.model.record import entity, record
from hostler.sim.agenda import Agenda
from hostler.sim.programs import script_of, search_of

if TYPE_CHECKING:
    from hostler.sim.lab import Lab

CHECKPOINT_S = 2.0
WORKER_START_S = 0.5
GRACE_S = 0.1
WRONG = "0" * 64


@record
class Fact:
    """Something the agent tells until the controller has it in its journal."""

    seq: int
    told: Input


@entity
class Process:
    """An attempt the agent holds. `began` is `None` while it is queued."""

    order: AttemptOrder
    began: float | None = None
    ended: bool = False


@entity
class Piece:
    """A chunk the agent holds. `began` is `None` while it is queued."""

    chunk: str
    worker: WorkerOrder
    start: int
    stop: int
    began: float | None = None
    answered: bool = False


class VirtualAgent:
    """Runs one thing at a time per queue, attempts before chunks; keeps facts until they are acknowledged."""

    def __init__(
        self,
        identity: str,
        node: NodeSpec,
        agenda: Agenda,
        random: Random,
        speeds: Callable[[str], float],
        wrong_digest: float,
        tell: Callable[[Fact], None],
        bad_devices: frozenset[str] = frozenset(),
        lab: Lab | None = None,
    ) -> None:
        self.identity = identity
        self.incarnation = 1
        self.boot = 1
        self.busy_s = dict.fromkeys((device.queue for device in node.devices), 0.0)
        self.facts: list[Fact] = []
        self._node = node
        self._agenda = agenda
        self._random = random
        self._speeds = speeds
        self._wrong_digest = wrong_digest
        self._tell = tell
        self._bad_devices = bad_devices
        self._lab = lab
        self._seq = 0
        self._alive = True
        self._processes: dict[str, Process] = {}
        self._pieces: dict[str, Piece] = {}
        self._warm: set[str] = set()
        self._at_work: dict[str, Process | Piece] = {}

    def hello(self) -> LinkUp:
        """The inventory: everything it holds, answered or not, until that is acknowledged."""
        return LinkUp(
            node=self._node.name,
            agent=self.identity,
            incarnation=self.incarnation,
            boot=str(self.boot),
            attempts=tuple(self._processes),
            chunks=tuple(self._pieces),
        )

    def acknowledge(self, seq: int) -> None:
        """Facts up to `seq` are in the journal: forget them, and what they were the end of."""
        for fact in self.facts:
            if fact.seq <= seq and isinstance(fact.told, Ended):
                self._processes.pop(fact.told.attempt, None)
            elif fact.seq <= seq and isinstance(fact.told, Searched | Returned):
                self._pieces.pop(fact.told.chunk, None)
        self.facts = [fact for fact in self.facts if fact.seq > seq]

    def obey(self, command: NodeCommand) -> None:
        """Carry out one request of the controller."""
        match command:
            case Launch(order=order):
                self._launch(order)
            case Stop(attempt=name):
                self._stop(name)
            case Lend(worker=worker, chunk=chunk):
                piece = Piece(chunk=chunk.id, worker=worker, start=chunk.start, stop=chunk.stop)
                self._pieces.setdefault(chunk.id, piece)
                self._go_on(worker.queue)
            case Recall(chunk=name):
                self._recall(name)
            case CloseWorker(worker=name):
                self._warm.discard(name)
            case Discard():
                pass

    def restart(self) -> None:
        """The agent dies and is started again: attempts are adopted, workers end and their chunks come back."""
        self.incarnation += 1
        self._warm.clear()
        for piece in [each for each in self._pieces.values() if not each.answered]:
            self._return(piece, "agent_restarted")

    def reboot(self) -> None:
        """The machine restarts: what ran is dead."""
        self.boot += 1
        for process in [each for each in self._at_work.values() if isinstance(each, Process)]:
            self._end(process, exit_code=None, reason="lost")
        self.restart()

    def vanish(self) -> None:
        """The agent, its directory and all it ran are gone for good."""
        self._alive = False
        for queue in list(self._at_work):
            self._leave(queue)

    def kill_worker(self) -> None:
        """One of the workers at work dies."""
        at_work = [each for each in self._at_work.values() if isinstance(each, Piece)]
        if at_work:
            piece = self._random.choice(at_work)
            self._warm.discard(piece.worker.id)
            self._return(piece, "worker_died", error="killed")

    def kill_process(self) -> None:
        """One of the attempts at work is killed."""
        at_work = [each for each in self._at_work.values() if isinstance(each, Process)]
        if at_work:
            self._end(self._random.choice(at_work), exit_code=None, signal=9)

    def workers(self) -> frozenset[str]:
        """Workers that are warm now."""
        return frozenset(self._warm)

    def _launch(self, order: AttemptOrder) -> None:
        self._processes.setdefault(order.id, Process(order=order))
        self._go_on(order.queue)

    def _stop(self, name: str) -> None:
        process = self._processes.get(name)
        if process is None:
            self._record(Ended(attempt=name, ended_at=self._agenda.now, reason="unknown"))
        elif process.began is None and not process.ended:
            self._end(process, exit_code=None, reason="stopped")
        elif not process.ended:
            self._agenda.later(GRACE_S, lambda: self._end(process, exit_code=None, signal=15, reason="stopped"))

    def _recall(self, name: str) -> None:
        piece = self._pieces.get(name)
        if piece is None:
            self._record(Returned(chunk=name, reason="recalled"))
        elif not piece.answered:
            if piece.began is not None:
                self._warm.discard(piece.worker.id)
            self._return(piece, "recalled")

    def _go_on(self, queue: str) -> None:
        """Begin the next thing of a free queue."""
        if queue in self._at_work or not self._alive:
            return
        processes = (each for each in self._processes.values() if each.order.queue == queue and not each.ended)
        pieces = (each for each in self._pieces.values() if each.worker.queue == queue and not each.answered)
        if (process := next(processes, None)) is not None:
            self._begin_process(queue, process)
        elif (piece := next(pieces, None)) is not None:
            self._begin_piece(queue, piece)

    def _begin_process(self, queue: str, process: Process) -> None:
        now = self._agenda.now
        process.began = now
        self._at_work[queue] = process
        self._record(Started(attempt=process.order.id, pid=1000 + self._seq, pid_start=int(now)))
        order, limit = process.order.inputs, process.order.walltime_s
        if order is not None and "stage" in order:
            assert self._lab is not None, "a world with training configs needs a lab"
            self._agenda.later(self._lab.seconds(order), lambda: self._end(process, exit_code=0))
            return
        script = script_of(process.order.argv)
        if limit is not None and limit < script.seconds:
            self._agenda.later(limit, lambda: self._end(process, exit_code=None, signal=9, reason="walltime"))
            return
        status = int(self._random.random() < script.fails)
        self._agenda.later(script.seconds, lambda: self._end(process, exit_code=status))

    def _end(
        self, process: Process, exit_code: int | None, signal: int | None = None, reason: str | None = None
    ) -> None:
        if process.ended or not self._alive:
            return
        process.ended = True
        queue, order = process.order.queue, process.order
        result: Any = {"attempt": order.id, "saw": sorted(order.inputs or ())} if exit_code == 0 else None
        if order.inputs is not None and "stage" in order.inputs:
            assert self._lab is not None
            if exit_code == 0:
                exit_code, result = self._lab.report(order.inputs)
            elif process.began is not None:
                result = self._lab.partial(order.inputs, self._agenda.now - process.began)
        self._record(
            Ended(
                attempt=order.id,
                started_at=process.began,
                ended_at=self._agenda.now,
                exit_code=exit_code,
                signal=signal,
                reason=reason,
                result=result,
            )
        )
        if self._at_work.get(queue) is process:
            self._leave(queue)

    def _refuse(self, worker: WorkerOrder) -> None:
        self._record(WorkerRefused(worker=worker.id, error="it does not start here"))
        for piece in [each for each in self._pieces.values() if each.worker.id == worker.id and not each.answered]:
            self._return(piece, "worker_start")
        self._go_on(worker.queue)

    def _begin_piece(self, queue: str, piece: Piece) -> None:
        if f"{self._node.name}/{queue}" in self._bad_devices:
            self._refuse(piece.worker)
            return
        warm_up = 0.0 if piece.worker.id in self._warm else WORKER_START_S
        self._warm.add(piece.worker.id)
        piece.began = self._agenda.now + warm_up
        self._at_work[queue] = piece
        seconds = (piece.stop - piece.start) / self._speed(piece)
        self._agenda.later(warm_up + seconds, lambda: self._finish(piece))

    def _finish(self, piece: Piece) -> None:
        if piece.answered or not self._alive or self._at_work.get(piece.worker.queue) is not piece:
            return
        assert piece.began is not None
        piece.answered = True
        wrong = self._random.random() < self._wrong_digest
        self._record(
            Searched(
                chunk=piece.chunk,
                digest=WRONG if wrong else piece.worker.digest,
                start=piece.start,
                stop=piece.stop,
                hits=() if wrong else search_of(piece.worker.params).hits(piece.start, piece.stop),
                elapsed_s=self._agenda.now - piece.began,
            )
        )
        self._leave(piece.worker.queue)

    def _return(self, piece: Piece, reason: str, error: str | None = None) -> None:
        """Give an unfinished chunk back from its last checkpoint."""
        position = self._checkpoint(piece)
        piece.answered = True
        self._record(
            Returned(
                chunk=piece.chunk,
                position=position,
                digest=None if position is None else piece.worker.digest,
                hits=() if position is None else search_of(piece.worker.params).hits(piece.start, position),
                reason=reason,
                error=error,
            )
        )
        if self._at_work.get(piece.worker.queue) is piece:
            self._leave(piece.worker.queue)

    def _checkpoint(self, piece: Piece) -> int | None:
        if piece.began is None:
            return None
        steps = max(self._agenda.now - piece.began, 0.0) // CHECKPOINT_S
        return min(piece.start + int(steps * CHECKPOINT_S * self._speed(piece)), piece.stop) if steps else None

    def _speed(self, piece: Piece) -> float:
        return self._speeds(f"{self._node.name}/{piece.worker.queue}")

    def _leave(self, queue: str) -> None:
        """The queue's process is over; the next one begins."""
        began = self._at_work.pop(queue).began
        self.busy_s[queue] += max(self._agenda.now - (self._agenda.now if began is None else began), 0.0)
        self._go_on(queue)

    def _record(self, told: Input) -> None:
        self._seq += 1
        fact = Fact(seq=self._seq, told=told)
        self.facts.append(fact)
        self._tell(fact)
