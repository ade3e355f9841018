"""From the agent's facts (docs/reference/agent-protocol.md) to inputs for the core, strictly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import ValidationError

from hostler.backends.base import Facts
from hostler.backends.channel import words
from hostler.model.codec import adapter, explain
from hostler.model.errors import LinkLost
from hostler.model.fleet import MemoryLimits
from hostler.model.inputs import (
    Ended,
    Found,
    Input,
    LinkUp,
    Progress,
    Returned,
    Searched,
    Started,
    Telemetry,
    Trouble,
    WorkerRefused,
)
from hostler.model.telemetry import USERS_MOST, DeviceTelemetry, DeviceUser
from hostler.model.work import DeviceKind

Shape = TypeVar("Shape")

EVIDENCE_MOST = 2048
WORD_MOST = 64
"""Characters of a name that a node tells."""
"""Characters; an agent sends no more."""
ERROR_MOST = 8000
"""Characters of why an attempt ended."""
WHY_MOST = 300
"""Characters of what cannot be understood."""


@contextmanager
def understood(node: str, what: str) -> Iterator[None]:
    """Whatever an agent tells that is of another shape than it should be costs it its link: `LinkLost` says why."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        # A validation error is a `ValueError`, and a long one; that of a key is the key alone.
        why = explain(error) if isinstance(error, ValidationError) else f"{type(error).__name__}: {error}"
        raise LinkLost(
            f"what the agent on {node} tells of {what} cannot be understood: {words(why, WHY_MOST)}"
        ) from error


def checked(shape: type[Shape], values: Facts) -> Shape:
    """A record of what a node tells. Raises `ValidationError`."""
    made: Shape = adapter(shape).validate_python(values)
    return made


def link_up_of(node: str, hello: Facts) -> LinkUp:
    """What an agent has, by its opening words. Raises `KeyError`, `ValidationError`."""
    names = ("agent", "incarnation", "boot", "attempts", "chunks")
    limits = hello.get("memory_limits")
    more = {
        "reads_devices": hello.get("samples") is True,
        "memory_limits": limits if limits in tuple(MemoryLimits) else None,
    }
    return checked(LinkUp, {"node": node, **more, **{name: hello[name] for name in names}})


def input_of(node: str, fact: Facts) -> Input:
    """The input a fact stands for.

    A fact that breaks the protocol becomes what does the least harm and is counted: a chunk whose result cannot be
    read is searched again, an attempt whose end cannot be read is lost, anything else is recorded as trouble.
    """
    convert = CONVERTERS.get(str(fact.get("fact")))
    if convert is None:
        return Trouble(where=f"node {node}", what=f"it told a fact of unknown kind: {str(fact)[:200]}")
    try:
        return convert(fact)
    except (KeyError, ValidationError) as error:
        return _unreadable(node, fact, error)


def progress_of(message: Facts) -> Progress:
    """How far chunks are, from a `progress` message."""
    chunks = {str(chunk): (int(told[0]), int(told[1])) for chunk, told in message["chunks"].items()}
    found = {
        str(chunk): checked(Found, {"digest": told[2], "hits": told[3]})
        for chunk, told in message["chunks"].items()
        if len(told) == 4
    }
    return Progress(chunks=chunks, found=found)


def telemetry_of(node: str, message: Facts) -> Telemetry:
    """How a node is, from a `telemetry` message; what it does not say, or not as a sensible number, is unknown."""
    load, cores = _number(message.get("load")), _number(message.get("cores"))
    listed = message.get("devices")
    devices = [each for each in listed if _is_device(each)] if isinstance(listed, list) else []
    return Telemetry(
        node=node,
        at=_number(message.get("at")) or 0.0,
        load=None if load is None or not cores else load / cores,
        memory_total_gb=_gigabytes(message.get("memory_bytes")),
        memory_free_gb=_gigabytes(message.get("memory_free_bytes")),
        disk_total_gb=_gigabytes(message.get("disk_bytes")),
        disk_free_gb=_gigabytes(message.get("disk_free_bytes")),
        backlog_s=_number(message.get("backlog_s")),
        devices={f"{node}/{each['kind']}{each['index']}": _device(each) for each in devices},
    )


