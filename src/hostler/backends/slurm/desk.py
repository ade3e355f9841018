"""The desk of a cluster: a process on its login node, or here, that runs commands there and knows its shared folder.

What is said: docs/reference/agent-protocol.md, "post". Whatever happens to the shared folder happens to that
process: this one waits for it no longer than it wants to.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from hostler.backends.base import Facts
from hostler.backends.channel import LINE_MAX, encoded
from hostler.backends.output import output_of
from hostler.backends.slurm.commands import Ran
from hostler.model.errors import FilesError, HostlerError, LinkLost, NotFound
from hostler.model.record import record
from hostler.model.views import LogChunk, Output

PROTOCOL = 1
HELLO_S = 60.0
"""A login node is busy with everybody's work."""
ANSWER_S = 60.0
FAREWELL_S = 3.0
SPARE_S = 30.0
"""How much longer than a command may take its answer is waited for."""

_NONSENSE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, asyncio.IncompleteReadError)
"""What comes of words that are not of the protocol."""


@record
class News:
    """What a batch job has told: that a run of one of its tasks `began`, or has `ended`."""

    token: str
    task: int
    run: int
    what: str
    told: Facts


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Open = Callable[[], Awaitable[Streams]]
OnNews = Callable[[News], None]
OnLost = Callable[[str], None]
Gone = Callable[[], Awaitable[None]]
"""Waits until the process itself has ended, for a moment. Raises `LinkLost` where it does not."""


class Desk:
    """One such process. `opened` makes it; every method raises `LinkLost` once it is gone, `FilesError` if it refuses.

    `on_news` is called for everything that batch jobs tell, `on_lost` once, with why, when the process is gone.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        hello: Facts,
        on_news: Callable[[News], None],
        on_lost: Callable[[str], None],
        gone: Gone | None = None,
    ) -> None:
        self.hello = hello
        self._reader = reader
        self._writer = writer
        self._on_news = on_news
        self._on_lost = on_lost
        self._gone = gone
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Facts]] = {}
        self._lines: dict[int, _Line] = {}
        self._lost: str | None = None
        self._reading = asyncio.create_task(self._read())

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout_s: float,
    ) -> Ran:
        """Run a command there, without a shell."""
        asked = {"argv": list(argv), "stdin": stdin, "env": dict(env or {}), "timeout_s": timeout_s}
        try:
            told = await self._ask("run", asked, within_s=timeout_s + SPARE_S)
        except FilesError as error:  # as where its user may have no more processes: nothing is known of the command
            raise LinkLost(f"the desk could not run {argv[0]!r}: {error}") from error
        return Ran(
            status=told["status"], out=told["out"], err=told["err"], timed_out=told["timed_out"], cut=told["cut"]
        )

    async def prepare(self, token: str, files: Mapping[str, str]) -> None:
        """Write the files of a batch."""
        await self._ask("prepare", {"token": token, "files": dict(files)})

    async def watch(self, tokens: Sequence[str]) -> None:
        """Have the news of these batches told, those that are there already first."""
        await self._ask("watch", {"tokens": list(tokens)})

    async def forget(self, tokens: Sequence[str]) -> None:
        """Delete the folders of batches."""
        await self._ask("forget", {"tokens": list(tokens)})

    async def unwatch(self, tokens: Sequence[str]) -> None:
        """Have no more of them told."""
        await self._ask("unwatch", {"tokens": list(tokens)})

    async def listen(self, token: str, task: int, run: int, stream: str, *, create: bool) -> Streams:
        """The stream to the agent of a run, from its beginning."""
        asked = {"token": token, "task": task, "run": run, "stream": stream, "create": create, "offset": 0}
        line = self._lines.get(int((await self._ask("listen", asked))["stream"]))
        if line is None:
            raise LinkLost("the stream to the agent was closed at once")
        return line.reader, line.writer

    async def facts(self, token: str, task: int, run: int) -> Facts:
        """What the agent of a run that is over had still to tell."""
        return await self._ask("facts", {"token": token, "task": task, "run": run})

    async def read_log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        """A piece of an attempt's output. Raises `NotFound`."""
        asked = {"attempt": attempt, "stream": stream, "offset": offset, "limit": limit}
        try:
            told = await self._ask("read", asked)
        except FilesError as error:
            raise NotFound(f"no output of {attempt} ({stream}): {error}") from error
        data = base64.b64decode(told["data"])
        return LogChunk(
            attempt=attempt,
            stream=stream,
            offset=told["offset"],
            data=data,
            size=told["size"],
            ended=bool(told.get("ended")),
        )

    async def read_output(self, attempt: str, out: int, err: int, limit: int, *, ended: bool) -> Output:
        """A piece of both streams of an attempt; `ended`: nothing more will be written. Raises `NotFound`."""
        asked = {"attempt": attempt, "stream": "both", "offset": [out, err], "limit": limit, "ended": ended}
        try:
            told = await self._ask("read", asked)
        except FilesError as error:
            raise NotFound(f"no output of {attempt}: {error}") from error
        return output_of("the login node", attempt, limit, told, ended=ended)

    async def discard(self, attempts: Sequence[str]) -> None:
        """Delete the folders of attempts."""
        await self._ask("discard", {"attempts": list(attempts)})

    async def tidy(self, older_s: float, keep: Sequence[str]) -> None:
        """Delete the folders of batches that are so old, but for these."""
        await self._ask("tidy", {"older_s": older_s, "keep": list(keep)})

    async def probe(self, path: str, text: str | None = None) -> str | None:
        """Write a small file below the folder of the cluster, or read one; `None`: there is none."""
        asked = {"path": path} if text is None else {"path": path, "text": text}
        told = (await self._ask("probe", asked)).get("text")
        return None if told is None else str(told)

    def close(self, why: str = "it was closed") -> None:
        """Have the process end."""
        self._lose(why)

    async def ended(self) -> None:
        """Wait until it has, for a moment."""
        await asyncio.wait({self._reading}, timeout=FAREWELL_S)
        self._reading.cancel()
        if self._gone is not None:
            with suppress(LinkLost):  # one that hangs hinders nobody until it is wanted again
                await self._gone()

    async def _ask(self, op: str, asked: Mapping[str, Any], within_s: float | None = None) -> Facts:
        within_s = ANSWER_S if within_s is None else within_s
        if self._lost is not None:
            raise LinkLost(self._lost)
        number = next(self._numbers)
        answer: asyncio.Future[Facts] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self._write(encoded({"id": number, "op": op, **asked}))
            async with asyncio.timeout(within_s):
                told = await answer
        except TimeoutError as error:
            self.close(f"the desk did not answer {op!r} within {within_s:g} s; its file system may hang")
            raise LinkLost(self._lost or "") from error
        finally:
            del self._asked[number]
        if "error" in told:
            raise FilesError(str(told["error"]))
        return told

    def _write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
        except (OSError, RuntimeError) as error:
            self._lose(f"the connection to the desk broke: {error}")
            raise LinkLost(self._lost or "") from error

    def _say(self, number: int, data: bytes) -> None:
        if self._lost is None and number in self._lines:
            self._write(encoded({"op": "say", "stream": number, "size": len(data)}) + data)

    def _hang_up(self, number: int) -> None:
        if self._lines.pop(number, None) is not None and self._lost is None:
            with suppress(LinkLost):
                self._write(encoded({"op": "hang_up", "stream": number}))

    async def _read(self) -> None:
        why = "the desk ended"
        try:
            while line := await self._reader.readline():
                await self._take(json.loads(line))
        except _NONSENSE as error:
            why = f"what the desk says broke off, or cannot be understood: {type(error).__name__}: {error}"
        except HostlerError as error:
            why = f"what the desk says could not be taken: {error}"
        self._lose(why)

    async def _take(self, message: Facts) -> None:
        if self._lost is not None:
            return  # it ends, and what it says meanwhile is another's to hear
        kind = message.get("type")
        if kind == "data":
            data = await self._reader.readexactly(message["size"])
            self._pass_on(message["stream"], data)
        elif kind == "news":
            names = ("token", "task", "run", "what", "told")
            self._on_news(News(**{name: message[name] for name in names}))
        elif kind == "closed":
            line = self._lines.pop(message["stream"], None)
            if line is not None:
                line.end()
        elif (asked := self._asked.get(message["id"])) is not None and not asked.done():
            if "stream" in message:  # what comes on it may follow at once
                self._lines[message["stream"]] = _Line(message["stream"], self._say, self._hang_up)
            asked.set_result(message)
        elif "stream" in message:  # whoever wanted it has gone
            self._write(encoded({"op": "hang_up", "stream": message["stream"]}))

    def _pass_on(self, number: int, data: bytes) -> None:
        if (line := self._lines.get(number)) is not None:
            line.reader.feed_data(data)

    def _lose(self, why: str) -> None:
        if self._lost is not None:
            return
        self._lost = why
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(LinkLost(why))
        for line in self._lines.values():
            line.end()
        self._lines.clear()
        self._writer.close()
        self._on_lost(why)


