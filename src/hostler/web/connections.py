"""Connections of the HTTP server: limits for those that have not sent a valid token yet.

A connection counts as authenticated from the first request with a valid token, a session or a proxy's word on. Others
are limited by address; where one connects that is too many, the oldest of the address is closed. A person whose address
is shared with others can so always connect, and keeps the connection once the token is sent.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import defaultdict
from http import HTTPStatus

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from hostler.model.record import record
from hostler.web import problems

MOST = 1000
"""Connections of the server at most, authenticated ones among them."""
ANSWERING = (h11.SEND_RESPONSE, h11.SEND_BODY)
TOO_LARGE = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
FIELD_BYTES = 4
"""Of each line of a head beside name and value: colon, space and line end."""


@record
class Admission:
    """Limits of connections that are not authenticated; `limits:` of the fleet file sets them."""

    unauthenticated: int = 64
    """Of one address at most."""
    head_s: float = 10.0
    """How long the head of a request may take, from the connection or from its first byte on."""
    head_bytes: int = 16 << 10
    """Size of the head of a request at most."""


USUAL = Admission()


def most() -> int:
    """Connections at most: files that the scheduler needs must be left, however many come."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if files == resource.RLIM_INFINITY else min(MOST, files // 2)


class Crowd:
    """The connections of one server that are not authenticated, by address, oldest first."""

    def __init__(self, limits: Admission = USUAL) -> None:
        self.limits = limits
        self._by_address: defaultdict[str, dict[Bounded, None]] = defaultdict(dict)

    def join(self, connection: Bounded, address: str, total: int) -> None:
        """Count a new connection, one of `total`; close another one, or this one, where there are too many."""
        own = self._by_address[address]
        own[connection] = None
        if len(own) > self.limits.unauthenticated:
            self._close_one(address)
        elif total > most():
            self._close_one(max(self._by_address, key=lambda each: len(self._by_address[each])))

    def leave(self, connection: Bounded, address: str) -> None:
        """Count a connection no longer: it is authenticated, or closed."""
        own = self._by_address.get(address, {})
        own.pop(connection, None)
        if not own:
            self._by_address.pop(address, None)

    def _close_one(self, address: str) -> None:
        """Close the oldest connection of an address; one that is being answered only where all are."""
        own = self._by_address[address]
        victim = next((each for each in own if not each.is_answering), next(iter(own)))
        self.leave(victim, address)  # its loss is reported later, and the next one must not meet it again
        victim.transport.abort()


class _Heads(h11.Connection):
    """HTTP/1.1 of one connection, with a limit of the heads of requests, also of those that come in one piece."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(h11.SERVER, most_bytes)
        self._most_bytes = most_bytes
        self.status: int = HTTPStatus.BAD_REQUEST
        """Of the answer to what was refused."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """The next event. Raises `h11.RemoteProtocolError`."""
        try:
            event = super().next_event()
            if isinstance(event, h11.Request) and _size(event) > self._most_bytes:
                raise h11.RemoteProtocolError("head too large", error_status_hint=TOO_LARGE)
        except h11.RemoteProtocolError as error:
            self.status = error.error_status_hint
            raise
        return event


class Bounded(H11Protocol):
    """One connection. What is not HTTP is answered and not logged: anybody may send it, as often as they like."""

    def __init__(self, config: Config, *arguments: object, crowd: Crowd | None = None, **options: object) -> None:
        super().__init__(config, *arguments, **options)  # type: ignore[arg-type]
        self._crowd = crowd or Crowd()
        self._deadline: asyncio.TimerHandle | None = None
        self._address = ""
        # The application says by it that a request had a valid token.
        self.app_state = {**self.app_state, "connection": self}
        self.conn: h11.Connection = _Heads(self._crowd.limits.head_bytes)
        self.logger = logging.getLogger("hostler.http")
        self.logger.setLevel(logging.ERROR)

    @property
    def is_answering(self) -> bool:
        """Whether a request is being answered."""
        return self.conn.our_state in ANSWERING

    def authenticated(self) -> None:
        """A request of this connection had a valid token."""
        self._crowd.leave(self, self._address)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has connected."""
        super().connection_made(transport)
        self._address = str(self.client[0]) if self.client else ""
        self._crowd.join(self, self._address, len(self.connections))
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Some of a request, or of a body that nobody wants any more."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        super().connection_lost(exc)
        self._crowd.leave(self, self._address)
        self._unwatch()

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read as a request, and close."""
        assert isinstance(self.conn, _Heads)
        status = self.conn.status
        if status == TOO_LARGE:
            limit = self._crowd.limits.head_bytes
            msg = f"the head of a request has at most {limit} bytes (limits.head_bytes); nothing was done"
        body = bytes(problems.from_status(status, msg).body)
        length = str(len(body)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length), (b"connection", b"close")]
        response = h11.Response(status_code=status, headers=headers)
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self) -> None:
        if self.is_answering:
            self._unwatch()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self._crowd.limits.head_s, self._hang_up)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _hang_up(self) -> None:
        self._deadline = None
        if not self.is_answering:
            self.transport.abort()


def _size(request: h11.Request) -> int:
    """Bytes of a head, without spaces that mean nothing."""
    fields = sum(len(name) + len(value) + FIELD_BYTES for name, value in request.headers)
    return len(request.method) + len(request.target) + fields
