"""A server that speaks OpenAI's protocol, or something else, as it is told."""

from __future__ import annotations

import atexit
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.servers import QuietServer

Answered = Callable[["Handler"], None]


def completion(content: str) -> bytes:
    """A chat completion that says this."""
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode()


class Handler(BaseHTTPRequestHandler):
    """One request; `server.answer` says what becomes of it."""

    protocol_version = "HTTP/1.1"
    server: Stub

    def do_POST(self) -> None:
        """Whatever is posted."""
        self.asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append({"path": self.path, "headers": dict(self.headers), "body": self.asked})
        with contextlib.suppress(OSError):  # whoever asked has gone
            self.server.answer(self)

    def reply(self, body: bytes, status: int = 200, **headers: str) -> None:
        """A whole answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Not into the tests."""


class Stub(QuietServer):
    """It; what it was asked lies in `asked`, what it answers with is `answer`."""

    def __init__(self, *, is_dead: bool = False) -> None:
        """`is_dead`: it has its port, and whoever connects is refused until `listen`."""
        super().__init__(("127.0.0.1", 0), Handler, bind_and_activate=not is_dead)
        self.is_listening = not is_dead
        if is_dead:
            self.server_bind()
        self.asked: list[dict[str, Any]] = []
        self.answer: Answered = says({"action": "right", "promise": 0.5})
        self.ended = threading.Event()
        """Whoever hangs, hangs no longer."""

    @property
    def url(self) -> str:
        """Its base."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def listen(self) -> None:
        """From now on it is there."""
        self.server_activate()
        self.is_listening = True
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


def says(content: Any) -> Answered:
    """The model says this."""
    text = content if isinstance(content, str) else json.dumps(content)
    return lambda handler: handler.reply(completion(text))


def status(number: int, **headers: str) -> Answered:
    """An answer that is an error."""
    return lambda handler: handler.reply(b'{"error": "as it was told"}', number, **headers)


def hangs(handler: Handler) -> None:
    """It takes the question, and that is it."""
    handler.server.ended.wait(60)


def drips(handler: Handler) -> None:
    """A byte now and then, of an answer that never ends."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not handler.server.ended.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def drips_headers(handler: Handler) -> None:
    """A byte now and then, of headers that never end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not handler.server.ended.wait(0.05):
        handler.wfile.write(b"x")
        handler.wfile.flush()


def breaks_off(handler: Handler) -> None:
    """Half of an answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"{")
    handler.close_connection = True


@contextlib.contextmanager
def serving() -> Iterator[Stub]:
    """It, for a while."""
    server = Stub()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def reserved() -> Iterator[Stub]:
    """One that is dead until somebody calls `listen`."""
    server = Stub(is_dead=True)
    try:
        yield server
    finally:
        server.ended.set()
        if server.is_listening:
            server.shutdown()
        server.server_close()


@cache
def closed_port() -> int:
    """A port that refuses connections. This process keeps it bound: no other one is given it meanwhile."""
    bound = socket.socket()
    atexit.register(bound.close)
    bound.bind(("127.0.0.1", 0))
    return int(bound.getsockname()[1])
