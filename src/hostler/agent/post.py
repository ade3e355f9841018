"""The controller's hands on a cluster: ``python3 agent.pyz post --root ROOT``, on a machine that has the shared folder.

Requests are JSON lines on standard input, and are answered in any order on standard output; some have bytes behind
them. It ends when its input ends, and what it runs for somebody ends with it; what the cluster runs does not.

Exit status: 0 its input ended, 1 nobody reads its output, 2 wrong usage or an unusable folder.
"""

from __future__ import annotations

import argparse
import os
import pwd
import signal
import socket
import sys
import time
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from . import compiled, procs
from .commands import Commands, order_of
from .errands import Errands, answer_of
from .estate import Estate, tokens_of
from .files import CODE
from .loop import Loop
from .outlet import Outlet
from .protocol import (
    MAX_REQUEST_BYTES,
    MAX_REQUEST_LEVELS,
    PROTOCOL,
    VERSION,
    Json,
    RequestError,
    decode,
    integer,
    is_id,
    is_shallow,
)
from .shared import make_folder
from .tails import Tails
from .watches import Watches

EXIT_BROKEN = 1
EXIT_USAGE = 2
_COMMANDS_AT_A_TIME = 4  # a scheduler's daemon has other users, too
_ERRANDS_AT_A_TIME = 2
_READ_BYTES = 1 << 18
_FAREWELL_S = 1.0
_STEP_S = 0.05


