"""What clients send: the body of each request of the HTTP API that has one."""

from __future__ import annotations

import json
from typing import Any

from hostler.model import inputs
from hostler.model.codec import digest
from hostler.model.work import JobState
from tests.web.published import DOCUMENT

from .changes import Case, Document, document
from .town import EVIL, Broken, Town

PREFIX = "/api/v1"
WHO = {"why": "w", "who": "me"}
SCRIPT = {
    "name": "a", "key": None,
    "payload": {"kind": "script", "schema": 1, "argv": ["true"], "env": {"A": "b"}, "outputs": ["*"]},
    "resources": {"nodes": ["nowhere"], "vram_gb": 1.0, "gpus": 1}, "priority": 1, "after": [],
    "retry": {"max_attempts": {"exit": 1}, "backoff_s": 1.0}, "walltime_s": 60.0, "grace_s": 1.0,
    "expected_s": {"*": 5.0}, "parameters": {"p": "1"},
}  # fmt: skip
SWEEP = {
    "name": "s",
    "payload": {
        "kind": "sweep", "schema": 1, "start": 0, "stop": 1000, "worker": ["w"], "params": {}, "digest": digest({}),
        "min_chunk": 1, "max_chunk": 10, "max_hits": 5,
    },
    "resources": {"nodes": ["nowhere"]},
}  # fmt: skip
SHORT = {
    "name": "b", "run": ["true"], "env": {"A": "b"}, "resources": {"nodes": ["nowhere"]}, "timeout": 5,
    "outputs": ["*"],
}  # fmt: skip
GOOD: dict[str, tuple[str, Any]] = {
    "script": ("/jobs", [SCRIPT]),
    "sweep": ("/jobs", [SWEEP]),
    "short job": ("/jobs", [SHORT]),
    "cancel": ("/jobs/{job}/cancel", {"reason": "no more"}),
    "priority": ("/jobs/{job}/priority", {"priority": 5}),
    "group": ("/groups", {"group": {"name": "g", "max_running": 1}, "jobs": [SCRIPT, SHORT]}),
    "cancel group": ("/groups/{group}/cancel", {"reason": "no more"}),
    "retry group": ("/groups/{group}/retry", {"only_failed": True}),
    "roll back": ("/configs/c/rollback", {"model": "ab", "why": "w"}),
    "pause": ("/configs/c/pause", {**WHO, "for_s": 60.0}),
    "resume config": ("/configs/c/resume", {"who": "me"}),
    "spawn": ("/configs/c/spawn", {**WHO, "stage": "selfplay", "games": 5, "nodes": ["n"], "key": "k"}),
    "verify": ("/artifacts/" + "a" * 64 + "/verify", {"place": "here"}),
    "cordon": (f"/nodes/{EVIL}/cordon", WHO),
    "drain": (f"/nodes/{EVIL}/drain", {**WHO, "now": False}),
    "resume": (f"/nodes/{EVIL}/resume", {"who": "me"}),
    "cordon device": (f"/devices/{EVIL}%2Fcpu0/cordon", {**WHO, "for_s": 60.0}),
    "drain device": (f"/devices/{EVIL}%2Fcpu0/drain", {**WHO, "for_s": 60.0}),
    "resume device": (f"/devices/{EVIL}%2Fcpu0/resume", {"who": "me"}),
    "token": ("/tokens", {"name": "t", "scope": "read", "lifetime_s": 3600.0}),
    "probe": ("/alerts/rules/gpu_idle/test", {"lasts_s": 60.0}),
    "silence": ("/alerts/silences", {**WHO, "rule": "*", "subject": None, "for_s": 60.0}),
    "acknowledge": ("/alerts/a1/acknowledge", {"who": "me", "note": "seen"}),
    "clean": ("/disk/clean", {"files": ["logs/x"], "most": 10, "node": None, "who": "me"}),
    "undo": ("/disk/undo", {"files": ["logs/x"], "who": "me"}),
}
LISTS = tuple(
    path
    for path, operations in DOCUMENT["paths"].items()
    if "get" in operations and "{" not in path and not path.endswith("/events")
)
"""Lists and views without a name in their path: what was taken is shown by them."""


def documents() -> list[Document]:
    """All bodies, with the places that the published document knows."""
    return [document(name, body, _schema(path)) for name, (path, body) in GOOD.items()]


def _schema(path: str) -> dict[str, Any]:
    """The schema of the body of the request of this path, with the definitions that it refers to."""
    parts = path.split("/")
    for known, operations in DOCUMENT["paths"].items():
        words = known.removeprefix(PREFIX).split("/")
        if len(words) == len(parts) and all(a == b or a[0:1] == "{" for a, b in zip(words, parts, strict=True)):
            body = operations.get("post", {}).get("requestBody")
            if body is not None:
                return {**body["content"]["application/json"]["schema"], "components": DOCUMENT["components"]}
    raise LookupError(path)


async def give(town: Town, case: Case) -> None:
    """Send a changed body; it is refused with a reason, or taken and shown."""
    path = PREFIX + GOOD[case.document][0]
    if "{" in path:
        path = path.format(**await there(town))
    status, answer = await town.ask("POST", path, case.text.encode(errors="surrogatepass"))
    expect_answer(status, answer)
    await town.settle()
    if status < 300 and case.document in ("script", "sweep", "short job", "group"):
        await _forget(town)


def expect_answer(status: int, answer: bytes) -> Any:
    """An answer is JSON; a refusal has a reason."""
    if status >= 500:
        raise Broken(f"status {status}: {answer!r:.500}")
    told = json.loads(answer)
    if status >= 400 and not (isinstance(told.get("message"), str) and len(told["message"]) > 3):
        raise Broken(f"status {status} without a reason: {answer!r:.500}")
    return told


async def expect_views(town: Town) -> None:
    """Each list can be shown."""
    for path in LISTS:
        status, answer = await town.ask("GET", path)
        if status >= 500:
            raise Broken(f"GET {path}: status {status}: {answer!r:.500}")


async def there(town: Town) -> dict[str, str]:
    """A job and a group that wait."""
    state = town.core.state
    job = next((job.id for job in state.jobs.values() if job.state is JobState.PENDING), None)
    if job is None or not state.groups:
        status, answer = await town.ask("POST", f"{PREFIX}/groups", json.dumps(GOOD["group"][1]).encode())
        expect_answer(status, answer)
        job = next(job.id for job in state.jobs.values() if job.state is JobState.PENDING)
    return {"job": job, "group": list(state.groups)[-1]}


async def _forget(town: Town) -> None:
    """What waits is cancelled where there is much of it: the world stays small."""
    waits = [name for name, job in town.core.state.jobs.items() if job.state is JobState.PENDING]
    if len(waits) > 20:
        await town.controller.tell(*(inputs.Cancel(job=name) for name in waits))
