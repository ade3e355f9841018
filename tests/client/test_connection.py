"""Responses as they come from a socket: whole, in pieces, cut, and wrong."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest
from httptools import HttpParserError
from hypothesis import given, strategies as st

from hostler.client.address import Address
from hostler.client.calls import Ask, write
from hostler.client.connection import HEAD_BYTES_MAX, Incomplete, Response, exchange
from hostler.model.errors import LinkLost, UsageError

SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nLink: <x>; rel=next\r\n\r\nhello\nworld"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello\n\r\n5\r\nworld\r\n0\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\nhello\nworld"
INTERIM = b"HTTP/1.1 100 Continue\r\nHint: no\r\n\r\n" + SIZED
FOLLOWED = SIZED + b"more"
ALL = [SIZED, CHUNKED, UNTIL_CLOSE, INTERIM, FOLLOWED]


@contextmanager
def sent(pieces: Sequence[bytes]) -> Iterator[socket.socket]:
    """A socket from which these pieces come, and then the end."""
    here, there = socket.socketpair()

    def send() -> None:
        with there, suppress(OSError):  # the reader may leave early
            for piece in pieces:
                there.sendall(piece)

    with here:
        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield here
        finally:
            here.close()
            sender.join()


def pieces_of(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """The data, cut at these places."""
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    return [data[start:stop] for start, stop in zip([0, *ends], ends, strict=False)]


@given(st.sampled_from(ALL), st.lists(st.integers(1, 120), max_size=5))
def test_response_is_the_same_in_whatever_pieces_it_comes(data: bytes, cuts: list[int]) -> None:
    with sent(pieces_of(data, cuts)) as connection:
        response = Response(connection)
        assert response.status == 200
        assert "hint" not in response.headers
        assert response.read() == b"hello\nworld"
        assert response.read() == b""


@given(st.sampled_from(ALL), st.lists(st.integers(1, 120), max_size=5), st.integers(1, 12))
def test_body_is_read_in_parts_and_by_line(data: bytes, cuts: list[int], most: int) -> None:
    with sent(pieces_of(data, cuts)) as connection:
        response = Response(connection)
        parts = list(iter(lambda: response.read(most), b""))
        assert b"".join(parts) == b"hello\nworld"
        assert all(len(part) <= most for part in parts)
    with sent(pieces_of(data, cuts)) as connection:
        response = Response(connection)
        assert response.readline() == b"hello\n"
        with pytest.raises(Incomplete):
            response.readline()


@pytest.mark.parametrize("data", [SIZED, CHUNKED])
def test_response_that_breaks_off_is_not_taken_for_a_whole_one(data: bytes) -> None:
    for end in range(len(data)):
        with sent([data[:end]]) as connection, pytest.raises(Incomplete):
            Response(connection).read()


def test_headers_without_end_are_refused() -> None:
    line = b"X: " + b"y" * 1000 + b"\r\n"
    pieces = [b"HTTP/1.1 200 OK\r\n", line * (2 * HEAD_BYTES_MAX // len(line))]
    with sent(pieces) as connection, pytest.raises(OSError, match="headers of the response are larger"):
        Response(connection)


@pytest.mark.parametrize("data", [b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"\0" * 9])
def test_response_that_is_not_http_is_an_error_of_the_link(data: bytes) -> None:
    with sent([data]) as connection, pytest.raises(HttpParserError):
        Response(connection)
    with sent([data]) as connection, pytest.raises(LinkLost):
        exchange(connection, Address("http://127.0.0.1:1", "t"), Ask("GET", "/"))


@pytest.mark.parametrize("value", ["a\r\nX-Other: b", "a\n", "\0", "é", "\x7f"])
def test_header_that_would_become_two_is_refused(value: str) -> None:
    with sent([SIZED]) as connection, pytest.raises(UsageError, match=r"Idempotency-Key .* use printable ASCII"):
        exchange(connection, Address("http://127.0.0.1:1", "t"), Ask("POST", "/", b"{}", {"Idempotency-Key": value}))


def test_request_says_what_it_wants_once() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(SIZED)
        exchange(
            here,
            Address("http://fleet:8765", "t"),
            Ask("POST", "/api/v1/jobs?x=1", b"{}", {"Authorization": "Bearer t"}),
        )
        lines = there.recv(65536).decode().split("\r\n")
    assert lines[0] == "POST /api/v1/jobs?x=1 HTTP/1.1"
    assert sorted(lines[1:-2]) == [
        "Accept-Encoding: identity",
        "Authorization: Bearer t",
        "Connection: close",
        "Content-Length: 2",
        "Host: fleet:8765",
    ]
    assert lines[-2:] == ["", "{}"]


def test_text_that_is_not_utf_8_is_refused_before_it_is_sent() -> None:
    with pytest.raises(
        UsageError, match=r"/tmp/\\udcff.*is not UTF-8, as every text of a request must be; nothing was"
    ):
        next(write("POST", "/jobs", [{"payload": {"cwd": "/tmp/\udcff"}}]))
    asked = next(write("POST", "/jobs", [{"name": "é"}]))
    assert isinstance(asked, Ask)
    assert asked.body == '[{"name": "é"}]'.encode()
