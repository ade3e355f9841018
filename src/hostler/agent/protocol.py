"""What goes over the wire: constants, line framing, and the validation of requests.

Formats: ``docs/reference/agent-protocol.md`` and ``docs/reference/worker-protocol.md``.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, cast

PROTOCOL = 1
VERSION = "0.1.0"
SOCKET_NAME = "agent.sock"
MAX_REQUEST_BYTES = 64 << 20
MAX_WORKER_LINE_BYTES = 6 << 20
MAX_CONTAINERS = 120_000  # a controller reads no line with many more: each costs more time than the bytes of it
MAX_READ_BYTES = 1 << 20
MAX_REQUEST_LEVELS = 200
MAX_RESULT_LEVELS = 64
ALLOCATION_ENDS = "its allocation ends"
"""How the error of what the end of an allocation has stopped begins."""

Json = Dict[str, Any]
ChunkSpec = Tuple[str, int, int]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
MOST_SECRETS = 100
MOST_SECRET_BYTES = 1 << 16
_REQUIRED = object()
_LARGEST_ECHO = 2048
_LONGEST_NAME = 256
_FIRST_TOO_LARGE = 1 << 63
_LONGEST_S = 1e12  # added to the time of day it is still a time; an integer may be too large for any float
_FIELD_LEVELS = MAX_REQUEST_LEVELS - 3  # a field lies in its object, that in a list, that in the request


class RequestError(ValueError):
    """A request that cannot be understood; nothing was done."""


class LineTooLong(ValueError):
    """A line grew past its limit before it ended; the stream cannot be trusted any more."""


class AttemptSpec(NamedTuple):
    """ATTEMPT of the protocol; durations in seconds, sizes in bytes, None means no limit."""

    id: str
    queue: str
    argv: List[str]
    env: Dict[str, Optional[str]]
    cwd: Optional[str]
    walltime_s: Optional[float]
    memory_bytes: Optional[int]
    grace_s: float
    log_bytes: int
    result_bytes: int
    inputs: Any
    lease_s: Optional[float]
    tell_s: Optional[float]
    disk_bytes: Optional[int]
    setup: Optional[Json]
    build_s: Optional[float]
    secrets: Dict[str, str]


class WorkerSpec(NamedTuple):
    """WORKER of the protocol; durations in seconds, sizes in bytes, None means no limit."""

    id: str
    queue: str
    argv: List[str]
    env: Dict[str, Optional[str]]
    cwd: Optional[str]
    open: Json
    silence_s: float
    start_s: float
    memory_bytes: Optional[int]
    grace_s: float
    log_bytes: int
    lease_s: Optional[float]


class CanarySpec(NamedTuple):
    """DEVICE of a ``prove`` request: the device to prove, and how."""

    device: str
    env: Dict[str, Optional[str]]
    argv: List[str]


class LineBuffer:
    """Cuts a byte stream into lines of at most ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()

    def feed(self, data: bytes) -> List[bytes]:
        """The lines completed by ``data``, without their ends.

        Raises LineTooLong when a line passes the limit.
        """
        if b"\n" not in data:
            self._pending += data
            self._check(len(self._pending))
            return []
        lines = (bytes(self._pending) + data).split(b"\n")
        self._pending = bytearray(lines.pop())
        self._check(max(len(self._pending), max(map(len, lines))))
        return lines

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise LineTooLong("a line is longer than %d bytes" % self._limit)


def is_id(value: object) -> bool:
    """Whether a value may name an attempt, a worker or a chunk: such a name is also a safe file name."""
    return type(value) is str and _ID.match(value) is not None


def is_shallow(value: object, levels: int) -> bool:
    """Whether decoded JSON is nested no deeper than so many levels; a number or a text has none."""
    if type(value) is dict:
        return levels > 0 and all(is_shallow(item, levels - 1) for item in value.values())
    if type(value) is list:
        return levels > 0 and all(is_shallow(item, levels - 1) for item in value)
    return True


def decode(line: bytes, deepest: int = MAX_RESULT_LEVELS) -> Json:
    """The JSON object of one line; raises RequestError for anything else, NaN and infinities included."""
    value = loads(line, deepest)
    if type(value) is not dict:
        raise RequestError("a line must hold one JSON object, not %s" % type(value).__name__)
    return value


