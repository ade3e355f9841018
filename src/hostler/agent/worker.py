"""One worker and one chunk as the agent sees them, and what makes an answer of a worker a good one."""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, List, Optional, Tuple

from .loop import Timer
from .pipes import WorkerPipes
from .places import Place
from .protocol import ChunkSpec, Json, RequestError, WorkerSpec

_MOST_AHEAD = 32
_LONG_CHUNK_S = 0.5
_SHORT_CHUNK_S = 0.02
_AHEAD_S = 0.25
_TELLING_S = 2.0


class Chunk:
    """One chunk: its interval, and how far it is known to be searched."""

    __slots__ = (
        "first",
        "hits",
        "id",
        "position",
        "recalled",
        "saved_at",
        "since",
        "start",
        "stop",
        "unsaved",
        "until",
        "worker",
    )

    def __init__(self, spec: ChunkSpec, worker: Worker) -> None:
        self.id, self.start, self.stop = spec
        self.until = self.stop  # nearer than the stop its worker was told, where the rest is another's by now
        self.worker = worker
        self.first: Optional[Tuple[float, int]] = None  # seconds until its first checkpoint, and where that was
        self.position: Optional[int] = None
        self.hits: List[Any] = []
        self.recalled: Optional[Tuple[str, str]] = None  # the reason it comes back with, and what is said of that
        self.since = 0.0
        self.saved_at = 0.0
        self.unsaved = False  # whether it is further than the journal has it

    def overhead_s(self, elapsed: float, stop: int) -> Optional[float]:
        """Seconds it took beyond the searching; None if it was too short to tell."""
        if self.first is None or elapsed - self.first[0] < _TELLING_S or stop <= self.first[1]:
            return None
        first_s, position = self.first
        pace_s = (elapsed - first_s) / (stop - position)
        return round(max(first_s - (position - self.start) * pace_s, 0.0), 6)


class Worker:
    """One declared worker: its process, if it is up, and the chunks in its pipe, the first of which is in work."""

    __slots__ = (
        "ahead",
        "closing",
        "end_error",
        "end_reason",
        "failures",
        "heard",
        "is_ready",
        "may_start",
        "pace_s",
        "pid",
        "pipe",
        "pipes",
        "place",
        "queued",
        "spec",
        "timers",
        "trims",
    )

    def __init__(self, spec: WorkerSpec, place: Place) -> None:
        self.spec = spec
        self.place = place
        self.pid: Optional[int] = None
        self.pipes: Optional[WorkerPipes] = None
        self.pipe: Deque[Chunk] = deque()
        self.queued = 0
        self.is_ready = False
        self.trims = False  # whether it reads requests while it searches, and ends a chunk earlier when asked to
        self.ahead = True  # whether it may have more chunks in its pipe than the one in work
        self.may_start = True
        self.closing = False
        self.failures = 0
        self.pace_s: Optional[float] = None
        self.heard = 0.0
        self.end_reason: Optional[str] = None
        self.end_error: Optional[str] = None
        self.timers: List[Timer] = []

    def depth(self) -> int:
        """How many chunks to keep in the pipe: more only where they are so short that a recall never waits long."""
        if not self.ahead or self.pace_s is None or self.pace_s >= _LONG_CHUNK_S:
            return 1
        if self.pace_s >= _SHORT_CHUNK_S:
            return 2
        return int(min(_MOST_AHEAD, _AHEAD_S / max(self.pace_s, 1e-6)))


NOBODY = Worker(WorkerSpec("none", "none", [], {}, None, {"digest": ""}, 0, 0, None, 0, 1, None, None), Place("none"))


def in_work(worker: Worker, answer: Json) -> Chunk:
    """The chunk an answer is about, which must be the first in the pipe; raises RequestError."""
    if not worker.pipe or worker.pipe[0].id != answer.get("id"):
        raise RequestError("an answer for chunk %.80r, which is not in work" % answer.get("id"))
    return worker.pipe[0]


def hits_of(answer: Json, chunk: Chunk) -> List[Any]:
    """The hits of an answer; raises RequestError if one is not inside the chunk."""
    hits = answer.get("hits")
    if type(hits) is not list:
        raise RequestError("hits must be a list")
    for hit in hits:
        if type(hit) is not dict or type(hit.get("at")) is not int or not chunk.start <= hit["at"] < chunk.stop:
            raise RequestError("a hit must be an object with 'at' inside the chunk's interval")
    return hits


def position_of(answer: Json, chunk: Chunk) -> int:
    """The position of a checkpoint, which never goes back; raises RequestError."""
    position = answer.get("position")
    least = chunk.start if chunk.position is None else chunk.position
    if type(position) is not int or not least <= position <= chunk.stop:
        raise RequestError("position %.80r is outside the interval or goes back" % position)
    return position


def check_interval(answer: Json, chunk: Chunk) -> None:
    """Raise RequestError unless the answer is for the chunk's own interval; of one that was shortened, any end will do
    between the new and the old."""
    stop = answer.get("stop")
    if answer.get("start") != chunk.start or type(stop) is not int or not chunk.until <= stop <= chunk.stop:
        raise RequestError("done for another interval")


def check_digest(answer: Json, worker: Worker) -> None:
    """Raise RequestError unless the answer is for the parameters the worker was opened with."""
    if answer.get("digest") != worker.spec.open["digest"]:
        raise RequestError("its digest is %.80r, not that of its parameters" % answer.get("digest"))
