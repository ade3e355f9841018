"""The sieve as a warm worker: version 1 of Hostler's worker protocol (docs/reference/worker-protocol.md).

One thread reads requests, so that the end of the input is noticed within a slice; the main thread answers in order.
"""

import json
import queue
import threading
from typing import Any, BinaryIO

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.errors import SieveError, SpecError, TooManyHits
from hostler.workloads.sieve.hits import hit
from hostler.workloads.sieve.search import MAX_HITS, Clock, Intervals, Searcher, slices, too_many

MAX_LINE = 1 << 20
CHECKPOINT_S = 1.0

Message = dict[str, Any]


class Refused(SieveError):
    """A request that leaves the worker nothing to do but exit."""


class Requests:
    """The request lines of a stream, read ahead by a thread of their own."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._ends: dict[str, int] = {}
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def ended(self) -> bool:
        """Whether the input has ended: then nothing more is to be finished."""
        return self._ended.is_set()

    def end_of(self, chunk: str) -> int | None:
        """Where the chunk is to end by now, if it was shortened."""
        return self._ends.get(chunk)

    def take(self) -> Message | None:
        """Wait for the next request; ``None`` at the end of the input; raises :class:`Refused` on anything else."""
        line = self._lines.get()
        if self.ended:
            return None
        if len(line) > MAX_LINE:
            raise Refused(f"a request is longer than {MAX_LINE} bytes; send shorter lines")
        try:
            request = json.loads(line)
        except ValueError as error:
            raise Refused(f"a request is no JSON ({error}); send one JSON object per line") from None
        if not isinstance(request, dict):
            raise Refused("a request is no JSON object; send one JSON object per line")
        return request

    def _read(self) -> None:
        try:
            while line := self._stream.readline(MAX_LINE + 1):
                if b'"trim"' not in line or not self._trim(line):
                    self._lines.put(line)
        finally:
            self._ended.set()
            self._lines.put(b"")

    def _trim(self, line: bytes) -> bool:
        """Note where a chunk is to end; whether that is what the line says."""
        try:
            request = json.loads(line)
        except ValueError:
            return False
        if not isinstance(request, dict) or request.get("type") != "trim":
            return False
        if isinstance(request.get("id"), str) and type(request.get("stop")) is int:
            self._ends[request["id"]] = request["stop"]
        return True


class Worker:
    """Answers requests until the input ends."""

    def __init__(self, requests: Requests, output: BinaryIO, clock: Clock) -> None:
        self._requests, self._output, self._clock = requests, output, clock

    def run(self) -> int:
        """Serve; returns the exit status: 0 after the end of the input, 1 after a request that ends the worker."""
        try:
            opened = self._requests.take()
            if opened is not None:
                self._serve(*self._open(opened))
        except SieveError as error:
            self._send({"type": "failed", "error": str(error)})
            return 1
        return 0

    def _open(self, request: Message) -> tuple[Searcher, spec.Spec, str]:
        _check_fields(request, "open", {"type", "digest", "params"})
        checked = spec.parse(request["params"])
        digest = spec.digest(request["params"])
        if request["digest"] != digest:
            raise Refused(f"open: the parameters have the digest {digest}, not {request['digest']!r}; open with theirs")
        searcher = Searcher(checked)
        self._send({"type": "opened", "digest": digest, "trims": True})
        return searcher, checked, digest

    def _serve(self, searcher: Searcher, checked: spec.Spec, digest: str) -> None:
        while (request := self._requests.take()) is not None:
            try:
                start, stop = _interval(request, checked.size)
                intervals = Intervals(start, stop)
                hits = self._chunk(request["id"], searcher, intervals, checked)
            except (SpecError, TooManyHits) as error:
                self._send({"type": "failed", "id": _id(request), "error": str(error)})
                continue
            if hits is None:
                return
            whole = {"start": start, "stop": intervals.reached}
            self._send({"type": "done", "id": request["id"], "digest": digest, **whole, "hits": hits})

    def _chunk(self, chunk: str, searcher: Searcher, intervals: Intervals, checked: spec.Spec) -> list[Message] | None:
        """Search one chunk with checkpoints; its hits, or ``None`` if the input ended meanwhile."""
        hits: list[Message] = []
        reported = self._clock()
        for part in slices(searcher, intervals, self._clock):
            if self._requests.ended:
                return None
            if (end := self._requests.end_of(chunk)) is not None:
                intervals.trim(end)
            hits += [hit(checked, survivor) for survivor in part.survivors]
            if len(hits) > MAX_HITS:
                raise TooManyHits(too_many(hits[0]["at"], part.stop))
            if self._clock() - reported >= CHECKPOINT_S:
                reported = self._clock()
                self._send({"type": "checkpoint", "id": chunk, "position": part.stop, "hits": hits})
        return hits

    def _send(self, answer: Message) -> None:
        self._output.write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
        self._output.flush()


def _check_fields(request: Message, kind: str, names: set[str]) -> None:
    if request.get("type") != kind:
        raise Refused(f"a request of type {request.get('type')!r} came where {kind!r} was due")
    if request.keys() != names:
        different = ", ".join(sorted(request.keys() ^ names))
        raise Refused(f"{kind}: unknown or missing {different}; it takes exactly {', '.join(sorted(names))}")


def _interval(request: Message, seeds: int) -> tuple[int, int]:
    """The interval of a chunk request; :class:`SpecError` if only this chunk is wrong, else :class:`Refused`."""
    if request.get("type") != "chunk":
        raise Refused(f"a request of type {request.get('type')!r} came where 'chunk' was due")
    chunk = _id(request)
    if request.keys() != {"type", "id", "start", "stop"}:
        raise SpecError(f"chunk {chunk}: it takes exactly type, id, start and stop, not {', '.join(sorted(request))}")
    start, stop = request["start"], request["stop"]
    if type(start) is not int or type(stop) is not int or not 0 <= start < stop <= seeds:
        raise SpecError(f"chunk {chunk}: [{start!r}, {stop!r}) is no interval within the items [0, {seeds})")
    return start, stop


def _id(request: Message) -> str:
    chunk = request.get("id")
    if not isinstance(chunk, str):
        raise Refused(f"chunk: the id {chunk!r} is no text")
    return chunk
