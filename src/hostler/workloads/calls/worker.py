"""Worker of function calls: runs the calls that a client has pickled, and reports what they return or raise.

It is sent to nodes as one file beside `calls.pkl`, `index` and the package `cloudpickle`, imports nothing of Hostler
and runs on Python 3.8 or newer. It speaks docs/reference/worker-protocol.md.

Two processes: the first speaks the protocol, reports every second, and never unpickles anything; the second, forked
from it, runs the calls. So a call may keep the interpreter busy for hours without the worker being silent, and one that
ends its process (a segmentation fault, `os._exit`, the kernel's memory killer) costs no other call. It is tried again
once, and then its result is that it died.

A result is the text of a JSON document, in which values that JSON does not have are objects with the one key `$`;
only with `trust` is it a pickle.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import select
import signal
import struct
import sys
import time
import traceback
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

FORMAT = 1
PARAMS = {"format", "python", "implementation", "calls", "trust", "batch"}
RECORD = struct.Struct("<QQQQ")
"""Of one call in `index`: offset and length of its function, and of its arguments, in `calls.pkl`."""
FRAME = struct.Struct("<Q")

RESULT_BYTES = 4 << 20
"""The longest result, as it is sent."""
TEXT_BYTES = 1 << 16
"""The longest message and the longest traceback; of longer ones the ends are kept."""
BEAT_S = 1.0
PART_AFTER_S = 2.0
"""Results wait at most so long for the end of their chunk, if no call is running: then the worker ends the chunk."""
PART_BYTES = 1 << 20
"""The same for their size: a line may have 16 MiB."""
SLOW_BEAT_S = 5.0
LIGHT_BYTES = 1 << 18
"""A checkpoint has all results of its chunk; with more than this it is sent less often."""
DEATHS = 2
"""So many processes may die of one call."""
STARTS = 3
"""So often is a call started on a node when even the reporting process ends each time, as with a limit on memory."""
FUNCTIONS_KEPT = 64
HERE = os.path.dirname(os.path.abspath(__file__))


class Refused(Exception):
    """The parameters are refused; the message says why and what to do."""


class Unfit(Exception):
    """A result cannot be sent; the message says why and what to do."""


# --- what comes back ------------------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """The value as JSON has it. Only exact types: nothing may come back as something else than it was.

    Raises Unfit for a type that JSON and arrays do not cover.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [encode(item) for item in value]
    if kind is dict:
        if all(type(key) is str for key in value) and "$" not in value:
            return {key: encode(item) for key, item in value.items()}
        return {"$": ["dict", [[encode(key), encode(item)] for key, item in value.items()]]}
    if kind is tuple:
        return {"$": ["tuple", [encode(item) for item in value]]}
    if kind in (bytes, complex):
        data = _base64(value) if kind is bytes else [value.real, value.imag]
        return {"$": [kind.__name__, data]}
    return _encode_array(value, kind)


def _encode_array(value: Any, kind: type) -> Any:
    numpy = sys.modules.get("numpy")  # a value of numpy is here only if numpy is
    if numpy is not None and (kind is numpy.ndarray or isinstance(value, numpy.generic)):
        if value.dtype.kind not in "biufcmMSU":
            raise Unfit("it has an array of dtype %s" % value.dtype)
        name, data = ("array", value) if kind is numpy.ndarray else ("scalar", numpy.asarray(value))
        shape = list(data.shape)
        return {"$": [name, data.dtype.str, shape, _base64(numpy.ascontiguousarray(data).tobytes())]}
    raise Unfit("it has a value of type %s.%s" % (kind.__module__, kind.__qualname__))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def returned(at: int, value: Any, trust: bool, dumps: Callable[[Any], bytes]) -> bytes:
    """The hit of a call that returned. Raises Unfit."""
    if trust:
        try:
            data = dumps(value)
        except Exception as error:
            raise Unfit("it cannot be pickled: %s" % _text(error)) from None
        return _hit(at, {"pickle": _base64(data)})
    try:
        text = json.dumps(encode(value), separators=(",", ":"))
    except Unfit as error:
        raise Unfit("%s. Return JSON values or arrays, or make the Executor with trust=True" % error) from None
    except (RecursionError, ValueError) as error:
        raise Unfit("it cannot be written as JSON: %s. Return a flatter value" % _text(error)) from None
    return _hit(at, {"value": text})


def _hit(at: int, fields: Dict[str, Any]) -> bytes:
    data = json.dumps(dict(fields, at=at), separators=(",", ":")).encode("ascii")
    if len(data) > RESULT_BYTES:
        raise Unfit(
            "it takes %d bytes on its way; at most %d are sent. Save it to a file or a store, and return its path"
            % (len(data), RESULT_BYTES)
        )
    return data


