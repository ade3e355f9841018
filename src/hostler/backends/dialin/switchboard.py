"""Where nodes call that nobody can connect to: strangers are kept short, and calls wait until a backend takes them."""

from __future__ import annotations

import asyncio
import errno
import hmac
import json
import secrets
import socket
import ssl
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog

from hostler.backends.channel import LINE_MAX, encoded
from hostler.model.errors import Conflict, LinkLost, LinkRefused, UsageError
from hostler.model.record import record

PROTOCOL = 1
GREET_S = 10.0
"""How long a stranger has for the TLS handshake and its first line."""
FIRST_LINE_MAX = 4096
"""Bytes of any line that is said before a connection is taken."""
WORDS_MOST, WORDS_S = 20, 2.0
"""A connection that waits and says more in that time is hung up on: it says that it is there every few seconds."""
STRANGERS_MAX = 64
"""Of more, the oldest of the address that has most of them is closed, so that one address keeps no other out."""
WAITING_MAX = 8
"""Connections of one node that wait; of more, the oldest is hung up on."""
REFUSAL_REST_S = 1.0
SILENCE_S = 45.0
"""A connection that waits asks for a sign of life every 15 s; one that does not is dead."""
RING_S = 10.0
"""How long a connection may take to answer that it is taken."""
TOLD_MAX = 100
"""Addresses with wrong tokens that are told of; each one is an event for ever."""
KEEPALIVE = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 60_000))


