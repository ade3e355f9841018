"""A node's agent as docs/reference/agent-protocol.md describes it, in virtual time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

from hostler.model.commands import (
    AttemptOrder,
    CanaryOrder,
    Clear,
    CloseWorker,
    Collect,
    Discard,
    Keep,
    Launch,
    Lend,
    ListWork,
    NodeCommand,
    Prove,
    Recall,
    Secure,
    Stop,
    Trim,
    WorkerOrder,
)
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import (
    DeviceProved,
    Ended,
    Fetched,
    Input,
    LinkUp,
    Returned,
    Searched,
    Secured,
    SoFar,
    Started,
    WorkerRefused,
    WorkListed,
)
from hostler.model.record import entity, record
from hostler.sim.engine import Task
from hostler.sim.ground import Ground
from hostler.sim.nature import Course, devices_of, saved_as
from hostler.sim.programs import script_of, search_of

CHECKPOINT_S = 2.0
WORKER_START_S = 0.5
GRACE_S = 0.1
SAVE_S = 5.0
"""How long a process that keeps its work takes to save it when it is asked to stop."""
LOOKS = 2.0
"""How often, about, an attempt tells what it has closed before it ends."""
FETCH_S = 1.5
"""How long it takes until what an attempt has closed is here."""
WRONG = "0" * 64
NO_SPACE = "[Errno 28] No space left on device"
EPSILON = 1e-6


FOLDER_GONE = "the folder of its sweep is gone"


@record
class Fact:
    """Something the agent tells until the controller has it in its journal."""

    seq: int
    told: Input


@entity
class Process:
    """An attempt the agent holds. `began` is `None` while it is queued, `task` until it has started up."""

    order: AttemptOrder
    course: Course | None = None
    began: float | None = None
    worked_since: float = 0.0
    before: float = 0.0
    """What earlier lives had done and kept."""
    task: Task | None = None
    ended: bool = False


@entity
class Piece:
    """A chunk the agent holds. `began` is `None` while it is queued."""

    chunk: str
    worker: WorkerOrder
    start: int
    stop: int
    began: float | None = None
    task: Task | None = None
    answered: bool = False


class VirtualAgent:
    """Runs one thing at a time per queue, attempts before chunks; keeps facts until they are acknowledged."""

    def __init__(
        self, identity: str, node: NodeSpec, ground: Ground, random: Random, tell: Callable[[Fact], None]
    ) -> None:
        self.identity = identity
        self.incarnation = 1
        self.boot = 1
        self.busy_s: dict[str, float] = defaultdict(float, dict.fromkeys((each.queue for each in node.devices), 0.0))
        self.facts: list[Fact] = []
        self.disk_full = False
        """Whether what ends now cannot write its result."""
        self.epoch = 0
        """The newest of a controller it has let in; it outlives restarts."""
        self.peer: object = None
        """The connection whose word counts: the one that was let in last."""
        self._node = node
        self._ground = ground
        self._agenda = ground.agenda
        self._random = random
        self._tell = tell
        self._seq = 0
        self._alive = True
        self._processes: dict[str, Process] = {}
        self._pieces: dict[str, Piece] = {}
        self._warm: set[str] = set()
        self._folders: set[str] = set()
        """Sweeps whose snapshot is laid out here."""
        self._at_work: dict[str, Process | Piece] = {}
        self._alone = False
        self._silences = 0
        """How often nothing was to be heard of a controller any more, or again."""

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

    def greet(self, epoch: int, peer: object) -> bool:
        """Let a controller in, unless one of a newer epoch was before; whoever was before says nothing more."""
        if epoch < self.epoch:
            return False
        self.epoch, self.peer = epoch, peer
        return True

    def hears(self, peer: object) -> bool:
        """Whether what comes over this connection counts."""
        return peer == self.peer

    def heard(self) -> None:
        """A controller has said something."""
        self._alone, self._silences = False, self._silences + 1

    def unheard(self) -> None:
        """No controller is to be heard any more: from now on the lease of what it holds is counted."""
        lease_s = self._node.lease_s
        if self._alone or lease_s is None:
            return
        self._alone, self._silences = True, self._silences + 1
        silence = self._silences
        self._agenda.later(lease_s, lambda: self._end_leases() if silence == self._silences else None)

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
                if worker.sweep is not None:
                    self._folders.add(worker.sweep)
                self._go_on(worker.queue)
            case Recall(chunk=name):
                self._recall(name)
            case Trim(chunk=name, stop=stop):
                self._trim(name, stop)
            case CloseWorker(worker=name):
                self._warm.discard(name)
            case Collect(attempt=name):
                self._record(Fetched(attempt=name))
            case Secure(attempt=name, artifacts=artifacts):
                self._agenda.later(FETCH_S, lambda: self._hand_over(name, artifacts))
            case ListWork():
                attempts, chunks = tuple(self._processes), tuple(self._pieces)
                self._record(WorkListed(node=self._node.name, attempts=attempts, chunks=chunks))
            case Prove(order=canary):
                self._prove(canary)
            case Clear(attempt=name):
                self._folders.discard(name)
            case Keep(sweeps=sweeps):
                self._folders &= set(sweeps)
            case Discard():
                pass

    def restart(self) -> None:
        """The agent dies and is started again: attempts are adopted, workers end and their chunks come back."""
        self.incarnation += 1
        self.peer = None
        self._warm.clear()
        for piece in [each for each in self._pieces.values() if not each.answered]:
            self._return(piece, "agent_restarted")

    def reboot(self) -> None:
        """The machine restarts: what ran is dead."""
        self.boot += 1
        for process in self.running():
            self._end(process, exit_code=None, reason="lost")
        self.restart()

    def vanish(self) -> None:
        """The agent, its directory and all it ran are gone for good, but for what was brought to safety before."""
        for process in self.running():
            self._keep(process, gently=False)
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
        at_work = self.running()
        if at_work:
            self._end(self._random.choice(at_work), exit_code=None, signal=9)

    def workers(self) -> frozenset[str]:
        """Workers that are warm now."""
        return frozenset(self._warm)

    def running(self) -> list[Process]:
        """The attempts at work."""
        return [each for each in self._at_work.values() if isinstance(each, Process)]

    def _end_leases(self) -> None:
        """What waits first: it would begin as soon as what is at work has ended."""
        if not self._alive:
            return
        for piece in sorted(self._pieces.values(), key=lambda each: each.began is not None):
            if not piece.answered and piece.began is None:
                self._return(piece, "lease")
        for process in sorted(self._processes.values(), key=lambda each: each.began is not None):
            self._end(process, exit_code=None, signal=None if process.began is None else 15, reason="lease")
        for piece in [each for each in self._pieces.values() if not each.answered]:
            self._return(piece, "lease")
        self._warm.clear()

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
            keeps = process.course is not None and process.course.keeps_every_s is not None
            after_s = min(process.order.grace_s, SAVE_S) if keeps else GRACE_S
            self._agenda.later(after_s, lambda: self._end(process, exit_code=None, signal=15, reason="stopped"))

    def _recall(self, name: str) -> None:
        piece = self._pieces.get(name)
        if piece is None:
            self._record(Returned(chunk=name, reason="recalled"))
        elif not piece.answered:
            if piece.began is not None:
                self._warm.discard(piece.worker.id)
            self._return(piece, "recalled")

    def _trim(self, name: str, stop: int) -> None:
        piece = self._pieces.get(name)
        if piece is None or piece.answered or not piece.start < stop < piece.stop:
            return
        if piece.task is not None:
            self._ground.engine.lessen(piece.task, piece.stop - stop)
        piece.stop = stop

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
        now, order = self._agenda.now, process.order
        process.began = now
        self._at_work[queue] = process
        self._record(Started(attempt=order.id, pid=1000 + self._seq, pid_start=int(now)))
        course = process.course = self._ground.nature.course(order, devices_of(self._node.name, queue))
        if order.walltime_s is not None:
            killed = {"exit_code": None, "signal": 9, "reason": "walltime"}
            self._agenda.later(order.walltime_s, lambda: self._end(process, **killed))  # type: ignore[arg-type]
        if course.start_s:
            self._agenda.later(course.start_s, lambda: self._go_to_work(queue, process, course))
        else:
            self._go_to_work(queue, process, course)

    def _go_to_work(self, queue: str, process: Process, course: Course) -> None:
        if process.ended or not self._alive:
            return
        script = None if "stage" in (process.order.inputs or ()) else script_of(process.order.argv)
        status = 0 if script is None else int(self._random.random() < script.fails)
        process.before = min(self._ground.kept.get(saved_as(process.order), 0.0), course.amount)
        process.worked_since = self._agenda.now
        process.task = self._ground.engine.begin(
            devices_of(self._node.name, queue),
            course.amount - process.before,
            course.per_s,
            lambda: self._end(process, exit_code=status),
            course.share,
        )
        if process.order.tell_s is not None:
            self._tell_later(process)

    def _tell_later(self, process: Process) -> None:
        """Now and then: whoever told each change, as nodes do, would keep the simulation from its days."""
        assert process.order.tell_s is not None
        assert process.course is not None
        looks_s = process.course.amount / process.course.per_s / LOOKS
        after_s = max(process.order.tell_s, looks_s) * (0.5 + self._random.random())
        self._agenda.later(after_s, lambda: self._tell_so_far(process))

    def _tell_so_far(self, process: Process) -> None:
        if process.ended or not self._alive:
            return
        closed = self._partial(process, self._done(process))
        if closed is not None:
            self._record(SoFar(attempt=process.order.id, result=closed))
        self._tell_later(process)

    def _hand_over(self, attempt: str, artifacts: tuple[str, ...]) -> None:
        """What is asked for is here, and stays until its attempt is forgotten."""
        if self._alive and attempt in self._processes:
            self._record(Secured(attempt=attempt, artifacts=artifacts))

    def _end(
        self, process: Process, exit_code: int | None, signal: int | None = None, reason: str | None = None
    ) -> None:
        if process.ended or not self._alive:
            return
        exit_code, result = self._outcome(process, exit_code, gently=reason in ("stopped", "lease"))
        process.ended = True
        self._record(
            Ended(
                attempt=process.order.id,
                started_at=process.began,
                ended_at=self._agenda.now,
                exit_code=exit_code,
                signal=signal,
                reason=reason,
                result=result,
            )
        )
        if self._at_work.get(process.order.queue) is process:
            self._leave(process.order.queue)

    def _outcome(self, process: Process, exit_code: int | None, gently: bool) -> tuple[int | None, Any]:
        """Exit status and result of an attempt that ends now; what it had done so far is kept, if it keeps that."""
        order = process.order
        is_stage = "stage" in (order.inputs or ())
        if exit_code is None:
            done = self._done(process)
            self._keep(process, gently)
            return None, self._partial(process, done) if is_stage and process.began is not None else None
        self._ground.kept.pop(saved_as(order), None)
        if self.disk_full:
            return 1, {"schema": 1, "error": NO_SPACE}
        if is_stage:
            assert self._ground.lab is not None
            assert order.inputs is not None
            return self._ground.lab.report(order.inputs)
        return exit_code, {"attempt": order.id, "saw": sorted(order.inputs or ())} if exit_code == 0 else None

    def _done(self, process: Process) -> float:
        """What lives of the attempt's job have done of it."""
        if process.task is None or process.course is None:
            return process.before
        return process.course.amount - self._ground.engine.left(process.task)

    def _keep(self, process: Process, gently: bool) -> None:
        """Note what survives of an attempt that ends before it is done."""
        course, done = process.course, self._done(process)
        if course is None or course.keeps_every_s is None or process.task is None:
            return
        worked_s = self._agenda.now - process.worked_since
        if not gently and worked_s > 0:
            saved_s = worked_s // course.keeps_every_s * course.keeps_every_s
            done = process.before + (done - process.before) * saved_s / worked_s
        self._ground.kept[saved_as(process.order)] = done

    def _partial(self, process: Process, done: float) -> Any:
        """What a stage that has done so much leaves."""
        inputs = process.order.inputs
        if inputs is None or "stage" not in inputs or process.course is None:
            return None
        assert self._ground.lab is not None
        return self._ground.lab.partial(inputs, done / process.course.amount)

    def _prove(self, canary: CanaryOrder) -> None:
        ok = canary.device not in self._ground.bad_devices
        self._record(DeviceProved(device=canary.device, ok=ok, why=None if ok else "it computes wrongly"))

    def _refuse(self, worker: WorkerOrder, why: str) -> None:
        self._record(WorkerRefused(worker=worker.id, error=why))
        for piece in [each for each in self._pieces.values() if each.worker.id == worker.id and not each.answered]:
            self._return(piece, "worker_start")
        self._go_on(worker.queue)

    def _begin_piece(self, queue: str, piece: Piece) -> None:
        if f"{self._node.name}/{queue}" in self._ground.bad_devices:
            self._refuse(piece.worker, "it does not start here")
            return
        is_warm = piece.worker.id in self._warm
        if not is_warm and piece.worker.sweep is not None and piece.worker.sweep not in self._folders:
            self._refuse(piece.worker, FOLDER_GONE)
            return
        warm_up = 0.0 if is_warm else WORKER_START_S
        self._warm.add(piece.worker.id)
        piece.began = self._agenda.now + warm_up
        self._at_work[queue] = piece
        if warm_up:
            self._agenda.later(warm_up, lambda: self._search(queue, piece))
        else:
            self._search(queue, piece)

    def _search(self, queue: str, piece: Piece) -> None:
        if piece.answered or not self._alive or self._at_work.get(queue) is not piece:
            return
        devices = devices_of(self._node.name, queue)
        speed = self._ground.nature.items_per_s(devices[0])
        piece.task = self._ground.engine.begin(devices, piece.stop - piece.start, speed, lambda: self._finish(piece))

    def _finish(self, piece: Piece) -> None:
        if piece.answered or not self._alive or self._at_work.get(piece.worker.queue) is not piece:
            return
        assert piece.began is not None
        piece.answered = True
        wrong = self._random.random() < self._ground.wrong_digest
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
        if piece.began is None or piece.task is None:
            return None
        worked_s = self._agenda.now - piece.began
        saved_s = worked_s // CHECKPOINT_S * CHECKPOINT_S
        if not saved_s:
            return None
        done = piece.stop - piece.start - self._ground.engine.left(piece.task)
        return min(piece.start + int(done * saved_s / worked_s + EPSILON), piece.stop)

    def _leave(self, queue: str) -> None:
        """The queue's process is over; the next one begins."""
        over = self._at_work.pop(queue)
        if over.task is not None:
            self._ground.engine.leave(over.task)
        began = self._agenda.now if over.began is None else over.began
        self.busy_s[queue] += max(self._agenda.now - began, 0.0)
        self._go_on(queue)

    def _record(self, told: Input) -> None:
        self._seq += 1
        fact = Fact(seq=self._seq, told=told)
        self.facts.append(fact)
        self._tell(fact)
