"""The journal of an agent as its disk gives it back: lines that are torn, damaged, or of another shape."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hostler.agent.exits import recorded_exit
from hostler.agent.journal import entries
from hostler.agent.procs import Identity
from hostler.agent.protocol import encode
from hostler.agent.state import State

from .base import Target
from .samples import ATTEMPT, WORKER, said


def target(data: bytes) -> None:
    """Lines that are no entries are passed over; what is left folds to a state, which can be written anew."""
    with tempfile.TemporaryDirectory(prefix="hostler-fuzz-") as folder:
        path = Path(folder) / "journal.jsonl"
        path.write_bytes(data)
        state = State(entries(str(path)))
        State(list(state.entries()))
        for entry in state.entries():
            encode(entry)
        recorded_exit(str(path), Identity(7, 8))


TARGET = Target(
    name="agent_journal",
    run=target,
    seeds=(
        said(
            {"op": "agent", "agent": "a", "incarnation": 1, "boot": "b"},
            {"op": "epoch", "epoch": 3},
            {"op": "launch", "attempts": [ATTEMPT]},
            {"op": "starting", "attempt": "j1.1"},
            {"seq": 1, "fact": "started", "attempt": "j1.1", "pid": 7, "pid_start": 8, "at": 1.0},
            {"op": "stop", "attempt": "j1.1", "reason": "r"},
            {"op": "open", "worker": WORKER},
            {"op": "chunks", "worker": "w-j2-cpu0", "chunks": [["j2.1", 0, 9]]},
            {"op": "contact", "at": 5.0},
        ),
        said(
            {"op": "seq", "seq": 4, "acked": 2},
            {"seq": 5, "fact": "ended", "attempt": "j1.1", "at": 2.0},
            {"seq": 6, "fact": "chunk_done", "chunk": "j2.1"},
            {"seq": 7, "fact": "worker_refused", "worker": "w-j2-cpu0", "error": "e"},
            {"op": "ack", "seq": 5},
        ),
        said({"pid": 7, "pid_start": 8, "code": 0, "signal": None, "at": 1.0}),
    ),
    reads=("hostler.agent.state", "hostler.agent.journal", "hostler.agent.exits"),
    large={
        "acknowledged": lambda: said({"op": "ack", "seq": 1}) * 40_000,
        "facts": lambda: said(*({"seq": at, "fact": "x"} for at in range(40_000))),
        "facts and acknowledgements": lambda: b"".join(
            said({"seq": at + 10**6, "fact": "x"}, {"op": "ack", "seq": at}) for at in range(20_000)
        ),
        "deep": lambda: b"[" * (1 << 20) + b"\n",
        "digits": lambda: b'{"op":"epoch","epoch":' + b"9" * (1 << 20) + b"}\n",
    },
)