def _is_device(told: object) -> bool:
    return isinstance(told, dict) and type(told.get("index")) is int and told.get("kind") in tuple(DeviceKind)


def _device(told: Facts) -> DeviceTelemetry:
    utilization = _number(told.get("utilization"))
    return DeviceTelemetry(
        utilization=utilization if utilization is not None and utilization <= 1 else None,
        vram_used_gb=_gigabytes(told.get("vram_used_bytes")),
        temperature_c=_number(told.get("temperature_c")),
        age_s=_number(told.get("age_s")) or 0.0,
        users=_users(told.get("processes")),
    )


def _users(listed: object) -> tuple[DeviceUser, ...] | None:
    """The processes of a device; `None` if they are not listed."""
    if not isinstance(listed, list):
        return None
    return tuple(_user(each) for each in listed[:USERS_MOST] if isinstance(each, dict))


def _user(told: Facts) -> DeviceUser:
    pid, ours = told.get("pid"), told.get("ours")
    return DeviceUser(
        pid=pid if type(pid) is int and 0 <= pid < 2**31 else 0,
        name=_word(told.get("name")),
        user=_word(told.get("user")),
        vram_gb=_gigabytes(told.get("vram_bytes")),
        ours=ours if isinstance(ours, bool) else None,
        attempt=_word(told.get("attempt")),
    )


def _word(told: object) -> str | None:
    """A short printable text; `None` for anything else."""
    if not isinstance(told, str) or not told:
        return None
    return "".join(each if each.isprintable() else "?" for each in told[:WORD_MOST])


def _number(value: object) -> float | None:
    """A number that is not negative; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 2**63 else None


def _gigabytes(value: object) -> float | None:
    count = _number(value)
    return None if count is None else count / 2**30


def _started(fact: Facts) -> Started:
    return checked(Started, {name: fact[name] for name in ("attempt", "pid", "pid_start")})


def _ended(fact: Facts) -> Ended:
    values = {**_without(fact, "at", "evidence"), "ended_at": fact["at"]}
    if isinstance(values.get("error"), str):
        values["error"] = values["error"][:ERROR_MOST]
    return checked(Ended, {**values, "evidence": _evidence(fact.get("evidence"))})


def _evidence(told: object) -> str | None:
    """Not worth losing an attempt for, whatever it is."""
    return told[-EVIDENCE_MOST:].replace("\0", "") or None if isinstance(told, str) else None


def _chunk_done(fact: Facts) -> Searched:
    return checked(Searched, _without(fact, "at"))


def _returned(fact: Facts) -> Returned:
    return checked(Returned, _without(fact, "at"))


def _worker_refused(fact: Facts) -> WorkerRefused:
    return WorkerRefused(worker=str(fact["worker"]), error=str(fact["error"]))


CONVERTERS: dict[str, Callable[[Facts], Input]] = {
    "started": _started,
    "ended": _ended,
    "chunk_done": _chunk_done,
    "returned": _returned,
    "worker_refused": _worker_refused,
}


def _without(fact: Facts, *names: str) -> dict[str, Any]:
    return {name: value for name, value in fact.items() if name not in ("seq", "fact", *names)}


def _unreadable(node: str, fact: Facts, error: KeyError | ValidationError) -> Input:
    why = explain(error) if isinstance(error, ValidationError) else f"{error} is missing"
    what = f"its report could not be read: {why}"
    if fact.get("fact") in ("chunk_done", "returned") and isinstance(fact.get("chunk"), str):
        return Returned(chunk=fact["chunk"], reason="unreadable", error=what)
    if fact.get("fact") == "ended" and isinstance(fact.get("attempt"), str):
        return Ended(attempt=fact["attempt"], ended_at=0.0, reason="lost", error=what)
    return Trouble(where=f"node {node}", what=f"it told a {fact.get('fact')!r} that cannot be read: {why}")
