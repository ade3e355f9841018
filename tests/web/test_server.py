"""Starting and ending a server inside a running loop."""

from __future__ import annotations

import asyncio
import signal
import socket

import pytest

from hostler.model.errors import Conflict, UsageError
from hostler.web.app import make_app
from hostler.web.server import UNREAD_BYTES, UNREAD_MS, _listener, serve
from tests.patience import PATIENCE_S
from tests.ports import quiet_port
from tests.web.core_desk import TOKEN, CoreDesk, door, window


def test_a_taken_port_is_named_with_what_to_do() -> None:
    with window() as served, pytest.raises(Conflict, match=f"port {served.port} .*--port"):
        asyncio.run(serve(make_app(CoreDesk(), door()), "127.0.0.1", served.port))


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(UsageError, match=r"203\.0\.113\.1:0"):
        asyncio.run(serve(make_app(CoreDesk(), door()), "203.0.113.1", 0))


def test_the_port_is_free_again_at_once() -> None:
    port = quiet_port()
    with window(port=port) as served:
        assert served.get("/healthz").status == 200
    with window(port=port) as served:
        assert served.port == port
        assert served.get("/healthz").status == 200


def test_it_listens_nowhere_but_where_it_was_told() -> None:
    with (
        window() as served,
        pytest.raises(ConnectionRefusedError),
        socket.create_connection(("127.0.0.2", served.port), timeout=PATIENCE_S),
    ):
        pass


def test_signals_stay_the_controllers_own() -> None:
    async def started() -> None:
        before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
        served = await serve(make_app(CoreDesk(), door()), "127.0.0.1", 0)
        try:
            assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
        finally:
            await served.close()

    asyncio.run(started())


def test_a_request_that_never_ends_is_broken_off() -> None:
    with socket.socket() as stuck:
        with window() as served:
            stuck.connect(("127.0.0.1", served.port))
            head = f"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            stuck.sendall(f"{head}Content-Length: 9\r\n\r\n[".encode())
            assert served.get("/healthz").status == 200
        stuck.settimeout(PATIENCE_S)
        said = b"".join(iter(lambda: stuck.recv(4096), b""))
    assert b" 201 " not in said
    assert served.desk.driver.state.jobs == {}


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system does not know TCP_USER_TIMEOUT")
def test_the_system_keeps_little_for_clients_that_take_nothing_and_lets_go_of_them() -> None:
    """What an accepted connection has of it comes from the listener."""
    listener = _listener("127.0.0.1", 0)
    with listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == UNREAD_MS
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 2 * UNREAD_BYTES
