"""Real servers that take what is told, or do not: HTTP with scripted answers, and SMTP."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field

from tests.patience import PATIENCE_S
from tests.servers import QuietServer


@dataclass
class Post:
    """A POST that has come."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class HttpSink:
    """Answers as `answers` say, one after the other, and with 200 from then on.

    An answer is a status, `(429, seconds)` with a `Retry-After`, `"hang"` for none at all, or `"endless"` for a body
    that never ends.
    """

    port: int = 0
    answers: list[object] = field(default_factory=list)
    posts: list[Post] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/verysecret"


@contextlib.contextmanager
def http_sink(*answers: object) -> Iterator[HttpSink]:
    """Listen until the block ends."""
    sink = HttpSink(answers=list(answers))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sink.posts.append(Post(self.path, dict(self.headers), body))
            answer = sink.answers.pop(0) if sink.answers else 200
            if answer == "hang":
                sink.released.wait(PATIENCE_S)
                return
            status, after = answer if isinstance(answer, tuple) else (answer, None)
            self.send_response(200 if status == "endless" else int(str(status)))
            if after is not None:
                self.send_header("Retry-After", str(after))
            if status == 302:
                self.send_header("Location", f"http://127.0.0.1:{sink.port}/elsewhere")
            self.end_headers()
            while status == "endless" and not sink.released.is_set():
                with contextlib.suppress(OSError):
                    self.wfile.write(b"x" * 1000)
                time.sleep(0.01)

        def log_message(self, *arguments: object) -> None:
            """Nothing is printed."""

    server = QuietServer(("127.0.0.1", 0), Handler)
    sink.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield sink
    finally:
        sink.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class SmtpSink:
    """What has come by mail."""

    port: int = 0
    mails: list[bytes] = field(default_factory=list)
    refuses: bool = False


@contextlib.asynccontextmanager
async def smtp_sink() -> AsyncIterator[SmtpSink]:
    """A mail server that takes everything, or refuses every recipient."""
    sink = SmtpSink()
    talks: set[asyncio.Task[object]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (own := asyncio.current_task()) is not None:
            talks.add(own)
        writer.write(b"220 sink\r\n")
        while line := await reader.readline():
            word = line[:4].upper()
            if word == b"DATA":
                writer.write(b"354 go on\r\n")
                sink.mails.append(await reader.readuntil(b"\r\n.\r\n"))
                writer.write(b"250 taken\r\n")
            elif word == b"RCPT" and sink.refuses:
                writer.write(b"550 nobody here\r\n")
            else:
                writer.write(b"221 bye\r\n" if word == b"QUIT" else b"250 sink\r\n")
            if word == b"QUIT":
                break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    sink.port = server.sockets[0].getsockname()[1]
    try:
        yield sink
    finally:
        server.close()
        # A connection that is still open when the loop ends would be reported as a leak of some later test.
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*talks)
