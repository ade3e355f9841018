"""Many who look at one controller at once, in a process of their own; for api.py.

    python benchmarks/api_load.py URL TOKEN SECONDS JOB     prints one line of JSON

Requests come at their times whether or not those before them were answered, and each is timed from when it was due:
what waits for a connection, or for this process, counts. Nine of ten go over kept connections, as those of browsers
and scripts do, the tenth over one of its own, as those of the command line. Event streams are counted as they come.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any
from urllib.parse import urlsplit

GETS_PER_S = 500
STREAMS = 200
PAGES = ("fleet", "queue", "jobs", "sweeps", "events")
"""Pages of the dashboard that are followed, beside the streams."""
SCRAPE_S = 5.0
CONNECTIONS = 32
FRESH_SHARE = 0.1
MIX: Mapping[str, int] = {
    "/api/v1/status": 26,
    "/status": 5,
    "/queue/status": 6,
    "/daemons/health": 3,
    "/api/v1/queue?limit=50": 12,
    "/api/v1/nodes": 12,
    "/api/v1/jobs?limit=50": 12,
    "/api/v1/jobs/{job}": 12,
    "/api/v1/sweeps": 6,
    "/api/v1/configs": 3,
    "/api/v1/alerts": 3,
}
"""What is asked for, and how often of a hundred times."""
LATE_EVERY = 20
"""Of so many streams one is looked at for how late its entries are."""
SMALL_BYTES = 4096
READ_ON_S = 5.0
AT = re.compile(rb'"at":([0-9.]+)')
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
LOST = re.compile(rb'event: lost\ndata: \{"from": (\d+), "to": (\d+)\}')


@dataclass
class Heard:
    """What came of it all. Times are in seconds."""

    gets: list[float] = field(default_factory=list)
    by_path: dict[str, list[float]] = field(default_factory=dict)
    scrapes: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    entries: int = 0
    late: list[float] = field(default_factory=list)
    lost: int = 0
    ended: int = 0


class Call(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, free: Callable[[Call], None], gone: Callable[[Call], None]) -> None:
        self._free, self._gone = free, gone
        self._answered: Callable[[int], None] | None = None
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        """It may be used."""
        self._transport = transport
        self._free(self)

    def ask(self, request: bytes, answered: Callable[[int], None]) -> None:
        """Send a request; `answered` gets the status when all of its answer is here."""
        assert self._transport is not None
        self._answered, self._buffer = answered, b""
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """A part of an answer."""
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        length = LENGTH.search(self._buffer, 0, head + 2)
        assert length is not None, self._buffer[:head]
        if len(self._buffer) < head + 4 + int(length[1]) or self._answered is None:
            return
        answered, self._answered = self._answered, None
        answered(int(self._buffer[9:12]))
        self._free(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It may not be used any more; status 0 where an answer was awaited."""
        if self._answered is not None:
            self._answered(0)
            self._answered = None
        self._gone(self)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


