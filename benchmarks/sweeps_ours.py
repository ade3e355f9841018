"""Hostler on the fleet of benchmark A: the production core and its policies, on virtual GPUs.

The driver does what agents do: it works through chunks in the order they come, tells how far they are every 5 s and
with a checkpoint every 2 s, notices after 15 s that a machine is gone or a worker hangs (after 30 s where starting a
chunk takes 15), and obeys Lend, Trim, Recall.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from hostler.core import Core
from hostler.model import events, inputs
from hostler.model.codec import digest
from hostler.model.commands import Command, Lend, Recall, Trim
from hostler.model.events import Entry
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.work import DeviceKind, JobSpec, SweepPayload
from hostler.runtime.proof import proof_of
from sweeps_fleet import NODES, Fleet, Gpu

LATENCY_S = 0.1
"""Each way between controller and node."""
PROGRESS_S = 5.0
CHECKPOINT_S = 2.0
NOTICED_S = 15.0
PARAMS = {"of": "benchmark A"}
DIGEST = digest(PARAMS)


@dataclass(slots=True)
class Piece:
    """A chunk on a GPU: where it is, and since when."""

    chunk: str
    start: int
    stop: int
    began: float = 0.0
    searching: float = 0.0
    """When its overhead is over."""
    noise: float = 1.0


@dataclass(slots=True)
class Worker:
    """One GPU at work."""

    gpu: Gpu
    queue: list[Piece] = field(default_factory=list)
    at_work: Piece | None = None
    turn: int = 0
    """Changes whenever what was foreseen for it holds no more."""
    blocked_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """What came of it."""

    makespan_s: float
    chunks: int
    shortened: int
    taken: int
    handled: int


class Driver:
    """A core and its virtual fleet, until the sweep is done."""

    def __init__(self, fleet: Fleet, work: int, overhead_s: float) -> None:
        self._fleet, self._work, self._overhead_s = fleet, work, overhead_s
        self._workers = {gpu.name: Worker(gpu=gpu) for gpu in fleet.gpus}
        self._silence_s = max(NOTICED_S, 2 * overhead_s)
        self._core = Core()
        self._entries: list[Entry] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._handled = 0
        self._now = 0.0
        self._wake_at: float | None = None
        self._incarnation = dict.fromkeys(NODES, 1)
        self._up = set(NODES)
        self._where: dict[str, str] = {}
        self._searched: dict[str, int] = {}
        self._told: dict[str, int] = {}

    def run(self) -> Run:
        """Search everything; raises `AssertionError` unless what was accepted is exactly the whole."""
        self._begin()
        while not self._is_done():
            self._now, _, happen = heapq.heappop(self._agenda)
            happen()
        self._core.validate()
        self._check_cover()
        kinds = [type(entry.event) for entry in self._entries]
        return Run(
            makespan_s=self._now,
            chunks=kinds.count(events.ChunkLeased),
            shortened=kinds.count(events.ChunkShortened),
            taken=kinds.count(events.ChunkTaken),
            handled=self._handled,
        )

    def _begin(self) -> None:
        found = [inputs.NodeFound(node=_node(self._fleet, name)) for name in NODES]
        self._tell(inputs.Begin(version="benchmark", epoch=1), *found)
        self._tell(*[self._link_up(name) for name in NODES])
        payload = SweepPayload(
            schema=1,
            start=0,
            stop=self._work,
            worker=("worker",),
            params=PARAMS,
            digest=DIGEST,
            silence_s=self._silence_s,
            start_s=3600.0,
        )
        for name, outages in self._fleet.reboots.items():
            for down, up in outages:
                self._at(down, partial(self._reboot, name, up))
        for worker in self._workers.values():
            for down, up in worker.gpu.outages():
                self._at(down, partial(self._hang, worker, up))
        self._later(PROGRESS_S, self._progress)
        self._tell(inputs.Submit(specs=(JobSpec(name="sweep", payload=payload),)))

    def _is_done(self) -> bool:
        job = self._core.state.jobs["j1"]
        assert not job.state.final or job.result is not None, f"the sweep ended {job.state}: {job.why}"
        return job.state.final

    # What happens.

    def _tell(self, *given: inputs.Input) -> None:
        self._handled += 1
        outcome = self._core.handle(self._now, *given)
        self._entries += outcome.entries
        for command in outcome.commands:
            self._later(LATENCY_S, partial(self._obey, command))
        wake_at = self._core.wake_at()
        if wake_at is not None and wake_at != self._wake_at:
            self._wake_at = wake_at
            self._at(max(wake_at, self._now), self._tick)

    def _tick(self) -> None:
        wake_at = self._core.wake_at()
        if wake_at is not None and wake_at <= self._now:
            self._tell(inputs.Tick())

    def _obey(self, command: Command) -> None:
        if isinstance(command, Lend) and command.node in self._up:
            name = f"{command.node}/{command.worker.queue}"
            if command.chunk.id not in self._where:
                self._where[command.chunk.id] = name
                piece = Piece(chunk=command.chunk.id, start=command.chunk.start, stop=command.chunk.stop)
                self._workers[name].queue.append(piece)
                self._go_on(self._workers[name])
        elif isinstance(command, Trim) and command.node in self._up:
            self._trim(command)
        elif isinstance(command, Recall) and command.node in self._up:
            self._recall(command.chunk)

    def _trim(self, command: Trim) -> None:
        worker = self._workers.get(self._where.get(command.chunk, ""))
        piece = None if worker is None else _held(worker, command.chunk)
        if worker is None or piece is None or piece.stop <= command.stop:
            return
        if piece is not worker.at_work:
            piece.stop = command.stop
            return
        piece.stop = min(piece.stop, max(command.stop, self._position(worker, piece, self._now)))
        self._foresee(worker, piece)

    def _recall(self, chunk: str) -> None:
        worker = self._workers.get(self._where.get(chunk, ""))
        piece = None if worker is None else _held(worker, chunk)
        if worker is not None and piece is not None:
            self._drop(worker, piece, "recalled")
            self._go_on(worker)

    def _go_on(self, worker: Worker) -> None:
        if worker.at_work is not None or not worker.queue or worker.gpu.node not in self._up:
            return
        if self._now < worker.blocked_until:
            return  # it is called again when the device is back
        piece = worker.at_work = worker.queue.pop(0)
        piece.began, piece.searching = self._now, self._now + self._overhead_s
        piece.noise = worker.gpu.chunk_noise()
        self._foresee(worker, piece)

    def _foresee(self, worker: Worker, piece: Piece) -> None:
        worker.turn += 1
        gpu, turn = worker.gpu, worker.turn
        ends = gpu.reaches(gpu.capacity(piece.searching) + (piece.stop - piece.start) * piece.noise)
        self._at(max(ends, self._now), lambda: self._finish(worker, turn))

    def _finish(self, worker: Worker, turn: int) -> None:
        piece = worker.at_work
        if worker.turn != turn or piece is None:
            return
        worker.at_work = None
        del self._where[piece.chunk]
        self._searched[piece.chunk] = piece.stop
        answer = inputs.Searched(
            chunk=piece.chunk,
            digest=DIGEST,
            start=piece.start,
            stop=piece.stop,
            hits=(),
            elapsed_s=self._now - piece.began,
            overhead_s=self._overhead(worker, piece),
        )
        self._later(LATENCY_S, lambda: self._tell(answer))
        self._go_on(worker)

    def _overhead(self, worker: Worker, piece: Piece) -> float | None:
        """As an agent measures it: from the first checkpoint on it knows the speed."""
        first_at = piece.searching + CHECKPOINT_S
        first = self._position(worker, piece, first_at)
        if first_at + CHECKPOINT_S > self._now or first >= piece.stop:
            return None
        per_s = (piece.stop - first) / (self._now - first_at)
        return max(first_at - piece.began - (first - piece.start) / per_s, 0.0)

    def _position(self, worker: Worker, piece: Piece, at: float) -> int:
        gpu = worker.gpu
        searched = (gpu.capacity(max(at, piece.searching)) - gpu.capacity(piece.searching)) / piece.noise
        return min(piece.start + int(searched), piece.stop)

    def _checkpoint(self, worker: Worker, piece: Piece) -> int | None:
        """The last position that was written down."""
        full = int((self._now - piece.searching) / CHECKPOINT_S) * CHECKPOINT_S
        return self._position(worker, piece, piece.searching + full) if full > 0 else None

    def _progress(self) -> None:
        chunks = {}
        for worker in self._workers.values():
            piece = worker.at_work
            if piece is not None and worker.gpu.node in self._up:
                position = self._checkpoint(worker, piece)
                if position is not None:
                    chunks[piece.chunk] = (position, 0)
                    self._told[piece.chunk] = position
        found = dict.fromkeys(chunks, inputs.Found(digest=DIGEST, hits=()))
        if chunks:
            told = inputs.Progress(chunks=chunks, found=found)
            self._later(LATENCY_S, lambda: self._tell(told))
        self._later(PROGRESS_S, self._progress)

    # What goes wrong.

    def _hang(self, worker: Worker, until: float) -> None:
        """Its machine's agent kills the worker after some silence; another one comes up when the GPU is back."""
        worker.blocked_until = max(worker.blocked_until, until)
        turn, piece = worker.turn, worker.at_work
        if piece is not None:
            self._later(self._silence_s, lambda: self._silent(worker, turn, piece))
        self._at(until, lambda: self._go_on(worker))

    def _silent(self, worker: Worker, turn: int, piece: Piece) -> None:
        if worker.at_work is piece and worker.gpu.node in self._up:
            self._drop(worker, piece, "worker_silent")

    def _reboot(self, name: str, until: float) -> None:
        self._up.discard(name)
        for worker in self._of(name):
            worker.turn += 1
            worker.blocked_until = max(worker.blocked_until, until)
        self._later(NOTICED_S, lambda: self._tell(inputs.LinkDown(node=name, why="no answer")))
        self._at(until, lambda: self._back(name))

    def _back(self, name: str) -> None:
        self._up.add(name)
        self._incarnation[name] += 1
        self._tell(self._link_up(name))
        for worker in self._of(name):
            for piece in [*([] if worker.at_work is None else [worker.at_work]), *worker.queue]:
                self._drop(worker, piece, "agent_restarted")

    def _drop(self, worker: Worker, piece: Piece, reason: str) -> None:
        position = None
        if worker.at_work is piece:
            position = self._checkpoint(worker, piece)
            worker.at_work = None
            worker.turn += 1
        else:
            worker.queue.remove(piece)
        del self._where[piece.chunk]
        if position is not None:
            self._searched[piece.chunk] = position
        answer = inputs.Returned(
            chunk=piece.chunk, position=position, digest=None if position is None else DIGEST, reason=reason
        )
        self._later(LATENCY_S, lambda: self._tell(answer))

    # Proof.

    def _check_cover(self) -> None:
        """What was accepted is exactly the whole, and was really searched by whom it was accepted from."""
        proof = proof_of("j1", (0, self._work), self._entries)
        assert proof.complete, proof
        leased: dict[str, tuple[int, int]] = {}
        for entry in self._entries:
            event = entry.event
            if isinstance(event, events.ChunkLeased):
                leased[event.chunk] = event.start, event.stop
            elif isinstance(event, events.ChunkShortened):
                leased[event.chunk] = leased[event.chunk][0], event.stop
            elif isinstance(event, events.ChunkDone):
                self._check_searched(event.chunk, *leased[event.chunk])
            elif isinstance(event, events.ChunkReturned | events.ChunkTaken):
                self._check_searched(event.chunk, leased[event.chunk][0], event.position)

    def _check_searched(self, chunk: str, start: int, stop: int) -> None:
        searched = max(self._searched.get(chunk, start), self._told.get(chunk, start))
        assert start <= stop <= searched, f"{chunk}: accepted up to {stop}, searched up to {searched}"

    # Ways to say it.

    def _of(self, node: str) -> list[Worker]:
        return [worker for worker in self._workers.values() if worker.gpu.node == node]

    def _link_up(self, name: str) -> inputs.LinkUp:
        held = [chunk for chunk, where in self._where.items() if where.partition("/")[0] == name]
        return inputs.LinkUp(
            node=name,
            agent=name,
            incarnation=self._incarnation[name],
            boot=str(self._incarnation[name]),
            attempts=(),
            chunks=tuple(held),
        )

    def _at(self, at: float, happen: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._agenda, (at, self._count, happen))

    def _later(self, seconds: float, happen: Callable[[], None]) -> None:
        self._at(self._now + seconds, happen)


def run(fleet: Fleet, work: int, overhead_s: float) -> Run:
    """Search everything."""
    return Driver(fleet, work, overhead_s).run()


def _held(worker: Worker, chunk: str) -> Piece | None:
    pieces = [*worker.queue, *([] if worker.at_work is None else [worker.at_work])]
    return next((piece for piece in pieces if piece.chunk == chunk), None)


def _node(fleet: Fleet, name: str) -> NodeSpec:
    devices = tuple(
        DeviceSpec(id=gpu.name, node=name, kind=DeviceKind.CUDA, index=at)
        for at, gpu in enumerate(each for each in fleet.gpus if each.node == name)
    )
    return NodeSpec(name=name, backend="benchmark", devices=devices)
