"""What is fuzzed, and the ways to spoil what is good: one and the same for hypothesis and for atheris."""

from __future__ import annotations

import json
import random
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from .extremes import JSON

HANG_S = 30.0
"""CPU-seconds after which one input has hung: thousands of times what any of them should take."""
MOST_BYTES = 700 << 20
"""Memory that an input of a megabyte may cost."""

LITERALS = JSON
"""JSON that nobody reckons with, and some that is none."""
WORDS = (
    b"", b"\0", b"\n", b"\r", b"\t", b" ", b",", b":", b"-", b"=", b"*", b"&a", b"%", b"#", b"'", b'"', b"\\", b"[",
    b"]",
    b"{", b"}", b"\x1e\n", b"\x1f", b"\xff\xfe", "²".encode(), "é".encode(), "\u2028".encode(), b"N/A", b"[N/A]",
    b"(null)", b"nan", b"inf", b"1e999", b"-1", b"0", b"1", b"9" * 20, b"9" * 400, b"9" * 5000, b"0x", b"!!python/x",
    b"None", b"%s", b"..", b"/", b"[" * 300, b"{" * 300, b"- " * 40,
)  # fmt: skip
_TOKEN = re.compile(rb"[A-Za-z0-9_.]+")
_HOLE = "\ue000hole\ue000"


@dataclass(frozen=True)
class Target:
    """One reader of foreign text. `run` raises where it does what it must not: whatever it raises is a bug."""

    name: str
    run: Callable[[bytes], None]
    seeds: Sequence[bytes]
    reads: Sequence[str]
    """Modules of which it is told how much was reached."""
    large: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)
    """Inputs of about a megabyte that would show what grows with the square of it, or faster."""


class Hang(BaseException):
    """One input has taken too long; a `BaseException`, so that no reader takes it for an error of its own."""


@contextmanager
def bounded(most_s: float = HANG_S) -> Iterator[None]:
    """Raise `Hang` after so much CPU time of this process: on a machine that others use, too, that means something."""

    def on_alarm(_number: int, _frame: FrameType | None) -> None:
        raise Hang(f"more than {most_s:g} s of CPU")

    before = signal.signal(signal.SIGVTALRM, on_alarm)
    signal.setitimer(signal.ITIMER_VIRTUAL, most_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def spoilt(chance: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    """The data with some things changed, most of them such that it still looks like what it was."""
    for _ in range(chance.randint(1, 4)):
        data = chance.choice(_WAYS)(chance, data, seeds)
    return data


def _spoil_value(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    """One value of one line of JSON becomes another, is gone, or stands there twice."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    try:
        value = json.loads(lines[at])
    except (ValueError, RecursionError):
        return _spoil_word(chance, data, _seeds)
    places = list(_places(value, ()))
    changed = _changed(chance, value, chance.choice(places))
    lines[at] = json.dumps(changed).replace(json.dumps(_HOLE), chance.choice(LITERALS)).encode()
    return b"\n".join(lines)


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        if len(path) < 20:
            yield from _places(part, (*path, key))


def _changed(chance: random.Random, value: Any, path: tuple[Any, ...]) -> Any:
    if not path:
        return _HOLE
    if len(path) > 1:
        inner = _changed(chance, value[path[0]], path[1:])
        if isinstance(value, list):
            return [inner if at == path[0] else each for at, each in enumerate(value)]
        return {key: inner if key == path[0] else each for key, each in value.items()}
    way = chance.randrange(5)
    if isinstance(value, list):
        rest = [each for at, each in enumerate(value) if at != path[0]]
        return rest if way == 0 else [*value, *value[-3:]] if way == 1 else [*rest, _HOLE]
    rest = {key: each for key, each in value.items() if key != path[0]}
    if way == 0:
        return rest
    return {**rest, "surprise": 1} if way == 1 else {**rest, path[0]: _HOLE}


def _spoil_word(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    found = list(_TOKEN.finditer(data))
    if not found:
        return data + chance.choice(WORDS)
    token = chance.choice(found)
    return data[: token.start()] + chance.choice(WORDS) + data[token.end() :]


def _insert(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + chance.choice(WORDS) + data[at:]


def _cut(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    start = chance.randint(0, len(data))
    return data[:start] + data[start + chance.randint(0, min(40, len(data) - start)) :]


def _end(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    return data[: chance.randint(0, len(data))]


def _flip(chance: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def _lines(chance: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    """Lines are doubled, out of order, or of another one."""
    rows = data.splitlines(keepends=True) + chance.choice(seeds).splitlines(keepends=True)[:3]
    chosen = chance.choice(rows or [b""])
    at = chance.randint(0, len(rows))
    rows = [*data.splitlines(keepends=True)]
    rows.insert(min(at, len(rows)), chosen)
    return b"".join(rows)


_WAYS: Sequence[Callable[[random.Random, bytes, Sequence[bytes]], bytes]] = (
    _spoil_value, _spoil_value, _spoil_value, _spoil_word, _spoil_word, _insert, _cut, _end, _flip, _lines,
)  # fmt: skip
