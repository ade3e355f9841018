"""A real controller with its journal and its web application in this process, an honest node and a hostile one."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog

from hostler.core import Core, State
from hostler.core.snapshot import dump_state, load_state
from hostler.model import events, inputs
from hostler.model.codec import digest
from hostler.model.errors import HostlerError
from hostler.model.events import Entry, job_of
from hostler.model.work import FailureClass, JobSpec, JobState, Resources, Retry, ScriptPayload, SweepPayload
from hostler.runtime import backing, link, restoring
from hostler.runtime.clock import SteadyClock
from hostler.runtime.controller import Controller
from hostler.runtime.snapshots import recovered
from hostler.runtime.statedir import StateDir
from hostler.runtime.term import adopt_identity
from hostler.snapshots.manifest import encode, manifest_of
from hostler.store import open_journal
from hostler.web.app import make_app
from hostler.web.door import Door
from tests.backends.fake import FakeNode
from tests.journals import new_journal
from tests.patience import PATIENCE_S

from .evil import CONTENT, SHA256, SLOTS, Evil, Turn

TOKEN = "a-token-of-fuzzing"
EVIL, HONEST = "evil", "honest"
OURS = re.compile(
    r"^(files of \S+ cannot be brought or fetched: |what \S+ (has left|needs) cannot be \w+: |it was told in vain: )?"
    r"(Type|Key|Attribute|Index|Value|Overflow|Recursion|UnicodeEncode|UnicodeDecode|Assertion|ZeroDivision|Validation|"
    r"Statement|Data|Lookup|Runtime|NotImplemented|Unbound\w*)Error: "
)
"""A trouble that is an error of the program, not a reason why something is refused."""
ONCE = Retry(max_attempts=dict.fromkeys(FailureClass, 1))
HELLO = {
    "type": "hello", "protocol": 1, "agent": "a", "incarnation": 1, "boot": "b", "version": "0.1.0", "tells": True,
    "sets_up": True, "merges": True, "leaving": None, "code": None, "host": "h", "python": "3.11", "now": 1.0, "seq": 0,
    "attempts": "$ATTEMPTS", "chunks": "$CHUNKS",
}  # fmt: skip
FACTS = {
    "host": "h", "cpus": SLOTS, "memory_bytes": 1 << 34, "disk_bytes": 1 << 40, "disk_free_bytes": 1 << 40,
    "python": "3.11", "boot": "b", "visible": None, "devices": [],
}  # fmt: skip
PROBE = {"type": "probe", "id": 0, "facts": FACTS}


class Broken(AssertionError):
    """What must hold of every input did not hold of one."""


class Town:
    """The controller at work, and what the node has of it."""

    def __init__(self, directory: StateDir, controller: Controller, evil: Evil, honest: FakeNode, app: Any) -> None:
        self.directory = directory
        self.controller = controller
        self.evil = evil
        self.honest = honest
        self.seen: list[Entry] = []
        self.empty_snapshot, _ = controller.snapshots().add(encode(manifest_of([])))
        self._app = app
        self._looked = 0
        self.given = 0
        """Files that were submitted."""
        publish = controller._pump._publish

        def published(entries: Sequence[Entry]) -> None:
            self.seen.extend(entries)
            publish(entries)

        controller._pump._publish = published

    @property
    def core(self) -> Core:
        """The core of the controller."""
        return self.controller._core

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """The answer of the web application to a request with the owner's token."""
        headers = {"host": "localhost", "authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(),
            "query_string": b"", "root_path": "", "scheme": "http", "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        told, status, answer = False, 0, b""

        async def receive() -> dict[str, Any]:
            nonlocal told
            if told:
                await asyncio.Event().wait()
            told = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status, answer
            status = message.get("status", status)
            answer += message.get("body", b"")

        async with asyncio.timeout(PATIENCE_S):
            await self._app(scope, receive, send)
        return status, answer

    async def settle(self) -> None:
        """Wait until the core has all that was given, and the journal what follows; nothing of it is our own fault."""
        await self.controller.tell(inputs.Tick())
        fresh, self._looked = self.seen[self._looked :], len(self.seen)
        for entry in fresh:
            if isinstance(entry.event, events.TroubleRecorded) and OURS.search(entry.event.what):
                raise Broken(f"trouble of {entry.event.where}: {entry.event.what}")

    async def honest_job(self) -> None:
        """A job of the honest node is done."""
        spec = JobSpec(
            name="honest", payload=ScriptPayload(schema=1, argv=("echo", "1")), resources=Resources(nodes=(HONEST,))
        )
        await self.controller.tell(inputs.ResumeNode(node=HONEST))
        ((name,),) = await self.controller.tell(inputs.Submit(specs=(spec,)))
        await self.until(lambda: self.core.state.jobs[name].state is JobState.DONE, f"{name} of the honest node")
        if self.core.state.jobs[name].result != ["echo", "1"]:
            raise Broken(f"{name} has another result: {self.core.state.jobs[name].result!r:.200}")

    async def until(self, condition: Any, what: str) -> None:
        """Wait until something holds; the bound ends a campaign that has failed."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not condition():
                    await asyncio.sleep(0)
                    await asyncio.sleep(0.001)
        except TimeoutError as error:
            raise Broken(f"waited in vain for {what}") from error

    @property
    def attempts(self) -> list[str]:
        """The attempts that the hostile node has."""
        devices = self.core.state.devices.values()
        return [name for each in devices if each.spec.node == EVIL for name in each.attempts]

    @property
    def chunks(self) -> dict[str, Any]:
        """The chunks that the hostile node has."""
        return {
            name: sweep.ledger.leased[name]
            for sweep in self.core.state.sweeps.values()
            for name, lease in sweep.leases.items()
            if lease.device.startswith(f"{EVIL}/")
        }

    def opening(self) -> bytes:
        """What the node honestly says first."""
        return self.filled(_lines(HELLO, PROBE))

    def filled(self, lines: bytes) -> bytes:
        """Lines with the names that the node has now."""
        attempts, chunks = self.attempts, self.chunks
        text = lines.replace(b'"$ATTEMPTS"', json.dumps(attempts).encode())
        text = text.replace(b'"$CHUNKS"', json.dumps(list(chunks)).encode())
        text = text.replace(b"$ATTEMPT", attempts[0].encode() if attempts else b"j0.1")
        if b"$" in text:
            name, (begin, end) = next(iter(chunks.items()), ("j0.1", (0, 1)))
            text = text.replace(b"$CHUNK", name.encode()).replace(b"$DIGEST", digest({}).encode())
            text = text.replace(b'"$START"', str(begin).encode()).replace(b'"$STOP"', str(end).encode())
        return text

    async def gone(self, attempt: str) -> None:
        """See to it that an attempt is over, whatever was said of it."""
        if attempt in self.attempts:
            await self.controller.tell(inputs.Cancel(job=job_of(attempt)))
            ended = {"seq": 1, "fact": "ended", "attempt": attempt, "at": 5.0, "reason": "spawn", "error": "gone"}
            turn = Turn(self.opening() + _lines({"type": "facts", "facts": [ended]}), stays=True)
            self.evil.begin(turn)
            await self.until(lambda: attempt not in self.attempts, f"the end of {attempt}")
            turn.hang_up()
            await turn.over.wait()

    async def busy(self, outputs: tuple[str, ...] = ()) -> None:
        """See to it that the node has an attempt, which is to leave these files, and a chunk."""
        for name in self.attempts:
            if self.core.state.jobs[job_of(name)].spec.payload.outputs != outputs:
                await self.gone(name)
        if self.attempts and self.chunks:
            return
        await self.controller.tell(inputs.ResumeNode(node=EVIL))
        here, specs = Resources(nodes=(EVIL,), device="cpu"), list[JobSpec]()
        if not self.attempts:
            payload = ScriptPayload(schema=1, argv=("true",), outputs=outputs)
            specs += [JobSpec(name="of evil", payload=payload, resources=here, retry=ONCE)]
        if not self.chunks:
            sweep = SweepPayload(schema=1, start=0, stop=10**6, worker=("w",), params={}, digest=digest({}))
            specs += [JobSpec(name="searched by evil", payload=sweep, resources=here)]
        await self._cancelled()
        (answer,) = await self.controller.tell(inputs.Submit(specs=tuple(specs)))
        if isinstance(answer, HostlerError):
            raise answer
        turn = Turn(self.opening(), stays=True)
        self.evil.begin(turn)
        await self.until(lambda: self.attempts and self.chunks, "work on the hostile node")
        await self.settle()
        turn.hang_up()
        await turn.over.wait()

    async def _cancelled(self) -> None:
        """Work of before that waits goes."""
        state = self.core.state
        waits = [name for name, job in state.jobs.items() if job.state is JobState.PENDING]
        for name in waits:
            await self.controller.tell(inputs.Cancel(job=name))


def _lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in messages)


@asynccontextmanager
async def town(directory: StateDir) -> AsyncIterator[Town]:
    """A controller at work on a state directory; rests after faults of nodes are left out."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    before = link.REST_S, link.FAULT_REST_S
    link.REST_S, link.FAULT_REST_S = (0.0,), (0.0,)
    clock = SteadyClock()
    evil, honest = Evil(EVIL, directory), FakeNode(HONEST)
    try:
        nodes = {EVIL: evil, HONEST: honest}
        async with Controller(directory, "fuzz", nodes, clock, 10**9, log_bytes=1 << 16) as controller:
            app = make_app(controller, Door(token=TOKEN, key=b"k" * 32, now=clock.now), trails=controller.trails)
            made = Town(directory, controller, evil, honest, app)
            await made.until(lambda: HONEST in made.core.state.nodes, "the honest node")
            yield made
    finally:
        link.REST_S, link.FAULT_REST_S = before
        structlog.reset_defaults()


def new_directory(folder: Path, database: str | None = None) -> StateDir:
    """A state directory with an empty journal, in SQLite or at the address of a database."""
    directory = StateDir(folder)
    directory.take()
    kept = directory.artifacts / "objects" / SHA256[:2] / f"{SHA256}.safetensors"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(CONTENT)
    if database is None:
        new_journal(directory.path)
    else:
        directory.set_store(database)
        adopt_identity(directory)
    return directory


def expect_whole(directory: StateDir, folder: Path) -> StateDir:
    """The journal loads, from the first entry and from a snapshot alike; a backup of it is made, verified and restored.

    Returns the state directory that was restored.
    """
    journal = open_journal(directory.place)
    try:
        core = recovered(journal, _unexpected)
        whole = Core()
        whole.replay(journal.read())
    finally:
        journal.close()
    whole.validate()
    if _loaded(core.state) != _loaded(whole.state):
        differences = list(_differences(_plain(core.state), _plain(whole.state)))
        raise Broken(f"the journal folds to another state than was recovered: {differences[:5]}")
    made = backing.create(directory, folder / "made.backup", SteadyClock().now())
    restoring.verify(made.path, directory, {})
    again = StateDir(folder / "restored")
    restoring.restore(made.path, again, {}, SteadyClock().now(), lambda _: None, fetch=False)
    return again


def _loaded(state: State) -> State:
    """The state without what is volatile, that is what was last reported of chunks; sets in whatever order."""
    loaded = load_state(dump_state(state))
    for sweep in loaded.sweeps.values():
        for lease in sweep.leases.values():
            lease.position, lease.hits, lease.found, lease.heard_at = None, 0, None, None
            lease.pace_per_s = lease.told_at = None
    return loaded


def _plain(state: State) -> Any:
    """The state as it stands in a snapshot."""
    return json.loads(zlib.decompress(dump_state(state).partition(b"\n")[2]))


def _differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two values differ, the order of keys included."""
    if isinstance(one, dict) and isinstance(other, dict):
        if list(one) != list(other):
            yield f"{path}: keys {list(one)!r:.300} and {list(other)!r:.300}"
        for key in one.keys() & other.keys():
            yield from _differences(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (each, that) in enumerate(zip(one, other, strict=True)):
            yield from _differences(each, that, f"{path}.{at}")
    elif one != other:
        yield f"{path}: {one!r:.200} and {other!r:.200}"


def _unexpected(what: str) -> None:
    raise Broken(f"the journal is damaged: {what}")
