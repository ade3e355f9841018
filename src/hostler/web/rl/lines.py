"""Lines of JSON that a training writes, to values: docs/reference/rl.md has what may stand in them.

Nobody vouches for what a job writes. A line is what it should be, all of it, or it is refused; what is in values is
finite, short and of the right type, so that whoever shows them need not ask again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import pydantic_core

from hostler.model.rl_telemetry import Waits
from hostler.web.rl.pictures import Picture, picture
from hostler.workloads.gameboy.shown import (
    AXES_MAX,
    ENVS_MAX,
    LINE_MAX,
    NAME_MAX,
    NAMES_MAX,
    NUMBER_MAX,
    PICTURES_MAX,
    PLACES_MAX,
)

T = TypeVar("T")

SCHEMA = 1
WHOLE_MAX = 1 << 53
"""Whole numbers beyond it are others in browsers."""
WORDS_MAX = 1000
BOUNDS_MAX = 32
BOUND = re.compile(r"\d{1,6}(\.\d{1,6})?")


class Faulty(ValueError):
    """A line that is not what it should be."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls to whoever advises that came to the same."""

    calls: int
    mean_s: float | None
    longest_s: float | None


@dataclass(frozen=True, slots=True)
class Advice:
    """What became of advice."""

    numbers: Mapping[str, float | None]
    calls: Mapping[str, Calls]
    """By what they came to."""
    waits: Waits | None
    """How long they were waited for."""
    trouble: str | None
    alarm: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A line with `rl`: how far it is. `None`: not told."""

    steps: int
    seconds: float
    at: float | None
    """When it was written, by the clock of whoever wrote it."""
    steps_asked: int | None
    updates: int | None
    episodes: int | None
    envs: int | None
    reward: float | None
    places: float | None
    spent: Mapping[str, float]
    parts: Mapping[str, float]
    shares: Mapping[str, float]
    alarms: tuple[str, ...]
    axes: tuple[tuple[str, int], ...]
    explored: Mapping[int, int]
    pictures: Mapping[int, Picture]
    advice: Advice | None
    update: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Trouble:
    """A line with `trouble`: what went wrong, in words."""

    says: str


@dataclass(frozen=True, slots=True)
class Ending:
    """A line with `done`: the last one."""

    done: bool


Line: TypeAlias = Update | Trouble | Ending


def read(line: bytes) -> Line | None:
    """What a line tells; `None` where it is some other output. Raises `Faulty`."""
    if not line.lstrip().startswith(b"{"):
        return None
    if len(line) > LINE_MAX:
        raise Faulty(f"a line has {len(line)} bytes")
    try:
        told: Mapping[str, Any] = pydantic_core.from_json(line, allow_inf_nan=False)
        if "rl" in told:
            return _update(told)
        if "trouble" in told:
            return Trouble(_words(told["trouble"]))
        return Ending(_flag(told["done"])) if "done" in told else None
    except Faulty:
        raise
    except ValueError as error:
        raise Faulty(str(error)[:WORDS_MAX]) from error


def _update(told: Mapping[str, Any]) -> Update:
    if type(told["rl"]) is not int or told["rl"] != SCHEMA:
        raise Faulty("a line is of another version")
    return Update(
        steps=_whole(told.get("steps")),
        seconds=_amount(told.get("seconds")),
        at=_optional(told.get("at"), _amount),
        steps_asked=_optional(told.get("of"), _whole),
        updates=_optional(told.get("updates"), _whole),
        episodes=_optional(told.get("episodes"), _whole),
        envs=_optional(told.get("envs"), lambda value: _whole(value, ENVS_MAX)),
        reward=_optional(told.get("reward"), _number),
        places=_optional(told.get("places"), _amount),
        spent=_by_name(told.get("spent"), _amount),
        parts=_by_name(told.get("parts"), _number),
        shares=_by_name(told.get("shares"), _share),
        alarms=tuple(_text(each, NAME_MAX) for each in _list(told.get("alarms"), NAMES_MAX)),
        axes=_axes(told.get("map")),
        explored=_by_number(told.get("explored"), PLACES_MAX, PLACES_MAX, _whole),
        pictures=_by_number(told.get("pictures"), PICTURES_MAX, ENVS_MAX, _picture),
        advice=_optional(told.get("advice"), _advice),
        update=_by_name(told.get("update"), _maybe),
    )


def _optional(value: Any, read_: Callable[[Any], T]) -> T | None:
    return None if value is None else read_(value)


def _number(value: Any) -> float:
    # First its size: what is too large for a float cannot be asked whether it is finite.
    if type(value) not in (int, float) or abs(value) > NUMBER_MAX or not math.isfinite(value):
        raise Faulty("a number is none, or too large")
    return float(value)


def _amount(value: Any) -> float:
    found = _number(value)
    if found < 0:
        raise Faulty("an amount is less than nothing")
    return found


def _share(value: Any) -> float:
    found = _amount(value)
    if found > 1:
        raise Faulty("a share is more than the whole")
    return found


def _maybe(value: Any) -> float | None:
    return _optional(value, _number)


def _whole(value: Any, most: int = WHOLE_MAX) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise Faulty("a whole number is none, or too large")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise Faulty("`done` is neither true nor false")
    return value


def _text(value: Any, most: int) -> str:
    if type(value) is not str or not 0 < len(value) <= most:
        raise Faulty("words are none, or too many")
    return value


def _words(value: Any) -> str:
    """Words for people, the first of them where they are many."""
    found = _text(value, LINE_MAX)
    return found if len(found) <= WORDS_MAX else f"{found[: WORDS_MAX - 1]}…"


def _list(value: Any, most: int) -> list[Any]:
    if value is None:
        return []
    if type(value) is not list or len(value) > most:
        raise Faulty("a list is none, or too long")
    return value


def _mapping(value: Any, most: int) -> Mapping[str, Any]:
    if value is None:
        return {}
    if type(value) is not dict or len(value) > most:
        raise Faulty("a mapping is none, or too large")
    return value


def _by_name(value: Any, read_: Callable[[Any], T]) -> Mapping[str, T]:
    return {_text(name, NAME_MAX): read_(each) for name, each in _mapping(value, NAMES_MAX).items()}


def _by_number(value: Any, most: int, below: int, read_: Callable[[Any], T]) -> Mapping[int, T]:
    return {_key(name, below): read_(each) for name, each in _mapping(value, most).items()}


def _key(text: str, below: int) -> int:
    """A whole number as the name of something; written in one way only, so that no two names are the same."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 7) or int(text) >= below or str(int(text)) != text:
        raise Faulty("a name is no whole number, or too large")
    return int(text)


