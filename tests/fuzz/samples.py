"""Good lines of the agent protocol, both ways, to spoil."""

from __future__ import annotations

import json
from typing import Any


def said(*messages: Any) -> bytes:
    """Messages as lines."""
    return b"".join(json.dumps(each).encode() + b"\n" for each in messages)


DIGEST = "0" * 63 + "1"
ATTEMPT = {
    "id": "j1.1", "queue": "cpu0", "argv": ["true"], "env": {"A": "b", "C": None}, "cwd": "/", "walltime_s": 60,
    "memory_bytes": 1 << 30, "grace_s": 1.5, "log_bytes": 1 << 20, "result_bytes": 1 << 10, "inputs": {"x": [1]},
    "lease_s": None, "tell_s": 2.5, "disk_bytes": 1 << 20,
}  # fmt: skip
WORKER = {
    "id": "w-j2-cpu0", "queue": "cpu0", "argv": ["worker"], "env": {}, "open": {"digest": DIGEST, "params": {"n": 1}},
    "silence_s": 60, "start_s": 60, "memory_bytes": None, "grace_s": 1, "log_bytes": 1 << 20, "lease_s": 60.0,
}  # fmt: skip
HELLO = {"type": "hello", "protocol": 1, "controller": "c", "epoch": 1, "ack": 0, "byes": True}
REQUESTS = (
    said(HELLO, {"type": "launch", "attempts": [ATTEMPT, {"id": "j2.1", "queue": "q", "argv": ["true"]}]}),
    said({"type": "open", "worker": WORKER}, {"type": "chunks", "worker": "w-j2-cpu0", "chunks": [["j2.1", 0, 2**70]]}),
    said({"type": "stop", "attempts": ["j1.1"], "reason": "why"}, {"type": "recall", "chunks": ["j2.1"], "reason": ""}),
    said({"type": "trim", "chunks": [["j2.1", 5]]}, {"type": "close", "worker": "w-j2-cpu0"}, {"type": "here"}),
    said({"type": "ack", "seq": 1, "agent": "a"}, {"type": "discard", "attempts": ["j1"]}, {"type": "probe", "id": 1}),
    said({"type": "read", "id": 1, "attempt": "j1.1", "stream": "out", "offset": 0, "limit": 100}, {"type": "bye"}),
    said({"type": "read", "id": 3, "attempt": "j1.1", "stream": "both", "offset": [0, 7], "limit": 100}),
    said({"op": "read", "id": 4, "attempt": "j1.1", "stream": "both", "offset": [0, 7], "limit": 9, "ended": True}),
    said(
        {
            "type": "prove", "id": 2, "patience_s": 60.0,
            "devices": [{"device": "cpu0", "argv": ["{canary}", "--kind", "cpu"], "env": {"W": "x"}}],
        }
    ),
    said({"op": "run", "id": 1, "argv": ["true"], "timeout_s": 5.0, "stdin": None, "env": {"A": None}}),
    said({"op": "say", "stream": 3, "size": 5}) + b"abcde" + said({"op": "watch", "id": 2, "tokens": ["t1"]}),
    said({"op": "listen", "id": 3, "stream": "s1", "offset": 0, "token": "t", "run": 1, "create": True}),
)  # fmt: skip
