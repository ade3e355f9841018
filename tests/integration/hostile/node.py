"""A node that lies: a process of its own at the other end of a real connection, which then says what it likes.

`python node.py NODE REPORT` calls the controller that the file CONTROLLER announces, as `agent/dial.py` does and with
TOKEN, or listens at SOCKET as an agent does that a controller reaches through SSH: these are environment variables.
REPORT gets a line for each act that it has been through.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

FACTS = {
    "host": "evil", "os": "Linux", "arch": "x86_64", "python": "3.11", "cpus": 2, "memory_bytes": 1 << 34,
    "disk_free_bytes": 1 << 40, "boot": "b", "devices": [], "visible": None,
}  # fmt: skip
OTHERS = [f"j{at}.{nth}" for at in range(1, 30) for nth in (1, 2)]


class Over(Exception):
    """The controller has hung up."""


def called(controller: str, token: str, claims: str) -> Line:
    """A connection to the listener of a controller, as a node of this name. Raises `OSError` and `ValueError`."""
    with open(controller, encoding="utf-8") as announced:
        port = int(json.load(announced)["dialin"].rpartition(":")[2])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    line = Line(context.wrap_socket(socket.create_connection(("127.0.0.1", port))))
    line.say({"type": "dial", "protocol": 1, "node": claims, "token": token, "dir": "/nowhere", "dialler": "d"})
    return line


class Line:
    """One connection, and what is said on it."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.stream.settimeout(60)
        self.input = self.stream.makefile("rb")
        self.seq = 0

    def say(self, message: Any) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        try:
            self.stream.sendall(data)
        except OSError as error:
            raise Over from error

    def hear(self) -> dict[str, Any]:
        try:
            line = self.input.readline()
        except OSError as error:
            raise Over from error
        if not line:
            raise Over
        heard: dict[str, Any] = json.loads(line)
        return heard

    def facts(self, *facts: dict[str, Any]) -> None:
        told = []
        for fact in facts:
            self.seq += 1
            told.append({"seq": self.seq, "at": 1.0, **fact})
        self.say({"type": "facts", "facts": told})

    def taken(self) -> None:
        """Wait until the controller takes the line."""
        assert self.hear()["type"] == "welcome"
        while self.hear()["type"] != "take":
            pass
        self.say({"type": "taken"})

    def opened(self, probe: dict[str, Any], agent: str = "evil") -> None:
        words = {"type": "hello", "protocol": 1, "agent": agent, "incarnation": 1, "boot": "b", "version": "0.1.0"}
        more = {"tells": True, "sets_up": True, "merges": False, "attempts": OTHERS[:10], "chunks": OTHERS[:10]}
        self.say({**words, **more, "leaving": None, "code": None, "seq": 0})
        while (asked := self.hear())["type"] != "probe":
            pass
        self.say({"type": "probe", "id": asked["id"], "facts": {**FACTS, **probe}})

    def serve(self, acts: Iterator[Any]) -> None:
        """Answer what is asked, with an act after each answer. A request for a log is answered without an end."""
        next(acts, None)
        while True:
            asked = self.hear()
            if asked["type"] == "launch":
                for each in asked["attempts"]:
                    self.facts(
                        {"fact": "started", "attempt": each["id"], "pid": 1, "pid_start": 1},
                        ended(each["id"], {"of": "evil"}),
                    )
            elif asked["type"] == "read":
                data = base64.b64encode(b"x" * asked["limit"]).decode()
                answer = {"offset": asked["offset"], "data": data, "size": 1 << 60, "ended": True}
                self.say({"type": "read", "id": asked["id"], **answer})
            next(acts, None)


def ended(attempt: str, result: Any, **more: Any) -> dict[str, Any]:
    values = {"started_at": 1.0, "exit_code": 0, "signal": None, "reason": None, "error": None, "cpu_s": 0.1}
    rest = {"max_rss_bytes": 1024, "result": result, "result_error": None, "left": True}
    return {"fact": "ended", "attempt": attempt, **values, **rest, **more}


def lies(line: Line) -> None:
    """About the work of others, in every form there is."""
    line.facts(*(ended(each, {"forged": "by evil"}) for each in OTHERS))
    line.facts(*({"fact": "started", "attempt": each, "pid": 1, "pid_start": 1} for each in OTHERS))
    line.facts(*(ended(each, None, exit_code=1) for each in OTHERS))
    line.facts(*(
        {"fact": "worker_refused", "worker": f"w-j{at}-here-cpu{slot}", "error": "no"}
        for at in range(30)
        for slot in range(2)
    ))  # fmt: skip
    hits: dict[str, Any] = {"digest": "0" * 64, "hits": []}
    line.facts(*(
        {"fact": "chunk_done", "chunk": each, "start": 0, "stop": 1000, "elapsed_s": 1.0, **hits} for each in OTHERS
    ))  # fmt: skip
    line.facts(*(
        {"fact": "returned", "chunk": each, "position": None, "reason": "worker_died", "error": "x", **hits}
        for each in OTHERS
    ))  # fmt: skip
    line.say({"type": "progress", "chunks": {each: [999, 0] for each in OTHERS}})
    line.say({"type": "proved", "id": 1, "device": "here/cpu0", "ok": False})
    line.say({"type": "so_far", "attempt": "j1.1", "result": {"forged": 1}})


