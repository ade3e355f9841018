"""The event stream: complete, in order, and taken up again where it broke off."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from hostler.client import Address, Client
from hostler.model import codec
from hostler.model.errors import AnswerError, CorruptState
from hostler.model.events import Entry, TroubleRecorded
from hostler.model.inputs import Submit, Trouble
from hostler.web.desk import Piece
from hostler.web.events import Frames
from tests.core.builders import script
from tests.patience import PATIENCE_S
from tests.web.core_desk import TOKEN, CoreDesk, Window, window

EVENTS = "/api/v1/events"


class Stream:
    """An open event stream, read a frame at a time."""

    def __init__(self, served: Window, query: str, **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
        self._connection.request("GET", EVENTS + query, headers={**served.headers, **headers})
        self.response = self._connection.getresponse()

    def frame(self) -> list[str]:
        """The lines of the next frame; empty at the end of the stream."""
        lines = []
        while (line := self.response.readline()) not in (b"", b"\n"):
            lines.append(line.decode().rstrip("\n"))
        return lines

    def entry(self) -> tuple[int, Any]:
        """The next entry: its id and its decoded data."""
        number, data = self.frame()
        return int(number.removeprefix("id: ")), json.loads(data.removeprefix("data: "))

    def close(self) -> None:
        self.response.close()
        self._connection.close()


@contextlib.contextmanager
def stream(served: Window, query: str = "", **headers: str) -> Iterator[Stream]:
    opened = Stream(served, query, **headers)
    try:
        yield opened
    finally:
        opened.close()


def until(condition: Callable[[], bool], what: str, bound_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)


def test_what_was_and_what_comes_arrive_once_and_in_order(served: Window) -> None:
    served.tell(Submit(specs=(script("a\nb\r\n\u2028"),)))
    with stream(served, "?after=0") as events:
        assert events.response.headers["content-type"].startswith("text/event-stream")
        assert events.frame() == ["id: 0"]
        until(lambda: served.desk.readers == 1, "the stream reads")
        served.tell(Submit(specs=(script("c"),)))
        seen = [events.entry() for _ in served.desk.driver.entries]
    assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
    assert [codec.adapter(Entry).validate_python(data) for _, data in seen] == served.desk.driver.entries


def test_without_a_number_it_begins_now_and_says_where_that_is(served: Window) -> None:
    newest = served.desk.status().seq
    with stream(served) as events:
        assert events.frame() == [f"id: {newest}"]
        served.tell(Trouble(where="here", what="this"))
        number, data = events.entry()
    assert number == newest + 1
    assert data["event"]["kind"] == "trouble.recorded"


def test_it_is_taken_up_after_the_last_event_id(served: Window) -> None:
    served.tell(*(Trouble(where="here", what=str(n)) for n in range(10)))
    with stream(served, "?after=1", **{"Last-Event-ID": "5"}) as events:
        assert events.frame() == ["id: 5"]
        assert events.entry()[0] == 6


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("?after=99", {}, 409),
        ("", {"Last-Event-ID": "99"}, 409),
        ("?after=-1", {}, 422),
        ("?after=x", {}, 422),
        ("", {"Last-Event-ID": ""}, 422),
        ("", {"Last-Event-ID": "1; drop"}, 422),
    ],
)
def test_a_number_that_cannot_be_is_refused(served: Window, query: str, headers: dict[str, str], status: int) -> None:
    assert served.get(EVENTS + query, **headers).status == status


def test_silence_is_filled_with_comments() -> None:
    with window(heartbeat_s=0.01) as served, stream(served) as events:
        events.frame()
        assert events.frame() == [": alive"]
        assert events.frame() == [": alive"]
        served.tell(Trouble(where="here", what="this"))
        frames = iter(events.frame, [])
        assert any(line.startswith("data: ") for frame in frames for line in frame if frame != [": alive"])


def test_a_reader_that_is_cut_off_sees_the_end_and_misses_nothing_when_it_is_back(served: Window) -> None:
    with stream(served, "?after=0") as events:
        events.frame()
        numbers = [events.entry()[0] for _ in served.desk.driver.entries]
        served.call(served.desk.cut_off)
        assert events.frame() == []
    served.tell(Trouble(where="here", what="meanwhile"))
    with stream(served, **{"Last-Event-ID": str(numbers[-1])}) as events:
        events.frame()
        assert events.entry()[0] == numbers[-1] + 1


def test_a_reader_that_is_cut_off_is_told_what_it_was_not_sent(served: Window) -> None:
    """Without an id: who comes back asks for what follows the last entry it has seen."""
    newest = served.desk.status().seq
    with stream(served) as events:
        events.frame()
        until(lambda: served.desk.readers == 1, "the stream reads")
        served.call(lambda: served.desk.driver.tell(Trouble(where="here", what="this")))
        served.call(served.desk.cut_off)
        assert events.frame() == ["event: lost", f'data: {{"from": {newest + 1}, "to": {newest + 1}}}']
        assert events.frame() == []
    with stream(served, **{"Last-Event-ID": str(newest)}) as events:
        events.frame()
        assert events.entry()[0] == newest + 1


def test_a_reader_that_reads_again_too_late_is_told_that_it_lost_entries() -> None:
    with window(CoreDesk(buffer=50)) as served, slow_reader(served) as connection:
        until(lambda: served.desk.readers == 1, "the stream reads")
        until(lambda: flood(served) == 0, "the slow reader is let go")
        seen = everything(connection)
    ids = [int(line.removeprefix(b"id: ")) for line in seen.splitlines() if line.startswith(b"id: ")]
    told = json.loads(seen.partition(b"event: lost\ndata: ")[2].partition(b"\n\n")[0])
    assert ids == list(range(ids[0], told["from"]))
    assert told["from"] <= told["to"] == served.desk.status().seq


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side ends, chunk marks of HTTP taken out."""
    connection.settimeout(PATIENCE_S)
    head, _, body = b"".join(iter(lambda: connection.recv(1 << 16), b"")).partition(b"\r\n\r\n")
    assert b"chunked" in head.lower()
    pieces = []
    while body:
        size, _, body = body.partition(b"\r\n")
        pieces.append(body[: int(size, 16)])
        body = body[int(size, 16) + 2 :]
    return b"".join(pieces)