async def opened(open_streams: Open, where: str, on_news: OnNews, on_lost: OnLost, gone: Gone | None = None) -> Desk:
    """A desk that has said what it is. Raises `LinkLost`."""
    try:
        async with asyncio.timeout(HELLO_S):
            reader, writer = await open_streams()
            hello = await _greeted(reader, writer)
    except TimeoutError as error:
        raise LinkLost(f"the desk on {where} said nothing within {HELLO_S:g} s") from error
    except (OSError, ValueError, RecursionError) as error:
        raise LinkLost(f"the desk on {where} could not be started: {error}") from error
    if not _is_hello(hello):
        writer.close()
        raise LinkLost(f"the desk on {where} ended before it said what it is, or speaks another protocol: {hello}")
    return Desk(reader, writer, hello, on_news, on_lost, gone)


async def _greeted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
    """Its first words; a process that does not find any is let go."""
    try:
        return json.loads(await reader.readline() or b"null")
    except BaseException:
        writer.close()
        raise


def _is_hello(told: Any) -> bool:
    return isinstance(told, dict) and told.get("protocol") == PROTOCOL and isinstance(told.get("root"), str)


class _Line(asyncio.Transport):
    """One stream to an agent, as a pair of asyncio's streams."""

    def __init__(self, number: int, say: Callable[[int, bytes], None], hang_up: Callable[[int], None]) -> None:
        super().__init__()
        self._number = number
        self._say = say
        self._hang_up = hang_up
        self._over = False
        self.reader = asyncio.StreamReader(limit=LINE_MAX)
        self._protocol = asyncio.StreamReaderProtocol(self.reader)
        self._protocol.connection_made(self)
        self.writer = asyncio.StreamWriter(
            cast(asyncio.WriteTransport, self), self._protocol, self.reader, asyncio.get_running_loop()
        )

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Say it. Raises `LinkLost` where the desk is gone."""
        if not self._over:
            self._say(self._number, bytes(data))

    def is_closing(self) -> bool:
        """Whether nothing is said any more."""
        return self._over

    def close(self) -> None:
        """Hang up."""
        if not self._over:
            self._hang_up(self._number)
            self.end()

    def end(self) -> None:
        """Nothing more comes."""
        if not self._over:
            self._over = True
            self._protocol.connection_lost(None)
