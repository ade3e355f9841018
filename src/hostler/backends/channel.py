"""One stream of JSON lines to an agent: many requests in flight, answers by number, facts as they come."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from hostler.backends.base import Facts
from hostler.backends.bounds import (
    FILES_LINE,
    USUAL,
    Bounds,
    LimitBroken,
    NodeFault,
    Pace,
    expect_bearable,
    expect_carrier,
)
from hostler.model.errors import LinkLost, LinkRefused

PROTOCOL = 1
SAID = 2000
"""Letters of an error that a node reports: it goes into the journal."""
LINE_MAX = FILES_LINE
"""Bytes of the longest line of any connection, those for files included. What an agent reports has a lower limit."""
DESK_LINE_MAX = 64 << 20
"""The same of the desk of a cluster: what a command there prints is one line."""
EARLY_MOST = 100
"""Messages that an agent may send before it answers the first question."""
ANSWER_S = 30.0
SILENCE_S = 45.0
"""An agent sends telemetry every 10 s; one that is silent for so long hangs, or its stream does."""


class Channel:
    """A stream to an agent after the opening words. Made by `opened`; every method raises `LinkLost` when it breaks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hello: Facts) -> None:
        self.hello = hello
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Facts]] = {}
        self._bounds = USUAL

    def limit(self, bounds: Bounds) -> None:
        """Hold the agent to other limits than the usual ones."""
        self._bounds = bounds

    async def send(self, message: Facts) -> None:
        """Send a request that is not answered."""
        if self._writer.is_closing():  # what a closed TLS stream would raise is no error of its own
            raise LinkLost("the stream to the agent is closed")
        try:
            self._writer.write(encoded(message))
            async with asyncio.timeout(SILENCE_S):
                await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise LinkLost(f"the stream to the agent broke: {error}") from error

    def say(self, message: Facts) -> None:
        """Send a request that is not answered, and do not wait for room on the way: for few, and short ones."""
        if self._writer.is_closing():
            raise LinkLost("the stream to the agent is closed")
        self._writer.write(encoded(message))

    def number(self) -> int:
        """A number for a request that is answered by messages, which carry it."""
        return next(self._numbers)

    async def ask(self, message: dict[str, Any]) -> Facts:
        """Send a request and wait for the answer with its number. Somebody must be reading `messages` meanwhile."""
        number = next(self._numbers)
        answer: asyncio.Future[Facts] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            await self.send({**message, "id": number})
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError as error:
            # A stream that does not answer is as good as broken; whoever reads it shall connect anew.
            self._writer.close()
            raise LinkLost(f"the agent did not answer {message['type']!r} within {ANSWER_S:g} s") from error
        finally:
            del self._asked[number]

    async def ask_first(self, message: dict[str, Any]) -> tuple[Facts, list[Facts]]:
        """Ask while nobody reads `messages` yet; returns the answer, and what came before it."""
        early: list[Facts] = []
        await self.send({**message, "id": 0})
        while (answer := decoded(await _read(self._reader, self._bounds))).get("id") != 0:
            early.append(answer)
            if len(early) > EARLY_MOST:
                raise LimitBroken(f"the agent sent {len(early)} messages before it answered")
        return answer, early

    async def messages(self) -> AsyncIterator[Facts]:
        """Everything the agent sends that answers no question, no faster than it may. Ends by `LinkLost`."""
        clock = asyncio.get_running_loop()
        pace = Pace(self._bounds, clock.time())
        try:
            while True:
                line = await _read(self._reader, self._bounds)
                message = decoded(line)
                number = message.get("id")
                asked = self._asked.get(number) if type(number) is int else None
                if asked is not None and not asked.done():
                    asked.set_result(message)
                    continue
                facts = message.get("facts")
                count = len(facts) if isinstance(facts, list) else None
                expect_carrier(message.get("type"), count or 1, len(line), self._bounds)
                # Lines that have come already are read without a pause otherwise, and nothing else is done meanwhile.
                await asyncio.sleep(pace.wait_s(count, len(line), clock.time()))
                yield message
        finally:
            self._fail_questions()

    def close(self) -> None:
        """Hang up."""
        self._fail_questions()
        self._writer.close()

    def _fail_questions(self) -> None:
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(LinkLost("the stream to the agent broke before it answered"))


async def opened(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, controller: str, epoch: int) -> Channel:
    """Say the opening words of protocol 1 and read the agent's.

    Raises `LinkRefused` if the agent obeys a newer controller or speaks another protocol.
    """
    writer.write(encoded(greeting(controller, epoch)))
    return await greeted(reader, writer, epoch)


def greeting(controller: str, epoch: int) -> Facts:
    """The opening words."""
    # `ack` is 0: which facts are durable is said by `ack` requests alone, to the very agent that told them.
    told = {"type": "hello", "protocol": PROTOCOL, "controller": controller, "epoch": epoch, "ack": 0}
    return {**told, "byes": True}


async def greeted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, epoch: int) -> Channel:
    """The same where the opening words have been said already."""
    try:
        answer = decoded(await _read(reader, USUAL))
        if answer.get("type") != "hello" or answer.get("protocol") != PROTOCOL:
            why = words(answer.get("reason") or answer)
            raise LinkRefused(f"the agent refused this controller (epoch {epoch}): {why}")
    except BaseException:
        writer.close()
        raise
    return Channel(reader, writer, answer)


def encoded(message: Facts) -> bytes:
    """One line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


async def _read(reader: asyncio.StreamReader, bounds: Bounds) -> bytes:
    try:
        async with asyncio.timeout(SILENCE_S):
            line = await reader.readline()
    except TimeoutError as error:
        raise LinkLost(f"the agent has been silent for {SILENCE_S:g} s; it hangs, or its machine does") from error
    except ValueError as error:  # what a reader raises whose line does not end
        raise LimitBroken(f"the agent sent a line without an end: {error}") from error
    except OSError as error:
        raise LinkLost(f"the stream from the agent broke: {error}") from error
    if not line.endswith(b"\n"):
        raise LinkLost("the agent hung up")
    expect_bearable(line, bounds)
    return line


def decoded(line: bytes) -> Facts:
    """The message in a line. Raises `LinkLost` where it is none, or has numbers that JSON does not know."""
    try:
        message = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise NodeFault(f"the agent sent a line that is no JSON: {line[:80]!r}") from error
    if not isinstance(message, dict):
        raise NodeFault(f"the agent sent no JSON object: {line[:80]!r}")
    return message


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def words(value: object, most: int = SAID) -> str:
    """A text of a node as it can be kept: no longer than that, without NUL, and with halves of surrogate pairs, which
    UTF-8 has no form for, as escapes."""
    return str(value)[:most].encode(errors="backslashreplace").decode().replace("\0", "\ufffd")