def raised(at: int, error: BaseException, trust: bool, dumps: Callable[[Any], bytes]) -> bytes:
    """The hit of a call that raised."""
    kind, trace = type(error), error.__traceback__
    own = None if trace is None else trace.tb_next
    told: Dict[str, Any] = {
        "type": kind.__qualname__ if kind.__module__ == "builtins" else kind.__module__ + "." + kind.__qualname__,
        "text": _text(error),
        "args": None,
        "traceback": _ended("".join(traceback.format_exception(kind, error, own))),
    }
    attempts: List[Dict[str, Any]] = [{}]
    try:
        # `args` of an OSError lacks the file's name, its way of being pickled has it
        arguments = error.__reduce__()[1] if kind.__module__ == "builtins" else error.args
        attempts.insert(0, {"args": json.dumps(encode(list(arguments)))})
    except Exception:
        told["args"] = None  # some arguments are not JSON: the text has to do
    if trust:
        try:
            attempts.insert(0, {"pickle": _base64(dumps(error))})
        except Exception:
            told["unpickled"] = True
    for more in attempts:
        try:
            return _hit(at, {"error": dict(told, **more)})
        except Unfit:
            continue
    raise AssertionError("an error is bounded without its arguments")


def _text(error: BaseException) -> str:
    try:
        return _ended(str(error))
    except Exception as other:
        return "its text cannot be made: %s" % type(other).__name__


def _ended(text: str) -> str:
    return text if len(text) <= TEXT_BYTES else "…" + text[-TEXT_BYTES:]


# --- the process that runs the calls --------------------------------------------------------------------------------


def run_calls(source: int, target: int, trust: bool) -> None:
    """Run each call whose number comes from `source`; its hit goes to `target`."""
    sys.path.insert(0, HERE)
    try:
        import cloudpickle
    except Exception as error:
        cloudpickle, failure = None, _text(error)
    sys.path[:] = [os.getcwd()] + [path for path in sys.path if path != HERE]
    functions: Dict[Tuple[int, int], Any] = {}
    calls, index = (os.open(os.path.join(HERE, name), os.O_RDONLY) for name in ("calls.pkl", "index"))
    with open(source, "rb", 0) as numbers:
        for line in numbers:
            at = int(line)
            if cloudpickle is None:
                hit = _hit(at, {"unloadable": "cloudpickle cannot be imported: " + failure})
            else:
                hit = _called(at, calls, index, functions, trust, cloudpickle)
            sys.stdout.flush()
            sys.stderr.flush()
            write(target, FRAME.pack(len(hit)) + hit)


def _called(at: int, calls: int, index: int, functions: Dict[Tuple[int, int], Any], trust: bool, pickler: Any) -> bytes:
    begin, size, begin_arguments, size_arguments = RECORD.unpack(_read_at(index, RECORD.size, at * RECORD.size))
    try:
        if (begin, size) not in functions:
            if len(functions) >= FUNCTIONS_KEPT:
                functions.clear()
            functions[begin, size] = pickler.loads(_read_at(calls, size, begin))
        arguments, named = pickler.loads(_read_at(calls, size_arguments, begin_arguments))
    except BaseException as error:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        return _hit(at, {"unloadable": "%s: %s" % (type(error).__name__, _text(error)), "traceback": _ended(trace)})
    try:
        value = functions[begin, size](*arguments, **named)
    except BaseException as error:
        return raised(at, error, trust, pickler.dumps)
    try:
        return returned(at, value, trust, pickler.dumps)
    except Unfit as error:
        return _hit(at, {"unfit": str(error)})


def _read_at(file: int, size: int, offset: int) -> bytes:
    data = os.pread(file, size, offset)
    while len(data) < size:
        more = os.pread(file, size - len(data), offset + len(data))
        if not more:
            raise EOFError("a file of the calls is too short")
        data += more
    return data


