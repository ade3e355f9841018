"""A warm worker whose items are few and long: each of them gives one hit that holds its result.

A thread of its own sends the last checkpoint again while an item takes long, and leaves when the input ends.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Protocol

from hostler.workloads.sieve.errors import SieveError, SpecError
from hostler.workloads.sieve.protocol import Message, Refused, Requests, check_fields, id_of, interval
from hostler.workloads.sieve.spec import digest

BEAT_S = 1.0
MOST_BYTES = 64 << 10
"""A result that is longer is refused: all hits of a chunk travel in each of its checkpoints."""


class Task(Protocol):
    """What is to be done: ``items`` of them."""

    @property
    def items(self) -> int:
        """How many items there are."""

    def result(self, item: int) -> Mapping[str, Any]:
        """What to tell of an item, without ``at``; raises :class:`SieveError` if it cannot be done."""


class ItemWorker:
    """Answers requests until the input ends; ``open_task`` checks the parameters and raises :class:`SpecError`."""

    def __init__(
        self,
        requests: Requests,
        output: BinaryIO,
        open_task: Callable[[Mapping[str, Any]], Task],
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        self._requests, self._output, self._open_task = requests, output, open_task
        self._leave = leave
        self._lock = threading.Lock()
        self._checkpoint: Message | None = None
        threading.Thread(target=self._beat, daemon=True).start()

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

    def _open(self, request: Message) -> tuple[Task, str]:
        check_fields(request, "open", {"type", "digest", "params"})
        task, own = self._open_task(request["params"]), digest(request["params"])
        if request["digest"] != own:
            raise Refused(f"open: the parameters have the digest {own}, not {request['digest']!r}; open with theirs")
        self._send({"type": "opened", "digest": own, "trims": True})
        return task, own

    def _serve(self, task: Task, own: str) -> None:
        while (request := self._requests.take()) is not None:
            try:
                start, stop = interval(request, task.items)
                hits, reached = self._chunk(request["id"], task, start, stop)
            except Refused:
                raise
            except SieveError as error:
                self._say(None)
                self._send({"type": "failed", "id": id_of(request), "error": str(error)})
                continue
            done = {"type": "done", "id": request["id"], "digest": own, "start": start, "stop": reached, "hits": hits}
            self._say(None)
            self._send(done)

    def _chunk(self, chunk: str, task: Task, start: int, stop: int) -> tuple[list[Message], int]:
        """The results of a chunk, item by item with checkpoints, and where it ended."""
        hits: list[Message] = []
        item = start
        while item < min(stop, self._requests.end_of(chunk) or stop):
            self._say({"type": "checkpoint", "id": chunk, "position": item, "hits": list(hits)})
            hits.append(told(item, task.result(item)))
            item += 1
        return hits, item

    def _say(self, checkpoint: Message | None) -> None:
        """What is told from now on, at once and again and again; nothing with ``None``."""
        with self._lock:
            self._checkpoint = checkpoint
            if checkpoint is not None:
                self._write(checkpoint)

    def _send(self, answer: Message) -> None:
        with self._lock:
            self._write(answer)

    def _write(self, answer: Message) -> None:
        self._output.write(json.dumps(answer, separators=(",", ":"), allow_nan=False).encode() + b"\n")
        self._output.flush()

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(BEAT_S):
            with self._lock:
                if self._requests.ended:
                    self._leave(0)
                    return
                if self._checkpoint is not None:
                    self._write(self._checkpoint)


def told(item: int, result: Mapping[str, Any]) -> Message:
    """The hit of an item; raises :class:`SpecError` where it is too long to be told."""
    hit: Message = {"at": item, **finite(dict(result))}
    length = len(json.dumps(hit))
    if length > MOST_BYTES:
        raise SpecError(f"item {item}: its result has {length} bytes, more than {MOST_BYTES}; ask for less of it")
    return hit


def finite(value: Any) -> Any:
    """The value with ``None`` for what JSON has no number for: infinity, and what is no number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value


def serve(open_task: Callable[[Mapping[str, Any]], Task]) -> int:
    """Be a worker on standard input and output, to the end of this process."""
    # Standard output belongs to the protocol alone: whatever a library prints must not get in between.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    status = ItemWorker(Requests(sys.stdin.buffer), output, open_task).run()
    output.close()
    # The reading thread may hold the lock of standard input, which a regular exit would wait for.
    sys.stderr.flush()
    os._exit(status)
