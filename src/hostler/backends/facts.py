"""Messages of nodes (docs/reference/agent-protocol.md) as typed inputs for the core: the one place where they are read.

Every value is checked by the model of its input, which has limits, or is cut or unknown where nothing depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import ValidationError

from hostler.agent.protocol import is_shallow
from hostler.backends.base import Facts
from hostler.backends.bounds import ENVELOPE_LEVELS, SLICE, USUAL, Bounds, NodeFault
from hostler.backends.channel import words
from hostler.model.codec import adapter, explain, record_fault
from hostler.model.fleet import MemoryLimits, NodeSpec
from hostler.model.inputs import (
    Ended,
    Found,
    Input,
    LinkUp,
    NodeGoes,
    Progress,
    Returned,
    Searched,
    SoFar,
    Started,
    Telemetry,
    Trouble,
    WorkerRefused,
    WorkListed,
)
from hostler.model.record import record
from hostler.model.reported import DEVICES_MOST, HELD_MOST, WORDS_MOST, Cores, Gigabytes, Index, PartName
from hostler.model.telemetry import USERS_MOST, DeviceTelemetry, DeviceUser
from hostler.model.work import DeviceKind

Shape = TypeVar("Shape")

EVIDENCE_MOST = 2048
WORD_MOST = 64
"""Characters of a name that a node tells."""
NAME_MOST = 128
"""Characters of the model of a GPU."""
WHY_MOST = 300
"""Characters of what cannot be understood."""
WORDS_MAX = 500
"""Characters of what an agent says for people."""
USERS_IN_ALL = 4096
"""Processes on the devices of one node that are kept."""


@record
class FoundGpu:
    """A GPU that an agent found."""

    kind: DeviceKind
    index: Index
    model: str | None = None
    vram_gb: Gigabytes | None = None


@record
class FoundMachine:
    """A machine that an agent found."""

    cpus: Cores | None


@record
class Part:
    """The name of an attempt or a chunk."""

    name: PartName


@contextmanager
def understood(node: str, what: str) -> Iterator[None]:
    """Whatever an agent tells that is of another shape than it should be costs it its link: `LinkLost` says why."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        # A validation error is a `ValueError`, and a long one; that of a key is the key alone.
        why = explain(error) if isinstance(error, ValidationError) else f"{type(error).__name__}: {error}"
        raise NodeFault(
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


def work_of(node: str, told: Facts) -> WorkListed:
    """All that an agent has, asked for on a link. Raises `KeyError`, `ValidationError`."""
    return checked(WorkListed, {"node": node, "attempts": told["attempts"], "chunks": told["chunks"]})


def cores_of(facts: Facts) -> int | None:
    """How many cores a machine has; `None`: its agent does not know. Raises `ValidationError`."""
    return checked(FoundMachine, {"cpus": facts["cpus"]}).cpus


def gpu_of(found: Facts) -> FoundGpu:
    """A GPU. Raises `KeyError`, `ValidationError`."""
    vram, model = found.get("vram_bytes"), found.get("model")
    values = {
        "kind": found["kind"],
        "index": found["index"],
        "model": None if model is None else words(model, NAME_MOST),
        "vram_gb": None if vram is None else vram / 2**30,
    }
    return checked(FoundGpu, values)


def described(node: NodeSpec) -> NodeSpec:
    """A node as its backend made it of settings and of what its agent found. Raises `ValueError` where a journal would
    not give it back."""
    fault = record_fault(node)
    if fault is not None:
        raise ValueError(fault)
    return node


def inputs_of(node: str, facts: Sequence[Facts], bounds: Bounds = USUAL) -> Iterator[tuple[Input, ...]]:
    """The inputs of the facts in one message, in parts that are taken one after the other."""
    for at in range(0, len(facts), SLICE):
        yield tuple(input_of(node, fact, bounds) for fact in facts[at : at + SLICE])


def input_of(node: str, fact: Facts, bounds: Bounds = USUAL) -> Input:
    """The input a fact stands for.

    A fact that breaks the protocol becomes what does the least harm and is counted: a chunk whose result cannot be
    read is searched again, an attempt whose end cannot be read is lost, anything else is recorded as trouble.
    """
    convert = CONVERTERS.get(str(fact.get("fact"))[:WORD_MOST])
    if convert is None:
        return Trouble(where=f"node {node}", what=f"it told a fact of unknown kind: {words(fact, 200)}")
    try:
        if not is_shallow(fact, bounds.depth + ENVELOPE_LEVELS):
            return _unreadable(node, fact, f"it is nested deeper than {bounds.depth} levels")
        return convert(fact, bounds)
    except ValidationError as error:
        return _unreadable(node, fact, explain(error))
    except KeyError as error:
        return _unreadable(node, fact, f"{error} is missing")


def progress_of(message: Facts) -> Iterator[Progress]:
    """How far chunks are, from a `progress` message, in parts. Raises as `understood` reads."""
    told = list(message["chunks"].items())
    if len(told) > HELD_MOST:
        raise ValueError(f"it tells of {len(told)} chunks, and a node has {HELD_MOST} at most")
    for at in range(0, len(told), SLICE):
        part = told[at : at + SLICE]
        chunks = {str(chunk): (int(each[0]), int(each[1])) for chunk, each in part}
        found = {str(chunk): _found(each) for chunk, each in part if len(each) == 4}
        yield Progress(chunks=chunks, found=found)


def _found(told: Sequence[Any]) -> Found:
    return checked(Found, {"digest": told[2], "hits": told[3]})


def so_far_of(node: str, message: Facts, bounds: Bounds = USUAL) -> Input | None:
    """What an attempt that runs has left so far; `None` where it does not name one."""
    if not isinstance(message.get("attempt"), str):
        return None
    result, attempt = message.get("result"), checked(Part, {"name": message["attempt"]}).name
    fault = _result_fault(result, bounds)
    if fault is not None:
        return Trouble(where=f"node {node}", what=f"what {attempt} has left so far is not taken: {fault}")
    return SoFar(attempt=attempt, result=result)


def going_of(node: str, why: object) -> NodeGoes:
    """An agent that its machine, or a person there, has asked to end."""
    return NodeGoes(node=node, why=words(why, WORDS_MAX))


def telemetry_of(node: str, message: Facts) -> Telemetry:
    """How a node is, from a `telemetry` message; what it does not say, or not as a sensible number, is unknown."""
    load, cores = _number(message.get("load")), _number(message.get("cores"))
    listed = message.get("devices")
    devices = [each for each in listed[:DEVICES_MOST] if _is_device(each)] if isinstance(listed, list) else []
    room = iter(range(USERS_IN_ALL))
    return Telemetry(
        node=node,
        at=_number(message.get("at")) or 0.0,
        load=None if load is None or not cores else _number(load / cores),
        memory_total_gb=_gigabytes(message.get("memory_bytes")),
        memory_free_gb=_gigabytes(message.get("memory_free_bytes")),
        disk_total_gb=_gigabytes(message.get("disk_bytes")),
        disk_free_gb=_gigabytes(message.get("disk_free_bytes")),
        backlog_s=_number(message.get("backlog_s")),
        devices={f"{node}/{each['kind']}{each['index']}": _device(each, room) for each in devices},
    )


def _is_device(told: object) -> bool:
    if not isinstance(told, dict) or told.get("kind") not in tuple(DeviceKind):
        return False
    index = told.get("index")
    return type(index) is int and 0 <= index <= 65_535


def _device(told: Facts, room: Iterator[int]) -> DeviceTelemetry:
    utilization = _number(told.get("utilization"))
    return DeviceTelemetry(
        utilization=utilization if utilization is not None and utilization <= 1 else None,
        vram_used_gb=_gigabytes(told.get("vram_used_bytes")),
        temperature_c=_number(told.get("temperature_c")),
        age_s=_number(told.get("age_s")) or 0.0,
        users=_users(told.get("processes"), room),
    )


def _users(listed: object, room: Iterator[int]) -> tuple[DeviceUser, ...] | None:
    """The processes of a device, as far as there is room for more of the node; `None` if they are not listed."""
    if not isinstance(listed, list):
        return None
    return tuple(_user(each) for each in listed[:USERS_MOST] if isinstance(each, dict) and next(room, None) is not None)


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


def returned_of(chunk: str, position: object, digest: object, hits: object, *, reason: str, error: str) -> Returned:
    """A chunk that comes back at a checkpoint which a node has written; at none where that cannot be read."""
    values = {"chunk": chunk, "reason": reason, "error": words(error, WORDS_MOST)}
    try:
        return checked(Returned, {**values, "position": position, "digest": digest, "hits": hits})
    except ValidationError:
        return checked(Returned, values)


def _number(value: object) -> float | None:
    """A number that is not negative; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 2**63 else None


def _gigabytes(value: object) -> float | None:
    count = _number(value)
    return None if count is None else count / 2**30


def _started(fact: Facts, bounds: Bounds) -> Started:
    return checked(Started, {name: fact[name] for name in ("attempt", "pid", "pid_start")})


def _ended(fact: Facts, bounds: Bounds) -> Ended:
    values = {**_without(fact, "at", "evidence"), "ended_at": fact["at"]}
    for name in ("error", "result_error"):
        if isinstance(values.get(name), str):
            values[name] = _cut(values[name], bounds)
    fault = _result_fault(values.get("result"), bounds)
    if fault is not None:
        values["result"], values["result_error"] = None, fault
    return checked(Ended, {**values, "evidence": _evidence(fact.get("evidence"))})


def _result_fault(result: object, bounds: Bounds) -> str | None:
    """Why a result is not taken, for its size; other faults of it are found where it is judged."""
    if result is None or not isinstance(result, str | dict | list):
        return None
    if not is_shallow(result, bounds.depth):
        return f"it is nested deeper than {bounds.depth} levels"
    try:
        size = len(json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass"))
    except ValueError as error:  # an integer of too many digits
        return f"it cannot be written: {error}"
    if size > bounds.result_bytes:
        return f"it has {size} bytes, {bounds.result_bytes} are allowed (`limits.result_bytes`)"
    return None


def _cut(text: str, bounds: Bounds) -> str:
    """The beginning of a text, of so many bytes at most."""
    most = min(bounds.error_bytes, WORDS_MOST)
    return words(text, most).encode()[:most].decode(errors="ignore")


def _evidence(told: object) -> str | None:
    """Not worth losing an attempt for, whatever it is."""
    return words(told[-EVIDENCE_MOST:].replace("\0", ""), WORDS_MOST) or None if isinstance(told, str) else None


def _chunk_done(fact: Facts, bounds: Bounds) -> Searched:
    return checked(Searched, _without(fact, "at"))


def _returned(fact: Facts, bounds: Bounds) -> Returned:
    values = _without(fact, "at")
    if isinstance(values.get("error"), str):
        values["error"] = _cut(values["error"], bounds)
    return checked(Returned, values)


def _worker_refused(fact: Facts, bounds: Bounds) -> WorkerRefused:
    return checked(WorkerRefused, {"worker": str(fact["worker"]), "error": _cut(str(fact["error"]), bounds)})


CONVERTERS: dict[str, Callable[[Facts, Bounds], Input]] = {
    "started": _started,
    "ended": _ended,
    "chunk_done": _chunk_done,
    "returned": _returned,
    "worker_refused": _worker_refused,
}


def _without(fact: Facts, *names: str) -> dict[str, Any]:
    return {name: value for name, value in fact.items() if name not in ("seq", "fact", *names)}


def _unreadable(node: str, fact: Facts, why: str) -> Input:
    what = f"its report could not be read: {words(why, WHY_MOST)}"
    try:
        if fact.get("fact") in ("chunk_done", "returned"):
            return Returned(chunk=checked(Part, {"name": fact.get("chunk")}).name, reason="unreadable", error=what)
        if fact.get("fact") == "ended":
            name = checked(Part, {"name": fact.get("attempt")}).name
            return Ended(attempt=name, ended_at=0.0, reason="lost", error=what)
    except ValidationError:
        pass  # it cannot be told either what it is about
    kind = words(fact.get("fact"), WORD_MOST)
    return Trouble(where=f"node {node}", what=f"it told a {kind!r} that cannot be read: {words(why, WHY_MOST)}")
