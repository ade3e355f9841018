"""What an agent makes of the lines that somebody sends it who is no controller, or a broken one."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from hostler.agent.commands import order_of
from hostler.agent.post import Intake
from hostler.agent.protocol import (
    LineBuffer,
    LineTooLong,
    RequestError,
    attempt_spec,
    canary_spec,
    chunk_specs,
    decode,
    echo,
    encode,
    ends,
    id_list,
    integer,
    line,
    worker_spec,
)

from .base import Target
from .samples import REQUESTS

LONGEST = 2 << 20


def target(data: bytes) -> None:
    """Every line is a request that can be carried out and told of, or a `RequestError`."""
    buffer, half = LineBuffer(LONGEST), len(data) // 2
    with suppress(LineTooLong):
        for each in (*buffer.feed(data[:half]), *buffer.feed(data[half:])):
            _line(each)
    with suppress(RequestError):
        for request, more in Intake().feed(data):
            assert type(request) is dict
            assert len(more) == (request["size"] if request.get("op") == "say" else 0)


def _line(data: bytes) -> None:
    request: dict[str, Any] = {}
    try:
        request = decode(data, len(data))
        assert decode(encode(request).encode(), len(data)) == request
        _validated(request)
    except RequestError as error:
        assert str(error)
        line({"type": "error", "error": str(error), "request": echo(request, data)})


def _validated(request: dict[str, Any]) -> None:
    for read, name in ((attempt_spec, "attempts"), (canary_spec, "devices")):
        for raw in request[name] if isinstance(request.get(name), list) else ():
            with suppress(RequestError):
                _check_spec(read(raw))
    with suppress(RequestError):
        _check_spec(worker_spec(request.get("worker")))
    with suppress(RequestError):
        assert 0 < order_of(request).timeout_s < math.inf
    chunks, bad, error = chunk_specs(request.get("chunks"))
    assert (error is None) or not (isinstance(request.get("chunks"), list) and len(chunks) == len(request["chunks"]))
    assert all(type(start) is int and start <= stop for _, start, stop in chunks)
    assert all(isinstance(each, str) for each in bad)
    ends(request.get("chunks"))
    id_list(request.get("attempts"), "attempts")
    for name in ("epoch", "ack", "seq"):
        integer(request.get(name, 0), name)


def _check_spec(spec: Any) -> None:
    """What runs later reckons with its times, and gives its words to the system."""
    for name, value in spec._asdict().items():
        if name.endswith("_s") and value is not None:
            assert math.isfinite(float(value)), (name, value)
    assert all("\0" not in word for word in spec.argv)


def _nested() -> bytes:
    return b'{"type":"launch","attempts":[{"id":"a","queue":"q","argv":["x"],"inputs":' + b"[" * 10**6


TARGET = Target(
    name="agent_lines",
    run=target,
    seeds=REQUESTS,
    reads=("hostler.agent.protocol", "hostler.agent.post", "hostler.agent.commands"),
    large={
        "many lines": lambda: b'{"type":"x"}\n' * 80_000,
        "one line": lambda: b"x" * (1 << 20),
        "deep": _nested,
        "many attempts": lambda: b'{"attempts":[' + b"{}," * 300_000 + b"{}]}\n",
        "many chunks": lambda: b'{"chunks":[' + b'["a",1,2],' * 100_000 + b"[]]}\n",
        "digits": lambda: b'{"seq":' + b"9" * 10**6 + b"}\n",
        "keys": lambda: b"{" + b",".join(b'"%d":0' % at for at in range(100_000)) + b"}\n",
    },
)