@record
class Call:
    """A connection to the agent of a node, which expects its opening words."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    folder: str
    """Where that agent is, as an absolute path on the node."""
    dialler: str
    """The process on the node that made it."""
    token: str
    """What it was let in by."""


class Stranger(Exception):
    """Somebody who is not let in, and what to answer; nothing where it would not be understood."""


@dataclass(eq=False, slots=True)
class Waiting:
    """A connection of a node that is known to be its own."""

    node: str
    token: str
    folder: str
    dialler: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    answer: asyncio.Future[dict[str, Any]] = field(default_factory=asyncio.Future)
    """What it says to being taken; an exception once it is lost."""
    is_rung: bool = False

    def say(self, **words: Any) -> None:
        """One line; where it cannot be sent, its reader will know."""
        if not self.writer.is_closing():
            self.writer.write(encoded(words))


class Switchboard:
    """Takes calls for one journal. `token_of` knows the token of each node that may call, and None of any other.

    `open` before the first call can come, `close` at the end.
    """

    def __init__(
        self,
        journal: str,
        token_of: Callable[[str], str | None],
        longest: int = LINE_MAX,
        unauthenticated: int | None = None,
        greet_s: float | None = None,
    ) -> None:
        """`unauthenticated` connections of one address may be there, and each has `greet_s` for its first line."""
        self._journal = journal
        self._token_of = token_of
        self._longest = longest
        self._unauthenticated = unauthenticated
        self._greet_s = greet_s
        self._tell: Callable[[str, str], None] = lambda _where, _what: None
        self._context: ssl.SSLContext | None = None
        self._listening: asyncio.Task[None] | None = None
        self._strangers: dict[asyncio.Task[None], str] = {}
        """Who has not said yet who it is, oldest first, with its address."""
        self._unmet: dict[asyncio.Task[None], socket.socket] = {}
        """Connections whose task has not begun: one that is cancelled before that cannot close its own."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: defaultdict[str, list[Waiting]] = defaultdict(list)
        self._arrived = asyncio.Event()
        self._told: set[str] = set()
        self._admitted: dict[str, str] = {}
        """Tokens of nodes that are let in for as long as something of theirs runs."""
        self._log = structlog.get_logger()

    def open(self, host: str, port: int, context: ssl.SSLContext, tell: Callable[[str, str], None]) -> int:
        """Listen; returns the port. `tell(where, what)` puts a trouble on record. Raises `Conflict`, `UsageError`."""
        self._context, self._tell = context, tell
        listener = _listener(host, port)
        self._listening = asyncio.create_task(self._listen(listener), name="dial-in")
        self._listening.add_done_callback(lambda _: listener.close())  # also where it is cancelled before it has begun
        return int(listener.getsockname()[1])

    async def close(self) -> None:
        """Take no more calls, and hang up on those that wait. Connections that were taken are not its own."""
        tasks = {*self._tasks, *([] if self._listening is None else [self._listening])}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def take(self, node: str, within_s: float, dialler: str | None = None) -> Call:
        """A connection of a node, its agent at the other end; only of that `dialler`, if one is named.

        Raises `LinkLost` where none is there in time, and `LinkRefused` where the node has no agent to offer.
        """
        try:
            async with asyncio.timeout(within_s):
                while True:
                    arrived = self._arrived
                    line = self._pick(node, dialler)
                    if line is None:
                        await arrived.wait()
                    elif (call := await self._ring(line)) is not None:
                        return call
        except TimeoutError as error:
            raise LinkLost(
                f"{node} has not called within {within_s:g} s. It calls once somebody has run there what "
                f"`hostler node invite FLEET {node}` shows; then its dial.log says what keeps it from it"
            ) from error

    @property
    def journal(self) -> str:
        """What tells the work of this controller from that of others."""
        return self._journal

    def admit(self, node: str, token: str | None) -> None:
        """Let a node in by this token, and by no other one; `None`: not any more."""
        if token is None:
            self._admitted.pop(node, None)
        else:
            self._admitted[node] = token

    def is_own(self, node: str, token: str) -> bool:
        """Whether that is the token of that node now; for one that is unknown it takes as long to say no."""
        known = self._admitted.get(node) or self._token_of(node)
        same = hmac.compare_digest(token.encode(), (known or secrets.token_urlsafe(32)).encode())
        return same and known is not None

    def _pick(self, node: str, dialler: str | None) -> Waiting | None:
        """The newest that waits: it is the least likely to be dead."""
        lines = self._waiting[node]
        for line in reversed(lines):
            if dialler in (None, line.dialler):
                lines.remove(line)
                return line
        return None

    async def _ring(self, line: Waiting) -> Call | None:
        """Have a connection taken; None where it turns out to be dead, or nobody's any more."""
        if not self.is_own(line.node, line.token):
            line.say(type="refused", reason=_no_token(line.node))
            line.writer.close()
            return None
        line.is_rung = True
        line.say(type="take")
        try:
            async with asyncio.timeout(RING_S):
                answer = await asyncio.shield(line.answer)
        except (TimeoutError, LinkLost):
            line.writer.transport.abort()
            return None
        except BaseException:
            line.writer.transport.abort()
            raise
        if answer["type"] == "taken":
            return Call(
                reader=line.reader, writer=line.writer, folder=line.folder, dialler=line.dialler, token=line.token
            )
        line.writer.transport.abort()  # all is said; a close of TLS would wait for its answer
        raise LinkRefused(f"{line.node} has no agent to offer: {answer.get('reason')}")

    async def _listen(self, listener: socket.socket) -> None:
        while True:
            await _readable(listener)
            try:
                peer, address = listener.accept()
            except BlockingIOError:  # the caller is gone already
                continue
            except OSError as error:  # too many open files, or a caller that is gone already
                self._log.warning("a call cannot be taken", why=str(error))
                await asyncio.sleep(REFUSAL_REST_S)
                continue
            self._admit(peer, str(address[0]))

    def _admit(self, peer: socket.socket, host: str) -> None:
        counts = Counter(self._strangers.values())
        is_crowded = counts[host] >= (self._unauthenticated or STRANGERS_MAX)
        if is_crowded or len(self._strangers) >= max(STRANGERS_MAX, self._unauthenticated or 0):
            crowd = host if is_crowded else counts.most_common(1)[0][0]
            oldest = next(task for task, each in self._strangers.items() if each == crowd)
            del self._strangers[oldest]  # it needs some turns to end, and the next one is to end another
            oldest.cancel()
        task = asyncio.create_task(self._answer(peer, host))
        self._unmet[task] = peer
        self._strangers[task] = host
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._strangers.pop(task, None)
        self._tasks.discard(task)
        if (peer := self._unmet.pop(task, None)) is not None:
            peer.close()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("a call failed", why=f"{type(error).__name__}: {error}")

    async def _answer(self, peer: socket.socket, host: str) -> None:
        """One connection, until it is taken or over."""
        del self._unmet[_this_task()]
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(self._greet_s or GREET_S):
                reader, writer = await self._secured(peer)
                words = await _first_line(reader)
            line = self._known(words, reader, writer)
            del self._strangers[_this_task()]
            await self._wait(line)
        except Stranger as error:
            await self._refuse(writer, host, str(error))
        except Exception as error:  # noqa: BLE001 - recorded; whatever a caller sends must not end the others' calls
            self._log.info("a call ended", peer=host, why=f"{type(error).__name__}: {error}"[:200])
            _abort(writer)
        except asyncio.CancelledError:
            _abort(writer)
            raise

    async def _secured(self, peer: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=self._longest)
        protocol = asyncio.StreamReaderProtocol(reader)
        securing = asyncio.ensure_future(loop.connect_accepted_socket(lambda: protocol, peer, ssl=self._context))
        try:
            transport, _ = await asyncio.shield(securing)
        except asyncio.CancelledError:
            # asyncio would go on with a handshake that is cancelled before it has begun, and keep the connection. The
            # socket is its own from here on: to close it would leave asyncio the number of a closed descriptor.
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            securing.add_done_callback(_hang_up)
            await asyncio.wait([securing])
            raise
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def _known(self, words: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Waiting:
        """The caller, if it is who it says. Raises `Stranger`."""
        texts = ("node", "token", "dir", "dialler")
        if not isinstance(words, dict) or words.get("type") != "dial":
            raise Stranger("this is where nodes of Hostler call")
        if words.get("protocol") != PROTOCOL or not all(isinstance(words.get(each), str) for each in texts):
            raise Stranger(
                f"this controller speaks protocol {PROTOCOL} of dialling in, the node another one; bring agent.pyz "
                "there anew (`hostler node agent`)"
            )
        node, token, folder, dialler = (words[each] for each in texts)
        if not self.is_own(node, token):
            raise Stranger(_no_token(node))
        return Waiting(node, token, f"{folder}/{self._journal}", dialler, reader, writer)

    async def _wait(self, line: Waiting) -> None:
        """Until a connection is taken and has answered, or is lost."""
        lines = self._waiting[line.node]
        if len(lines) >= WAITING_MAX:
            lines.pop(0).writer.transport.abort()
        lines.append(line)
        line.say(type="welcome", journal=self._journal)
        self._arrived.set()
        self._arrived = asyncio.Event()
        try:
            await self._hear_out(line)
        except BaseException as error:
            if not line.answer.done():
                line.answer.set_exception(LinkLost(f"a connection of {line.node} was lost: {error}"))
            line.answer.exception()  # where nobody waits for it, it is no news
            raise
        finally:
            if line in lines:
                lines.remove(line)

    async def _hear_out(self, line: Waiting) -> None:
        clock = asyncio.get_running_loop()
        heard: deque[float] = deque(maxlen=WORDS_MOST)
        while True:
            words = await _words(line.reader)
            heard.append(clock.time())
            if len(heard) == WORDS_MOST and heard[-1] - heard[0] < WORDS_S:
                raise ValueError(f"{line.node} said {WORDS_MOST} things within {WORDS_S:g} s while it waited")
            if line.is_rung and words.get("type") in ("taken", "failed"):
                line.answer.set_result(words)
                return
            if words.get("type") != "ping":
                raise ValueError(f"{line.node} said {str(words)[:80]}")
            if not self.is_own(line.node, line.token):
                raise Stranger(_no_token(line.node))
            if not line.is_rung:  # what it asked before it heard that it is taken, it wants no answer to
                line.say(type="pong")

    async def _refuse(self, writer: asyncio.StreamWriter | None, host: str, reason: str) -> None:
        assert writer is not None
        self._log.warning("a call was refused", peer=host, why=reason)
        if host not in self._told and len(self._told) < TOLD_MAX:
            self._told.add(host)
            self._tell("dial-in", f"a call from {host} was refused: {reason}"[:400])
        try:
            # Whoever guesses shall not guess often.
            await asyncio.sleep(REFUSAL_REST_S)
            if not writer.is_closing():
                writer.write(encoded({"type": "refused", "reason": reason}))
            async with asyncio.timeout(GREET_S):
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError):
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()
            raise


