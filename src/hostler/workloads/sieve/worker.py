"""The sieve as a warm worker: version 1 of Hostler's worker protocol (docs/reference/worker-protocol.md).

Requests are read ahead, so that the end of the input is noticed within a slice; the main thread answers in order.
"""

import json
from typing import BinaryIO

from hostler.workloads.sieve import selftest, spec
from hostler.workloads.sieve.errors import SieveError, SpecError, TooManyHits
from hostler.workloads.sieve.hits import hit
from hostler.workloads.sieve.protocol import Message, Refused, Requests, check_fields, id_of, interval
from hostler.workloads.sieve.search import MAX_HITS, Clock, Intervals, Searcher, slices, too_many

CHECKPOINT_S = 1.0


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
        check_fields(request, "open", {"type", "digest", "params"})
        checked = spec.parse(request["params"])
        digest = spec.digest(request["params"])
        if request["digest"] != digest:
            raise Refused(f"open: the parameters have the digest {digest}, not {request['digest']!r}; open with theirs")
        searcher = Searcher(checked)
        selftest.check(checked, searcher.choice.name)
        # It may take a minute, in which nothing can be told: for that there is time now, and none within a chunk.
        searcher.solve()
        self._send({"type": "opened", "digest": digest, "trims": True})
        return searcher, checked, digest

    def _serve(self, searcher: Searcher, checked: spec.Spec, digest: str) -> None:
        while (request := self._requests.take()) is not None:
            try:
                start, stop = interval(request, checked.size)
                intervals = Intervals(start, stop)
                hits = self._chunk(request["id"], searcher, intervals, checked)
            except (SpecError, TooManyHits) as error:
                self._send({"type": "failed", "id": id_of(request), "error": str(error)})
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
