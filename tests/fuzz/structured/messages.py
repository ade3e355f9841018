"""What a node sends: each message of the protocol, and each answer about files and output."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hostler.model.errors import HostlerError
from hostler.model.files import Fetch
from hostler.model.inputs import Ended, Fetched
from tests.patience import PATIENCE_S

from .changes import Case, Document, document
from .evil import CONTENT, SHA256, Turn
from .town import FACTS, HELLO, PROBE, Town

OPENING = b"".join(json.dumps(each).encode() + b"\n" for each in (HELLO, PROBE))
GPU = {"index": 0, "kind": "cuda", "model": "H100", "vram_bytes": 80 << 30, "uuid": "GPU-1"}
HITS = {"digest": "$DIGEST", "hits": [{"at": "$START", "note": "x"}]}
TOLD = {"seq": 1, "at": 5.0}
ENDED = {
    "fact": "ended", "attempt": "$ATTEMPT", "started_at": 4.0, "exit_code": 0, "signal": None, "reason": None,
    "error": None, "cpu_s": 0.1, "max_rss_bytes": 1024, "result": {"x": [1]}, "result_error": None, "left": True,
    "evidence": "last words",
}  # fmt: skip
DEVICE = {
    "index": 0, "kind": "cpu", "at": 4.0, "age_s": 1.0, "utilization": 0.5, "vram_used_bytes": 1 << 30,
    "temperature_c": 40,
    "processes": [{"pid": 1, "name": "p", "user": "u", "vram_bytes": 5, "ours": False, "attempt": None}],
}  # fmt: skip
TELEMETRY = {
    "type": "telemetry", "at": 5.0, "load": 6.0, "cores": 4, "memory_bytes": 64 << 30, "memory_free_bytes": 16 << 30,
    "disk_bytes": 1 << 40, "disk_free_bytes": 1 << 39, "backlog_s": 0.0, "devices": [DEVICE],
}  # fmt: skip
FACTS_OF: Mapping[str, dict[str, Any]] = {
    "started": {**TOLD, "fact": "started", "attempt": "$ATTEMPT", "pid": 7, "pid_start": 8},
    "ended": {**TOLD, **ENDED},
    "done": {
        **TOLD, **HITS, "fact": "chunk_done", "chunk": "$CHUNK", "start": "$START", "stop": "$STOP", "elapsed_s": 0.5,
        "overhead_s": 0.1,
    },
    "returned": {
        **TOLD, **HITS, "fact": "returned", "chunk": "$CHUNK", "position": "$STOP", "reason": "worker_died",
        "error": None,
    },
    "refused": {**TOLD, "fact": "worker_refused", "worker": "w-j2-evil-cpu1", "error": "no"},
}  # fmt: skip
SPOKEN: Mapping[str, Any] = {
    "facts": {"type": "facts", "facts": [FACTS_OF["started"], FACTS_OF["ended"]]},
    "progress": {"type": "progress", "chunks": {"$CHUNK": ["$STOP", 1, "$DIGEST", [{"at": "$START"}]]}},
    "telemetry": TELEMETRY,
    "proved": {"type": "proved", "id": 1, "device": "cpu0", "ok": True, "answer": "x", "why": None, "seconds": 0.5},
    "so far": {"type": "so_far", "attempt": "$ATTEMPT", "result": {"a": 1}},
    "leaving": {"type": "leaving", "why": "its machine goes"},
    "error": {"type": "error", "error": "unknown", "request": {"type": "prove", "id": 1}},
}
DATA = base64.b64encode(b"said\n").decode()
READ: Mapping[str, Any] = {
    "log": {"type": "read", "id": "$ID", "offset": 0, "data": DATA, "size": 5, "ended": False},
    "output": {
        "type": "read",
        "id": "$ID",
        "offset": [0, 0],
        "size": [5, 0],
        "pieces": [["out", DATA]],
        "ended": False,
    },
}
FILES: Mapping[str, Any] = {
    "greeting": {"type": "hello", "protocol": 1},
    "outputs": {"folder": "trees/j1.1", "files": [["a", 3]], "links": ["l"], "links_count": 0},
    "changed": {
        "folder": "trees/j1.1", "files": [["a", 3]], "links": [], "links_count": 0, "gone": False, "bytes": 3,
        "count": 1, "left": [], "left_count": 0,
    },
    "get": {"size": 3, "offset": 0, "sha256": SHA256},
    "found": {"found": {SHA256: [f"artifacts/objects/{SHA256[:2]}/{SHA256}.safetensors", 3]}},
    "stock": {"disk": [1 << 40, 1 << 39], "files": [[f"{SHA256}.safetensors", 3, 1.0]], "more": False},
    "drop": {"gone": [[f"{SHA256}.safetensors", 3]], "left": {}, "disk": [1 << 40, 1 << 39]},
    "missing": {"missing": {SHA256: 0}},
    "laid": {"path": "/nowhere/trees/t"},
}  # fmt: skip
"""Answers about files, by what was asked."""


def documents() -> list[Document]:
    """All messages, each with the places where something else may stand."""
    made = [document("hello", {**HELLO, "attempts": ["$ATTEMPT"], "chunks": ["$CHUNK"]}), document("probe", PROBE)]
    made += [document("gpus", {**PROBE, "facts": {**FACTS, "devices": [GPU]}})]
    made += [document("refusal", {"type": "refused", "reason": "epoch 1 has been followed by 2", "epoch": 2})]
    made += [document(f"fact {name}", {"type": "facts", "facts": [fact]}) for name, fact in FACTS_OF.items()]
    made += [document(name, message) for name, message in SPOKEN.items()]
    made += [document(f"read {name}", message) for name, message in READ.items()]
    return made + [document(f"files {name}", message) for name, message in FILES.items()]


async def give(town: Town, case: Case) -> None:
    """Have the node send a changed message where it belongs."""
    await town.busy()
    kind, _, name = case.document.partition(" ")
    text = town.filled(case.text.encode(errors="surrogatepass")) + b"\n"
    if kind == "files":
        await _files(town, name, text)
    elif kind == "read":
        await _read(town, name, text)
    elif case.document in ("hello", "refusal"):
        await town.evil.take(Turn(text + town.filled(OPENING.split(b"\n")[1] + b"\n")))
    elif case.document in ("probe", "gpus"):
        await town.evil.take(Turn(town.filled(OPENING.split(b"\n")[0] + b"\n") + text))
    else:
        await town.evil.take(Turn(town.opening() + text))
    await town.settle()


async def _read(town: Town, name: str, text: bytes) -> None:
    """A person asks for what an attempt says."""

    def answer(said: dict[str, Any]) -> bytes | None:
        return text.replace(b'"$ID"', str(said["id"]).encode()) if said.get("type") == "read" else None

    turn = Turn(town.opening(), answer=answer)
    town.evil.begin(turn)
    await turn.begun.wait()
    attempt = town.attempts[0]
    with suppress(HostlerError):
        if name == "log":
            await town.controller.log(attempt, "out", 0, 1000)
        else:
            await town.controller.output(attempt, 0, 0, 1000)
    turn.hang_up()
    await turn.over.wait()


async def _files(town: Town, name: str, text: bytes) -> None:
    """What is asked about files; the answer under test is spoilt, all others are as they should be."""
    if name in ("outputs", "get", "greeting"):
        await _left(town, name, text)
        return
    turn = Turn(town.opening(), stays=True, files=lambda said: _answered(said, name, text))
    town.evil.begin(turn)
    await turn.begun.wait()
    attempt = town.attempts[0]
    with suppress(HostlerError, OSError):  # no room is an `OSError`, after which an errand is tried again
        async with asyncio.timeout(PATIENCE_S):
            await _ask(town, name, attempt)
    turn.hang_up()
    await turn.over.wait()


async def _left(town: Town, name: str, text: bytes) -> None:
    """An attempt ends, and the controller fetches what it has left: once, or the connection for that breaks."""
    await town.busy(outputs=("*",))
    (attempt, *_) = town.attempts
    ended = json.dumps({"type": "facts", "facts": [{**FACTS_OF["ended"], "attempt": attempt}]}).encode() + b"\n"
    turn = Turn(town.opening() + ended, stays=True, files=lambda said: _answered(said, name, text))
    town.evil.begin(turn)
    await town.until(lambda: attempt not in town.attempts or turn.couriers, f"the files of {attempt}")
    turn.hang_up()
    await turn.over.wait()
    await town.settle()
    await town.gone(attempt)


async def _ask(town: Town, name: str, attempt: str) -> None:
    evil = town.evil
    if name == "stock":
        await evil.stock("", 100)
    elif name == "drop":
        await evil.drop([f"{SHA256}.safetensors"], 0.0)
    elif name in ("missing", "laid"):
        folder = town.directory.path.parent / "folder"
        folder.mkdir(exist_ok=True)
        (folder / "a").write_bytes(CONTENT)
        await evil._carrier._shared(folder, None)
    else:
        what = Fetch(artifacts=(SHA256,)) if name == "found" else Fetch(changed_since=town.empty_snapshot)
        files = await evil.fetch(attempt, what, None)
        post = town.controller._links[evil.name]._post
        post(Ended(attempt=attempt, started_at=1.0, ended_at=2.0, exit_code=0), Fetched(attempt=attempt, files=files))


def _answered(said: dict[str, Any], name: str, text: bytes) -> bytes:
    kind = "greeting" if said.get("type") == "files" else str(said.get("op"))
    if kind == "outputs" and "laid" in said:
        kind = "changed"
    kind = {"find": "found", "lay": "laid"}.get(kind, kind)
    if kind == "put":
        return b"{}\n"
    good = FILES.get(kind, {})
    line = text if kind == name else json.dumps(good).encode() + b"\n"
    return line + (CONTENT if kind == "get" else b"")