def loads(data: bytes, deepest: int = MAX_RESULT_LEVELS) -> Any:
    """Strict JSON of any type; raises RequestError where Python's reader would be lenient or overflow.

    What comes out of it can be written as JSON again: no NaN, no infinity, not nested deeper than ``deepest`` levels.
    """
    try:
        value = _decoder.decode(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RequestError("no JSON: %s" % error) from None
    if data.count(b"[") + data.count(b"{") > deepest and not is_shallow(value, deepest):
        raise RequestError("no JSON of ours: it is nested deeper than %d levels" % deepest)
    return value


def is_bearable(data: bytes) -> bool:
    """Whether what a worker says can be sent on in one line: texts may grow when they are written in ASCII."""
    if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
        return False
    return len(data) <= MAX_WORKER_LINE_BYTES // 3 or data.isascii()


def line(message: Json) -> bytes:
    """One message as one line."""
    return (encode(message) + "\n").encode("ascii")


def echo(request: Json, data: bytes) -> Any:
    """A request as it is told of in an error: whole if it is short, and as text if it is no object or a deep one."""
    if len(data) <= _LARGEST_ECHO and request.get("type") != "launch":  # that may have secrets
        is_tellable = request and is_shallow(request, MAX_REQUEST_LEVELS)
        return request if is_tellable else data.decode("utf-8", "replace")
    told = {name: request.get(name) for name in ("type", "id")}
    return {**{name: value for name, value in told.items() if is_shallow(value, 0)}, "truncated": True}


def attempt_spec(raw: object) -> AttemptSpec:
    """A validated ATTEMPT; raises RequestError naming the field."""
    return AttemptSpec._make(_fields(raw, _ATTEMPT, "attempt"))


def worker_spec(raw: object) -> WorkerSpec:
    """A validated WORKER; raises RequestError naming the field."""
    return WorkerSpec._make(_fields(raw, _WORKER, "worker"))


def canary_spec(raw: object) -> CanarySpec:
    """A validated DEVICE of a ``prove`` request; raises RequestError naming the field."""
    return CanarySpec._make(_fields(raw, _CANARY, "a device to prove"))


def chunk_specs(raw: object) -> Tuple[List[ChunkSpec], List[str], Optional[RequestError]]:
    """The good ones of ``[id, start, stop]`` triples, the ids that bad ones have, and what is wrong with those."""
    items = raw if type(raw) is list else []
    good = [(item[0], item[1], item[2]) for item in items if _is_chunk(item)]
    bad = [item[0] for item in items if type(item) is list and item and is_id(item[0]) and not _is_chunk(item)]
    if type(raw) is list and len(good) == len(raw):
        return good, bad, None
    return good, bad, RequestError("chunks must be a list of [id, start, stop] with integers start <= stop")


def ends(raw: object) -> Tuple[List[Tuple[str, int]], Optional[RequestError]]:
    """The good ones of ``[id, stop]`` pairs, and what is wrong with the others."""
    items = raw if type(raw) is list else []
    good = [(item[0], item[1]) for item in items if _is_end(item)]
    if type(raw) is list and len(good) == len(raw):
        return good, None
    return good, RequestError("chunks must be a list of [id, stop] with an integer stop")


def id_list(raw: object, what: str) -> Tuple[List[str], Optional[RequestError]]:
    """The good ones of a list of ids, and what is wrong with the others."""
    good = [item for item in raw if is_id(item)] if type(raw) is list else []
    if type(raw) is list and len(good) == len(raw):
        return good, None
    return good, RequestError("%s must be a list of ids ([A-Za-z0-9][A-Za-z0-9._-]{0,127})" % what)


def integer(raw: object, what: str) -> int:
    """A validated integer of at most 64 bits, as the system calls take; raises RequestError."""
    if type(raw) is not int or not -_FIRST_TOO_LARGE <= raw < _FIRST_TOO_LARGE:
        raise RequestError("%s must be an integer of at most 64 bits, not %s" % (what, _shown(raw)))
    return raw


def seconds(raw: object, what: str) -> float:
    """A validated number of seconds, not negative; raises RequestError."""
    if not _is_seconds(raw):
        raise RequestError("%s must be a number of seconds from 0 to %g, not %s" % (what, _LONGEST_S, _shown(raw)))
    return float(cast(float, raw))


def _shown(raw: object) -> str:
    """A value for a message, shortened; an integer that is too long for Python to print, by its size."""
    if type(raw) is int and raw.bit_length() > 128:
        return "one of %d bits" % raw.bit_length()
    return "%.80r" % (raw,)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("%s is too large for a number; write null" % text[:40])
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError("%s is a number that JSON does not have; write null" % name)


encode: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def _fields(raw: object, table: Dict[str, Tuple[Callable[[Any], bool], Any, str]], what: str) -> List[Any]:
    if type(raw) is not dict:
        raise RequestError("%s must be an object, not %s" % (what, type(raw).__name__))
    unknown = raw.keys() - table.keys()
    if unknown:
        raise RequestError("%s has unknown fields: %s" % (what, ", ".join(sorted(unknown))[:200]))
    values = []
    for name, (check, default, expected) in table.items():
        value = raw.get(name, default)
        if value is _REQUIRED or not check(value):
            raise RequestError("%s field %r must be %s" % (what, name, expected))
        values.append(value)
    return values


def _is_text(value: object) -> bool:
    return type(value) is str and value != "" and "\0" not in value


def _is_argv(value: object) -> bool:
    return type(value) is list and bool(value) and _is_text(value[0]) and all(map(_is_argument, value))


def _is_argument(value: object) -> bool:
    return type(value) is str and "\0" not in value


def _is_env(value: object) -> bool:
    return type(value) is dict and all(
        key != "" and "=" not in key and "\0" not in key and (item is None or _is_argument(item))
        for key, item in value.items()
    )


def _is_secrets(value: object) -> bool:
    return _is_env(value) and _are_short(value)


def _are_short(values: Any) -> bool:
    return len(values) <= MOST_SECRETS and all(
        type(each) is str and len(each.encode("utf-8", "surrogatepass")) <= MOST_SECRET_BYTES
        for each in values.values()
    )


def _is_cwd(value: object) -> bool:
    return value is None or (type(value) is str and value.startswith("/") and "\0" not in value)


def _is_seconds(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= _LONGEST_S  # type: ignore[operator]


def _is_seconds_or_none(value: object) -> bool:
    return value is None or _is_seconds(value)


def _is_bytes(value: object) -> bool:
    return type(value) is int and 0 < value < 1 << 62


def _is_bytes_or_none(value: object) -> bool:
    return value is None or _is_bytes(value)


def _is_open(value: object) -> bool:
    is_open = type(value) is dict and value.keys() == {"digest", "params"} and type(value["digest"]) is str
    return is_open and _is_field(value)


def _is_setup(value: object) -> bool:
    if value is None:
        return True
    if type(value) is not dict or value.keys() != {"python", "file", "checked_as"} or not _is_text(value["python"]):
        return False
    file, checked_as = value["file"], value["checked_as"]
    is_below = file is None or (_is_text(file) and not file.startswith("/") and ".." not in file.split("/"))
    return is_below and (checked_as is None or (_is_text(checked_as) and len(checked_as) <= _LONGEST_NAME))


def _is_field(value: object) -> bool:
    return is_shallow(value, _FIELD_LEVELS)


def _is_end(value: object) -> bool:
    return type(value) is list and len(value) == 2 and is_id(value[0]) and type(value[1]) is int


def _is_chunk(value: object) -> bool:
    if type(value) is not list or len(value) != 3:
        return False
    return is_id(value[0]) and type(value[1]) is int and type(value[2]) is int and value[1] <= value[2]


_COMMON: Dict[str, Tuple[Callable[[Any], bool], Any, str]] = {
    "id": (is_id, _REQUIRED, "an id ([A-Za-z0-9][A-Za-z0-9._-]{0,127})"),
    "queue": (_is_text, _REQUIRED, "a non-empty string"),
    "argv": (_is_argv, _REQUIRED, "a non-empty list of strings without NUL, the first one not empty"),
    "env": (_is_env, {}, "an object of strings or nulls, without NUL, and without '=' in a name"),
    "cwd": (_is_cwd, None, "an absolute path or null"),
    "memory_bytes": (_is_bytes_or_none, None, "a positive integer or null"),
    "log_bytes": (_is_bytes, 10 << 20, "a positive integer"),
    "lease_s": (_is_seconds_or_none, None, "a number of seconds or null"),
}
_ATTEMPT = {
    **_COMMON,
    "walltime_s": (_is_seconds_or_none, None, "a number of seconds or null"),
    "grace_s": (_is_seconds, 10, "a number of seconds"),
    "result_bytes": (_is_bytes, 1 << 20, "a positive integer"),
    "tell_s": (_is_seconds_or_none, None, "a number of seconds or null"),
    "disk_bytes": (_is_bytes_or_none, None, "a positive integer or null"),
    "inputs": (_is_field, None, "any JSON of at most %d levels" % _FIELD_LEVELS),
    "setup": (
        _is_setup,
        None,
        'null or {"python": string, "file": relative path or null, "checked_as": string or null}',
    ),
    "build_s": (_is_seconds_or_none, None, "a number of seconds or null"),
    "secrets": (
        _is_secrets,
        {},
        "an object of at most %d strings of at most %d bytes, as env otherwise" % (MOST_SECRETS, MOST_SECRET_BYTES),
    ),
}
_ATTEMPT = {name: _ATTEMPT[name] for name in AttemptSpec._fields}
_WORKER = {
    **_COMMON,
    "open": (_is_open, _REQUIRED, 'an object {"digest": string, "params": …} of at most %d levels' % _FIELD_LEVELS),
    "silence_s": (_is_seconds, 30, "a number of seconds"),
    "start_s": (_is_seconds, 120, "a number of seconds"),
    "grace_s": (_is_seconds, 5, "a number of seconds"),
}
_WORKER = {name: _WORKER[name] for name in WorkerSpec._fields}
_CANARY = {
    "device": (_is_text, _REQUIRED, "a non-empty string"),
    "env": _COMMON["env"],
    "argv": _COMMON["argv"],
}
