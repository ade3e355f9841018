"""Requests of version 1 of the worker protocol (docs/reference/worker-protocol.md), read ahead and checked."""

from __future__ import annotations

import json
import queue
import threading
from typing import Any, BinaryIO, TypeAlias

from hostler.workloads.sieve.errors import SieveError, SpecError

MAX_LINE = 1 << 20

Message: TypeAlias = dict[str, Any]


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


def check_fields(request: Message, kind: str, names: set[str]) -> None:
    """Raise :class:`Refused` unless the request is of this kind, with exactly these fields."""
    if request.get("type") != kind:
        raise Refused(f"a request of type {request.get('type')!r} came where {kind!r} was due")
    if request.keys() != names:
        different = ", ".join(sorted(request.keys() ^ names))
        raise Refused(f"{kind}: unknown or missing {different}; it takes exactly {', '.join(sorted(names))}")


def interval(request: Message, items: int) -> tuple[int, int]:
    """The interval of a chunk request; :class:`SpecError` if only this chunk is wrong, else :class:`Refused`."""
    if request.get("type") != "chunk":
        raise Refused(f"a request of type {request.get('type')!r} came where 'chunk' was due")
    chunk = id_of(request)
    if request.keys() != {"type", "id", "start", "stop"}:
        raise SpecError(f"chunk {chunk}: it takes exactly type, id, start and stop, not {', '.join(sorted(request))}")
    start, stop = request["start"], request["stop"]
    if type(start) is not int or type(stop) is not int or not 0 <= start < stop <= items:
        raise SpecError(f"chunk {chunk}: [{start!r}, {stop!r}) is no interval within the items [0, {items})")
    return start, stop


def id_of(request: Message) -> str:
    """The id of a chunk request; raises :class:`Refused`."""
    chunk = request.get("id")
    if not isinstance(chunk, str):
        raise Refused(f"chunk: the id {chunk!r} is no text")
    return chunk
