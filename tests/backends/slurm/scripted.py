"""A login node and a cluster that do what a test tells them, in this process: nothing here waits for any other."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from asyncio.base_subprocess import BaseSubprocessTransport
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakSet

from hostler.backends.slurm.commands import NoAccounting, Options, SlurmDown
from hostler.backends.slurm.desk import Desk, News, OnLost, OnNews, opened
from hostler.backends.slurm.parsing import AccountingRow, Gres, JobRecord, NodeRow, Parsed, PartitionRecord, QueueRow
from hostler.backends.slurm.states import read_state
from tests.patience import PATIENCE_S

Json = dict[str, Any]
HELLO: Final[Mapping[str, Any]] = {"type": "hello", "protocol": 1, "root": "/shared", "host": "login", "user": "me"}


async def until(true: Callable[[], Any]) -> Any:
    """The first true answer."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := true()):  # noqa: ASYNC110 - what is asked for may be anything
            await asyncio.sleep(0.005)
    return found


_STARTED: WeakSet[Any] = WeakSet()
"""Every process that an event loop has started: to look for them among all objects takes a third of a second."""
_start = BaseSubprocessTransport.__init__


def _noted(self: Any, *given: Any, **more: Any) -> None:
    _STARTED.add(self)
    _start(self, *given, **more)


BaseSubprocessTransport.__init__ = _noted  # type: ignore[method-assign]


async def reaped() -> None:
    """Wait until every process that this event loop has started, and let go, is known to have ended.

    Else the loop is closed before it hears of that, and a later test is charged with a process that still runs.
    """
    loop = asyncio.get_running_loop()
    started = [each for each in _STARTED if each._loop is loop]
    await until(lambda: all(each.get_returncode() is not None for each in started))


@dataclass
class Agent:
    """The agent of one run, as far as it can be heard: what it is told, and what it has told."""

    requests: list[Json] = field(default_factory=list)
    facts: list[Json] = field(default_factory=list)
    """Not acknowledged; they are on its disk, too."""
    attempts: list[Json] = field(default_factory=list)
    """On its disk, and not over."""
    chunks: list[list[Any]] = field(default_factory=list)
    silent: bool = False
    """It does not even say hello."""
    _seq: int = 0

    def noted(self, fact: str, **more: Any) -> Json:
        """A fact that it has on its disk, and has told nobody."""
        self._seq += 1
        told = {"seq": self._seq, "fact": fact, "at": 1.0, **more}
        self.facts.append(told)
        return told

    def asked(self, kind: str) -> list[Json]:
        """Requests of a kind."""
        return [each for each in self.requests if each["type"] == kind]