class Intake:
    """Cuts what comes into requests, and the bytes that belong to them."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._searched = 0
        self._request: Optional[Json] = None

    def feed(self, data: bytes) -> Iterator[Tuple[Json, bytes]]:
        """What is whole now. A line that is none of ours is an ``error`` in place of the request.

        Raises RequestError where nobody knows any more where the next line begins.
        """
        self._pending += data
        while True:
            if self._request is None and not self._next_line():
                return
            assert self._request is not None
            size = self._request["size"] if self._request.get("op") == "say" else 0
            if len(self._pending) < size:
                return
            request, self._request = self._request, None
            yield request, bytes(self._pending[:size])
            del self._pending[:size]

    def _next_line(self) -> bool:
        end = self._pending.find(b"\n", self._searched)
        self._searched = 0 if end >= 0 else len(self._pending)
        if max(end, self._searched) > MAX_REQUEST_BYTES:
            raise RequestError("a line is longer than %d bytes" % MAX_REQUEST_BYTES)
        if end < 0:
            return False
        self._request = _request(bytes(self._pending[:end]))
        del self._pending[: end + 1]
        return True


class Post:
    """Serves one controller. ``run`` returns the exit status."""

    def __init__(self, root: str) -> None:
        self._loop = Loop()
        self._outlet = Outlet(self._loop, 1, lambda: self._end(EXIT_BROKEN))
        self._intake = Intake()
        self._commands = Commands()
        self._runs = Errands(self._loop, _COMMANDS_AT_A_TIME)
        self._errands = Errands(self._loop, _ERRANDS_AT_A_TIME)
        self._estate = Estate(root)
        self._tails = Tails(self._loop, self._outlet)
        self._watches = Watches(self._loop, root, self._outlet.say)
        self._status: Optional[int] = None
        self._now: Dict[str, Callable[[Json], Json]] = {
            "watch": self._watch,
            "unwatch": self._unwatch,
            "listen": self._listen,
            "hang_up": self._hang_up,
        }
        estate = self._estate
        self._later: Dict[str, Callable[[Json], Json]] = {
            "prepare": estate.prepare,
            "facts": estate.facts,
            "read": estate.read,
            "discard": estate.discard,
            "forget": estate.forget,
            "tidy": estate.tidy,
            "probe": estate.probe,
        }

    def run(self) -> int:
        """Serve until standard input ends."""
        ends = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        self._loop.on_signals({number: lambda: self._end(0) for number in ends})
        os.set_blocking(0, False)
        self._loop.watch(0, lambda _events: self._on_input())
        self._outlet.say(_hello(self._estate.root))
        self._errands.do(_compiled, lambda _answer: None)
        while self._status is None:
            self._loop.turn()
        self._commands.end_all()
        until = self._loop.monotonic() + _FAREWELL_S
        while not self._outlet.is_empty and self._loop.monotonic() < until:
            self._loop.turn(_STEP_S)
        return self._status

    def _end(self, status: int) -> None:
        self._status = status if self._status is None else self._status

    def _on_input(self) -> None:
        try:
            data = os.read(0, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.unwatch(0)
            self._end(0)
            return
        try:
            for request, more in self._intake.feed(data):
                self._request(request, more)
        except RequestError as error:
            self._outlet.say({"id": None, "error": "%s; this ends" % error})
            self._end(0)

    def _request(self, request: Json, data: bytes) -> None:
        op = str(request.get("op"))
        if op == "say":
            self._tails.say(request.get("stream"), data)
        elif op in self._now:
            self._answer(request, answer_of(lambda: self._now[op](request)))
        elif op == "run":
            self._order(request)
        else:
            method = self._later.get(op, _unknown)
            self._errands.do(lambda: method(request), lambda answer: self._answer(request, answer))

    def _answer(self, request: Json, answer: Json) -> None:
        named = request.get("id")
        self._outlet.say({"id": named if is_shallow(named, 0) else None, **answer})

    def _order(self, request: Json) -> None:
        def work() -> Json:
            return self._commands.run(order_of(request))

        self._runs.do(work, lambda answer: self._answer(request, answer))

    def _watch(self, request: Json) -> Json:
        self._watches.watch(tokens_of(request.get("tokens"), "tokens"))
        return {"ok": True}

    def _unwatch(self, request: Json) -> Json:
        self._watches.unwatch(tokens_of(request.get("tokens"), "tokens"))
        return {"ok": True}

    def _listen(self, request: Json) -> Json:
        name, offset = request.get("stream"), integer(request.get("offset", 0), "offset")
        if not is_id(name) or offset < 0:
            raise RequestError("listen needs the name of a stream, and an offset >= 0")
        run, create = self._estate.run(request), request.get("create") is True
        return {"ok": True, "stream": self._tails.listen(run, str(name), offset, create)}

    def _hang_up(self, request: Json) -> Json:
        self._tails.hang_up(request.get("stream"))
        return {"ok": True}


def main(arguments: List[str]) -> int:
    """Serve a controller; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hostler-agent post", description="A controller's hands on a cluster.")
    parser.add_argument(
        "--root", required=True, help="the folder that the cluster's nodes share; it is made if need be"
    )
    root = os.path.abspath(os.path.expanduser(parser.parse_args(arguments).root))
    procs.keep_descriptors_private()
    try:
        make_folder(root)
    except OSError as error:
        sys.stderr.write("hostler post: cannot use the folder %s: %s\n" % (root, error))
        return EXIT_USAGE
    return Post(root).run()


def _request(data: bytes) -> Json:
    try:
        request = decode(data, MAX_REQUEST_LEVELS)
    except RequestError as error:
        return {"op": None, "id": None, "error": str(error)}
    if request.get("op") == "say":
        size = request.get("size")
        if type(size) is not int or not 0 <= size <= MAX_REQUEST_BYTES:
            raise RequestError("say needs a size, %d at most" % MAX_REQUEST_BYTES)
    return request


def _compiled() -> Json:
    """Allocations start sooner: more often than not their Python is the same as ours."""
    compiled.leave(CODE)
    return {}


def _unknown(request: Json) -> Json:
    raise RequestError(str(request.get("error") or "unknown op %.80r" % request.get("op")))


def _hello(root: str) -> Json:
    return {
        "type": "hello",
        "protocol": PROTOCOL,
        "version": VERSION,
        "root": root,
        "host": socket.gethostname(),
        "user": _user(),
        "now": time.time(),
    }


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