def nonsense(line: Line) -> None:
    """Values that no journal should hold."""
    line.facts({"fact": "ended", "attempt": "j1.1", "reason": "spawn", "error": "broken\0pipe"})
    line.facts(ended("j1.1", {"a\0b": "\ud800"}, error="\0\ud800", cpu_s=-1))
    line.say({"type": "error", "error": "\0" * 5000})
    line.say({"type": "leaving", "why": "\ud800"})


def flood(line: Line) -> None:
    """Faults by the thousand, in lines that are allowed."""
    for _ in range(2):
        line.facts(*({"fact": "unheard of"} for _ in range(4000)))
        line.facts(*(ended(f"j9999.{at}", None) for at in range(1000)))


def replay(line: Line) -> None:
    """Old facts, under numbers of before."""
    line.seq = 0
    line.facts(*(ended("j1.1", {"old": True}) for _ in range(50)))


def mid_line(line: Line) -> None:
    line.opened({})
    line.write(b'{"type":"facts","facts":[{"seq":1,"fact":"en')
    line.stream.close()


def no_cores(line: Line) -> None:
    line.opened({"cpus": 0})
    while True:
        line.hear()


def long_line(line: Line) -> None:
    line.opened({})
    line.write(b"[" * (9 << 20) + b"\n")
    while True:
        line.hear()


ENDINGS: dict[str, Callable[[Line], None]] = {"mid-line": mid_line, "no cores": no_cores, "long line": long_line}
"""What ends a connection."""
ACTS: dict[str, Callable[[Line], None]] = {"lies": lies, "nonsense": nonsense, "flood": flood, "replay": replay}


def files(line: Line) -> None:
    """A connection for files: everything is there, and nothing was left."""
    line.say({"type": "hello", "protocol": 1})
    answers = {"missing": {"missing": {}}, "lay": {"path": "/nowhere"}, "outputs": {"folder": "x", "files": []}}
    while True:
        line.say(answers.get(line.hear().get("op", ""), {}))


class Node:
    """Of its connections for commands, each is ended or used in the next way."""

    def __init__(self, report: str) -> None:
        self.report = report
        self.endings = list(ENDINGS.items())
        self.mutex = threading.Lock()

    def note(self, what: str) -> None:
        with open(self.report, "a", encoding="utf-8") as output:
            output.write(what + "\n")

    def use(self, line: Line, kind: str) -> None:
        if kind == "files":
            files(line)
            return
        with self.mutex:
            name, act = self.endings.pop(0) if self.endings else ("", None)
        if act is None:
            line.opened({})
            line.serve(acts(line, self.note))
            return
        try:
            act(line)
        finally:
            self.note(name)


def claim(node: Node, controller: str, token: str, name: str) -> None:
    """Say to be others, with its own token."""
    for claims in ("here", "nobody", name + "x"):
        assert called(controller, token, claims).hear()["type"] == "refused", claims
    node.note("claims")


def call(node: Node, controller: str, token: str, name: str) -> None:
    """Call again and again."""
    while True:
        with suppress(Over, OSError, ValueError):  # it may be away, and another one announce itself
            line = called(controller, token, name)
            line.taken()
            node.use(line, line.hear()["type"])
        time.sleep(0.1)


def listen(node: Node, path: str) -> None:
    """Take the place of the agent that listens there, as soon as it is gone: who holds its lock is not replaced."""
    lock = os.open(os.path.join(os.path.dirname(path), "lock"), os.O_RDWR)
    node.note("waits")
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.unlink(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        while True:
            stream, _ = server.accept()
            threading.Thread(target=answer, args=(node, Line(stream))).start()


def answer(node: Node, line: Line) -> None:
    """One connection of a controller, or of a program that asks only whether an agent listens."""
    with suppress(Over, OSError, ValueError):
        node.use(line, line.hear()["type"])


def acts(line: Line, note: Callable[[str], None]) -> Iterator[None]:
    for name, act in ACTS.items():
        act(line)
        note(name)
    yield
    while True:
        line.say({"type": "telemetry", "at": time.time(), "load": 1.0, "cores": 2, "devices": []})
        yield


if __name__ == "__main__":
    own_name, acts_file = sys.argv[1:]
    itself = Node(acts_file)
    if "SOCKET" in os.environ:
        listen(itself, os.environ["SOCKET"])
    controller_file, own_token = os.environ["CONTROLLER"], os.environ["TOKEN"]
    claim(itself, controller_file, own_token, own_name)
    for _ in range(3):
        threading.Thread(target=call, args=(itself, controller_file, own_token, own_name)).start()
