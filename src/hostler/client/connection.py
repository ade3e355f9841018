"""One exchange over HTTP/1.1: a connection, a request, and its response as it comes.

The parser is httptools. The standard library's `http.client` would do as well, and its import costs more CPU time than
all other parts of a short command together (docs/decisions/0035-command-line.md). TLS is imported where it is used.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpResponseParser

from hostler.client import trust, wire
from hostler.client.bounds import BODY_BYTES_MAX, LINE_BYTES_MAX, Bounds
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.client.address import Address
    from hostler.client.calls import Ask

PIECE_BYTES = 1 << 16
HEAD_BYTES_MAX = 1 << 18
"""Of the status line and the headers of a response together."""


class Incomplete(OSError):
    """The connection ended before the response did."""


class Response:
    """A response whose status and headers are here, and whose body comes as it is read."""

    def __init__(self, connection: socket.socket, url: str = "the controller") -> None:
        """Read the status and the headers. Raises `OSError` and `HttpParserError`."""
        self.url = url
        """Of the controller, for messages."""
        self.status = 0
        self.headers: dict[str, str] = {}
        """By their names in lower case."""
        self._connection = connection
        self._body = bytearray()
        self._has_head = self._is_complete = self._is_over = False
        self._parser = HttpResponseParser(self)
        received, ends_at = 0, time.monotonic() + (connection.gettimeout() or math.inf)
        while not self._has_head:
            if time.monotonic() > ends_at:
                raise TimeoutError("the headers did not come in time")
            received += self._receive()
            if self._is_over and not self._has_head:
                raise Incomplete("the connection ended before the headers did")
            if received > HEAD_BYTES_MAX:
                raise OSError(f"the headers of the response are larger than {HEAD_BYTES_MAX} bytes")

    def read(self, most: int | None = None) -> bytes:
        """The whole rest of the body, or at most so many bytes of it; none where it has ended.

        Raises `Incomplete` where the whole rest is asked for and does not come, and `AnswerError` beyond its bounds.
        """
        bounds = Bounds(self.url, self._connection.gettimeout(), BODY_BYTES_MAX if most is None else math.inf)
        bounds.count(len(self._body))
        while not self._is_over and (most is None or len(self._body) < most):
            bounds.count(self._receive())
        if most is None:
            self._expect_complete()
        return self._taken(len(self._body) if most is None else min(most, len(self._body)))

    def readline(self) -> bytes:
        """The next line of the body with its end. Raises `Incomplete` where the body has ended, and `AnswerError`."""
        searched = 0
        bounds: Bounds | None = None
        while (end := self._body.find(b"\n", searched)) < 0:
            if self._is_over:
                raise Incomplete("the connection ended within a line")
            came, searched = len(self._body) - searched, len(self._body)
            if searched:  # a line may be long in coming; once it comes, it has an end
                bounds = bounds or Bounds(self.url, self._connection.gettimeout(), LINE_BYTES_MAX)
                bounds.count(came)
            self._receive()
        return self._taken(end + 1)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header (called by the parser)."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The end of the headers (called by the parser). Those of an interim response are followed by the real ones."""
        self.status = self._parser.get_status_code()
        self._has_head = self.status >= 200
        if not self._has_head:
            self.headers.clear()

    def on_body(self, piece: bytes) -> None:
        """A piece of the body (called by the parser)."""
        self._body += piece

    def on_message_complete(self) -> None:
        """The end of the body (called by the parser)."""
        self._is_complete = self._is_over = self._has_head

    def _receive(self) -> int:
        data = self._connection.recv(PIECE_BYTES)
        if not data:
            self._is_over = True
            return 0
        try:
            self._parser.feed_data(data)
        except HttpParserError:
            if not self._is_complete:  # what follows a whole response belongs to none
                raise
        return len(data)

    def _expect_complete(self) -> None:
        has_length = "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "")
        if has_length and not self._is_complete:
            raise Incomplete("the connection ended before the response did")

    def _taken(self, size: int) -> bytes:
        taken = bytes(self._body[:size])
        del self._body[:size]
        return taken


def connected(address: Address, timeout_s: float) -> socket.socket:
    """A connection to a controller, which is known by its certificate where its address is one of TLS.

    Raises `ControllerAbsent`, `LinkLost` and `LinkRefused`.
    """
    parts = urlsplit(address.url)
    has_tls = parts.scheme == "https"
    host = parts.hostname or ""
    try:
        made = socket.create_connection((host, parts.port or (443 if has_tls else 80)), timeout=timeout_s)
    except (ConnectionRefusedError, socket.gaierror) as error:
        raise wire.absent(address.url) from error
    except OSError as error:
        raise wire.lost(address.url, error) from error
    # A request is written at once, and must not wait for the acknowledgement of another packet.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not has_tls:
        return made
    try:
        return trust.secured(made, host, address)
    except BaseException:
        made.close()
        raise


def exchange(connection: socket.socket, address: Address, ask: Ask) -> Response:
    """Send a request; returns its response.

    Raises `LinkLost`, and `UsageError` for a header that cannot be sent.
    """
    request = _request(urlsplit(address.url).netloc, ask)
    try:
        # A body that is too large is not read to its end; why, stands in the response.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
        return Response(connection, address.url)
    except (OSError, HttpParserError) as error:
        raise wire.lost(address.url, error) from error


def _request(host: str, ask: Ask) -> bytes:
    headers: dict[str, str] = {"Host": host, "Accept-Encoding": "identity", "Connection": "close", **ask.headers}
    if ask.body is not None or ask.method != "GET":
        headers["Content-Length"] = str(len(ask.body or b""))
    lines = [f"{ask.method} {ask.target} HTTP/1.1", *_header_lines(headers), "", ""]
    return "\r\n".join(lines).encode("latin-1") + (ask.body or b"")


def _header_lines(headers: Mapping[str, str]) -> Iterable[str]:
    for name, value in headers.items():
        if not (value.isprintable() and value.isascii()):
            raise UsageError(f"{name} {value!r} has characters that no header can have; use printable ASCII")
        yield f"{name}: {value}"