def write(target: int, data: bytes) -> None:
    """All of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


class Runner:
    """The process that runs calls, one at a time; it is forked when it is needed."""

    def __init__(self, trust: bool, private: List[int]) -> None:
        """`private` are descriptors that it must not have."""
        self._trust = trust
        self._private = private
        self._pid: Optional[int] = None
        self._numbers = -1
        self._data = bytearray()
        self.hits = -1

    def prepare(self) -> None:
        """Have the process ready: it imports what it needs while the first chunk is on its way."""
        if self._pid is None:
            self._fork()

    def start(self, at: int) -> None:
        """Start a call."""
        self.prepare()
        try:
            os.write(self._numbers, b"%d\n" % at)
        except BrokenPipeError:
            return  # it has died meanwhile, which `died` tells

    def read(self) -> Optional[bytes]:
        """The hit of the call, once all of it is here."""
        assert self._pid is not None
        data = os.read(self.hits, 1 << 16)
        self._data += data
        if not data:  # it is ending; one that has only closed its pipe is of no use any more
            os.kill(self._pid, signal.SIGKILL)
        if len(self._data) < FRAME.size:
            return None
        (size,) = FRAME.unpack_from(self._data)
        if len(self._data) < FRAME.size + size:
            return None
        hit = bytes(self._data[FRAME.size : FRAME.size + size])
        self._data.clear()
        return hit

    def died(self) -> Optional[str]:
        """How its process ended, if it has."""
        assert self._pid is not None
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid == 0:
            return None
        self._close()
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            names = {int(each): each.name for each in signal.Signals}
            return "signal %d (%s)" % (number, names.get(number, "unknown"))
        return "exit status %d" % os.WEXITSTATUS(status)

    def kill(self) -> None:
        """End it."""
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._close()

    def _close(self) -> None:
        os.close(self._numbers)
        os.close(self.hits)
        self._pid, self._numbers, self.hits = None, -1, -1
        self._data.clear()

    def _fork(self) -> None:
        theirs_in, self._numbers = os.pipe()
        self.hits, theirs_out = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                for each in (self._numbers, self.hits, *self._private):
                    os.close(each)
                nothing = os.open(os.devnull, os.O_RDONLY)
                os.dup2(nothing, 0)
                os.close(nothing)
                run_calls(theirs_in, theirs_out, self._trust)
                status = 0
            finally:
                os._exit(status)
        os.close(theirs_in)
        os.close(theirs_out)
        self._pid = pid


# --- the process that speaks the protocol ---------------------------------------------------------------------------


class Chunk:
    """A chunk in work: the results that are not accepted yet, and how far it is."""

    def __init__(self, name: str, start: int, stop: int) -> None:
        self.name, self.start, self.stop = name, start, stop
        self.position = start
        self.hits: List[bytes] = []
        self.size = 0
        self.held_since = 0.0

    def add(self, hit: bytes, now: float) -> None:
        self.held_since = self.held_since if self.hits else now
        self.hits.append(hit)
        self.size += len(hit)
        self.position += 1

    def is_full(self, now: float) -> bool:
        """Whether it should end here."""
        return self.start < self.position and (now - self.held_since >= PART_AFTER_S or self.size >= PART_BYTES)


class Starts:
    """How often each call was started on this node and not seen to end; kept in a file, if the folder takes one."""

    def __init__(self) -> None:
        self.files: List[int] = []
        try:
            self.files.append(os.open(os.path.join(HERE, "starts"), os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            sys.stderr.write("calls that end their worker are not counted: %s\n" % error)

    def count(self, at: int) -> int:
        """Of one call."""
        return (os.pread(self.files[0], 1, at) or b"\0")[0] if self.files else 0

    def note(self, at: int, count: int) -> None:
        if self.files:
            try:
                os.pwrite(self.files[0], bytes([min(count, 255)]), at)
            except OSError as error:
                sys.stderr.write("calls that end their worker are not counted: %s\n" % error)
                self.files.clear()


class Worker:
    """The worker between its opening and the end of its input."""

    def __init__(self, out: int, digest: str, trust: bool) -> None:
        self._out = out
        self._digest = digest
        self._starts = Starts()
        self._runner = Runner(trust, [out, *self._starts.files])
        self._chunks: Deque[Chunk] = deque()
        self._running: Optional[int] = None
        self._deaths = 0
        self._said_at = 0.0
        self._ending = False
        self._woken, self._wake = os.pipe()
        for each in (self._woken, self._wake):
            os.set_blocking(each, False)

    def serve(self, lines: "Lines") -> None:
        """Until the end of input, or SIGTERM."""
        signal.set_wakeup_fd(self._wake)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        try:
            self._runner.prepare()
            while not self._ending and self._turn(lines):
                pass
            if self._ending:
                self._end()
        finally:
            self._runner.kill()

    def _turn(self, lines: "Lines") -> bool:
        while self._chunks and self._running is None and self._advance(self._chunks[0]):
            pass
        busy = self._running is not None
        rest_s = max(self._said_at + self._beat_s() - time.monotonic(), 0.0) if busy else None
        ready = select.select([0, self._woken] + ([self._runner.hits] if busy else []), [], [], rest_s)[0]
        if self._ending:
            return True
        if 0 in ready:
            for request in lines.read():
                self.take(request)
            if lines.ended:
                return False
        if self._running is not None:
            self._hear(self._running, self._runner.hits in ready)
        if self._running is not None and time.monotonic() - self._said_at >= self._beat_s():
            self._beat(self._chunks[0])
        return True

    def take(self, request: Dict[str, Any]) -> None:
        """A request."""
        if request["type"] == "chunk":
            if not self._chunks:
                self._said_at = time.monotonic()
            self._chunks.append(Chunk(request["id"], request["start"], request["stop"]))
        elif request["type"] == "trim":
            for place, chunk in enumerate(self._chunks):
                if chunk.name == request["id"]:
                    reached = chunk.position + (1 if place == 0 and self._running is not None else 0)
                    chunk.stop = min(chunk.stop, max(request["stop"], reached))

    def _advance(self, chunk: Chunk) -> bool:
        """Start the next call of a chunk, or end the chunk; whether it did not start one."""
        now = time.monotonic()
        if chunk.position >= chunk.stop:
            self._chunks.popleft()
            end = {"type": "done", "id": chunk.name, "digest": self._digest, "start": chunk.start, "stop": chunk.stop}
            self._say(end, chunk.hits)
            return True
        if chunk.is_full(now):
            self._chunks.popleft()
            self._say({"type": "part", "id": chunk.name, "position": chunk.position}, chunk.hits)
            return True
        at = chunk.position
        started = self._starts.count(at)
        if started >= STARTS:
            self._starts.note(at, 0)
            how = (
                "the worker ended %d times while it ran the call: a limit on memory, or a signal from outside" % started
            )
            chunk.add(_hit(at, {"died": how}), now)
            return True
        self._starts.note(at, started + 1)
        self._running = at
        self._runner.start(at)
        return False

    def _hear(self, at: int, ready: bool) -> None:
        hit = self._runner.read() if ready else None
        if hit is None:
            how = self._runner.died()
            if how is None:
                return
            self._deaths += 1
            if self._deaths < DEATHS:
                self._runner.start(at)
                return
            hit = _hit(at, {"died": "its process ended with %s, %d times" % (how, self._deaths)})
        self._starts.note(at, 0)
        self._running, self._deaths = None, 0
        self._chunks[0].add(hit, time.monotonic())

    def _beat_s(self) -> float:
        return BEAT_S if not self._chunks or self._chunks[0].size <= LIGHT_BYTES else SLOW_BEAT_S

    def _beat(self, chunk: Chunk) -> None:
        self._say({"type": "checkpoint", "id": chunk.name, "position": chunk.position}, chunk.hits)

    def _say(self, message: Dict[str, Any], hits: List[bytes]) -> None:
        self._said_at = time.monotonic()
        begin = json.dumps(message, separators=(",", ":")).encode("ascii")
        write(self._out, begin[:-1] + b',"hits":[' + b",".join(hits) + b"]}\n")

    def _on_sigterm(self, _number: int, _frame: Any) -> None:
        self._ending = True

    def _end(self) -> None:
        """After SIGTERM: the results that it has are told, and the call that runs has not died of itself."""
        if self._running is not None:
            self._starts.note(self._running, 0)
        if self._chunks and self._chunks[0].hits:
            self._beat(self._chunks[0])


class Lines:
    """Requests from standard input."""

    def __init__(self) -> None:
        self._data = b""
        self.ended = False

    def read(self) -> List[Dict[str, Any]]:
        """Those that are complete; blocks until there is something."""
        data = os.read(0, 1 << 16)
        self.ended = not data
        *lines, self._data = (self._data + data).split(b"\n")
        return [json.loads(line) for line in lines]


def check(params: Any) -> None:
    """Raise Refused unless these are the parameters of calls that this Python can run."""
    if type(params) is not dict or set(params) != PARAMS or params["format"] != FORMAT:
        raise Refused(
            "these are not parameters of calls in format %d; client and controller differ in version" % FORMAT
        )
    theirs = (params["implementation"], list(params["python"]))
    ours = (sys.implementation.name, list(sys.version_info[:2]))
    if theirs != ours:
        wanted, found = ("%s %s" % (name, ".".join(map(str, version))) for name, version in (theirs, ours))
        raise Refused(
            "the calls were pickled by %s, and this node (%s) runs them with %s, %s: functions do not pass between "
            "them. Set `python:` of the node in the fleet file to a %s, or start the client with %s"
            % (wanted, os.uname().nodename, found, sys.executable, wanted, found)
        )


def main() -> int:
    """Speak the protocol; returns the exit status."""
    out = os.dup(1)
    os.dup2(2, 1)  # what calls print goes to the log
    lines = Lines()
    requests: List[Dict[str, Any]] = []
    while not requests and not lines.ended:
        requests = lines.read()
    if not requests:
        return 0
    params = requests[0]["params"]
    text = json.dumps(params, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    try:
        check(params)
    except Refused as error:
        write(out, json.dumps({"type": "failed", "error": str(error)}).encode("ascii") + b"\n")
        return 1
    # A chunk that waits behind a long call may be taken back: it must not be in the pipe then, where it would be begun.
    opened = {"type": "opened", "digest": digest, "trims": True, "ahead": False}
    write(out, json.dumps(opened).encode("ascii") + b"\n")
    worker = Worker(out, digest, params["trust"])
    for request in requests[1:]:
        worker.take(request)
    worker.serve(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