def test_a_reader_that_does_not_read_holds_nobody_up_and_is_let_go() -> None:
    with window(CoreDesk(buffer=50)) as served, slow_reader(served):
        until(lambda: served.desk.readers == 1, "the stream reads")
        until(lambda: flood(served) == 0, "the slow reader is let go")
        assert served.get("/status").status == 200


@contextlib.contextmanager
def slow_reader(served: Window) -> Iterator[socket.socket]:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", served.port))
        token = served.headers["Authorization"]
        head = f"GET {EVENTS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        yield connection


def flood(served: Window) -> int:
    """Much happens; returns how many readers are left."""
    served.tell(*(Trouble(where="here", what="x" * 10_000) for _ in range(20)))
    return served.desk.readers


def test_a_reader_that_leaves_is_forgotten() -> None:
    with window(heartbeat_s=0.01) as served:
        with stream(served) as events:
            events.frame()
            until(lambda: served.desk.readers == 1, "the stream reads")
        until(lambda: served.desk.readers == 0, "the reader is forgotten")


def test_an_open_stream_does_not_keep_the_server_from_closing() -> None:
    with window() as served:
        events = Stream(served, "")
        events.frame()
    try:
        assert events.frame() == []
    finally:
        events.close()


def test_entries_are_written_once_for_all_who_read_along() -> None:
    frames = Frames()
    entries = tuple(Entry(seq=n, at=1.0, event=TroubleRecorded(where="here", what="this")) for n in (7, 8))
    piece = Piece(entries)
    text = frames.of(piece)
    assert frames.of(piece) is text
    numbers, data = zip(*(frame.split("\n") for frame in text.decode().split("\n\n")[:-1]), strict=True)
    assert numbers == ("id: 7", "id: 8")
    told = [codec.adapter(Entry).validate_json(each.removeprefix("data: ")) for each in data]
    assert tuple(told) == entries


def test_an_entry_of_any_size_arrives_whole(served: Window) -> None:
    with stream(served, "?after=0") as events:
        events.frame()
        until(lambda: served.desk.readers == 1, "the stream reads")
        served.tell(Submit(specs=(script("long", "true", "y" * 300_000),)))
        number, data = events.entry()
    assert number == 1
    assert codec.adapter(Entry).validate_python(data) == served.desk.driver.entries[0]


class Rotten:
    """A desk whose journal cannot be read any more after its first entries."""

    def __init__(self, desk: CoreDesk) -> None:
        self._pieces = desk.pieces

    async def pieces(self, after: int) -> AsyncIterator[Piece]:
        async for piece in self._pieces(after):
            yield piece
            raise CorruptState("entry 2 is damaged")


def test_stream_that_fails_ends_with_its_reason_and_records_it_once(
    served: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hostler events` once came back for ever, and each time left an entry and a traceback."""
    served.tell(Submit(specs=(script("a"),)))
    monkeypatch.setattr(served.desk, "pieces", Rotten(served.desk).pieces)
    for _ in range(3):
        with stream(served, "?after=0") as opened:
            opened.frame()
            last: list[str] = []
            while frame := opened.frame():
                last = frame
        assert last[0] == "event: error"
        assert json.loads(last[1].removeprefix("data: ")) == {"error": "CorruptState: entry 2 is damaged"}
    troubles = [entry.event for entry in served.desk.driver.entries if isinstance(entry.event, TroubleRecorded)]
    assert [each.where for each in troubles] == ["GET /api/v1/events"]


def test_client_gives_up_a_stream_that_failed(served: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    served.tell(Submit(specs=(script("a"),)))
    monkeypatch.setattr(served.desk, "pieces", Rotten(served.desk).pieces)
    asked = Client(lambda: Address(f"http://127.0.0.1:{served.port}", TOKEN))
    with pytest.raises(AnswerError, match="CorruptState: entry 2 is damaged"):
        list(asked.events(0, sleep=pytest.fail))