async def _readable(listener: socket.socket) -> None:
    """Wait for a connection to accept. `sock_accept` is not used: cancelled, it loses a connection it has accepted."""
    loop = asyncio.get_running_loop()
    called = asyncio.Event()
    loop.add_reader(listener, called.set)
    try:
        await called.wait()
    finally:
        loop.remove_reader(listener)


async def _first_line(reader: asyncio.StreamReader) -> Any:
    """What a stranger says first. Raises `Stranger` where that is too long, no line, or no JSON; `EOFError`."""
    data = b""
    while not data.endswith(b"\n"):
        more = await reader.read(FIRST_LINE_MAX + 1 - len(data))
        if not more:
            raise EOFError("it hung up before it said who it is")
        data += more
        if len(data) > FIRST_LINE_MAX or b"\n" in data[:-1]:
            raise Stranger(f"the first line may have {FIRST_LINE_MAX} bytes, and nothing may follow it")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Stranger("this is where nodes of Hostler call") from error


def _no_token(node: str) -> str:
    return f"that is not the token of {node[:64]!r} here; `hostler node invite FLEET NODE` shows it, on the controller"


async def _words(reader: asyncio.StreamReader) -> dict[str, Any]:
    """What one that is known says next. Raises `EOFError`, `TimeoutError`, `ValueError`."""
    async with asyncio.timeout(SILENCE_S):
        data = await reader.readline()
    if not data.endswith(b"\n"):
        raise EOFError("it hung up")
    if len(data) > FIRST_LINE_MAX:
        raise ValueError(f"a line is longer than {FIRST_LINE_MAX} bytes")
    words = json.loads(data)
    if not isinstance(words, dict):
        raise ValueError(f"it said {data[:80]!r}")
    return words


def _hang_up(securing: asyncio.Task[tuple[asyncio.Transport, asyncio.StreamReaderProtocol]]) -> None:
    """Abort the transport of an abandoned handshake. Where the handshake failed, asyncio has done so."""
    if not securing.cancelled() and securing.exception() is None:
        securing.result()[0].abort()


def _abort(writer: asyncio.StreamWriter | None) -> None:
    """Hang up at once. Where there is no writer yet, that has been done: the handshake failed, or was cancelled."""
    if writer is not None:
        writer.transport.abort()


def _this_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Those that are accepted have it from the listener: the system notices that a node is gone.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise _bind_error(host, port, error) from error
    listener.setblocking(False)
    return listener


def _bind_error(host: str, port: int, error: OSError) -> Conflict | UsageError:
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"port {port} of {host} is taken, perhaps by another controller; name another in `dialin.listen`"
        )
    return UsageError(f"cannot listen for calls on {host}:{port}: {error.strerror}; change `dialin.listen`")
