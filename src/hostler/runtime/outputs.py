"""The output of attempts: read from their nodes, or as it was kept here where a node cannot be reached.

The output of attempts on other machines is read every few seconds also where nobody asks for it, so that the last words
before a cut are here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hostler.backends.base import Backend, ReadsLogs
from hostler.backends.output import read_output
from hostler.model.errors import LinkError, LinkLost, NotFound
from hostler.model.events import AttemptEnded, AttemptLeased, Entry, job_of
from hostler.model.views import LogChunk, Output
from hostler.runtime.clock import Clock
from hostler.runtime.keptlogs import KeptLogs

PATIENCE_S = 10.0
"""A node that has not answered for so long is taken to be out of reach."""
LOOK_S = 3.0
"""How often an attempt is read that has written something lately."""
REST_S = 10.0
"""And one that has not."""
READS_PER_S = 100
"""Reads of all attempts together: of a large fleet each is read less often."""
READ_BYTES = 1 << 16
AT_ONCE = 8

T = TypeVar("T")


@dataclass
class Reading:
    """How an attempt is read while it runs."""

    due_at: float = 0.0
    rest_s: float = LOOK_S


class Outputs:
    """Of all attempts of this controller.

    `backend_of` finds the backend that has an attempt; it raises `NotFound` and `LinkLost`. `story` tells what happened
    to a job. `running` lists the attempts that run, each with its backend.
    """

    def __init__(
        self,
        kept: KeptLogs,
        clock: Clock,
        backend_of: Callable[[str], Awaitable[Backend]],
        story: Callable[[str], Awaitable[Sequence[Entry]]],
        running: Callable[[], Iterable[tuple[str, Backend]]],
        trouble: Callable[[str], None],
    ) -> None:
        self._kept = kept
        self._clock = clock
        self._backend_of = backend_of
        self._story = story
        self._running = running
        self._trouble = trouble
        self._readings: dict[str, Reading] = {}
        self._told = ""

    async def log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        """A piece of one stream: from the attempt's node or, where that does not have it any more, as it was kept."""

        async def empty(*, ended: bool) -> LogChunk:
            return LogChunk(attempt=attempt, stream=stream, offset=0, data=b"", size=0, ended=ended)

        try:
            return await self._there(attempt, lambda node: node.read_log(attempt, stream, offset, limit), empty)
        except (NotFound, LinkError):
            kept = await asyncio.to_thread(self._kept.read, attempt, stream, offset, limit)
            if kept is None:
                raise
            return kept

    async def output(self, attempt: str, out: int, err: int, limit: int) -> Output:
        """A piece of both streams in order, from these offsets on; likewise."""

        async def empty(*, ended: bool) -> Output:
            return Output(attempt=attempt, out=0, err=0, pieces=(), out_size=0, err_size=0, ended=ended)

        async def read(node: ReadsLogs) -> Output:
            piece = await read_output(node, attempt, out, err, limit)
            if _is_apart(node) and not piece.ended:
                await asyncio.to_thread(self._kept.see, piece, self._clock.now())
            return piece

        try:
            return await self._there(attempt, read, empty)
        except (NotFound, LinkError):
            kept = await asyncio.to_thread(self._kept.output, attempt, out, err, limit)
            if kept is None:
                raise
            return kept

    async def run(self) -> None:
        """Read the output of what runs on other machines, until cancelled."""
        while True:
            running = {name: backend for name, backend in self._running() if _is_apart(backend)}
            self._readings = {name: self._readings.get(name) or Reading() for name in running}
            most = int(LOOK_S * READS_PER_S)
            due = sorted(self._readings, key=lambda name: self._readings[name].due_at)[:most]
            now = self._clock.now()
            wanted = [name for name in due if self._readings[name].due_at <= now]
            turns = asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(*(self._look(name, running[name], turns) for name in wanted))
            await self._clock.sleep(LOOK_S)

    async def _look(self, attempt: str, backend: Backend, turns: asyncio.Semaphore) -> None:
        reading = self._readings[attempt]
        async with turns:
            try:
                grew = isinstance(backend, ReadsLogs) and await self._see(attempt, backend)
            except (LinkError, NotFound, TimeoutError):
                grew = False  # it is out of reach, or has not begun
            except Exception as error:  # noqa: BLE001 - recorded; a full disk, for instance, must not end the controller
                grew = False
                self._tell(f"the output of {attempt} cannot be kept here: {type(error).__name__}: {error}")
        reading.rest_s = LOOK_S if grew else min(2 * reading.rest_s, REST_S)
        reading.due_at = self._clock.now() + reading.rest_s

    async def _see(self, attempt: str, backend: ReadsLogs) -> bool:
        """Whether there was anything new."""
        begin = await asyncio.to_thread(self._kept.seen, attempt) or (0, 0)
        async with asyncio.timeout(PATIENCE_S):
            piece = await read_output(backend, attempt, *begin, READ_BYTES)
            ahead = (piece.out_size - READ_BYTES, piece.err_size - READ_BYTES)
            if ahead[0] > piece.ends[0] or ahead[1] > piece.ends[1]:
                begin = max(piece.ends[0], ahead[0]), max(piece.ends[1], ahead[1])
                piece = await read_output(backend, attempt, *begin, READ_BYTES)
        await asyncio.to_thread(self._kept.see, piece, self._clock.now())
        return bool(piece.pieces)

    def _tell(self, what: str) -> None:
        if what != self._told:
            self._told = what
            self._trouble(what)

    async def _there(
        self,
        attempt: str,
        read: Callable[[ReadsLogs], Awaitable[T]],
        empty: Callable[..., Awaitable[T]],
    ) -> T:
        backend = await self._backend_of(attempt)
        if not isinstance(backend, ReadsLogs):
            raise NotFound(f"the node of {attempt} keeps no output that could be read")
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await read(backend)
        except TimeoutError as error:
            raise LinkLost(f"the node of {attempt} has not answered for {PATIENCE_S:g} s") from error
        except NotFound:
            ended = await self._is_silent(attempt)
            if ended is None:
                raise
            return await empty(ended=ended)

    async def _is_silent(self, attempt: str) -> bool | None:
        """Whether an attempt that has written nothing has ended; `None` where it may have written something.

        The node has not begun with it yet, or its folder was given up because it was empty.
        """
        events = [entry.event for entry in await self._story(job_of(attempt))]
        leased = any(isinstance(event, AttemptLeased) and event.attempt == attempt for event in events)
        ends = [event for event in events if isinstance(event, AttemptEnded) and event.attempt == attempt]
        end = ends[0] if ends else None
        if not leased or (end is not None and end.left is not False):
            return None
        return end is not None


def leased_on(story: Sequence[Entry], attempt: str) -> str | None:
    """The device that an attempt was put on; `None` where the story of its job does not tell."""
    events = (entry.event for entry in reversed(story))
    return next((each.device for each in events if isinstance(each, AttemptLeased) and each.attempt == attempt), None)


def _is_apart(backend: object) -> bool:
    """Whether its output is lost to this machine when the link is."""
    return getattr(backend, "kind", "local") != "local"