class Stream(asyncio.Protocol):
    """An event stream that is read as it comes."""

    def __init__(self, request: bytes, heard: Heard, *, timed: bool) -> None:
        self._request, self._heard, self._timed = request, heard, timed
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        """Ask."""
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Count; what stands across two pieces of data is too rare to matter."""
        self._heard.entries += data.count(b"\ndata: ")
        self._heard.lost += data.count(b"event: lost")
        if self._timed and (at := AT.search(data)):
            self._heard.late.append(time.time() - float(at[1]))

    def connection_lost(self, exc: Exception | None) -> None:
        """It ended: by the other side, unless the time is over."""
        self._heard.ended += 1

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


class Crowd:
    """Everybody who asks."""

    def __init__(self, host: str, port: int, token: str, job: str) -> None:
        self._place = host, port
        self._head = f"HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        self._paths = list(_mixed(job))
        self._kept: deque[Call] = deque()
        self._due: deque[tuple[bytes, Callable[[int], None]]] = deque()
        self._loop = asyncio.get_running_loop()
        self._calls: set[Call] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._asked = self._answered = 0
        self.heard = Heard()

    async def connect(self) -> None:
        """Open the kept connections."""
        for _ in range(CONNECTIONS):
            await self._loop.create_connection(lambda: Call(self._freed, self._went), *self._place)

    async def listen(self) -> Sequence[Stream]:
        """Open the event streams, and those of pages."""
        asked = ["/api/v1/events"] * STREAMS + [f"/pages/stream?page={page}" for page in PAGES]
        return [await self._stream(path, timed=n % LATE_EVERY == 0 and n < STREAMS) for n, path in enumerate(asked)]

    async def ask(self, seconds: float) -> None:
        """Ask for so long, then wait for what is not answered yet."""
        self._loop.create_task(self._scrape(self._loop.time() + seconds))
        begin = self._loop.time()
        for number, path in zip(range(int(seconds * GETS_PER_S)), cycle(self._paths), strict=False):
            due = begin + number / GETS_PER_S
            if (rest_s := due - self._loop.time()) > 0:
                await asyncio.sleep(rest_s)
            self._ask(path, due, fresh=number % int(1 / FRESH_SHARE) == 0)
        end = self._loop.time() + 30
        while self._answered < self._asked and self._loop.time() < end:  # noqa: ASYNC110 - the callbacks are kept plain
            await asyncio.sleep(0.01)
        self.heard.statuses[-1] += self._asked - self._answered

    def stuck(self) -> socket.socket:
        """An event stream whose client asks, and then reads nothing."""
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BYTES)
        reader.connect(self._place)
        reader.sendall(self._request("/api/v1/events"))
        return reader

    def _ask(self, path: str, due: float, *, fresh: bool) -> None:
        self._asked += 1

        def answered(status: int) -> None:
            took = self._loop.time() - due
            self._answered += 1
            self.heard.statuses[status] += 1
            self.heard.gets.append(took)
            self.heard.by_path.setdefault(path, []).append(took)

        if fresh:
            task = self._loop.create_task(self._ask_alone(path, answered))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif self._kept:
            self._kept.popleft().ask(self._request(path), answered)
        else:
            self._due.append((self._request(path), answered))

    async def _ask_alone(self, path: str, answered: Callable[[int], None]) -> None:
        made: Call
        _, made = await self._loop.create_connection(lambda: Call(lambda _: None, lambda _: None), *self._place)

        def over(status: int) -> None:
            answered(status)
            made.close()

        made.ask(self._request(path), over)

    async def _scrape(self, end: float) -> None:
        while self._loop.time() < end:
            due = self._loop.time()
            took: asyncio.Future[int] = self._loop.create_future()
            await self._ask_alone("/metrics", took.set_result)
            self.heard.statuses[await took] += 1
            self.heard.scrapes.append(self._loop.time() - due)
            await asyncio.sleep(SCRAPE_S)

    async def _stream(self, path: str, *, timed: bool) -> Stream:
        made: Stream
        request = self._request(path)
        _, made = await self._loop.create_connection(lambda: Stream(request, self.heard, timed=timed), *self._place)
        return made

    def _request(self, path: str) -> bytes:
        return f"GET {path} {self._head}\r\n".encode()

    def _freed(self, call: Call) -> None:
        if self._due:
            call.ask(*self._due.popleft())
        else:
            self._kept.append(call)

    def _went(self, call: Call) -> None:
        if call in self._kept:
            self._kept.remove(call)


async def run(url: str, token: str, seconds: float, job: str) -> Mapping[str, Any]:
    """Look at a controller for so long; what came of it, in JSON's terms."""
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    crowd = Crowd(place.hostname, place.port, token, job)
    await crowd.connect()
    streams = await crowd.listen()
    stuck = await asyncio.to_thread(crowd.stuck)
    try:
        print("begun", flush=True)
        await crowd.ask(seconds)
        ended = crowd.heard.ended
        said = await asyncio.to_thread(_read_on, stuck)
    finally:
        stuck.close()
        for stream in streams:
            stream.close()
    return {**_figures(crowd.heard), "streams ended": ended, "stuck": said, "cpu s": time.process_time()}


def _read_on(stuck: socket.socket) -> str:
    """What a client that did not read finds when it does at last."""
    seen, end = b"", time.monotonic() + READ_ON_S
    try:
        while (found := LOST.search(seen)) is None:
            stuck.settimeout(max(end - time.monotonic(), 0.001))
            piece = stuck.recv(1 << 16)
            if not piece:
                return "ended without a word"
            seen = seen[-200:] + piece
    except TimeoutError:
        return "nothing lost"
    except ConnectionError:
        return "let go"
    return f"lost {int(found[2]) - int(found[1]) + 1}"


def _figures(heard: Heard) -> dict[str, Any]:
    return {
        "gets": len(heard.gets),
        "gets ms": _quantiles(heard.gets),
        "by path": {path: _quantiles(times) for path, times in heard.by_path.items()},
        "metrics ms": _quantiles(heard.scrapes),
        "statuses": dict(heard.statuses),
        "entries": heard.entries,
        "late ms": _quantiles(heard.late),
        "lost": heard.lost,
    }


def _quantiles(times: Sequence[float]) -> Mapping[str, float | None]:
    ordered = sorted(times)
    at = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "worst": 1.0}
    last = len(ordered) - 1
    return {
        name: ordered[min(int(share * len(ordered)), last)] * 1e3 if ordered else None for name, share in at.items()
    }


def _mixed(job: str) -> Iterator[str]:
    """All of the mix, well shaken, but always alike."""
    every = [path.format(job=job) for path, times in MIX.items() for _ in range(times)]
    yield from random.Random(1).sample(every, len(every))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]))))
