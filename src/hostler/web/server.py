"""A started HTTP server inside the event loop that is running already."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Iterator
from functools import partial

import uvicorn
from fastapi import FastAPI

from hostler.model.errors import Conflict, UsageError
from hostler.web.connections import USUAL, Admission, Bounded, Crowd

CLOSE_S = 2
"""How long open requests may take to end when the server closes."""
UNREAD_BYTES = 256 << 10
"""How much of what was sent, and not taken yet, the system keeps for one client; Linux makes it twice as much."""
UNREAD_MS = 30_000
"""How long what was sent may stay with the system because the other side takes nothing (Linux alone knows this)."""


class Served:
    """A server that listens. `port` is the one it got; `close` ends it and every open stream."""

    def __init__(self, app: FastAPI, server: uvicorn.Server, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        self._app = app
        self._server = server
        self._task = asyncio.create_task(server.serve([listener]), name="http")

    async def close(self) -> None:
        """Take no more requests, let open ones end, for at most about `CLOSE_S`, and be gone."""
        self._app.state.closing.set()
        self._server.should_exit = True
        await self._task
        if cancelled := set(self._server.server_state.tasks):
            await asyncio.wait(cancelled, timeout=CLOSE_S)


class _Quiet(uvicorn.Server):
    """uvicorn without hands on the process's signals: they are the controller's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    app: FastAPI, host: str, port: int, tls: ssl.SSLContext | None = None, admission: Admission = USUAL
) -> Served:
    """Listen on `host`:`port` (0: any free port) for an `app` of `make_app`, over TLS if there is some.

    `admission` has the limits of connections without a valid token.

    Raises `Conflict` if the port is taken.
    """
    config = uvicorn.Config(
        app,
        # Not `auto`: whatever else is installed would choose. httptools bounds no head, and anybody may send one.
        http="h11",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # Whose word counts for where somebody is, is the door's to say; uvicorn would take anybody's on this machine.
        proxy_headers=False,
        timeout_graceful_shutdown=CLOSE_S,
    )
    config.load()
    config.ssl = tls
    config.http_protocol_class = partial(Bounded, crowd=Crowd(admission))  # type: ignore[assignment]
    config.ws_protocol_class = None
    # Whoever connects before the loop has turned waits in the listener's queue.
    return Served(app, _Quiet(config), _listener(host, port))


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named; with it, kept connections wait 40 ms a time.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # Left alone, the system would keep megabytes for each client that reads slowly.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD_BYTES)
    # A client that stopped reading is forgotten then, with what is on its way to it.
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
    # Connections of a controller that just ended linger; they must not keep the next one from its port.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
            f"port {port} of {host} is taken, perhaps by another controller; "
            "stop that one with `hostler down`, or choose another port with `--port` (0 takes any free one)"
        )
    return UsageError(f"cannot listen on {host}:{port}: {error.strerror}; choose another address or port")