def _axes(value: Any) -> tuple[tuple[str, int], ...]:
    found = []
    for each in _list(value, AXES_MAX):
        name, width = _list(each, 2) if type(each) is list and len(each) == 2 else (None, None)
        found.append((_text(name, NAME_MAX), _whole(width, PLACES_MAX)))
    if found and not 0 < math.prod(width for _, width in found) <= PLACES_MAX:
        raise Faulty("a map has no places, or too many")
    return tuple(found)


def _advice(value: Any) -> Advice:
    told = dict(_mapping(value, NAMES_MAX))
    calls, waits, trouble, alarm = (told.pop(name, None) for name in ("calls", "waits", "trouble", "alarm"))
    return Advice(
        numbers=_by_name(told, _maybe),
        calls=_by_name(calls, _calls),
        waits=_optional(waits, _waits),
        trouble=_optional(trouble, _words),
        alarm=_optional(alarm, _words),
    )


def _calls(value: Any) -> Calls:
    told = _mapping(value, NAMES_MAX)
    mean_s, longest_s = (_optional(told.get(name), _amount) for name in ("mean_s", "longest_s"))
    return Calls(_whole(told.get("calls")), mean_s, longest_s)


def _waits(value: Any) -> Waits:
    told = _mapping(value, NAMES_MAX)
    within = sorted((_bound(name), _whole(each)) for name, each in _mapping(told.get("within"), BOUNDS_MAX).items())
    calls = _whole(told.get("calls"))
    counts = [each for _, each in within]
    if counts != sorted(counts) or len(dict(within)) < len(within) or (counts and counts[-1] > calls):
        raise Faulty("of longer waits there are fewer")
    return Waits(within=tuple(within), calls=calls, seconds=_amount(told.get("seconds")))


def _bound(text: str) -> float:
    if not (text.isascii() and BOUND.fullmatch(text)) or float(text) <= 0:
        raise Faulty("a bound is no number of seconds")
    return float(text)


def _picture(value: Any) -> Picture:
    return picture(_text(value, LINE_MAX))
