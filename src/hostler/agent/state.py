"""What the journal says: a fold of its entries, and the fewest entries that say the same.

Pure: no clock, no files. ``State`` is only used when an agent starts and when its journal is compacted.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Callable, Dict, Iterable, Iterator, Optional

from .protocol import Json


class State:
    """The fold. Records stay the plain JSON objects they were written as."""

    def __init__(self, entries: Iterable[Json] = ()) -> None:
        self.agent: Optional[str] = None
        self.incarnation = 0
        self.boot: Optional[str] = None
        self.epoch = 0
        self.seq = 0
        self.acked = 0
        self.contact: Optional[float] = None
        self.damaged = 0
        self.facts: Dict[int, Json] = {}
        self.attempts: Dict[str, Json] = {}
        self.workers: Dict[str, Json] = {}
        self.chunks: Dict[str, Json] = {}
        for entry in entries:
            self.apply(entry)

    def apply(self, entry: Json) -> None:
        """Fold one entry in. Entries about what is not (or no longer) known change nothing.

        One of another shape, as a failing disk makes them, counts as ``damaged`` and no more: an agent that could not
        start over it would leave all its node had.
        """
        try:
            self._apply(entry)
        except (LookupError, TypeError, ValueError, AttributeError):
            self.damaged += 1

    def _apply(self, entry: Json) -> None:
        if "fact" in entry:
            self._fact(entry)
            return
        method = _OPERATIONS.get(entry.get("op", ""))
        if method is not None:
            method(self, entry)

    def entries(self) -> Iterator[Json]:
        """Entries that fold to this state."""
        yield {"op": "agent", "agent": self.agent, "incarnation": self.incarnation, "boot": self.boot}
        yield {"op": "epoch", "epoch": self.epoch}
        yield {"op": "seq", "seq": self.seq, "acked": self.acked}
        if self.contact is not None:
            yield {"op": "contact", "at": self.contact}
        for record in self.attempts.values():
            yield {"op": "launch", "attempts": [record["spec"]]}
            yield from (record[part] for part in ("starting", "stop", "exit") if part in record)
        yield from self._facts_and_starts()
        for worker in self.workers.values():
            yield {"op": "open", "worker": worker["spec"]}
            yield from (worker[part] for part in ("process", "close") if part in worker)
        for chunk in self.chunks.values():
            yield {"op": "chunks", "worker": chunk["worker"], "chunks": [chunk["spec"]]}
            if "checkpoint" in chunk:
                yield chunk["checkpoint"]

    def _facts_and_starts(self) -> Iterator[Json]:
        """The facts kept, and the acknowledged ones that say where a running attempt's process is."""
        started = {
            record["started"]["seq"]: record["started"] for record in self.attempts.values() if "started" in record
        }
        for _, fact in sorted({**started, **self.facts}.items()):
            yield fact

    def _fact(self, fact: Json) -> None:
        self.seq = max(self.seq, fact["seq"])
        if fact["seq"] > self.acked:
            self.facts[fact["seq"]] = fact
        if fact["fact"] == "started" and fact["attempt"] in self.attempts:
            self.attempts[fact["attempt"]]["started"] = fact
        elif fact["fact"] == "ended":
            self.attempts.pop(fact["attempt"], None)
        elif "chunk" in fact:
            self.chunks.pop(fact["chunk"], None)
        elif fact["fact"] == "worker_refused":
            self.workers.pop(fact["worker"], None)

    def _agent(self, entry: Json) -> None:
        self.agent, self.incarnation, self.boot = entry["agent"], entry["incarnation"], entry["boot"]

    def _epoch(self, entry: Json) -> None:
        self.epoch = max(self.epoch, entry["epoch"])

    def _seq(self, entry: Json) -> None:
        self.seq, self.acked = entry["seq"], entry["acked"]

    def _ack(self, entry: Json) -> None:
        self.acked = max(self.acked, entry["seq"])
        for seq in list(takewhile(lambda seq: seq <= self.acked, self.facts)):  # they are in order
            del self.facts[seq]

    def _contact(self, entry: Json) -> None:
        self.contact = entry["at"]

    def _launch(self, entry: Json) -> None:
        for spec in entry["attempts"]:
            self.attempts[spec["id"]] = {"spec": spec}

    def _of_attempt(self, entry: Json) -> None:
        record = self.attempts.get(entry["attempt"])
        if record is not None:
            record[entry["op"]] = entry

    def _open(self, entry: Json) -> None:
        worker = self.workers.setdefault(entry["worker"]["id"], {})
        worker["spec"] = entry["worker"]
        worker.pop("close", None)

    def _of_worker(self, entry: Json) -> None:
        worker = self.workers.get(entry["worker"])
        if worker is not None:
            worker[entry["op"]] = entry

    def _forget(self, entry: Json) -> None:
        self.workers.pop(entry["worker"], None)

    def _chunks(self, entry: Json) -> None:
        for spec in entry["chunks"]:
            self.chunks[spec[0]] = {"worker": entry["worker"], "spec": spec}

    def _checkpoint(self, entry: Json) -> None:
        chunk = self.chunks.get(entry["chunk"])
        if chunk is not None:
            chunk["checkpoint"] = entry


_OPERATIONS: Dict[str, Callable[[State, Json], None]] = {
    "agent": State._agent,
    "epoch": State._epoch,
    "seq": State._seq,
    "ack": State._ack,
    "contact": State._contact,
    "launch": State._launch,
    "starting": State._of_attempt,
    "stop": State._of_attempt,
    "exit": State._of_attempt,
    "open": State._open,
    "process": State._of_worker,
    "close": State._of_worker,
    "forget": State._forget,
    "chunks": State._chunks,
    "checkpoint": State._checkpoint,
}
