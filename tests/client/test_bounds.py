"""Bodies and streams without an end: bounded in size and in time, for both clients."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import repeat
from typing import Any

import pytest

from hostler.client import Address, AsyncClient, Client, bounds, connection
from hostler.client.bounds import Bounds, Lines
from hostler.model.errors import AnswerError, LinkLost
from tests.patience import PATIENCE_S

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n\r\n"
JSON, STREAM = HEAD % b"application/json", HEAD % b"text/event-stream"


@contextmanager
def sending(pieces: Callable[[], Iterator[bytes]], stays: bool = False) -> Iterator[str]:
    """The address of a server that answers each request with these pieces, and with `stays` leaves the connection."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    kept: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                made, _ = listener.accept()
            except OSError:
                return
            with suppress(OSError):
                made.recv(65536)
                for piece in pieces():
                    if over.is_set():
                        break
                    made.sendall(piece)
            kept.append(made)
            if not stays:
                made.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for each in kept:
            each.close()


def plain(url: str, ask: str, timeout_s: float) -> None:
    client = Client(lambda: Address(url, "t"), timeout_s=timeout_s)
    if ask == "events":
        next(client.events(0, sleep=lambda _: None))
    else:
        client.status()


def awaited(url: str, ask: str, timeout_s: float) -> None:
    async def wait(_: float) -> None:
        return

    async def go() -> None:
        async with AsyncClient(lambda: Address(url, "t"), timeout_s=timeout_s) as client:
            if ask == "events":
                await anext(client.events(0, sleep=wait))
            else:
                await client.status()

    asyncio.run(go())


BOTH = pytest.mark.parametrize("asked", [plain, awaited])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a test reaches soon."""
    for module in (bounds, connection):
        monkeypatch.setattr(module, "BODY_BYTES_MAX", 1 << 18)
        monkeypatch.setattr(module, "LINE_BYTES_MAX", 1 << 18)
    monkeypatch.setattr("hostler.client.awaited.BODY_BYTES_MAX", 1 << 18)


@BOTH
@pytest.mark.parametrize(
    ("ask", "head", "piece", "message"),
    [
        ("status", JSON, b"[" * 60000, "answers with more than 262 kB"),
        ("events", STREAM, b"data: " + b"x" * 60000, "answers with more than 262 kB"),
        ("events", STREAM + b"id: 0\n\n", b"x" * 60000, "answers with more than 262 kB"),
        ("events", STREAM, b"".join(b"a%d: b\n" % n for n in range(99)), "has an event without an end"),
        ("events", STREAM, b"id: many\n\n", "has a frame that is none"),
        ("events", STREAM, b"id: 1\ndata: {\n\n", "has a frame that is none"),
        ("events", STREAM, b'id: 1\ndata: {"seq": "x"}\n\n', "is \"x\", not an integer"),
        ("events", JSON, b"{}", "not an event stream"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("small")
def test_answer_without_an_end_is_one_error(
    asked: Callable[..., Any], ask: str, head: bytes, piece: bytes, message: str
) -> None:
    with sending(lambda: iter([head, *repeat(piece, 99)])) as url, pytest.raises(AnswerError, match=message) as caught:
        asked(url, ask, PATIENCE_S)
    assert url in str(caught.value)


@BOTH
def test_answer_that_stops_in_the_middle_is_a_lost_link(asked: Callable[..., Any]) -> None:
    with sending(lambda: iter([JSON, b'{"jobs"']), stays=True) as url, pytest.raises(LinkLost, match="in time"):
        asked(url, "status", 0.2)


@BOTH
def test_stream_that_ends_again_and_again_is_an_error(asked: Callable[..., Any]) -> None:
    with sending(lambda: iter([STREAM, b"id: 0\n\n"])) as url, pytest.raises(LinkLost, match="again and again"):
        asked(url, "events", PATIENCE_S)


def test_answer_at_a_byte_a_second_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("hostler.client.bounds.time.monotonic", lambda: now[0])
    slow = Bounds("http://x", 60.0, 1e9)
    for now[0] in range(1, 61):
        slow.count(1)
    now[0] = 61.0
    with pytest.raises(AnswerError, match="http://x answers too slowly: 61 bytes in 61 s"):
        slow.count(1)
    now[0] = 0.0
    steady = Bounds("http://x", 60.0, 1e9)
    for now[0] in range(1, 1000):
        steady.count(2000)


def test_lines_may_be_long_in_coming_but_not_a_single_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("hostler.client.bounds.time.monotonic", lambda: now[0])
    lines = Lines("http://x", 60.0)
    assert lines.feed(b"a\r\nb\n\nc") == ["a", "b", ""]
    now[0] = 59.0
    assert lines.feed(b"d\n") == ["cd"]
    now[0] = 500.0
    assert lines.feed(b"e") == []
    now[0] = 559.0
    assert lines.feed(b"f\n") == ["ef"]
    assert lines.feed(b"g") == []
    now[0] = 621.0
    with pytest.raises(AnswerError, match="too slowly"):
        lines.feed(b"h")
