"""From the agent's facts (docs/reference/agent-protocol.md) to inputs for the core, strictly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from hostler.backends.base import Facts
from hostler.model.codec import adapter, explain
from hostler.model.inputs import Ended, Input, Progress, Returned, Searched, Started, Trouble, WorkerRefused

Shape = TypeVar("Shape")


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
    return Progress(chunks={str(chunk): (int(at), int(hits)) for chunk, (at, hits) in message["chunks"].items()})


def _started(fact: Facts) -> Started:
    return Started(attempt=fact["attempt"], pid=fact["pid"], pid_start=fact["pid_start"])


def _ended(fact: Facts) -> Ended:
    return _checked(Ended, {**_without(fact, "at"), "ended_at": fact["at"]})


def _chunk_done(fact: Facts) -> Searched:
    return _checked(Searched, _without(fact, "at"))


def _returned(fact: Facts) -> Returned:
    return _checked(Returned, _without(fact, "at"))


def _worker_refused(fact: Facts) -> WorkerRefused:
    return WorkerRefused(worker=str(fact["worker"]), error=str(fact["error"]))


CONVERTERS: dict[str, Callable[[Facts], Input]] = {
    "started": _started,
    "ended": _ended,
    "chunk_done": _chunk_done,
    "returned": _returned,
    "worker_refused": _worker_refused,
}


def _checked(shape: type[Shape], values: Facts) -> Shape:
    checked: Shape = adapter(shape).validate_python(values)
    return checked


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