class Post:
    """The other end of a desk: the shared folder in memory, and agents that can be reached in it.

    `mute` has operations that are not answered, `faults` errors that they are answered with.
    """

    def __init__(self) -> None:
        self.files: dict[str, dict[str, str]] = {}
        self.told: dict[str, list[Json]] = {}
        """News that lie there, by token."""
        self.watched: set[str] = set()
        self.agents: dict[tuple[str, int, int], Agent] = {}
        self.asked: list[Json] = []
        self.mute: set[str] = set()
        self.faults: dict[str, str] = {}
        self.streams: dict[int, tuple[str, int, int]] = {}
        self.hung_up: list[int] = []
        self._writer: asyncio.StreamWriter | None = None
        self._count = 0

    async def opened(self, on_news: OnNews, on_lost: OnLost) -> Desk:
        """A desk at this post."""
        return await opened(self.open_streams, "the login node", on_news, on_lost)

    async def open_streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A new process on the same folder: it watches nothing, and has no streams."""
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=theirs)
        self.watched.clear()
        self.streams.clear()
        self._writer = writer
        self.serving = asyncio.create_task(self._serve(reader, writer))
        self.send({**HELLO})
        return await asyncio.open_connection(sock=ours)

    def send(self, message: Json | bytes) -> None:
        """Say this, whatever it is."""
        assert self._writer is not None
        self._writer.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")

    def hang_up(self) -> None:
        """The process ends."""
        assert self._writer is not None
        self._writer.close()

    def ops(self, name: str) -> list[Json]:
        """Requests of a kind."""
        return [each for each in self.asked if each["op"] == name]

    # --- what happens in the folder -------------------------------------------------------------------------------

    def news(self, token: str, what: str, told: Json, task: int = 0, run: int = 0) -> None:
        """A batch job has written this."""
        message = {"type": "news", "token": token, "task": task, "run": run, "what": what, "told": told}
        self.told.setdefault(token, []).append(message)
        if token in self.watched:
            self.send(message)

    def begin(self, token: str, job: str, task: int = 0, run: int = 0, **more: Any) -> Agent:
        """A berth has begun."""
        agent = self.agents.setdefault((token, task, run), Agent())
        self.news(token, "began", {"job": job, "array_job": None, "host": "n1", "at": time.time(), **more}, task, run)
        return agent

    def end(self, token: str, why: str, task: int = 0, run: int = 0, **more: Any) -> None:
        """A berth has ended, and has said so."""
        told = {"at": time.time(), "status": 0, "why": why, "signal": None, "error": None, **more}
        self.news(token, "ended", told, task, run)

    def tell(self, agent: Agent, fact: str, **more: Any) -> Json:
        """An agent has something to tell."""
        told = agent.noted(fact, **more)
        for number, run in self.streams.items():
            if self.agents.get(run) is agent:
                self.data(number, {"type": "facts", "facts": [told]})
        return told

    def data(self, stream: int, *messages: Json) -> None:
        """Something comes on a stream."""
        data = b"".join(json.dumps(each).encode() + b"\n" for each in messages)
        self.send(json.dumps({"type": "data", "stream": stream, "size": len(data)}).encode() + b"\n" + data)

    # --- what is asked --------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                request: Json = json.loads(line)
                self.asked.append(request)
                if request["op"] == "say":
                    self._said(request["stream"], await reader.readexactly(request["size"]))
                elif request["op"] not in self.mute:
                    self._answer(request)
        except ConnectionError:
            pass  # the desk was closed while something was on its way
        finally:
            writer.close()

    def _answer(self, request: Json) -> None:
        fault = self.faults.get(request["op"])
        if fault is not None:
            self.send({"id": request["id"], "error": fault})
            return
        method: Callable[[Json], Json] = getattr(self, f"_{request['op']}", lambda _request: {"ok": True})
        self.send({"id": request.get("id"), **method(request)})
        if request["op"] == "listen":
            self._greet(request)

    def _prepare(self, request: Json) -> Json:
        self.files.setdefault(request["token"], {}).update(request["files"])
        return {"ok": True, "folder": "/shared"}

    def _watch(self, request: Json) -> Json:
        for token in request["tokens"]:
            self.watched.add(token)
            for message in self.told.get(token, ()):
                self.send(message)
        return {"ok": True}

    def _unwatch(self, request: Json) -> Json:
        self.watched -= set(request["tokens"])
        return {"ok": True}

    def _forget(self, request: Json) -> Json:
        for token in request["tokens"]:
            self.told.pop(token, None)
        return {"ok": True}

    def _listen(self, request: Json) -> Json:
        self._count += 1
        self.streams[self._count] = request["token"], request["task"], request["run"]
        return {"ok": True, "stream": self._count}

    def _hang_up(self, request: Json) -> Json:
        self.streams.pop(request["stream"], None)
        self.hung_up.append(request["stream"])
        return {"ok": True}

    def _probe(self, request: Json) -> Json:
        token, _, path = str(request["path"]).removeprefix("jobs/").partition("/")
        return {"text": self.files.get(token, {}).get(path)}

    def _facts(self, request: Json) -> Json:
        agent = self.agents.get((request["token"], request["task"], request["run"]), Agent())
        return {"agent": "a", "facts": agent.facts, "attempts": agent.attempts, "chunks": agent.chunks}

    def _greet(self, request: Json) -> None:
        """The agent answers the opening words; on the first stream these were there before anybody listened."""
        agent = self.agents.get(self.streams[self._count])
        if agent is None or agent.silent:
            return
        if request["stream"] == "first":
            words = self.files[request["token"]].get(f"{request['task']}/first.in", "")
            agent.requests += [json.loads(line) for line in words.splitlines()]
        hello = {"type": "hello", "protocol": 1, "agent": "a", "attempts": [], "chunks": []}
        hello["attempts"] = [each["id"] for each in agent.attempts]
        self.data(self._count, hello, {"type": "facts", "facts": list(agent.facts)})

    def _said(self, stream: int, data: bytes) -> None:
        agent = self.agents.get(self.streams.get(stream, ("", 0, 0)))
        if agent is None:
            return
        for message in map(json.loads, data.splitlines()):
            agent.requests.append(message)
            if message["type"] == "ack":
                agent.facts = [fact for fact in agent.facts if fact["seq"] > message["seq"]]


@dataclass
class Job:
    """One task of what was submitted."""

    id: str
    name: str
    task: int | None
    state: str = "PENDING"
    reason: str | None = None
    listed: bool = True
    """Whether the queue has it."""
    recorded: str | None = None
    """What accounting says instead; the empty text: nothing at all."""
    ends: float | None = None
    """The end of it that the queue shows: of its time while it runs, its own once it ends."""


class Table:
    """A cluster in memory, in place of `commands.Slurm`. Every question is counted in `calls`.

    `fails` has what the next calls of a command raise; what is done all the same is in `unheard`.
    """

    def __init__(self) -> None:
        self.known: list[Job] = []
        self.calls: Counter[str] = Counter()
        self.asked: list[tuple[str, ...]] = []
        self.cancelled: list[str] = []
        self.fails: dict[str, list[Exception]] = {}
        self.unheard: set[str] = set()
        self.held: dict[str, asyncio.Event] = {}
        """Answers of these commands wait for the event; what they say is from before."""
        self.accounts: bool | None = True
        """`None`: none are kept; `False`: they cannot be asked now."""
        self.submitted: list[Options] = []
        self.lists = True
        """Whether the queue has what is submitted from now on."""
        self.partition, self.max_time_s = "gpu", 86400.0
        self.array_size = "1001"
        self._count = 0

    def of(self, token: str, task: int | None = None) -> Job:
        """The newest job of a name."""
        found = [job for job in self.known if job.name == token and task in (None, job.task)]
        return found[-1]

    async def submit(self, options: Options, script: str) -> str:
        return await self._done("sbatch", lambda: self._submit(options))

    async def cancel(self, ids: Sequence[str], signal: str | None = None) -> None:
        await self._done("scancel", lambda: self._cancel(ids))

    async def queue(self) -> Parsed[QueueRow]:
        return await self._done("squeue", lambda: Parsed(tuple(_row(job) for job in self.known if job.listed)))

    async def find(self, name: str, since: float) -> tuple[str, ...]:
        return await self._done("find", lambda: self._find(name))

    async def accounting(self, jobs: Sequence[str], since: float) -> Parsed[AccountingRow]:
        self.asked.append(("sacct", *jobs))
        if self.accounts is not True:
            self.calls["sacct"] += 1
            raise NoAccounting("no accounting", configured=self.accounts is False)
        rows = tuple(_recorded(job) for job in self.known if job.id in jobs and job.recorded != "")
        return await self._done("sacct", lambda: Parsed(rows))

    async def jobs(self, ids: Sequence[str]) -> Parsed[JobRecord]:
        self.asked.append(("scontrol", *ids))
        rows = tuple(_record(job) for job in self.known if job.id in ids and job.recorded != "")
        return await self._done("scontrol", lambda: Parsed(rows))

    async def nodes(self, partitions: Sequence[str] = ()) -> Parsed[NodeRow]:
        gres = (Gres(kind="gpu", type="h100", count=2),)
        row = NodeRow(
            node="n1", partition=self.partition, default=True, available="up", state="idle", cpus=32, gres=gres
        )
        return await self._done("sinfo", lambda: Parsed((row,)))

    async def partitions(self) -> Parsed[PartitionRecord]:
        row = PartitionRecord(name=self.partition, default=True, state="UP", max_time_s=self.max_time_s, tres={})
        return await self._done("scontrol partitions", lambda: Parsed((row,)))

    async def config(self) -> Mapping[str, str]:
        return await self._done("scontrol config", lambda: {"MaxArraySize": self.array_size})

    async def _done(self, command: str, what: Callable[[], Any]) -> Any:
        self.calls[command] += 1
        fails = self.fails.get(command)
        if fails and command not in self.unheard:
            raise fails.pop(0)
        answer = what()
        held = self.held.get(command)
        await (asyncio.sleep(0) if held is None else held.wait())
        if fails:
            raise fails.pop(0)
        return answer

    def _find(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(job.id for job in self.known if job.name == name and self._knows(job)))

    def _knows(self, job: Job) -> bool:
        return job.listed or (job.recorded != "" and self.accounts is True)

    def _submit(self, options: Options) -> str:
        self._count += 1
        number = f"{self._count}00"
        self.submitted.append(options)
        tasks: Sequence[int | None] = [None] if options.tasks is None else range(options.tasks)
        self.known += [Job(id=number, name=options.name, task=task, listed=self.lists) for task in tasks]
        return number

    def _cancel(self, ids: Sequence[str]) -> None:
        self.cancelled += ids
        for job in self.known:
            if {job.id, f"{job.id}_{job.task}"} & set(ids) and job.state == "PENDING":
                job.state = "CANCELLED by 0"
                job.listed = job.task is None
                job.recorded = None if job.task is None else ""


def _row(job: Job) -> QueueRow:
    return QueueRow(**_common(job, job.state), user="me", partition="gpu", reason=job.reason, ends=job.ends)


def _recorded(job: Job) -> AccountingRow:
    return AccountingRow(**_common(job, job.recorded or job.state))


def _record(job: Job) -> JobRecord:
    return JobRecord(**_common(job, job.recorded or job.state))


def _common(job: Job, state: str) -> Json:
    of_array = {} if job.task is None else {"array": job.id, "tasks": (job.task,)}
    return {"job": job.id, **of_array, "state": read_state(state), "name": job.name}


@asynccontextmanager
async def desk_at(post: Post, news: list[News] | None = None, lost: list[str] | None = None) -> AsyncIterator[Desk]:
    """A desk; what it tells is put into the lists."""
    told, gone = [] if news is None else news, [] if lost is None else lost
    desk = await post.opened(told.append, gone.append)
    try:
        yield desk
    finally:
        desk.close()
        await desk.ended()
        await post.serving


DOWN = SlurmDown("it is down")
UNHEARD = SlurmDown("it took too long", unknown=True)
